#include "recycle/data/corpus.h"

#include <fmt/format.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <cerrno>
#include <filesystem>
#include <system_error>
#include <utility>

#include "recycle/base/sha256.h"
#include "recycle/data/bible_text.h"
#include "recycle/data/file_io.h"
#include "recycle/data/token_file.h"
#include "recycle/data/tokenizer.h"

namespace recycle {
namespace {

namespace fs = std::filesystem;

// Part of the cache's key: raise it when the same options shall give other tokens.
constexpr int kPreparationVersion = 1;
constexpr const char* kTokensName = "tokens.bin";
constexpr const char* kModelName = "tokenizer.model";

StatusOr<std::string> ReadText(const std::string& text) {
  if (text == kBibleText) return ReadBibleText();
  std::error_code unknown;  // then opening it fails as well
  const fs::file_type type = fs::status(text, unknown).type();
  if (type != fs::file_type::regular && type != fs::file_type::not_found && !unknown) {
    return absl::InvalidArgumentError(fmt::format(
        "data.text is \"{}\": it must be a file, not a folder, device or pipe; give the "
        "path of a text file, or {}",
        text, kBibleText));
  }
  StatusOr<std::string> content = ReadFile(text);
  if (!content.ok()) {
    return Status(content.status().code(),
                  fmt::format("data.text is \"{}\": the file must exist and be readable ({}); give "
                              "the path of a text file, or {}",
                              text, std::string(content.status().message()), kBibleText));
  }
  if (content->empty()) {
    return absl::InvalidArgumentError(
        fmt::format("data.text is \"{}\": the file is empty; take a longer text", text));
  }
  return content;
}

std::string FolderName(const CorpusOptions& options, const std::string& text) {
  Sha256 hash;
  hash.Update(
      fmt::format("{} {} {}\n", kPreparationVersion, options.tokenizer, options.vocabulary));
  hash.Update(text);
  constexpr std::size_t kDigits = 16;
  return fmt::format("{}-{}-{}", options.tokenizer, options.vocabulary,
                     hash.HexDigest().substr(0, kDigits));
}

// A fresh folder inside `parent`, removed with all it holds unless it was moved away.
class ScratchFolder {
 public:
  static StatusOr<ScratchFolder> Create(const std::string& parent) {
    std::error_code error;
    fs::create_directories(parent, error);
    std::string path = parent + "/.preparing-XXXXXX";
    if (error || mkdtemp(path.data()) == nullptr) {
      if (error) errno = error.value();
      return ErrnoStatus("data.cache: making a folder in", parent);
    }
    return ScratchFolder(std::move(path));
  }
  ScratchFolder(ScratchFolder&& other) noexcept : path_(std::exchange(other.path_, {})) {}
  ScratchFolder& operator=(ScratchFolder&&) = delete;
  ~ScratchFolder() {
    std::error_code ignored;
    if (!path_.empty()) fs::remove_all(path_, ignored);
  }
  const std::string& path() const { return path_; }

  // Gives the folder its final name. If that one exists, another process was faster and its content
  // is as good.
  Status MoveTo(const std::string& target) {
    if (chmod(path_.c_str(), 0755) != 0) return ErrnoStatus("opening to readers", path_);
    if (rename(path_.c_str(), target.c_str()) == 0) {
      path_.clear();
      return OkStatus();
    }
    if (errno == EEXIST || errno == ENOTEMPTY) return OkStatus();
    return ErrnoStatus("moving a prepared corpus to", target);
  }

 private:
  explicit ScratchFolder(std::string path) : path_(std::move(path)) {}
  std::string path_;
};

Status PrepareFolder(const CorpusOptions& options, const std::string& text,
                     const CorpusProgress& progress, const std::string& folder) {
  RC_ASSIGN_OR_RETURN(const TokenizedText tokenized,
                      TokenizeText(text, options.tokenizer, options.vocabulary, progress));
  RC_ASSIGN_OR_RETURN(ScratchFolder scratch, ScratchFolder::Create(options.cache_dir));
  if (!tokenized.model.empty()) {
    RC_RETURN_IF_ERROR(WriteFile(scratch.path() + "/" + kModelName, tokenized.model));
  }
  RC_RETURN_IF_ERROR(WriteTokenFile(scratch.path() + "/" + kTokensName, tokenized.tokens));
  progress(fmt::format("prepared {} tokens in {}", tokenized.tokens.size(), folder));
  return scratch.MoveTo(folder);
}

}  // namespace

StatusOr<PreparedCorpus> PrepareCorpus(const CorpusOptions& options,
                                       const CorpusProgress& progress) {
  RC_RETURN_IF_ERROR(ValidateTokenizer(options.tokenizer, options.vocabulary));
  RC_ASSIGN_OR_RETURN(const std::string text, ReadText(options.text));
  const std::string folder = options.cache_dir + "/" + FolderName(options, text);
  PreparedCorpus corpus;
  std::error_code unknown;  // a cache that may not be looked at: making a folder in it says so
  corpus.reused = fs::exists(folder, unknown);
  if (!corpus.reused) {
    const CorpusProgress report = progress ? progress : [](const std::string& /*message*/) {};
    RC_RETURN_IF_ERROR(PrepareFolder(options, text, report, folder));
  }
  corpus.token_file = folder + "/" + kTokensName;
  if (fs::exists(folder + "/" + kModelName, unknown))
    corpus.tokenizer_model = folder + "/" + kModelName;
  RC_ASSIGN_OR_RETURN(const TokenFile tokens,
                      TokenFile::Open(corpus.token_file, options.vocabulary));
  corpus.num_tokens = tokens.num_tokens();
  return corpus;
}

}  // namespace recycle
