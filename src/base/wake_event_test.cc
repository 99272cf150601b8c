#include "base/wake_event.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>

#include <utility>

namespace pulse {
namespace {

bool IsReadable(int fd) {
  pollfd p{fd, POLLIN, 0};
  return poll(&p, 1, 0) == 1;
}

TEST(WakeEventTest, Event_FromSetToClear_IsReadable) {
  auto event = WakeEvent::Create();
  ASSERT_TRUE(event.ok()) << event.status();
  EXPECT_FALSE(IsReadable(event->fd()));
  event->Clear();
  event->Set();
  event->Set();
  EXPECT_TRUE(IsReadable(event->fd()));
  event->Clear();
  EXPECT_FALSE(IsReadable(event->fd()));
}

TEST(WakeEventTest, Descriptor_IsClosedOnExecAndNeverBlocks) {
  const auto event = WakeEvent::Create();
  ASSERT_TRUE(event.ok()) << event.status();
  EXPECT_NE(fcntl(event->fd(), F_GETFD) & FD_CLOEXEC, 0);
  EXPECT_NE(fcntl(event->fd(), F_GETFL) & O_NONBLOCK, 0);
}

TEST(WakeEventTest, MovedEvent_KeepsItsState) {
  WakeEvent from = WakeEvent::Create().value();
  from.Set();
  const WakeEvent to = std::move(from);
  EXPECT_TRUE(IsReadable(to.fd()));
}

}  // namespace
}  // namespace pulse
