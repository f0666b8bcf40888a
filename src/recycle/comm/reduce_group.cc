#include "recycle/comm/reduce_group.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <mutex>
#include <optional>
#include <utility>

#include "recycle/base/check.h"
#include "recycle/comm/channel.h"

namespace recycle {

// In hop h of a ring of n, member r sends segment r-h to the right and receives segment r-h-1 from
// the left (modulo n), which is what it sends in hop h+1. In the first n-1 hops it adds its own
// numbers to what it received; what it receives from hop n-2 on is final.
class ReduceGroup::Ring {
 public:
  Ring(int rank, int size, Generation generation)
      : rank_(rank), size_(size), generation_(generation) {}
  ~Ring();

  Status Open(const std::shared_ptr<Device>& device);
  std::map<int, std::string> addresses() const;
  Status Connect(const std::map<int, std::string>& neighbour_addresses);
  template <typename T>
  Status Sum(std::span<const T> in, std::span<T> out);
  StatusOr<MinMax> Extremes(std::uint64_t value);
  void Abort(const std::string& why);
  void Break(const std::string& why);
  void set_hop_hook(std::function<void(int hop)> hook) { hop_hook_ = std::move(hook); }

 private:
  // Memory that is received into in one hop and sent from in the next.
  struct Stage {
    std::unique_ptr<std::byte[]> memory;
    std::unique_ptr<ChannelBuffer> from_left;
    std::unique_ptr<ChannelBuffer> to_right;
  };

  int left() const { return (rank_ + size_ - 1) % size_; }
  int right() const { return (rank_ + 1) % size_; }
  Stage& SendingStage(int hop) { return stages_[hop % 2]; }
  Stage& ReceivingStage(int hop) { return stages_[(hop + 1) % 2]; }
  Status Usable();
  void Reserve(std::size_t bytes);
  Status Exchange(int hop, std::size_t send_bytes, std::size_t receive_bytes,
                  const std::function<void()>& use_received);
  Status Fail(const Status& cause, const std::string& when);

  const int rank_;
  const int size_;
  const Generation generation_;
  std::map<int, std::unique_ptr<Channel>> channels_;  // by neighbour
  std::array<Stage, 2> stages_;
  std::size_t stage_bytes_ = 0;
  std::function<void(int hop)> hop_hook_;
  Status failure_;  // of an earlier call

  std::mutex mutex_;
  std::optional<std::string> abort_;
};

ReduceGroup::Ring::~Ring() {
  Break("closed by a neighbour");
  for (Stage& stage : stages_) stage = Stage();
}

Status ReduceGroup::Ring::Open(const std::shared_ptr<Device>& device) {
  if (size_ == 1) return OkStatus();
  for (const int neighbour : {left(), right()}) {
    if (channels_.contains(neighbour)) continue;
    RC_ASSIGN_OR_RETURN(channels_[neighbour], Channel::Open(device));
  }
  return OkStatus();
}

std::map<int, std::string> ReduceGroup::Ring::addresses() const {
  std::map<int, std::string> result;
  for (const auto& [neighbour, channel] : channels_) result[neighbour] = channel->address();
  return result;
}

Status ReduceGroup::Ring::Connect(const std::map<int, std::string>& neighbour_addresses) {
  for (const auto& [neighbour, channel] : channels_) {
    const auto address = neighbour_addresses.find(neighbour);
    RC_CHECK(address != neighbour_addresses.end()) << "no address of neighbour " << neighbour;
    const Status status = channel->Connect(address->second);
    if (!status.ok()) return Fail(status, fmt::format("connecting to rank {}", neighbour));
  }
  return OkStatus();
}

template <typename T>
Status ReduceGroup::Ring::Sum(std::span<const T> in, std::span<T> out) {
  RC_CHECK(in.size() == out.size()) << "in has " << in.size() << " numbers, out " << out.size();
  RC_RETURN_IF_ERROR(Usable());
  if (size_ == 1) {
    std::copy(in.begin(), in.end(), out.begin());
    return OkStatus();
  }
  const auto begin = [&](int segment) { return in.size() * segment / size_; };
  const auto count = [&](int segment) { return begin(segment + 1) - begin(segment); };
  Reserve((in.size() / size_ + 1) * sizeof(T));
  std::copy_n(in.begin() + begin(rank_), count(rank_),
              reinterpret_cast<T*>(SendingStage(0).memory.get()));
  for (int hop = 0; hop < 2 * (size_ - 1); ++hop) {
    if (hop_hook_) hop_hook_(hop);
    const int sent = (rank_ - hop + 2 * size_) % size_;
    const int received = (rank_ - hop - 1 + 2 * size_) % size_;
    T* const numbers = reinterpret_cast<T*>(ReceivingStage(hop).memory.get());
    RC_RETURN_IF_ERROR(Exchange(hop, count(sent) * sizeof(T), count(received) * sizeof(T), [&] {
      if (hop < size_ - 1) {
        const T* const own = in.data() + begin(received);
        for (std::size_t i = 0; i < count(received); ++i) numbers[i] += own[i];
      }
      if (hop >= size_ - 2) std::copy_n(numbers, count(received), out.begin() + begin(received));
    }));
  }
  return OkStatus();
}

StatusOr<MinMax> ReduceGroup::Ring::Extremes(std::uint64_t value) {
  RC_RETURN_IF_ERROR(Usable());
  MinMax extremes{value, value};
  Reserve(sizeof(MinMax));
  for (int hop = 0; hop < size_ - 1; ++hop) {
    std::memcpy(SendingStage(hop).memory.get(), &extremes, sizeof(extremes));
    RC_RETURN_IF_ERROR(Exchange(hop, sizeof(extremes), sizeof(extremes), [&] {
      MinMax others;
      std::memcpy(&others, ReceivingStage(hop).memory.get(), sizeof(others));
      extremes = {std::min(extremes.min, others.min), std::max(extremes.max, others.max)};
    }));
  }
  return extremes;
}

// Why the group can do no more, or OK.
Status ReduceGroup::Ring::Usable() {
  const std::lock_guard lock(mutex_);
  return abort_.has_value() ? absl::AbortedError(*abort_) : failure_;
}

// Makes both stages large enough. Nothing is under way here: the last call ended well.
void ReduceGroup::Ring::Reserve(std::size_t bytes) {
  if (size_ == 1 || bytes <= stage_bytes_) return;
  stage_bytes_ = bytes;
  for (Stage& stage : stages_) {
    stage = Stage();
    stage.memory = std::make_unique_for_overwrite<std::byte[]>(bytes);
    const std::span<std::byte> memory(stage.memory.get(), bytes);
    stage.from_left = std::make_unique<ChannelBuffer>(*channels_.at(left()), memory);
    stage.to_right = std::make_unique<ChannelBuffer>(*channels_.at(right()), memory);
  }
}

// One hop: sends to the right, receives from the left, calls `use_received` while the rest of the
// send may still be under way.
Status ReduceGroup::Ring::Exchange(int hop, std::size_t send_bytes, std::size_t receive_bytes,
                                   const std::function<void()>& use_received) {
  ChannelBuffer& to_right = *SendingStage(hop).to_right;
  ChannelBuffer& from_left = *ReceivingStage(hop).from_left;
  const auto run = [&] {
    RC_RETURN_IF_ERROR(from_left.PostReceive(0, receive_bytes));
    RC_RETURN_IF_ERROR(to_right.PostSend(0, send_bytes));
    RC_RETURN_IF_ERROR(from_left.AwaitReceive());
    use_received();
    return to_right.AwaitSend();
  };
  const Status status = run();
  return status.ok() ? status : Fail(status, fmt::format("hop {}", hop));
}

Status ReduceGroup::Ring::Fail(const Status& cause, const std::string& when) {
  const std::lock_guard lock(mutex_);
  failure_ = abort_.has_value()
                 ? absl::AbortedError(*abort_)
                 : absl::UnavailableError(fmt::format(
                       "all-reduce group of generation {}, rank {} of {}, {}: {}",
                       generation_.value(), rank_, size_, when, std::string(cause.message())));
  return failure_;
}

void ReduceGroup::Ring::Abort(const std::string& why) {
  {
    const std::lock_guard lock(mutex_);
    if (abort_.has_value()) return;
    abort_ = why;
  }
  Break(why);
}

void ReduceGroup::Ring::Break(const std::string& why) {
  for (const auto& [neighbour, channel] : channels_) channel->Break(why);
}

StatusOr<std::unique_ptr<ReduceGroup>> ReduceGroup::Open(const std::shared_ptr<Device>& device,
                                                         int rank, int size,
                                                         Generation generation) {
  RC_CHECK(0 <= rank && rank < size) << "rank " << rank << " of " << size;
  auto ring = std::make_unique<Ring>(rank, size, generation);
  RC_RETURN_IF_ERROR(ring->Open(device));
  return std::unique_ptr<ReduceGroup>(new ReduceGroup(std::move(ring)));
}

ReduceGroup::ReduceGroup(std::unique_ptr<Ring> ring) : ring_(std::move(ring)) {}
ReduceGroup::~ReduceGroup() = default;

std::map<int, std::string> ReduceGroup::addresses() const { return ring_->addresses(); }

Status ReduceGroup::Connect(const std::map<int, std::string>& neighbour_addresses) {
  return ring_->Connect(neighbour_addresses);
}

Status ReduceGroup::AllReduceSum(std::span<const float> in, std::span<float> out) {
  return ring_->Sum(in, out);
}

Status ReduceGroup::AllReduceSum(std::span<const double> in, std::span<double> out) {
  return ring_->Sum(in, out);
}

Status ReduceGroup::AllReduceSum(std::span<const std::uint64_t> in, std::span<std::uint64_t> out) {
  return ring_->Sum(in, out);
}

StatusOr<MinMax> ReduceGroup::AllReduceMinMax(std::uint64_t value) {
  return ring_->Extremes(value);
}

void ReduceGroup::Abort(const std::string& why) { ring_->Abort(why); }

void ReduceGroup::SetHopHook(std::function<void(int hop)> hook) {
  ring_->set_hop_hook(std::move(hook));
}

void ReduceGroup::CutForTest() { ring_->Break("cut by a test"); }

}  // namespace recycle
