#include "recycle/data/sentencepiece_codec.h"

#include <sentencepiece_processor.h>
#include <sentencepiece_trainer.h>

#include <algorithm>
#include <unordered_map>

namespace recycle {
namespace {

constexpr const char* kNewlinePiece = "<0x0A>";

// Cuts the first line, without its end, off `text`.
std::string_view TakeLine(std::string_view& text) {
  const std::size_t end = std::min(text.find('\n'), text.size());
  const std::string_view line = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  return line;
}

// Hands the lines of a text in memory to the trainer.
class LineIterator : public sentencepiece::SentenceIterator {
 public:
  explicit LineIterator(std::string_view text) : rest_(text) { Next(); }
  bool done() const override { return done_; }
  void Next() override {
    done_ = rest_.empty();
    if (!done_) line_ = TakeLine(rest_);
  }
  const std::string& value() const override { return line_; }
  sentencepiece::util::Status status() const override { return {}; }

 private:
  std::string_view rest_;
  std::string line_;
  bool done_ = false;
};

std::string Message(const sentencepiece::util::Status& status) {
  return status.ok() ? std::string() : status.ToString();
}

}  // namespace

std::string TrainSentencePiece(std::string_view text, int vocabulary, std::string& model) {
  const std::unordered_map<std::string, std::string> arguments = {
      {"model_type", "bpe"},
      {"vocab_size", std::to_string(vocabulary)},
      {"byte_fallback", "true"},
      {"normalization_rule_name", "identity"},
      {"remove_extra_whitespaces", "false"},
      {"add_dummy_prefix", "false"},
      {"max_sentence_length", std::to_string(1 << 24)},
      {"num_threads", "2"},
      {"minloglevel", "3"},
  };
  LineIterator lines(text);
  return Message(sentencepiece::SentencePieceTrainer::Train(arguments, &lines, &model));
}

std::string EncodeSentencePiece(const std::string& model, std::string_view text,
                                std::vector<std::int32_t>& tokens) {
  sentencepiece::SentencePieceProcessor processor;
  if (const auto status = processor.LoadFromSerializedProto(model); !status.ok()) {
    return Message(status);
  }
  const int newline = processor.PieceToId(kNewlinePiece);
  std::vector<int> ids;
  while (!text.empty()) {
    const std::string_view line = TakeLine(text);
    if (const auto status = processor.Encode(line, &ids); !status.ok()) return Message(status);
    tokens.insert(tokens.end(), ids.begin(), ids.end());
    tokens.push_back(newline);
  }
  return {};
}

std::string DecodeSentencePiece(const std::string& model, const std::vector<std::int32_t>& tokens,
                                std::string& error) {
  sentencepiece::SentencePieceProcessor processor;
  std::string text;
  auto status = processor.LoadFromSerializedProto(model);
  if (status.ok()) status = processor.Decode(tokens, &text);
  error = Message(status);
  return text;
}

}  // namespace recycle
