// recycle-corpus REPORT_FD OPTIONS_JSON: prepares a corpus for the launcher (corpus_process.h). The
// one program that links SentencePiece.
#include <charconv>
#include <iostream>
#include <string>
#include <string_view>

#include "recycle/app/corpus_process.h"
#include "recycle/app/spawner.h"
#include "recycle/base/exit_code.h"
#include "recycle/data/corpus.h"

int main(int argc, char** argv) {
  int report_fd = -1;
  const std::string_view number = argc == 3 ? argv[1] : "";
  std::from_chars(number.data(), number.data() + number.size(), report_fd);
  const recycle::StatusOr<recycle::CorpusOptions> options =
      recycle::CorpusOptionsFromJson(argc == 3 ? argv[2] : "");
  if (report_fd < 0 || !options.ok()) {
    std::cerr << "recycle-corpus is started by `recycle train`, not by people" << std::endl;
    return static_cast<int>(recycle::ExitCode::kUsage);
  }
  const auto say = [report_fd](const recycle::Json& json) {
    recycle::WriteAll(report_fd, json.dump() + "\n");
  };
  const recycle::StatusOr<recycle::PreparedCorpus> corpus =
      recycle::PrepareCorpus(*options, [&](const std::string& text) {
        say({{"progress", text}});
      });
  if (corpus.ok()) {
    say({{"prepared", recycle::ToJson(*corpus)}});
  } else {
    say({{"failed",
          {{"code", static_cast<int>(corpus.status().code())},
           {"message", std::string(corpus.status().message())}}}});
  }
  return static_cast<int>(recycle::ExitCode::kDone);
}
