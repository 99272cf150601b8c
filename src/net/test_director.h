// The fixture of the director's tests: each runs on both back-ends, sleeping at once and looking
// for more first, and on io_uring without multishot requests.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>

#include "base/testing.h"
#include "net/director.h"
#include "net/test_application.h"

namespace pulse::director::test {

enum class Net { kEpoll, kEpollSpins, kUring, kUringSpins, kUringSingleShot };

class DirectorTest : public ::testing::TestWithParam<Net> {
 protected:
  void Open() {
    options_.application = &app_;
    const bool epoll = GetParam() == Net::kEpoll || GetParam() == Net::kEpollSpins;
    const bool spins = GetParam() == Net::kEpollSpins || GetParam() == Net::kUringSpins;
    options_.net = epoll ? NetKind::kEpoll : NetKind::kUring;
    options_.net_options.spin_nanos = spins ? 50'000 : 0;
    options_.net_options.without_multishot = GetParam() == Net::kUringSingleShot;
    auto director = Director::Open(options_);
    ASSERT_TRUE(director.ok()) << director.status();
    director_ = *std::move(director);
    EXPECT_EQ(director_->net(), options_.net);
  }
  void OpenWithHost() {
    host_ = std::make_unique<TestHost>();
    options_.host = host_->address();
    Open();
  }
  // What `happens`, and what comes behind the "w" in `lines`, comes to the loop in one turn.
  void InOneTurn(TestClient* client, const std::string& lines,
                 const std::function<void()>& happens) {
    EXPECT_EQ(client->Ask("h1"), "hosth1");
    ASSERT_TRUE(client->Send(lines));
    ASSERT_TRUE(testing_util::Eventually([&] { return app_.waits.load(); }));
    happens();
    app_.go_on = true;
    EXPECT_EQ(client->Line(), "went on");
  }
  bool Empty() {
    return testing_util::Eventually([&] { return director_->stats().connections == 0; });
  }

  LineApplication app_{testing_util::TestSeed()};
  std::unique_ptr<TestHost> host_;
  DirectorOptions options_;
  std::unique_ptr<Director> director_;
};

inline std::string NetName(const ::testing::TestParamInfo<Net>& tested) {
  return tested.param == Net::kEpoll        ? "epoll"
         : tested.param == Net::kEpollSpins ? "epoll_spins"
         : tested.param == Net::kUring      ? "io_uring"
         : tested.param == Net::kUringSpins ? "io_uring_spins"
                                            : "io_uring_single_shot";
}

#define PULSE_BOTH_NETS(suite)                                                           \
  INSTANTIATE_TEST_SUITE_P(Nets, suite,                                                  \
                           ::testing::Values(Net::kEpoll, Net::kEpollSpins, Net::kUring, \
                                             Net::kUringSpins, Net::kUringSingleShot),   \
                           NetName)

}  // namespace pulse::director::test
