// SETs of several connections that arrive in one turn of a loop, which one write carries out.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <random>
#include <string>
#include <vector>

#include "base/testing.h"
#include "services/redis/test_server.h"

namespace pulse::redis {
namespace {

using ::testing::AnyOf;

class SetGroupTest : public ServerTest {
 protected:
  void Connect(int count) {
    for (int i = 0; i < count; ++i) clients_.push_back(std::make_unique<BlockingClient>(port()));
  }
  static std::string Set(const std::string& key, const std::string& value) {
    return "set " + key + " " + value + "\r\n";
  }
  static std::string Bulk(const std::string& value) {
    return "$" + std::to_string(value.size()) + "\r\n" + value + "\r\n";
  }
  std::vector<std::unique_ptr<BlockingClient>> clients_;
};

TEST_F(SetGroupTest, Sets_ManyConnections_EachIsAnsweredAndStored) {
  options_.threads = 1;
  Open();
  Connect(120);  // more than go together
  std::mt19937_64 random(testing_util::TestSeed());
  BlockingClient reader(port());
  for (int round = 0; round < 50; ++round) {
    std::vector<std::string> values(clients_.size());
    for (size_t i = 0; i < clients_.size(); ++i) {
      values[i] = std::to_string(round) + std::string(random() % 8 == 0 ? 3000 : 3, 'v');
      // Some have more to say, so that their requests are a batch of their own.
      const bool alone = random() % 8 == 0;
      clients_[i]->Send((alone ? "ping\r\n" : "") + Set("k" + std::to_string(i), values[i]));
      if (alone) {
        EXPECT_EQ(clients_[i]->Receive(), "+PONG\r\n");
      }
    }
    if (round > 0 && random() % 4 == 0) {
      EXPECT_EQ(reader.Ask("exists k1"), ":1\r\n") << round;
    }
    for (size_t i = 0; i < clients_.size(); ++i) ASSERT_EQ(clients_[i]->Receive(), "+OK\r\n") << i;
    for (size_t i = 0; i < clients_.size(); ++i) {
      ASSERT_EQ(reader.Ask("get k" + std::to_string(i)), Bulk(values[i])) << round << " " << i;
    }
  }
}

TEST_F(SetGroupTest, Sets_OneKey_OneOfThemIsLast) {
  options_.threads = 1;
  Open();
  Connect(30);
  BlockingClient reader(port());
  for (int round = 0; round < 50; ++round) {
    for (size_t i = 0; i < clients_.size(); ++i) {
      clients_[i]->Send(Set("k", std::to_string(100 * round + static_cast<int>(i))));
    }
    for (const auto& client : clients_) ASSERT_EQ(client->Receive(), "+OK\r\n");
    const std::string value = reader.Ask("get k");
    const int number = std::stoi(value.substr(value.find('\n') + 1));
    EXPECT_EQ(number / 100, round);
    EXPECT_LT(number % 100, 30);
  }
}

TEST_F(SetGroupTest, Sets_WatchedKey_BreakTheTransaction) {
  options_.threads = 1;
  Open();
  Connect(20);
  BlockingClient watcher(port());
  for (int round = 0; round < 20; ++round) {
    EXPECT_EQ(watcher.Ask("watch k7"), "+OK\r\n");
    for (size_t i = 0; i < clients_.size(); ++i) {
      clients_[i]->Send(Set("k" + std::to_string(i), "v"));
    }
    for (const auto& client : clients_) ASSERT_EQ(client->Receive(), "+OK\r\n");
    EXPECT_EQ(watcher.Ask("multi"), "+OK\r\n");
    EXPECT_EQ(watcher.Ask("set mine 1"), "+QUEUED\r\n");
    EXPECT_EQ(watcher.Ask("exec"), "*-1\r\n");
  }
}

// The loop may not wait for a lock: then each goes to the pool by itself.
TEST_F(SetGroupTest, Sets_BesideFlushes_AreAllAnswered) {
  options_.threads = 1;
  Open();
  Connect(20);
  BlockingClient flusher(port());
  for (int round = 0; round < 30; ++round) {
    flusher.Send("flushall\r\n");
    for (size_t i = 0; i < clients_.size(); ++i) {
      clients_[i]->Send(Set("k" + std::to_string(i), "v"));
    }
    for (const auto& client : clients_) ASSERT_EQ(client->Receive(), "+OK\r\n");
    ASSERT_EQ(flusher.Receive(), "+OK\r\n");
    EXPECT_THAT(flusher.Ask("get k3"), AnyOf(Bulk("v"), "$-1\r\n"));
  }
}

TEST_F(SetGroupTest, Set_ClientThatLeaves_IsCarriedOut) {
  options_.threads = 1;
  Open();
  Connect(20);
  for (size_t i = 0; i < clients_.size(); ++i) {
    clients_[i]->Send(Set("k" + std::to_string(i), "v"));
    clients_[i]->ShutDown();
  }
  for (const auto& client : clients_) {
    EXPECT_EQ(client->Receive(), "+OK\r\n");
    EXPECT_EQ(client->Receive(), "");
  }
  BlockingClient reader(port());
  for (size_t i = 0; i < clients_.size(); ++i) {
    EXPECT_EQ(reader.Ask("get k" + std::to_string(i)), Bulk("v"));
  }
}

}  // namespace
}  // namespace pulse::redis
