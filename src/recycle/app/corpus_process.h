// Preparing a corpus in a process of its own, recycle-corpus: SentencePiece brings an old protobuf
// that must not meet gRPC's (data/CMakeLists.txt). The options go over as JSON on the command line,
// what the child has to say comes back as JSON, a line each, over an inherited pipe:
//
//   {"progress": "training a SentencePiece model ..."}
//   {"prepared": {"token_file": ..., "tokenizer_model": ..., "num_tokens": ..., "reused": ...}}
//   {"failed": {"code": 5, "message": "data.text ..."}}
#ifndef RECYCLE_APP_CORPUS_PROCESS_H_
#define RECYCLE_APP_CORPUS_PROCESS_H_

#include <string>
#include <string_view>

#include "recycle/app/event_writer.h"
#include "recycle/base/status.h"
#include "recycle/data/corpus.h"

namespace recycle {

// PrepareCorpus (data/corpus.h), elsewhere: same results, same errors. Also kInternal if the child
// dies, kNotFound if it cannot be started. Blocks; call it while this process has one thread.
StatusOr<PreparedCorpus> PrepareCorpusInChild(const CorpusOptions& options,
                                              const CorpusProgress& progress);

// Both ends' words. The inverses return kInvalidArgument for what is no such text.
std::string ToJsonText(const CorpusOptions& options);
StatusOr<CorpusOptions> CorpusOptionsFromJson(std::string_view text);
Json ToJson(const PreparedCorpus& corpus);
StatusOr<PreparedCorpus> PreparedCorpusFromJson(const Json& json);

}  // namespace recycle

#endif  // RECYCLE_APP_CORPUS_PROCESS_H_
