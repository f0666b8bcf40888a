#include "recycle/coordinator/events.h"

#include "recycle/base/check.h"

namespace recycle {

std::string_view CauseText(LossCause cause) {
  switch (cause) {
    case LossCause::kLink:
      return "link";
    case LossCause::kProcess:
      return "process";
    case LossCause::kWords:
      return "words";
    case LossCause::kNotice:
      return "notice";
    case LossCause::kSilence:
      return "silence";
    case LossCause::kProgress:
      return "progress";
    case LossCause::kCorruption:
      return "corruption";
  }
  RC_CHECK(false) << "cause " << static_cast<int>(cause);
  return "";
}

}  // namespace recycle
