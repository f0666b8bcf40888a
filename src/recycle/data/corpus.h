// From text to a file of tokens: trains the tokenizer on first use, encodes the text, and keeps
// both in a cache, so that a second run starts at once.
//
//   RC_ASSIGN_OR_RETURN(PreparedCorpus corpus, PrepareCorpus(options, nullptr));
//   RC_ASSIGN_OR_RETURN(TokenFile tokens, TokenFile::Open(corpus.token_file, options.vocabulary));
//
// Safe in several processes at once: files appear in the cache complete, by rename, and equal
// options give equal bytes.
#ifndef RECYCLE_DATA_CORPUS_H_
#define RECYCLE_DATA_CORPUS_H_

#include <cstdint>
#include <functional>
#include <string>

#include "recycle/base/status.h"

namespace recycle {

struct CorpusOptions {
  // data.text: path of a UTF-8 text file, or "debian:bible-kjv": the King James text that Debian's
  // program `bible` prints (packages bible-kjv and bible-kjv-text), without verse labels.
  std::string text = "debian:bible-kjv";
  std::string tokenizer = "sentencepiece";  // data.tokenizer: "sentencepiece" (BPE) or "bytes"
  int vocabulary = 4096;  // data.vocabulary: pieces of the tokenizer; 256 for "bytes"
  std::uint64_t seed =
      0;                  // train.seed; no step of the preparation is random, so it changes nothing
  std::string cache_dir;  // folder for prepared corpora, created when missing
};

struct PreparedCorpus {
  std::string token_file;       // path, see token_file.h
  std::string tokenizer_model;  // path of the SentencePiece model; empty for "bytes"
  std::int64_t num_tokens = 0;
  bool reused = false;  // the cache had it
};

// One line for people per step: "training a SentencePiece model of 4096 pieces on 4.2 MB".
using CorpusProgress = std::function<void(const std::string& message)>;

// Errors: kNotFound: no such text, or no `bible` program (names the Debian packages).
// kInvalidArgument: unknown tokenizer; "bytes" with a vocabulary other than 256; a vocabulary that
// the text is too short for (names the largest that fits); an empty text. The operating system's
// code: the text cannot be read, or the cache folder cannot be written. An empty `progress` is
// allowed.
StatusOr<PreparedCorpus> PrepareCorpus(const CorpusOptions& options,
                                       const CorpusProgress& progress);

}  // namespace recycle

#endif  // RECYCLE_DATA_CORPUS_H_
