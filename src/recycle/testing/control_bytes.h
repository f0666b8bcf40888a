// Any bytes at all as messages of the control plane: an error is fine, a crash is not, and what is
// accepted must be the same after it has been sent once more.
//
//   JudgeControlBytes(bytes);   // ends the process if not
//
// Used by the fuzz target and the test with mutated messages.
#ifndef RECYCLE_TESTING_CONTROL_BYTES_H_
#define RECYCLE_TESTING_CONTROL_BYTES_H_

#include <google/protobuf/util/message_differencer.h>

#include <string_view>

#include "recycle/base/check.h"
#include "recycle/rpc/convert.h"

namespace recycle {

// Whether the bytes were accepted as a `Proto`.
template <typename Proto>
bool JudgeAs(std::string_view bytes) {
  Proto proto;
  if (!proto.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) return false;
  const auto message = FromProto(proto);
  if (!message.ok()) return false;
  const Proto sent = ToProto(*message);
  const auto again = FromProto(sent);
  RC_CHECK(again.ok()) << again.status() << sent.ShortDebugString();
  google::protobuf::util::DefaultFieldComparator numbers;
  numbers.set_treat_nan_as_equal(true);
  google::protobuf::util::MessageDifferencer differencer;
  differencer.set_field_comparator(&numbers);
  RC_CHECK(differencer.Compare(sent, ToProto(*again))) << sent.ShortDebugString();
  return true;
}

inline void JudgeControlBytes(std::string_view bytes) {
  JudgeAs<v1::ExecutorMessage>(bytes);
  JudgeAs<v1::CoordinatorMessage>(bytes);
  JudgeAs<v1::AgentMessage>(bytes);
}

}  // namespace recycle

#endif  // RECYCLE_TESTING_CONTROL_BYTES_H_
