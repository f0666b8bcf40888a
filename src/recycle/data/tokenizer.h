// Text to token ids. Internal to data: the face of the module is corpus.h.
#ifndef RECYCLE_DATA_TOKENIZER_H_
#define RECYCLE_DATA_TOKENIZER_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "recycle/base/status.h"
#include "recycle/data/corpus.h"

namespace recycle {

// OK, or kInvalidArgument: an unknown data.tokenizer, or a data.vocabulary that it cannot have.
Status ValidateTokenizer(const std::string& tokenizer, int vocabulary);

struct TokenizedText {
  std::vector<std::int32_t> tokens;
  std::string model;  // the serialized SentencePiece model; empty for "bytes"
};

// Trains the tokenizer where it has something to learn, then encodes. Error: kInvalidArgument
// naming data.vocabulary and the nearest one that fits this text.
StatusOr<TokenizedText> TokenizeText(std::string_view text, const std::string& tokenizer,
                                     int vocabulary, const CorpusProgress& progress);

}  // namespace recycle

#endif  // RECYCLE_DATA_TOKENIZER_H_
