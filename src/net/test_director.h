// The fixture of the director's tests: each runs with loops that sleep at once, and with loops that
// look for more first.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>

#include "base/testing.h"
#include "net/director.h"
#include "net/test_application.h"

namespace pulse::net::test {

class DirectorTest : public ::testing::TestWithParam<bool> {
 protected:
  static bool spins() { return GetParam(); }
  void Open() {
    options_.application = &app_;
    options_.spin_nanos = spins() ? 50'000 : 0;
    auto director = Director::Open(options_);
    ASSERT_TRUE(director.ok()) << director.status();
    director_ = *std::move(director);
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

#define PULSE_SLEEPING_AND_SPINNING(suite)                  \
  INSTANTIATE_TEST_SUITE_P(Loops, suite, ::testing::Bool(), \
                           [](const auto& tested) { return tested.param ? "spins" : "sleeps"; })

}  // namespace pulse::net::test
