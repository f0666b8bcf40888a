#include "recycle/data/corpus.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "recycle/base/prng.h"
#include "recycle/data/bible_text.h"
#include "recycle/data/dataset.h"
#include "recycle/data/file_io.h"
#include "recycle/data/sentencepiece_codec.h"
#include "recycle/data/token_file.h"

namespace recycle {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;

// Sentences of made-up words, some with letters outside ASCII and doubled spaces.
std::string GenerateText(int lines) {
  Prng prng(11);
  const std::vector<std::string> syllables = {"ka", "lo", "mé", "ti", "ru", "sen", "dor", "  "};
  std::string text;
  for (int line = 0; line < lines; ++line) {
    for (int word = 0; word < 12; ++word) {
      const std::uint64_t length = 1 + prng.Below(3);
      for (std::uint64_t i = 0; i < length; ++i) text += syllables[prng.Below(syllables.size())];
      text += ' ';
    }
    text += '\n';
  }
  return text;
}

class CorpusTest : public ::testing::Test {
 protected:
  CorpusTest() {
    std::string pattern = ::testing::TempDir() + "corpus-XXXXXX";
    folder_ = mkdtemp(pattern.data());
    text_ = GenerateText(200);
    std::ofstream(folder_ / "text.txt") << text_;
    options_.text = folder_ / "text.txt";
    options_.vocabulary = 320;
    options_.cache_dir = folder_ / "cache";
  }
  ~CorpusTest() override { fs::remove_all(folder_); }

  PreparedCorpus Prepare() {
    StatusOr<PreparedCorpus> corpus = PrepareCorpus(options_, nullptr);
    EXPECT_TRUE(corpus.ok()) << corpus.status();
    return corpus.ok() ? *corpus : PreparedCorpus();
  }
  Status Error() { return PrepareCorpus(options_, nullptr).status(); }

  // The tokens of a prepared corpus, read through the public door.
  std::vector<std::int32_t> Tokens(const PreparedCorpus& corpus) {
    StatusOr<TokenFile> file = TokenFile::Open(corpus.token_file, options_.vocabulary);
    EXPECT_TRUE(file.ok()) << file.status();
    std::vector<std::int32_t> tokens;
    for (std::int64_t i = 0; file.ok() && i < file->num_tokens(); ++i) {
      tokens.push_back(static_cast<std::int32_t>(file->token(i)));
    }
    return tokens;
  }

  std::string text_;
  fs::path folder_;
  CorpusOptions options_;
};

TEST_F(CorpusTest, SentencePieceTokensAreTheTextAndAreFewer) {
  const PreparedCorpus corpus = Prepare();
  const std::vector<std::int32_t> tokens = Tokens(corpus);
  EXPECT_EQ(static_cast<std::int64_t>(tokens.size()), corpus.num_tokens);
  EXPECT_LT(tokens.size(), text_.size() / 2);
  const StatusOr<std::string> model = ReadFile(corpus.tokenizer_model);
  ASSERT_TRUE(model.ok()) << model.status();
  std::string error;
  EXPECT_EQ(DecodeSentencePiece(*model, tokens, error), text_);
  EXPECT_EQ(error, "");
}

TEST_F(CorpusTest, BytesAreTheTextItself) {
  options_.tokenizer = "bytes";
  options_.vocabulary = 256;
  const PreparedCorpus corpus = Prepare();
  const std::vector<std::int32_t> tokens = Tokens(corpus);
  EXPECT_EQ(std::string(tokens.begin(), tokens.end()), text_);
  EXPECT_EQ(corpus.tokenizer_model, "");
}

TEST_F(CorpusTest, ASecondPreparationReadsTheCacheUntilTextOrOptionsChange) {
  std::vector<std::string> messages;
  const auto prepare = [&] {
    messages.clear();
    return *PrepareCorpus(options_,
                          [&](const std::string& message) { messages.push_back(message); });
  };
  const PreparedCorpus first = prepare();
  EXPECT_FALSE(first.reused);
  EXPECT_THAT(messages[0], HasSubstr("training a SentencePiece model of 320 pieces"));
  const PreparedCorpus second = prepare();
  EXPECT_TRUE(second.reused);
  EXPECT_TRUE(messages.empty());
  EXPECT_EQ(second.token_file, first.token_file);
  EXPECT_EQ(second.num_tokens, first.num_tokens);

  options_.vocabulary = 330;
  EXPECT_FALSE(prepare().reused);
  std::ofstream(options_.text, std::ios::app) << "one more line\n";
  EXPECT_FALSE(prepare().reused);
}

TEST_F(CorpusTest, ConcurrentPreparationsGiveOneWholeCorpus) {
  constexpr int kProcesses = 4;
  std::vector<pid_t> children;
  for (int i = 0; i < kProcesses; ++i) {
    const pid_t child = fork();
    if (child == 0) _exit(PrepareCorpus(options_, nullptr).ok() ? 0 : 1);
    children.push_back(child);
  }
  for (const pid_t child : children) {
    int status = -1;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
  }
  const PreparedCorpus corpus = Prepare();
  EXPECT_TRUE(corpus.reused);
  EXPECT_FALSE(Tokens(corpus).empty());
  // One corpus, and no scratch folder of a process that came second.
  EXPECT_EQ(std::distance(fs::directory_iterator(options_.cache_dir), fs::directory_iterator()), 1);
}

TEST_F(CorpusTest, ErrorsNameKeyValueRuleAndNearestChoice) {
  options_.text = folder_ / "missing.txt";
  EXPECT_EQ(Error().code(), StatusCode::kNotFound);
  EXPECT_THAT(Error().message(), AllOf(HasSubstr("data.text"), HasSubstr("missing.txt")));

  options_.text = folder_ / "text.txt";
  options_.vocabulary = 30000;
  EXPECT_EQ(Error().code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(Error().message(),
              AllOf(HasSubstr("data.vocabulary is 30000"), HasSubstr("too short"),
                    HasSubstr("nearest valid choice is ")));
  options_.vocabulary = 260;
  EXPECT_THAT(Error().message(),
              AllOf(HasSubstr("data.vocabulary is 260"), HasSubstr("nearest valid choice is 2")));
  options_.vocabulary = 100;
  EXPECT_THAT(Error().message(), HasSubstr("nearest valid choice is 259"));

  options_.tokenizer = "bytes";
  options_.vocabulary = 4096;
  EXPECT_THAT(Error().message(), AllOf(HasSubstr("data.vocabulary is 4096"),
                                       HasSubstr("nearest valid choice is 256")));
  options_.tokenizer = "byte";
  EXPECT_THAT(Error().message(), AllOf(HasSubstr("data.tokenizer is \"byte\""),
                                       HasSubstr("nearest valid choice is \"bytes\"")));

  const Status no_program = ReadBibleText("no-such-program").status();
  EXPECT_EQ(no_program.code(), StatusCode::kNotFound);
  EXPECT_THAT(no_program.message(), HasSubstr("apt-get install bible-kjv bible-kjv-text"));
}

// A device would be read for ever, a pipe waited for.
TEST_F(CorpusTest, OnlyAFileIsReadAsText) {
  for (const std::string& text : {std::string("/dev/zero"), std::string(folder_)}) {
    options_.text = text;
    EXPECT_EQ(Error().code(), StatusCode::kInvalidArgument);
    EXPECT_THAT(Error().message(), AllOf(HasSubstr(text), HasSubstr("must be a file")));
  }
}

TEST_F(CorpusTest, TheNearestVocabularyThatIsNamedWorks) {
  options_.vocabulary = 30000;
  const std::string message(Error().message());
  const std::string marker = "nearest valid choice is ";
  options_.vocabulary = std::stoi(message.substr(message.find(marker) + marker.size()));
  EXPECT_GT(Prepare().num_tokens, 0);
}

TEST_F(CorpusTest, TokenFilesOutsideTheVocabularyOrDamagedAreRefused) {
  const std::string path = folder_ / "tokens.bin";
  ASSERT_TRUE(WriteTokenFile(path, {5, 70000, 3}).ok());  // 4 bytes a token
  ASSERT_TRUE(TokenFile::Open(path, 70001).ok());
  EXPECT_EQ(TokenFile::Open(path, 70001)->token(1), 70000);
  const Status outside = TokenFile::Open(path, 4096).status();
  EXPECT_EQ(outside.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(outside.message(), AllOf(HasSubstr("data.vocabulary is 4096"), HasSubstr("70000"),
                                       HasSubstr("nearest valid choice is 70001")));

  fs::resize_file(path, fs::file_size(path) - 1);
  EXPECT_EQ(TokenFile::Open(path, 70001).status().code(), StatusCode::kDataLoss);
  fs::resize_file(path, 10);
  EXPECT_EQ(TokenFile::Open(path, 70001).status().code(), StatusCode::kDataLoss);
  std::ofstream(path) << "This is a text, and by no means a file of tokens.";
  EXPECT_THAT(TokenFile::Open(path, 70001).status().message(), HasSubstr("magic"));
  EXPECT_EQ(TokenFile::Open(folder_ / "none", 9).status().code(), StatusCode::kNotFound);
}

TEST_F(CorpusTest, SamplesCoverTheTokensWithTargetsOneAhead) {
  const std::string path = folder_ / "tokens.bin";
  std::vector<std::int32_t> tokens(101);
  for (std::size_t i = 0; i < tokens.size(); ++i) tokens[i] = static_cast<std::int32_t>(i);
  ASSERT_TRUE(WriteTokenFile(path, tokens).ok());
  const auto create = [&](int sequence, double validation) {
    return Dataset::Create(*TokenFile::Open(path, 101), sequence, validation);
  };
  const StatusOr<Dataset> dataset = create(10, 0.15);
  ASSERT_TRUE(dataset.ok()) << dataset.status();
  EXPECT_EQ(dataset->num_train_samples(), 8);
  EXPECT_EQ(dataset->num_validation_samples(), 2);
  EXPECT_EQ(dataset->ValidationSample(1), 9);
  std::vector<std::int64_t> inputs(10);
  std::vector<std::int64_t> targets(10);
  for (std::int64_t sample = 0; sample < 10; ++sample) {
    dataset->Fill(sample, inputs, targets);
    for (std::size_t i = 0; i < 10; ++i) {
      EXPECT_EQ(inputs[i], sample * 10 + static_cast<std::int64_t>(i));
      EXPECT_EQ(targets[i], inputs[i] + 1);
    }
  }
  EXPECT_THAT(create(101, 0.0).status().message(),
              AllOf(HasSubstr("data.text has 101 tokens"), HasSubstr("model.sequence")));
  EXPECT_THAT(create(10, 0.95).status().message(), HasSubstr("data.validation is 0.95"));
  EXPECT_THAT(create(10, 1.5).status().message(), HasSubstr("data.validation is 1.5"));
}

TEST(BibleTextTest, IsTheWholeKingJamesText) {
  const StatusOr<std::string> text = ReadBibleText();
  ASSERT_TRUE(text.ok()) << text.status();
  EXPECT_EQ(std::count(text->begin(), text->end(), '\n'), 31102);
  EXPECT_TRUE(text->starts_with("In the beginning God created the heaven and the earth.\n"));
}

}  // namespace
}  // namespace recycle
