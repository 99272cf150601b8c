// Shared-memory clients and their server in one process: what the calls of pulse/kv_client.h
// promise.
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <latch>
#include <map>
#include <memory>
#include <random>
#include <thread>

#include "base/clock.h"
#include "services/kv/client/test_shm.h"

namespace pulse::kv {
namespace {

using testing_util::Eventually;

class KvClientTest : public ShmTest {
 protected:
  // Holds a key's partition until Release.
  void Hold(const std::string& key) {
    holder_ = std::thread([this, key] {
      store_->WithPartition(key, true, [this](Partition&, uint64_t) {
        held_.count_down();
        release_.wait();
      });
    });
    held_.wait();
  }
  void Release() {
    release_.count_down();
    holder_.join();
  }

 private:
  std::latch held_{1};
  std::latch release_{1};
  std::thread holder_;
};

TEST_F(KvClientTest, OneAtATime_SetGetDelete_DoWhatTheySay) {
  Open(3, {.threads = 2});
  TestClient client(path());
  ASSERT_EQ(client.open_code(), PULSE_KV_OK) << client.why();
  EXPECT_EQ(client.Get("greeting"), "(no such item)");
  EXPECT_EQ(client.Set("greeting", "hello"), PULSE_KV_OK);
  EXPECT_EQ(client.Get("greeting"), "hello");
  EXPECT_EQ(client.Set("a key that is longer than a word", std::string(5000, 'v')), PULSE_KV_OK);
  EXPECT_EQ(client.Get("a key that is longer than a word"), std::string(5000, 'v'));
  EXPECT_EQ(client.Set("", ""), PULSE_KV_OK);
  EXPECT_EQ(client.Get(""), "");
  EXPECT_EQ(client.Delete("greeting"), PULSE_KV_OK);
  EXPECT_EQ(client.Delete("greeting"), PULSE_KV_NOT_FOUND);
  EXPECT_EQ(client.Get("greeting"), "(no such item)");
}

TEST_F(KvClientTest, Socket_IsTheUsersAlone) {
  Open();
  struct stat status;
  ASSERT_EQ(stat(path().c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0600u);
  server_.reset();
  EXPECT_NE(stat(path().c_str(), &status), 0);
}

TEST_F(KvClientTest, Ttl_WhenItIsOver_EndsTheItem) {
  Open();
  TestClient client(path());
  EXPECT_EQ(client.Set("short", "v", 500), PULSE_KV_OK);
  EXPECT_EQ(client.Set("a longer key of a longer life", "w", 501), PULSE_KV_OK);
  now_ms_ += 499;
  EXPECT_EQ(client.Get("short"), "v");
  now_ms_ += 1;
  EXPECT_EQ(client.Get("short"), "(no such item)");
  EXPECT_EQ(client.Get("a longer key of a longer life"), "w");
  EXPECT_EQ(client.Set("short", "v", UINT64_MAX), PULSE_KV_INVALID);
}

TEST_F(KvClientTest, Items_AreThoseOfTheOtherClients) {
  Open(2);
  TestClient client(path());
  EXPECT_EQ(client.Set("mine", "1"), PULSE_KV_OK);
  EXPECT_TRUE(store_->WithPartition("mine", true, [](Partition& partition, uint64_t hash) {
    const Item* item = partition.Find("mine", hash);
    ASSERT_NE(item, nullptr);
    EXPECT_EQ(item->value(), "1");
    Item* other = nullptr;
    ASSERT_EQ(partition.Put("mine", hash, 5, {}, &other), Partition::Result::kStored);
    std::memcpy(other->value_bytes(), "other", 5);
  }));
  EXPECT_EQ(client.Get("mine"), "other");
}

TEST_F(KvClientTest, Watch_OfAKeyThatAClientChanges_IsBroken) {
  Open();
  TestClient client(path());
  EXPECT_EQ(client.Set("deleted", "1"), PULSE_KV_OK);
  for (const bool by_set : {true, false}) {
    redis::WatchTable::Set watches(store_->watch_table());
    const std::string_view key = by_set ? "set" : "deleted";
    std::string error;
    ASSERT_TRUE(store_->Watch(&key, 1, true, &watches, &error));
    client.Get(key);
    client.Set("another", "x");
    EXPECT_FALSE(watches.Broken(now_ms_));
    if (by_set) {
      client.Set(key, "x");
    } else {
      client.Delete(key);
    }
    EXPECT_TRUE(watches.Broken(now_ms_));
  }
}

// Requests under way, of sizes up to what is possible: each is answered once, with its tag, and as
// a map would, since requests for a key keep their order.
TEST_F(KvClientTest, Pipeline_RandomRequests_AnswerAsAMap) {
  memory_bytes_ = uint64_t{256} << 20;
  Open(3, {.threads = 2, .value_bytes = 4096});
  TestClient client(path());
  size_t most_set = 0;
  size_t most_get = 0;
  pulse_kv_limits(client.get(), &most_set, &most_get);
  ASSERT_GE(most_set, 4096u);
  ASSERT_GE(most_get, most_set);
  const uint64_t seed = testing_util::TestSeed();
  std::mt19937_64 random(seed);
  std::map<std::string, std::string> model;
  struct Expected {
    int code;
    std::string value;
  };
  std::map<uint64_t, Expected> expected;
  uint64_t tag = 0;
  constexpr uint64_t kRequests = 30'000;
  std::vector<pulse_kv_completion> done(50);
  while (tag < kRequests || !expected.empty()) {
    for (uint64_t i = random() % 300; i > 0 && tag < kRequests; --i) {
      const std::string key = std::string(random() % 20, 'k') + std::to_string(random() % 100);
      const uint64_t draw = random() % 10;
      const auto it = model.find(key);
      const bool exists = it != model.end();
      int code;
      Expected answer{PULSE_KV_OK, ""};
      if (draw < 6) {
        code = pulse_kv_submit_get(client.get(), key.data(), key.size(), tag);
        answer = exists ? Expected{PULSE_KV_OK, it->second} : Expected{PULSE_KV_NOT_FOUND, ""};
      } else if (draw < 9) {
        const size_t most = random() % 2 == 0 ? 20 : most_set - key.size();
        const std::string value(random() % (most + 1), static_cast<char>('a' + random() % 26));
        code = pulse_kv_submit_set(client.get(), key.data(), key.size(), value.data(), value.size(),
                                   0, tag);
        if (code == PULSE_KV_OK) model[key] = value;
      } else {
        code = pulse_kv_submit_delete(client.get(), key.data(), key.size(), tag);
        if (!exists) answer.code = PULSE_KV_NOT_FOUND;
        if (code == PULSE_KV_OK) model.erase(key);
      }
      if (code == PULSE_KV_BUSY) break;
      ASSERT_EQ(code, PULSE_KV_OK);
      expected[tag++] = answer;
    }
    ASSERT_EQ(pulse_kv_outstanding(client.get()), expected.size());
    size_t count = 0;
    const size_t most = 1 + random() % done.size();
    ASSERT_EQ(random() % 2 == 0 ? pulse_kv_poll(client.get(), done.data(), most, &count)
                                : pulse_kv_wait(client.get(), done.data(), most, &count, 60'000),
              PULSE_KV_OK);
    for (size_t i = 0; i < count; ++i) {
      const auto it = expected.find(done[i].tag);
      ASSERT_NE(it, expected.end()) << done[i].tag;
      ASSERT_EQ(done[i].code, it->second.code) << done[i].tag;
      ASSERT_EQ(std::string_view(static_cast<const char*>(done[i].value), done[i].value_size),
                it->second.value);
      expected.erase(it);
    }
  }
}

// Their answers do not fit into one transfer.
TEST_F(KvClientTest, Gets_OfLargeValues_ComeInParts) {
  Open();
  TestClient client(path());
  const std::string value(60'000, 'v');
  ASSERT_EQ(client.Set("large", value), PULSE_KV_OK);
  for (uint64_t i = 0; i < 100; ++i) {
    ASSERT_EQ(pulse_kv_submit_get(client.get(), i % 2 == 0 ? "large" : "small", 5, i), PULSE_KV_OK);
  }
  for (uint64_t next = 0; next < 100;) {
    pulse_kv_completion done[7];
    size_t count = 0;
    ASSERT_EQ(pulse_kv_wait(client.get(), done, 7, &count, 60'000), PULSE_KV_OK);
    for (size_t i = 0; i < count; ++i, ++next) {
      ASSERT_EQ(done[i].tag, next);
      ASSERT_EQ(done[i].code, next % 2 == 0 ? PULSE_KV_OK : PULSE_KV_NOT_FOUND);
      if (next % 2 == 0) {
        ASSERT_EQ(std::string_view(static_cast<const char*>(done[i].value), done[i].value_size),
                  value);
      }
    }
  }
}

TEST_F(KvClientTest, Submit_BeyondTheLimits_IsTooLarge) {
  Open();
  TestClient client(path());
  size_t most_set = 0;
  size_t most_get = 0;
  pulse_kv_limits(client.get(), &most_set, &most_get);
  const auto submit = [&](size_t bytes) {
    const std::string value(bytes, 'v');
    return pulse_kv_submit_set(client.get(), "key", 3, value.data(), value.size(), 0, 0);
  };
  EXPECT_EQ(submit(most_set - 2), PULSE_KV_TOO_LARGE);
  EXPECT_EQ(submit(most_set - 3), PULSE_KV_OK);
  pulse_kv_completion done{};
  size_t count = 0;
  ASSERT_EQ(pulse_kv_wait(client.get(), &done, 1, &count, 60'000), PULSE_KV_OK);
  EXPECT_EQ(done.code, PULSE_KV_OK);
  EXPECT_EQ(client.Set(std::string(65'536, 'k'), ""), PULSE_KV_TOO_LARGE);
  EXPECT_EQ(client.Get("key"), std::string(most_set - 3, 'v'));
  // What other clients have stored.
  for (const size_t size : {most_get, most_get + 1}) {
    store_->WithPartition("other", true, [&](Partition& partition, uint64_t hash) {
      Item* item = nullptr;
      ASSERT_EQ(partition.Put("other", hash, size, {}, &item), Partition::Result::kStored);
      std::memset(item->value_bytes(), 'o', size);
    });
    ASSERT_EQ(pulse_kv_submit_get(client.get(), "other", 5, 0), PULSE_KV_OK);
    ASSERT_EQ(pulse_kv_wait(client.get(), &done, 1, &count, 60'000), PULSE_KV_OK);
    EXPECT_EQ(done.code, size == most_get ? PULSE_KV_OK : PULSE_KV_TOO_LARGE);
    EXPECT_EQ(done.value_size, size);
  }
  char few[2];
  size_t got = 0;
  EXPECT_EQ(client.Set("three", "123"), PULSE_KV_OK);
  EXPECT_EQ(pulse_kv_get(client.get(), "three", 5, few, sizeof(few), &got), PULSE_KV_TOO_LARGE);
  EXPECT_EQ(got, 3u);
}

TEST_F(KvClientTest, FullStore_Set_IsRefusedAndLosesNothing) {
  memory_bytes_ = kLeastMemory;
  Open();
  TestClient client(path());
  const std::string value(50'000, 'v');
  int stored = 0;
  int code;
  while ((code = client.Set("key" + std::to_string(stored), value)) == PULSE_KV_OK) ++stored;
  EXPECT_EQ(code, PULSE_KV_NO_MEMORY);
  ASSERT_GT(stored, 100);
  for (int i = 0; i < stored; ++i) ASSERT_EQ(client.Get("key" + std::to_string(i)), value) << i;
}

TEST_F(KvClientTest, Submit_WhileTheServerIsBusy_IsBusyInTheEnd) {
  Open();
  TestClient client(path());
  Hold("k");
  uint64_t taken = 0;
  int code;
  while ((code = pulse_kv_submit_set(client.get(), "k", 1, &taken, 8, 0, taken)) == PULSE_KV_OK) {
    ++taken;
  }
  EXPECT_EQ(code, PULSE_KV_BUSY);
  EXPECT_EQ(client.Get("k"), "(too much is under way; take completions first)");
  Release();
  for (uint64_t next = 0; next < taken;) {
    pulse_kv_completion done[100];
    size_t count = 0;
    ASSERT_EQ(pulse_kv_wait(client.get(), done, 100, &count, 60'000), PULSE_KV_OK);
    for (size_t i = 0; i < count; ++i) ASSERT_EQ(done[i].tag, next++);
  }
  uint64_t last = 0;
  size_t size = 0;
  EXPECT_EQ(pulse_kv_get(client.get(), "k", 1, &last, 8, &size), PULSE_KV_OK);
  EXPECT_EQ(last, taken - 1);
}

TEST_F(KvClientTest, Call_WithoutAnswerInTime_IsForgotten) {
  Open();
  // On a busy machine an answer may come too late at any time.
  std::unique_ptr<TestClient> opened;
  ASSERT_TRUE(Eventually([&] {
    opened = std::make_unique<TestClient>(path(), 20);
    return opened->open_code() == PULSE_KV_OK;
  }));
  TestClient& client = *opened;
  ASSERT_TRUE(Eventually([&] { return client.Set("k", "before") == PULSE_KV_OK; }));
  Hold("k");
  int timeouts = 0;
  // More than there are slots: those that have none wait, too.
  const int64_t begin = NowNanos();
  for (int i = 0; i < 6; ++i) timeouts += client.Set("k", "late") == PULSE_KV_TIMEOUT ? 1 : 0;
  EXPECT_EQ(timeouts, 6);
  EXPECT_GE(NowNanos() - begin, 6 * int64_t{20'000'000});
  EXPECT_EQ(pulse_kv_outstanding(client.get()), 0u);
  Release();
  // Its answer is not taken for one of those.
  ASSERT_TRUE(Eventually([&] { return client.Get("other") == "(no such item)"; }));
  EXPECT_TRUE(Eventually([&] { return client.Get("k") == "late"; }));
}

TEST_F(KvClientTest, Server_StoppedWhileAClientWaits_IsLost) {
  Open();
  TestClient client(path());
  Hold("k");
  int code = PULSE_KV_OK;
  std::thread waiter([&] { code = client.Set("k", "v"); });
  std::thread stopper([&] { server_.reset(); });
  waiter.join();
  Release();
  stopper.join();
  EXPECT_EQ(code, PULSE_KV_LOST);
  EXPECT_EQ(client.Get("k"), "(the server has ended or broke the protocol)");
  EXPECT_EQ(pulse_kv_flush(client.get()), PULSE_KV_LOST);
  EXPECT_EQ(pulse_kv_submit_get(client.get(), "k", 1, 0), PULSE_KV_LOST);
}

TEST_F(KvClientTest, Poll_AfterTheServersEnd_FindsOut) {
  Open();
  TestClient client(path());
  server_.reset();
  EXPECT_TRUE(Eventually([&] {
    pulse_kv_completion done;
    size_t count = 0;
    return pulse_kv_poll(client.get(), &done, 1, &count) == PULSE_KV_LOST;
  }));
}

TEST_F(KvClientTest, Open_WithoutAServer_SaysHowToStartOne) {
  const TestClient client(path());
  EXPECT_EQ(client.open_code(), PULSE_KV_NO_SERVER);
  EXPECT_NE(client.why().find("pulse kv --shm " + path()), std::string::npos) << client.why();
  const TestClient no_path("");
  EXPECT_EQ(no_path.open_code(), PULSE_KV_INVALID);
}

TEST_F(KvClientTest, Clients_BeyondTheLimit_AreRefusedUntilOneEnds) {
  Open(1, {.max_clients = 2});
  TestClient first(path());
  const TestClient second(path());
  ASSERT_EQ(first.Set("k", "v"), PULSE_KV_OK);
  {
    const TestClient third(path());
    EXPECT_EQ(third.open_code(), PULSE_KV_CLIENTS);
    EXPECT_NE(third.why().find("--shm-clients"), std::string::npos) << third.why();
  }
  first.Close();
  EXPECT_TRUE(Eventually([&] {
    TestClient another(path());
    return another.open_code() == PULSE_KV_OK && another.Get("k") == "v";
  }));
}

TEST_F(KvClientTest, Arguments_ThatMakeNoSense_AreRefused) {
  Open();
  TestClient client(path());
  size_t size = 0;
  pulse_kv_client* none = nullptr;
  EXPECT_EQ(pulse_kv_open(nullptr, 1, &none, nullptr, 0), PULSE_KV_INVALID);
  EXPECT_EQ(pulse_kv_get(client.get(), nullptr, 1, nullptr, 0, &size), PULSE_KV_INVALID);
  EXPECT_EQ(pulse_kv_get(client.get(), "k", 1, nullptr, 1, &size), PULSE_KV_INVALID);
  EXPECT_EQ(pulse_kv_get(client.get(), "k", 1, nullptr, 0, nullptr), PULSE_KV_INVALID);
  EXPECT_EQ(pulse_kv_get(nullptr, "k", 1, nullptr, 0, &size), PULSE_KV_INVALID);
  EXPECT_EQ(pulse_kv_set(client.get(), "k", 1, nullptr, 1, 0), PULSE_KV_INVALID);
  EXPECT_EQ(pulse_kv_wait(client.get(), nullptr, 0, &size, 1), PULSE_KV_INVALID);
  EXPECT_EQ(pulse_kv_poll(client.get(), nullptr, 1, &size), PULSE_KV_INVALID);
  EXPECT_STREQ(pulse_kv_text(12345), "unknown code");
  EXPECT_STREQ(pulse_kv_text(-1), "unknown code");
}

TEST_F(KvClientTest, Options_OutOfRange_NameTheOption) {
  Open();
  ShmOptions options;
  options.path = path();
  EXPECT_TRUE(absl::IsAlreadyExists(ShmServer::Open(store_.get(), options).status()));
  options.path += ".other";
  for (const auto& [change, name] :
       std::vector<std::pair<std::function<void(ShmOptions*)>, std::string>>{
           {[](ShmOptions* o) { o->threads = 0; }, "--shm-threads"},
           {[](ShmOptions* o) { o->threads = 17; }, "--shm-threads"},
           {[](ShmOptions* o) { o->max_clients = 0; }, "--shm-clients"},
           {[](ShmOptions* o) { o->value_bytes = 100; }, "--shm-value"},
           {[](ShmOptions* o) { o->value_bytes = 33 << 20; }, "--shm-value"}}) {
    ShmOptions changed = options;
    change(&changed);
    const absl::Status status = ShmServer::Open(store_.get(), changed).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    EXPECT_NE(testing_util::Text(status).find(name), std::string::npos) << status;
  }
}

// Threads with a client each, and one more thread that uses the store as loops do.
TEST_F(KvClientTest, Clients_OfManyThreads_DoNotDisturbEachOther) {
  Open(2, {.threads = 2, .max_clients = 4, .spin_nanos = 1000});
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([this, t] {
      for (int round = 0; round < 3; ++round) {
        TestClient client(path());
        ASSERT_EQ(client.open_code(), PULSE_KV_OK) << client.why();
        for (int i = 0; i < 300; ++i) {
          const std::string key = std::to_string(t) + ":" + std::to_string(i);
          const std::string value = key + "=" + std::to_string(round);
          ASSERT_EQ(client.Set(key, value), PULSE_KV_OK);
          ASSERT_EQ(client.Get(key), value);
        }
      }
    });
  }
  for (int i = 0; i < 300; ++i) {
    store_->WithPartition("1:5", true, [](Partition& partition, uint64_t hash) {
      if (const Item* item = partition.Find("1:5", hash); item != nullptr) {
        EXPECT_EQ(item->value().substr(0, 4), "1:5=");
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_TRUE(Eventually([&] { return server_->clients() == 0; }));
}

// A process that is killed with requests under way; its memory is given back, its whole batches are
// carried out or not, and others go on.
TEST_F(KvClientTest, Client_KilledInMidBatch_LeavesNothingBehind) {
  int to_child[2];
  int from_child[2];
  ASSERT_EQ(pipe(to_child), 0);
  ASSERT_EQ(pipe(from_child), 0);
  // Before there are threads. The child waits for the server.
  const pid_t child = fork();
  if (child == 0) {
    char byte = 0;
    if (read(to_child[0], &byte, 1) != 1) _exit(1);
    pulse_kv_client* client = nullptr;
    if (pulse_kv_open(path().c_str(), 60'000, &client, nullptr, 0) != PULSE_KV_OK) _exit(1);
    if (write(from_child[1], "c", 1) != 1) _exit(1);
    for (uint64_t tag = 0;; ++tag) {
      pulse_kv_completion done[64];
      size_t count = 0;
      const std::string key = "key" + std::to_string(tag % 1000);
      if (pulse_kv_submit_set(client, key.data(), key.size(), "value of 11", 11, 0, tag) ==
          PULSE_KV_BUSY) {
        pulse_kv_poll(client, done, 64, &count);
      }
    }
  }
  ASSERT_GT(child, 0);
  const size_t before = testing_util::MappingsNamed("pulse-region");
  Open(2);
  TestClient client(path());
  ASSERT_EQ(write(to_child[1], "g", 1), 1);
  char byte = 0;
  ASSERT_EQ(read(from_child[0], &byte, 1), 1);
  ASSERT_TRUE(Eventually([&] { return client.Get("key500") == "value of 11"; }));
  ASSERT_TRUE(Eventually([&] { return server_->clients() == 2; }));
  kill(child, SIGKILL);
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFSIGNALED(status));
  EXPECT_TRUE(Eventually([&] { return server_->clients() == 1; }));
  // Those of the client that is left: the server's, and its own.
  EXPECT_TRUE(
      Eventually([&] { return testing_util::MappingsNamed("pulse-region") == before + 2; }));
  EXPECT_EQ(client.Get("key500"), "value of 11");
  EXPECT_EQ(client.Set("k", "v"), PULSE_KV_OK);
  for (const int fd : {to_child[0], to_child[1], from_child[0], from_child[1]}) close(fd);
}

}  // namespace
}  // namespace pulse::kv
