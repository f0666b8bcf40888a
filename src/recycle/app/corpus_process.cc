#include "recycle/app/corpus_process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <optional>

#include "recycle/app/child_process.h"
#include "recycle/app/spawner.h"

namespace recycle {
namespace {

// What the child said last; progress is passed on as it comes.
class Conversation {
 public:
  explicit Conversation(const CorpusProgress& progress) : progress_(progress) {}

  void OnLine(const std::string& line) {
    const Json json = Json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (json.contains("progress") && progress_) progress_(json["progress"]);
    if (json.contains("prepared")) result_ = PreparedCorpusFromJson(json["prepared"]);
    if (json.contains("failed")) {
      result_ = Status(static_cast<StatusCode>(json["failed"].value("code", 13)),
                       json["failed"].value("message", ""));
    }
  }

  const std::optional<StatusOr<PreparedCorpus>>& result() const { return result_; }

 private:
  const CorpusProgress& progress_;
  std::optional<StatusOr<PreparedCorpus>> result_;
};

}  // namespace

StatusOr<PreparedCorpus> PrepareCorpusInChild(const CorpusOptions& options,
                                              const CorpusProgress& progress) {
  int report[2];
  if (pipe2(report, O_CLOEXEC) != 0) {
    return absl::ResourceExhaustedError("no pipe for the corpus process");
  }
  ChildOptions child;
  child.argv = {ProgramFolder() + "/recycle-corpus", std::to_string(report[1]),
                ToJsonText(options)};
  child.inherited = {report[1]};
  const StatusOr<pid_t> pid = StartChild(child);
  close(report[1]);
  Conversation conversation(progress);
  LineSplitter lines;
  for (ssize_t count = 1; pid.ok() && count != 0;) {
    char buffer[4096];
    count = read(report[0], buffer, sizeof(buffer));
    if (count < 0 && errno != EINTR) break;
    if (count > 0) {
      lines.Feed({buffer, static_cast<std::size_t>(count)},
                 [&](const std::string& line) { conversation.OnLine(line); });
    }
  }
  close(report[0]);
  if (!pid.ok()) return pid.status();
  int wait_status = 0;
  while (waitpid(*pid, &wait_status, 0) < 0 && errno == EINTR) {
  }
  if (conversation.result()) return *conversation.result();
  return absl::InternalError(
      fmt::format("the process that prepares the corpus ended without a word ({})",
                  DescribeWaitStatus(wait_status)));
}

std::string ToJsonText(const CorpusOptions& options) {
  return Json{{"text", options.text},
              {"tokenizer", options.tokenizer},
              {"vocabulary", options.vocabulary},
              {"cache_dir", options.cache_dir},
              {"seed", options.seed}}
      .dump();
}

StatusOr<CorpusOptions> CorpusOptionsFromJson(std::string_view text) {
  try {
    const Json json = Json::parse(text);
    CorpusOptions options;
    options.text = json.at("text");
    options.tokenizer = json.at("tokenizer");
    options.vocabulary = json.at("vocabulary");
    options.cache_dir = json.at("cache_dir");
    options.seed = json.at("seed");
    return options;
  } catch (const Json::exception& error) {
    return absl::InvalidArgumentError(error.what());
  }
}

Json ToJson(const PreparedCorpus& corpus) {
  return Json{{"token_file", corpus.token_file},
              {"tokenizer_model", corpus.tokenizer_model},
              {"num_tokens", corpus.num_tokens},
              {"reused", corpus.reused}};
}

StatusOr<PreparedCorpus> PreparedCorpusFromJson(const Json& json) {
  try {
    PreparedCorpus corpus;
    corpus.token_file = json.at("token_file");
    corpus.tokenizer_model = json.at("tokenizer_model");
    corpus.num_tokens = json.at("num_tokens");
    corpus.reused = json.at("reused");
    return corpus;
  } catch (const Json::exception& error) {
    return absl::InvalidArgumentError(error.what());
  }
}

}  // namespace recycle
