#include "recycle/comm/mesh.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>
#include <optional>
#include <set>

#include "recycle/base/prng.h"
#include "recycle/comm/comm_testing.h"

namespace recycle {
namespace {

using std::chrono::milliseconds;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr std::size_t kMaxPayload = 1 << 16;

WorkerId Worker(int rank) { return {PipelineId(rank), StageId(0)}; }

std::map<WorkerId, std::string> ByWorker(const Addresses& addresses) {
  std::map<WorkerId, std::string> result;
  for (const auto& [rank, address] : addresses) result[Worker(rank)] = address;
  return result;
}

Addresses ByRank(const std::map<WorkerId, std::string>& addresses) {
  Addresses result;
  for (const auto& [worker, address] : addresses) result[worker.pipeline.value()] = address;
  return result;
}

Frame RandomFrame(int micro_batch, std::size_t payload_bytes, std::uint64_t seed = 0) {
  Frame frame{Generation(0), {0, FrameKind::kActivation, StageId(0), micro_batch}, {}};
  Prng prng(HashKeys({seed, static_cast<std::uint64_t>(micro_batch)}));
  for (std::size_t i = 0; i < payload_bytes; ++i) frame.payload.push_back(std::byte(prng.Next()));
  return frame;
}

// A worker of a test: a mesh, its inbox, and what was said about broken links.
class TestWorker {
 public:
  explicit TestWorker(std::shared_ptr<Device> device, int rank,
                      std::size_t max_payload_bytes = kMaxPayload)
      : mesh(std::move(device), Worker(rank), max_payload_bytes, inbox,
             [this](WorkerId peer, const std::string& error) {
               const std::lock_guard lock(mutex_);
               broken_.emplace_back(peer, error);
               broken_at_ = SystemClock().Now();
               changed_.notify_all();
             }) {}

  Addresses Open(const std::vector<int>& ranks) {
    std::vector<WorkerId> peers;
    peers.reserve(ranks.size());
    for (const int rank : ranks) peers.push_back(Worker(rank));
    return ByRank(mesh.Open(peers));
  }

  // Blocks until a link has broken; the time of it.
  TimePoint WaitForBrokenLink() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return !broken_.empty(); });
    return broken_at_;
  }

  std::vector<std::pair<WorkerId, std::string>> broken() {
    const std::lock_guard lock(mutex_);
    return broken_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::pair<WorkerId, std::string>> broken_;
  TimePoint broken_at_;

 public:
  Inbox inbox;
  Mesh mesh;
};

// Links the workers 0 and 1 of this process.
void ConnectPair(TestWorker& a, TestWorker& b) {
  const Addresses of_a = a.Open({1});
  const Addresses of_b = b.Open({0});
  auto connecting = std::async(std::launch::async, [&] {
    return b.mesh.Connect({{Worker(0), of_a.at(1)}});
  });
  ASSERT_EQ(a.mesh.Connect({{Worker(1), of_b.at(0)}}), OkStatus());
  ASSERT_EQ(connecting.get(), OkStatus());
}

std::vector<int> Shuffled(int count, Prng& prng) {
  std::vector<int> order(count);
  for (int i = 0; i < count; ++i) order[i] = i;
  prng.Shuffle(order);
  return order;
}

// Matching is ours, whatever the order of sending and taking.
TEST(MeshTest, FramesAreMatchedUnderRandomOrders) {
  constexpr int kFrames = 500;
  constexpr std::uint64_t kSeed = 20240601;
  RecordProperty("seed", std::to_string(kSeed));
  const std::shared_ptr<Device> device = MakeDevice();
  RunMembers(2, [&](int rank, Exchange& exchange) {
    TestWorker self(device, rank);
    const WorkerId peer = Worker(1 - rank);
    ASSERT_EQ(self.mesh.Connect(ByWorker(exchange.Swap(rank, self.Open({1 - rank})))), OkStatus());
    Prng prng(kSeed + rank);
    int hooks_called = 0;
    int hooks = 0;
    for (const int micro_batch : Shuffled(kFrames, prng)) {
      const std::size_t bytes = prng.Below(8) == 0 ? prng.Below(kMaxPayload + 1) : prng.Below(99);
      SendHook hook;
      if (prng.Below(4) == 0) {
        hook = [&] { ++hooks_called; };
        ++hooks;
      }
      ASSERT_EQ(self.mesh.Send(peer, RandomFrame(micro_batch, bytes, rank), hook), OkStatus());
    }
    for (const int micro_batch : Shuffled(kFrames, prng)) {
      const StatusOr<Frame> frame = self.inbox.Take(RandomFrame(micro_batch, 0).key);
      ASSERT_TRUE(frame.ok()) << frame.status();
      ASSERT_EQ(frame->payload, RandomFrame(micro_batch, frame->payload.size(), 1 - rank).payload);
    }
    ASSERT_EQ(
        self.mesh.Send(peer, Frame{Generation(0), {1, FrameKind::kNormUp, StageId(0), -1}, {}}),
        OkStatus());
    ASSERT_TRUE(self.inbox.Take({1, FrameKind::kNormUp, StageId(0), -1}).ok());
    EXPECT_EQ(self.mesh.counters().frames_received, kFrames + 1);
    EXPECT_EQ(
        self.mesh.counters().bytes_received,
        self.inbox.counters().bytes + static_cast<std::int64_t>((kFrames + 1) * kFrameHeaderBytes));
    exchange.Finish();  // nobody leaves before all have read
    EXPECT_EQ(hooks_called, hooks);
    EXPECT_THAT(self.broken(), IsEmpty());
    exchange.Finish();  // nor before all have seen that
  });
}

// The inbox takes the first of two frames with one key, so the order on a link shows.
TEST(MeshTest, ALinkIsFirstInFirstOut) {
  const std::shared_ptr<Device> device = MakeDevice();
  TestWorker a(device, 0);
  TestWorker b(device, 1);
  ConnectPair(a, b);
  for (int i = 1; i <= 100; ++i) {
    ASSERT_EQ(a.mesh.Send(Worker(1), RandomFrame(0, static_cast<std::size_t>(i) * 100)),
              OkStatus());
  }
  ASSERT_EQ(a.mesh.Send(Worker(1), RandomFrame(1, 0)), OkStatus());
  ASSERT_TRUE(b.inbox.Take(RandomFrame(1, 0).key).ok());
  EXPECT_EQ(b.inbox.Take(RandomFrame(0, 0).key)->payload.size(), 100u);
  EXPECT_EQ(b.inbox.counters().duplicate_frames, 99);
}

// Ranks 0, 1, 2 in a triangle of links. Says "ready"; then obeys: "send" sends a frame of the next
// number to everyone, "take R" takes it from the inbox, "broken" reports the first broken link.
void TriangleMember(int rank, Wire& wire) {
  TestWorker self(MakeDevice(), rank);
  std::vector<int> others;
  for (int other = 0; other < 3; ++other) {
    if (other != rank) others.push_back(other);
  }
  wire.WriteAddresses(self.Open(others));
  RC_CHECK(self.mesh.Connect(ByWorker(wire.ReadAddresses())).ok());
  wire.Write("ready");
  for (std::string order = wire.Read(); order != "gone"; order = wire.Read()) {
    if (order == "broken") {
      const TimePoint at = self.WaitForBrokenLink();
      wire.Write(std::to_string(at.time_since_epoch().count()));
      wire.Write(ToString(self.broken().front().first));
      wire.Write(std::to_string(self.mesh.links().size()));
      wire.Write(
          std::string(self.mesh.Send(self.broken().front().first, RandomFrame(0, 1)).message()));
    } else if (order == "send") {
      for (const WorkerId peer : self.mesh.links()) {
        RC_CHECK(self.mesh.Send(peer, RandomFrame(rank, 1000)).ok());
      }
    } else if (order == "die while sending") {
      (void)self.mesh.Send(Worker(0), RandomFrame(rank, 1000), [] { raise(SIGKILL); });
    } else {
      RC_CHECK(self.inbox.Take(RandomFrame(std::stoi(order), 0).key).ok());
      wire.Write("taken");
    }
  }
}

// Kills rank 1 of a triangle and checks what the others see; how long they took, at most.
double KillOneOfThree() {
  ForkedMembers members(3, TriangleMember);
  members.RouteAddresses();
  for (int rank = 0; rank < 3; ++rank) EXPECT_EQ(members.wire(rank).Read(), "ready");
  const TimePoint killed = SystemClock().Now();
  members.Signal(1, SIGKILL);
  double noticed_ms = 0;
  for (const int rank : {0, 2}) {
    members.wire(rank).Write("broken");
    const TimePoint noticed(Duration(std::stoll(members.wire(rank).Read())));
    noticed_ms = std::max(noticed_ms, ToMilliseconds(noticed - killed));
    EXPECT_EQ(members.wire(rank).Read(), "1:0");
    EXPECT_EQ(members.wire(rank).Read(), "1");
    // gloo's words: the connection was closed or reset.
    EXPECT_THAT(members.wire(rank).Read(), testing::ContainsRegex("link to 1:0: .* by peer"));
  }
  members.wire(0).Write("send");
  members.wire(2).Write("0");
  EXPECT_EQ(members.wire(2).Read(), "taken");
  return noticed_ms;
}

// A killed peer is noticed within 100 ms; other pairs go on.
TEST(MeshTest, AKilledPeerBreaksItsLinksAndNoOthers) {
  EXPECT_LT(BestOf(10, 100, KillOneOfThree), 100);
}

TEST(MeshTest, APeerThatDiesWithinAFrameDeliversNothingOfIt) {
  ForkedMembers members(3, TriangleMember);
  members.RouteAddresses();
  for (int rank = 0; rank < 3; ++rank) ASSERT_EQ(members.wire(rank).Read(), "ready");
  members.wire(1).Write("die while sending");
  members.wire(0).Write("broken");
  members.wire(0).Read();
  EXPECT_EQ(members.wire(0).Read(), "1:0");
  members.wire(0).Read();
  members.wire(0).Read();
  members.wire(0).Write("1");  // blocks: the frame never came
  EXPECT_FALSE(members.wire(0).Readable(milliseconds(20)));
}

// Closes the link to a frozen peer while a sender waits for it; how long that took.
double CloseLinkToFrozenPeer() {
  constexpr std::size_t kBig = 4 << 20;
  ForkedMembers members(1, [](int /*rank*/, Wire& wire) {
    TestWorker self(MakeDevice(), 1, kBig);
    wire.WriteAddresses(self.Open({0}));
    RC_CHECK(self.mesh.Connect({{Worker(0), wire.ReadAddresses().at(1)}}).ok());
    raise(SIGSTOP);
  });
  TestWorker self(MakeDevice(), 0, kBig);
  const Addresses remote = members.wire(0).ReadAddresses();
  members.wire(0).WriteAddresses(self.Open({1}));
  EXPECT_EQ(self.mesh.Connect({{Worker(1), remote.at(0)}}), OkStatus());
  members.WaitUntilStopped(0);
  for (int i = 0; i < 8; ++i) {  // more than the kernel takes
    EXPECT_EQ(self.mesh.Send(Worker(1), Frame{Generation(0), RandomFrame(i, 0).key,
                                              std::vector<std::byte>(kBig)}),
              OkStatus());
  }
  const TimePoint start = SystemClock().Now();
  self.mesh.Close(Worker(1));
  const double closed_ms = MillisecondsSince(start);
  EXPECT_THAT(self.broken(), IsEmpty());
  EXPECT_THAT(std::string(self.mesh.Send(Worker(1), RandomFrame(0, 1)).message()),
              HasSubstr("link to 1:0: never opened, or closed"));
  return closed_ms;
}

// recovery.md: close wakes blocked waits through the pair's exception path.
TEST(MeshTest, CloseWakesASenderToAFrozenPeer) {
  EXPECT_LT(BestOf(10, 1000, CloseLinkToFrozenPeer), 1000);  // not woken, it would take for ever
}

TEST(MeshTest, ACutIsSeenOnceAtBothEndsAndTheLinkCanBeRemade) {
  const std::shared_ptr<Device> device = MakeDevice();
  TestWorker a(device, 0);
  TestWorker b(device, 1);
  ConnectPair(a, b);
  EXPECT_THAT(a.mesh.links(), ElementsAre(Worker(1)));
  a.mesh.CutForTest(Worker(1));
  a.WaitForBrokenLink();
  b.WaitForBrokenLink();
  EXPECT_THAT(a.mesh.links(), IsEmpty());
  EXPECT_TRUE(absl::IsUnavailable(b.mesh.Send(Worker(0), RandomFrame(0, 1))));
  ConnectPair(a, b);
  ASSERT_EQ(a.mesh.Send(Worker(1), RandomFrame(3, 100)), OkStatus());
  EXPECT_EQ(b.inbox.Take(RandomFrame(3, 0).key)->payload, RandomFrame(3, 100).payload);
  a.mesh.Close(Worker(1));
  EXPECT_EQ(a.broken().size(), 1u);
}

TEST(MeshTest, ConnectToAPeerThatNeverComesCanBeAborted) {
  const std::shared_ptr<Device> device = MakeDevice();
  TestWorker a(device, 0);
  TestWorker b(device, 1);
  const Addresses of_b = b.Open({0});
  a.Open({1});
  auto connecting = std::async(std::launch::async, [&] {
    return a.mesh.Connect({{Worker(1), of_b.at(0)}});
  });
  a.mesh.Abort(absl::AbortedError("worker 1:0 died"));
  EXPECT_EQ(connecting.get(), absl::AbortedError("worker 1:0 died"));
  EXPECT_THAT(a.broken(), IsEmpty());
  ConnectPair(a, b);
}

TEST(MeshTest, ConnectNamesThePeersThatAreGone) {
  const std::shared_ptr<Device> device = MakeDevice();
  TestWorker a(device, 0);
  TestWorker b(device, 1);
  Addresses of_a = a.Open({1, 2});
  Addresses remote = {{1, b.Open({0}).at(0)}};
  {
    TestWorker dead(device, 2);
    do {  // a listening side would wait for the dead until the timeout
      remote[2] = dead.Open({0}).at(0);
      of_a[2] = a.Open({2}).at(2);
    } while (!IsConnectingSide(of_a[2], remote[2]));
  }
  auto living = std::async(std::launch::async, [&] {
    return b.mesh.Connect({{Worker(0), of_a.at(1)}});
  });
  const Status status = a.mesh.Connect(ByWorker(remote));
  EXPECT_TRUE(absl::IsUnavailable(status));
  EXPECT_THAT(std::string(status.message()), testing::StartsWith("no link to 2:0: connect "));
  EXPECT_EQ(living.get(), OkStatus());
  EXPECT_THAT(a.mesh.links(), ElementsAre(Worker(1)));
}

}  // namespace
}  // namespace recycle
