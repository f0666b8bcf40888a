#include "recycle/executor/profile_writer.h"

#include <fmt/format.h>

#include <chrono>
#include <string_view>

namespace recycle {
namespace {

std::string_view Text(FrameKind kind) {
  switch (kind) {
    case FrameKind::kActivation:
      return "activation";
    case FrameKind::kGradient:
      return "gradient";
    case FrameKind::kNormUp:
      return "norm_up";
    case FrameKind::kNormDown:
      return "norm_down";
    case FrameKind::kValidation:
      return "validation";
    case FrameKind::kState:
      return "state";
  }
  return "";
}

}  // namespace

std::int64_t ProfileWriter::NowMicroseconds() const {
  return std::chrono::duration_cast<std::chrono::microseconds>(clock_.Now().time_since_epoch())
      .count();
}

void ProfileWriter::WriteState(std::int64_t parameter_bytes, std::int64_t state_bytes) {
  file_.Append(fmt::format(R"({{"parameters":{},"state":{}}})", parameter_bytes, state_bytes));
}

void ProfileWriter::WriteHeld(const Action& action, int iteration, std::int64_t bytes) {
  file_.Append(
      fmt::format(R"({{"a":"{}","it":{},"held":{}}})", ToString(action), iteration + 1, bytes));
}

void ProfileWriter::WriteSent(WorkerId to, const FrameKey& key, std::size_t bytes) {
  file_.Append(fmt::format(R"({{"sent":"{}","it":{},"mb":{},"to":"{}","n":{},"t":{}}})",
                           Text(key.kind), key.iteration + 1, key.micro_batch, ToString(to), bytes,
                           NowMicroseconds()));
}

void ProfileWriter::WriteArrived(const FrameKey& key, std::size_t bytes) {
  file_.Append(fmt::format(R"({{"came":"{}","it":{},"mb":{},"n":{},"t":{}}})", Text(key.kind),
                           key.iteration + 1, key.micro_batch, bytes, NowMicroseconds()));
}

}  // namespace recycle
