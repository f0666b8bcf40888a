#include "recycle/comm/channel.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <future>
#include <limits>

#include "recycle/comm/comm_testing.h"

namespace recycle {
namespace {

constexpr std::size_t kHuge = 64 << 20;  // never fits into the kernel's socket buffers

// Sends a huge message and freezes in the middle of it.
void FreezeWithinAMessage(int /*rank*/, Wire& wire) {
  const std::shared_ptr<Device> device = MakeDevice();
  const std::unique_ptr<Channel> channel = *Channel::Open(device);
  wire.WriteAddresses({{1, channel->address()}});
  RC_CHECK(channel->Connect(wire.ReadAddresses().at(1)).ok());
  const auto memory = std::make_unique_for_overwrite<std::byte[]>(kHuge);
  ChannelBuffer buffer(*channel, {memory.get(), kHuge});
  wire.Read();  // the receive is posted
  RC_CHECK(buffer.PostSend(0, kHuge).ok());
  raise(SIGSTOP);
}

// The test's side of the above: waits for the message; calls `end` when the peer is frozen and
// checks that the wait then ends with `expected`. How long that took; for ever if the peer was too
// slow to freeze and the whole message had come.
double EndHalfAMessage(const std::function<void(ForkedMembers& peer, Channel& channel)>& end,
                       const std::string& expected) {
  ForkedMembers peer(1, FreezeWithinAMessage);
  const std::shared_ptr<Device> device = MakeDevice();
  const std::unique_ptr<Channel> channel = *Channel::Open(device);
  const Addresses addresses = peer.wire(0).ReadAddresses();
  peer.wire(0).WriteAddresses({{1, channel->address()}});
  RC_CHECK(channel->Connect(addresses.at(1)).ok());
  const auto memory = std::make_unique_for_overwrite<std::byte[]>(kHuge);
  ChannelBuffer buffer(*channel, {memory.get(), kHuge});
  RC_CHECK(buffer.PostReceive(0, kHuge).ok());
  peer.wire(0).Write("send");
  peer.WaitUntilStopped(0);
  auto waiting = std::async(std::launch::async, [&] { return buffer.AwaitReceive(); });
  const TimePoint start = SystemClock().Now();
  end(peer, *channel);
  const Status status = waiting.get();
  const double waited_ms = MillisecondsSince(start);
  channel->Break("the test is over");
  if (status.ok()) return std::numeric_limits<double>::infinity();
  EXPECT_TRUE(absl::IsUnavailable(status));
  EXPECT_THAT(std::string(status.message()), testing::HasSubstr(expected));
  return waited_ms;
}

TEST(ChannelTest, APeerThatDiesWithinAMessageIsNoticed) {
  const auto die = [](ForkedMembers& peer, Channel&) { peer.Signal(0, SIGKILL); };
  EXPECT_LT(BestOf(10, 100, [&] { return EndHalfAMessage(die, "by peer"); }), 100);
}

TEST(ChannelTest, BreakWakesAWaitWithinAMessageOfAFrozenPeer) {
  const auto give_up = [](ForkedMembers&, Channel& channel) { channel.Break("enough"); };
  EXPECT_LT(BestOf(10, 50, [&] { return EndHalfAMessage(give_up, "enough"); }), 50);
}

TEST(ChannelTest, AStrangerInThePeersPlaceIsRefused) {
  const std::shared_ptr<Device> device = MakeDevice();
  std::array ends = {*Channel::Open(device), *Channel::Open(device), *Channel::Open(device)};
  std::sort(ends.begin(), ends.end(), [](const auto& a, const auto& b) {
    return IsConnectingSide(b->address(), a->address());
  });
  Channel& victim = *ends[0];
  Channel& expected = *ends[1];
  Channel& stranger = *ends[2];
  auto intruding =
      std::async(std::launch::async, [&] { return stranger.Connect(victim.address()); });
  const Status status = victim.Connect(expected.address());
  EXPECT_TRUE(absl::IsUnavailable(status));
  EXPECT_THAT(std::string(status.message()), testing::HasSubstr("stranger"));
  EXPECT_TRUE(absl::IsUnavailable(intruding.get()));
}

// Whoever knows where the ends listen, but was not told by the coordinator, lacks their secrets.
TEST(ChannelTest, AnEndThatDoesNotKnowTheSecretsIsRefused) {
  const std::shared_ptr<Device> device = MakeDevice();
  const std::unique_ptr<Channel> victim = *Channel::Open(device);
  const std::unique_ptr<Channel> guesser = *Channel::Open(device);
  std::string guess = victim->address();
  guess.back() = static_cast<char>(guess.back() ^ 1);
  auto guessing = std::async(std::launch::async, [&] { return guesser->Connect(guess); });
  const Status status = victim->Connect(guesser->address());
  EXPECT_TRUE(absl::IsUnavailable(status));
  EXPECT_THAT(std::string(status.message()), testing::HasSubstr("stranger"));
  EXPECT_TRUE(absl::IsUnavailable(guessing.get()));
}

TEST(ChannelTest, ADeadPeersAddressIsRefusedAtOnceOrBroken) {
  const std::shared_ptr<Device> device = MakeDevice();
  const std::unique_ptr<Channel> channel = *Channel::Open(device);
  std::string dead_address = (*Channel::Open(device))->address();
  auto connecting = std::async(std::launch::async, [&] { return channel->Connect(dead_address); });
  channel->Break("the peer is dead");
  EXPECT_TRUE(absl::IsUnavailable(connecting.get()));
}

TEST(ChannelTest, AMadeUpAddressIsAnError) {
  const std::unique_ptr<Channel> channel = *Channel::Open(MakeDevice());
  EXPECT_TRUE(absl::IsInvalidArgument(channel->Connect("127.0.0.1:80")));
}

TEST(DeviceTest, OnlyAnAddressOfThisMachineWillDo) {
  for (const char* const address : {"localhost.invalid", "", "192.0.2.1", "0.0.0.0"}) {
    const Status status = Device::Create(address).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << address << ": " << status;
    EXPECT_THAT(std::string(status.message()),
                testing::HasSubstr("'" + std::string(address) + "'"));
  }
}

}  // namespace
}  // namespace recycle
