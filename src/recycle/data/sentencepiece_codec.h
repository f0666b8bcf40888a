// SentencePiece behind standard types. Its header declares an absl::string_view of its own, so it
// must not meet abseil in one translation unit: neither this header nor sentencepiece_codec.cc may
// include abseil, base/status.h among it. Internal to data.
#ifndef RECYCLE_DATA_SENTENCEPIECE_CODEC_H_
#define RECYCLE_DATA_SENTENCEPIECE_CODEC_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace recycle {

// Trains a BPE model of `vocabulary` pieces, single bytes among them, on the lines of `text`, and
// puts its serialized form into `model`. Equal arguments give equal models. Returns the library's
// message, empty for success.
std::string TrainSentencePiece(std::string_view text, int vocabulary, std::string& model);

// Appends the pieces of `text`, with a newline piece after each line (so the last line gets one
// even if the text has none); nothing else of the text is lost. Returns the library's message,
// empty for success.
std::string EncodeSentencePiece(const std::string& model, std::string_view text,
                                std::vector<std::int32_t>& tokens);

// The text of `tokens`; `error` gets the library's message, empty for success.
std::string DecodeSentencePiece(const std::string& model, const std::vector<std::int32_t>& tokens,
                                std::string& error);

}  // namespace recycle

#endif  // RECYCLE_DATA_SENTENCEPIECE_CODEC_H_
