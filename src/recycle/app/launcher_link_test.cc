#include "recycle/app/launcher_link.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <string>

namespace recycle {
namespace {

class LauncherLinkTest : public ::testing::Test {
 protected:
  LauncherLinkTest() {
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair_), 0);
    link_ = std::make_unique<LauncherLink>(pair_[1]);
  }
  ~LauncherLinkTest() override {
    if (pair_[0] >= 0) close(pair_[0]);
  }

  int pair_[2];  // the launcher's end, the coordinator's (owned by link_)
  std::unique_ptr<LauncherLink> link_;
};

TEST_F(LauncherLinkTest, ALauncherThatDoesNotReadNeverBlocksTraining) {
  const Json line = {{"text", std::string(1000, 'x')}};
  for (int i = 0; i < 6000; ++i) link_->Send("warning", line);  // more than socket and bound hold
  EXPECT_TRUE(link_->wants_to_write());
  // What arrives once it reads again is whole lines.
  std::string received;
  char buffer[65536];
  while (link_->wants_to_write()) {
    const ssize_t count = read(pair_[0], buffer, sizeof(buffer));
    ASSERT_GT(count, 0);
    received.append(buffer, static_cast<std::size_t>(count));
    link_->Flush();
  }
  link_.reset();
  for (ssize_t count = 1; count > 0;) {
    count = read(pair_[0], buffer, sizeof(buffer));
    if (count > 0) received.append(buffer, static_cast<std::size_t>(count));
  }
  EXPECT_EQ(received.size() % (Json{{"kind", "warning"}, {"line", line}}.dump().size() + 1), 0U);
}

TEST_F(LauncherLinkTest, StopAndTheLaunchersEndAreHeard) {
  EXPECT_EQ(link_->Receive(), LauncherLink::Received::kNothing);
  ASSERT_GT(write(pair_[0], kStopCommand.data(), kStopCommand.size()), 0);
  EXPECT_EQ(link_->Receive(), LauncherLink::Received::kStop);
  close(pair_[0]);
  pair_[0] = -1;
  EXPECT_EQ(link_->Receive(), LauncherLink::Received::kClosed);
  link_->Send("event", Json::object());  // into nothing
}

}  // namespace
}  // namespace recycle
