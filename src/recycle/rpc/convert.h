// Protocol messages <-> protobuf, lossless. A plan travels as its JSON text.
//
// From the wire: ids are at least 0, numbers of generations too, exactly one kind is set; anything
// else is kInvalidArgument naming the field. Whether ids exist in the job is the coordinator's
// business.
//
// Pure, thread-safe.
#ifndef RECYCLE_RPC_CONVERT_H_
#define RECYCLE_RPC_CONVERT_H_

#include <string>

#include "recycle/base/status.h"
#include "recycle/protocol/messages.h"
#include "recycle_control.pb.h"

namespace recycle {

v1::ExecutorMessage ToProto(const ExecutorMessage& message);
v1::CoordinatorMessage ToProto(const CoordinatorMessage& message);
v1::AgentMessage ToProto(const AgentMessage& message);

StatusOr<ExecutorMessage> FromProto(const v1::ExecutorMessage& message);
StatusOr<CoordinatorMessage> FromProto(const v1::CoordinatorMessage& message);
StatusOr<AgentMessage> FromProto(const v1::AgentMessage& message);

// "Heartbeat", "Resume", ...; "nothing" if no kind is set.
std::string KindName(const google::protobuf::Message& message);

}  // namespace recycle

#endif  // RECYCLE_RPC_CONVERT_H_
