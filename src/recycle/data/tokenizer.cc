#include "recycle/data/tokenizer.h"

#include <fmt/format.h>

#include <charconv>
#include <optional>

#include "recycle/data/sentencepiece_codec.h"

namespace recycle {
namespace {

constexpr const char* kSentencePiece = "sentencepiece";
constexpr const char* kBytes = "bytes";
constexpr int kByteValues = 256;
// 256 bytes, and the three pieces that SentencePiece keeps for itself.
constexpr int kLeastPieces = kByteValues + 3;

// The integer that follows `marker` in `message`.
std::optional<int> NumberAfter(std::string_view message, std::string_view marker) {
  const std::size_t at = message.find(marker);
  if (at == std::string_view::npos) return std::nullopt;
  message.remove_prefix(at + marker.size());
  int number = 0;
  const auto [end, error] =
      std::from_chars(message.data(), message.data() + message.size(), number);
  if (error != std::errc()) return std::nullopt;
  return number;
}

// The trainer learns only at its end how many pieces the text has, and says so in words.
Status TrainingError(const std::string& message, int vocabulary) {
  if (const auto most = NumberAfter(message, "Please set it to a value <= ")) {
    return absl::InvalidArgumentError(
        fmt::format("data.vocabulary is {}: data.text is too short for so many pieces; the nearest "
                    "valid choice is {}, or take a longer text",
                    vocabulary, *most));
  }
  if (const auto least = NumberAfter(message, fmt::format("required_chars. {} vs ", vocabulary))) {
    return absl::InvalidArgumentError(fmt::format(
        "data.vocabulary is {}: the bytes and characters of data.text alone need more; the nearest "
        "valid choice is {}",
        vocabulary, *least));
  }
  return absl::InternalError("SentencePiece could not train on data.text: " + message);
}

StatusOr<TokenizedText> TokenizeByPieces(std::string_view text, int vocabulary,
                                         const CorpusProgress& progress) {
  constexpr double kMegabyte = 1e6;
  const double megabytes = static_cast<double>(text.size()) / kMegabyte;
  TokenizedText result;
  progress(fmt::format("training a SentencePiece model of {} pieces on {:.1f} MB", vocabulary,
                       megabytes));
  std::string error = TrainSentencePiece(text, vocabulary, result.model);
  if (!error.empty()) return TrainingError(error, vocabulary);
  progress(fmt::format("encoding {:.1f} MB", megabytes));
  error = EncodeSentencePiece(result.model, text, result.tokens);
  if (!error.empty()) return absl::InternalError("SentencePiece could not encode: " + error);
  return result;
}

}  // namespace

Status ValidateTokenizer(const std::string& tokenizer, int vocabulary) {
  if (tokenizer == kBytes) {
    if (vocabulary == kByteValues) return OkStatus();
    return absl::InvalidArgumentError(
        fmt::format("data.vocabulary is {}: data.tokenizer \"bytes\" has exactly 256 tokens; the "
                    "nearest valid choice is 256",
                    vocabulary));
  }
  if (tokenizer == kSentencePiece) {
    if (vocabulary >= kLeastPieces) return OkStatus();
    return absl::InvalidArgumentError(
        fmt::format("data.vocabulary is {}: data.tokenizer \"sentencepiece\" needs at least {} "
                    "pieces, 256 of them single bytes; the nearest valid choice is {}",
                    vocabulary, kLeastPieces, kLeastPieces));
  }
  return absl::InvalidArgumentError(fmt::format(
      "data.tokenizer is \"{}\": it must be \"sentencepiece\" or \"bytes\"; the nearest "
      "valid choice is \"{}\"",
      tokenizer, tokenizer.starts_with("b") ? kBytes : kSentencePiece));
}

StatusOr<TokenizedText> TokenizeText(std::string_view text, const std::string& tokenizer,
                                     int vocabulary, const CorpusProgress& progress) {
  RC_RETURN_IF_ERROR(ValidateTokenizer(tokenizer, vocabulary));
  if (tokenizer == kSentencePiece) return TokenizeByPieces(text, vocabulary, progress);
  TokenizedText result;
  result.tokens.reserve(text.size());
  for (const char c : text) result.tokens.push_back(static_cast<unsigned char>(c));
  return result;
}

}  // namespace recycle
