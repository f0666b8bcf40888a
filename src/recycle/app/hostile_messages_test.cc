// 10,000 mutated messages of executors and agents, from the bytes on the wire through the decoder
// into the coordinator's core, which meanwhile brings a job through its life: whatever is not
// refused must not end it, and the job must go on with those that behave.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "recycle/base/prng.h"
#include "recycle/coordinator/coordinator.h"
#include "recycle/coordinator/testing_plan.h"
#include "recycle/rpc/convert.h"
#include "recycle/testing/control_bytes.h"
#include "recycle/testing/sample_messages.h"

namespace recycle {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

constexpr int kMessages = 10'000;
constexpr std::uint64_t kMutationSeed = 20'261'130;
constexpr Parallelism kJobShape{.data = 3, .pipeline = 3};
constexpr std::chrono::milliseconds kBeatInterval{20};

class Mutator {
 public:
  explicit Mutator(std::uint64_t seed) : prng_(seed) {}

  std::size_t Below(std::size_t bound) { return prng_.Below(bound); }

  // Changes a few fields, or a few bytes, or nothing.
  template <typename Proto>
  std::string Mutate(Proto proto) {
    const std::size_t how = Below(3);
    if (how == 0) {
      for (std::size_t i = 0; i <= Below(3); ++i) MutateField(proto);
    }
    std::string bytes = proto.SerializeAsString();
    if (how == 1) {
      for (std::size_t i = 0; i <= Below(4); ++i) MutateBytes(bytes);
    }
    return bytes;
  }

 private:
  std::int64_t AnyNumber(std::int64_t old) {
    const std::int64_t numbers[] = {0,
                                    1,
                                    -1,
                                    old + 1,
                                    old - 1,
                                    static_cast<std::int64_t>(Below(8)),
                                    std::numeric_limits<std::int32_t>::max(),
                                    std::numeric_limits<std::int32_t>::min(),
                                    std::numeric_limits<std::int64_t>::max(),
                                    std::numeric_limits<std::int64_t>::min()};
    return numbers[Below(std::size(numbers))];
  }

  // Of the message or of one inside it.
  void MutateField(Message& message) {
    const Reflection& reflection = *message.GetReflection();
    std::vector<const FieldDescriptor*> fields;
    reflection.ListFields(message, &fields);
    if (fields.empty()) return;
    const FieldDescriptor* const field = fields[Below(fields.size())];
    if (field->is_repeated()) {
      MutateRepeated(message, *field);
    } else if (field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE && Below(8) != 0) {
      MutateField(*reflection.MutableMessage(&message, field));
    } else if (field->cpp_type() == FieldDescriptor::CPPTYPE_INT32) {
      reflection.SetInt32(
          &message, field,
          static_cast<std::int32_t>(AnyNumber(reflection.GetInt32(message, field))));
    } else if (field->cpp_type() == FieldDescriptor::CPPTYPE_INT64) {
      reflection.SetInt64(&message, field, AnyNumber(reflection.GetInt64(message, field) / 2));
    } else if (field->cpp_type() == FieldDescriptor::CPPTYPE_DOUBLE) {
      reflection.SetDouble(&message, field, std::numeric_limits<double>::quiet_NaN());
    } else {
      reflection.ClearField(&message, field);
    }
  }

  void MutateRepeated(Message& message, const FieldDescriptor& field) {
    const Reflection& reflection = *message.GetReflection();
    const int size = reflection.FieldSize(message, &field);
    const int victim = static_cast<int>(Below(static_cast<std::size_t>(size)));
    if (field.cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE || Below(4) == 0) {
      reflection.SwapElements(&message, &field, victim, size - 1);
      reflection.RemoveLast(&message, &field);
    } else if (Below(4) == 0) {  // the same one twice
      reflection.AddMessage(&message, &field)
          ->CopyFrom(reflection.GetRepeatedMessage(message, &field, victim));
    } else {
      MutateField(*reflection.MutableRepeatedMessage(&message, &field, victim));
    }
  }

  void MutateBytes(std::string& bytes) {
    if (bytes.empty()) return;
    const std::size_t at = Below(bytes.size());
    const std::size_t how = Below(4);
    if (how == 0) {
      bytes[at] = static_cast<char>(bytes[at] ^ (1 << Below(8)));
    } else if (how == 1) {
      bytes.erase(at, 1 + Below(4));
    } else if (how == 2) {
      bytes.insert(at, bytes.substr(Below(bytes.size()), 1 + Below(16)));
    } else {
      bytes[at] = static_cast<char>(Below(256));
    }
  }

  Prng prng_;
};

// A coordinator whose workers behave, beside what else is told to it.
class Life {
 public:
  Life() : core_(Options(), PlanMaker(kJobShape, 2), OrderByMicroBatch, {"w"}) {
    Do(TimePassed{});
    for (const WorkerId worker : LiveWorkers(kJobShape, {})) Tell(worker, Hello{worker, 7, {}, 0});
  }

  static CoordinatorOptions Options() {
    CoordinatorOptions options;
    options.parallel = kJobShape;
    options.micro_batches = 2;
    options.iterations = 1000;
    return options;
  }

  bool over() const { return over_; }
  void Tell(WorkerId from, ExecutorMessage message) { Do(FromExecutor{from, std::move(message)}); }
  void Tell(int agent, AgentMessage message) { Do(FromAgent{std::move(message), agent}); }

  // Everybody gives a sign of life; time passes.
  void Beat() {
    now_ += kBeatInterval;
    for (const WorkerId worker : core_.view().live) {
      Tell(worker, Heartbeat{core_.view().generation, 0, 1});
    }
    if (core_.NextDeadline() && *core_.NextDeadline() <= now_) Do(TimePassed{});
  }

  // What workers have answered so far: the best things to spoil.
  const std::vector<ExecutorMessage>& said() const { return said_; }

 private:
  void Do(const Event& event) {
    std::vector<std::pair<WorkerId, ExecutorMessage>> answers;
    std::vector<Event> later;
    for (const Effect& effect : core_.Step(event, now_)) {
      over_ = over_ || std::holds_alternative<EndJob>(effect);
      if (const auto* store = std::get_if<StoreRecord>(&effect)) {
        later.emplace_back(RecordStored{store->record.generation});
      }
      const auto* send = std::get_if<SendTo>(&effect);
      if (send == nullptr) continue;
      if (const auto* prepare = std::get_if<Prepare>(&send->message)) {
        Ledger ledger;
        ledger.generation = prepare->generation;
        answers.emplace_back(send->worker, ledger);
      } else if (const auto* resume = std::get_if<Resume>(&send->message)) {
        answers.emplace_back(send->worker, Resumed{resume->generation});
      } else if (const auto* ask = std::get_if<Ask>(&send->message)) {
        answers.emplace_back(send->worker, StillHere{ask->nonce});
      }
    }
    for (const Event& next : later) Do(next);
    for (const auto& [worker, answer] : answers) {
      said_.push_back(answer);
      Tell(worker, answer);
    }
  }

  Coordinator core_;
  TimePoint now_{};
  bool over_ = false;
  std::vector<ExecutorMessage> said_;
};

TEST(HostileMessages, TenThousandMutatedOnesAreRefusedOrHarmless) {
  fmt::print("seed {}\n", kMutationSeed);
  Mutator mutator(kMutationSeed);
  auto life = std::make_unique<Life>();
  const std::vector<ExecutorMessage> samples = ExecutorMessages();
  const std::vector<AgentMessage> agents = AgentMessages();
  int accepted = 0;
  int lives = 1;
  for (int i = 0; i < kMessages; ++i) {
    const std::vector<ExecutorMessage>& pool =
        mutator.Below(2) == 0 && !life->said().empty() ? life->said() : samples;
    const WorkerId sender =
        WorkerAt(static_cast<int>(mutator.Below(3)), static_cast<int>(mutator.Below(3)));
    if (mutator.Below(8) == 0) {
      const std::string bytes = mutator.Mutate(ToProto(agents[mutator.Below(agents.size())]));
      JudgeControlBytes(bytes);
      v1::AgentMessage proto;
      const bool parsed = proto.ParseFromString(bytes);
      if (const auto message = FromProto(proto); parsed && message.ok()) {
        ++accepted;
        life->Tell(0, *message);
      }
    } else {
      const std::string bytes = mutator.Mutate(ToProto(pool[mutator.Below(pool.size())]));
      JudgeControlBytes(bytes);
      v1::ExecutorMessage proto;
      const bool parsed = proto.ParseFromString(bytes);
      if (const auto message = FromProto(proto); parsed && message.ok()) {
        ++accepted;
        const auto* const hello = std::get_if<Hello>(&*message);
        life->Tell(hello == nullptr ? sender : hello->worker, *message);
      }
    }
    if (i % 4 == 0) life->Beat();
    if (life->over()) {
      life = std::make_unique<Life>();
      ++lives;
    }
  }
  fmt::print("{} of {} accepted, {} lives of a job\n", accepted, kMessages, lives);
  EXPECT_GT(accepted, kMessages / 4) << "mutations that never pass prove nothing";
  EXPECT_LT(accepted, kMessages) << "some must be refused";
}

}  // namespace
}  // namespace recycle
