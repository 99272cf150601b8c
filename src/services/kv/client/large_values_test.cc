// Values that no buffer of a shared-memory client holds: they are stored and read whole, by the
// calls for one key, up to what the store takes.
#include <dirent.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <latch>
#include <map>
#include <memory>
#include <random>
#include <thread>

#include "services/kv/client/test_shm.h"

namespace pulse::kv {
namespace {

using testing_util::Eventually;

class LargeValuesTest : public ShmTest {
 protected:
  // Of a value, so that two that are mixed are seen: one letter, which says how many there are.
  static std::string Whole(uint64_t draw) {
    const char letter = static_cast<char>('a' + draw % 26);
    return std::string(size_t{50'000} * static_cast<size_t>(letter - 'a' + 1), letter);
  }
  static bool IsWhole(const std::string& value) {
    return !value.empty() && value[0] >= 'a' && value[0] <= 'z' &&
           value == Whole(static_cast<uint64_t>(value[0] - 'a'));
  }
  // A client whose calls wait for so many milliseconds; it may take several to open one.
  std::unique_ptr<TestClient> Impatient(int timeout_ms) {
    std::unique_ptr<TestClient> client;
    const bool opened = Eventually([&] {
      client = std::make_unique<TestClient>(path(), timeout_ms);
      return client->open_code() == PULSE_KV_OK;
    });
    return opened ? std::move(client) : nullptr;
  }
  // Has the partition of a key, so that the server answers nothing of it until Release.
  class Holder {
   public:
    Holder(KvStore* store, const std::string& key)
        : thread_([=, this] {
            store->WithPartition(key, true, [&](Partition&, uint64_t) {
              held_.count_down();
              release_.wait();
            });
          }) {
      held_.wait();
    }
    void Release() {
      release_.count_down();
      thread_.join();
    }

   private:
    std::latch held_{1};
    std::latch release_{1};
    std::thread thread_;
  };
  // Bytes of the clients' memories for such values.
  static uint64_t FarBytes() {
    uint64_t bytes = 0;
    const std::unique_ptr<DIR, int (*)(DIR*)> directory(opendir("/proc/self/fd"), &closedir);
    while (const dirent* entry = readdir(directory.get())) {
      struct stat status;
      if (fstatat(dirfd(directory.get()), entry->d_name, &status, 0) != 0) continue;
      if (static_cast<uint64_t>(status.st_size) != kShmFarBytes) continue;
      bytes = std::max(bytes, static_cast<uint64_t>(status.st_blocks) * 512);
    }
    return bytes;
  }
};

TEST_F(LargeValuesTest, RandomSizes_AroundTheLimitAndBeyond_AnswerAsAMap) {
  memory_bytes_ = uint64_t{256} << 20;
  Open(2, {.threads = 2, .value_bytes = 4096});
  TestClient client(path());
  ASSERT_EQ(client.open_code(), PULSE_KV_OK) << client.why();
  size_t most_set = 0;
  size_t most_get = 0;
  pulse_kv_limits(client.get(), &most_set, &most_get);
  const uint64_t seed = testing_util::TestSeed();
  std::mt19937_64 random(seed);
  std::map<std::string, std::string> model;
  for (int i = 0; i < 1500; ++i) {
    const std::string key =
        std::string(random() % 4 == 0 ? random() % 3000 : 1, 'k') + std::to_string(random() % 10);
    if (model.count(key) == 0 && model.size() >= 20) {
      ASSERT_EQ(client.Delete(model.begin()->first), PULSE_KV_OK);
      model.erase(model.begin());
    }
    const uint64_t draw = random() % 10;
    const auto it = model.find(key);
    if (draw < 5) {
      const size_t edge = random() % 2 == 0 ? most_set - key.size() : most_get;
      const size_t size = random() % 3 == 0   ? edge - 3 + random() % 6
                          : random() % 2 == 0 ? random() % 20'000
                                              : random() % 5'000'000;
      std::string value(size, static_cast<char>('a' + random() % 26));
      for (size_t at = 0; at < size; at += 4096) value[at] = static_cast<char>(at >> 12);
      ASSERT_EQ(client.Set(key, value), PULSE_KV_OK) << size;
      model[key] = std::move(value);
    } else if (draw < 9) {
      const std::string value = client.Get(key);
      ASSERT_TRUE(value == (it == model.end() ? "(no such item)" : it->second)) << value.size();
    } else {
      ASSERT_EQ(client.Delete(key), it == model.end() ? PULSE_KV_NOT_FOUND : PULSE_KV_OK);
      if (it != model.end()) model.erase(it);
    }
  }
}

TEST_F(LargeValuesTest, TtlAndWatch_AreThoseOfSmallOnes) {
  Open();
  TestClient client(path());
  const std::string value(1'000'000, 'v');
  redis::WatchTable::Set watches(store_->watch_table());
  const std::string_view key = "key";
  std::string error;
  ASSERT_TRUE(store_->Watch(&key, 1, true, &watches, &error));
  EXPECT_EQ(client.Set("key", value, 500), PULSE_KV_OK);
  EXPECT_TRUE(watches.Broken(now_ms_));
  now_ms_ += 499;
  EXPECT_TRUE(client.Get("key") == value);
  now_ms_ += 1;
  EXPECT_EQ(client.Get("key"), "(no such item)");
  EXPECT_EQ(pulse_kv_set(client.get(), "key", 3, value.data(), value.size(), UINT64_MAX),
            PULSE_KV_INVALID);
}

TEST_F(LargeValuesTest, RoomThatIsTooSmall_CopiesNothingAndTellsTheSize) {
  Open();
  TestClient client(path());
  ASSERT_EQ(client.Set("key", std::string(300'000, 'v')), PULSE_KV_OK);
  for (const size_t room : {size_t{0}, size_t{10}, size_t{200'000}, size_t{299'999}}) {
    std::string value(room, '-');
    size_t size = 0;
    EXPECT_EQ(pulse_kv_get(client.get(), "key", 3, value.data(), room, &size), PULSE_KV_TOO_LARGE);
    EXPECT_EQ(size, 300'000u);
    EXPECT_EQ(value, std::string(room, '-'));
  }
  std::string value(300'000, '-');
  size_t size = 0;
  EXPECT_EQ(pulse_kv_get(client.get(), "key", 3, value.data(), value.size(), &size), PULSE_KV_OK);
  EXPECT_EQ(size, 300'000u);
  EXPECT_TRUE(value == std::string(300'000, 'v'));
}

TEST_F(LargeValuesTest, BeyondTheStoresLimits_IsAnErrorAndChangesNothing) {
  max_value_ = 3'000'000;
  Open();
  TestClient client(path());
  const std::string largest(max_value_, 'v');
  ASSERT_EQ(client.Set("key", largest), PULSE_KV_OK);
  EXPECT_EQ(client.Set("key", std::string(max_value_ + 1, 'w')), PULSE_KV_TOO_LARGE);
  EXPECT_EQ(client.Set(std::string(65'536, 'k'), largest), PULSE_KV_TOO_LARGE);
  // Larger than any store takes: it is not even read.
  const size_t huge = kShmFarBytes + 1;
  void* at = mmap(nullptr, huge, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  ASSERT_NE(at, MAP_FAILED);
  EXPECT_EQ(pulse_kv_set(client.get(), "key", 3, at, huge, 0), PULSE_KV_TOO_LARGE);
  munmap(at, huge);
  EXPECT_TRUE(client.Get("key") == largest);
}

TEST_F(LargeValuesTest, LargerThanAPartitionTakes_IsTooLarge_AndAFullStoreHasNoMemory) {
  memory_bytes_ = kLeastMemory;
  Open();
  TestClient client(path());
  EXPECT_EQ(client.Set("key", std::string(memory_bytes_ / 2 + 1, 'v')), PULSE_KV_TOO_LARGE);
  int stored = 0;
  int code;
  while ((code = client.Set("key" + std::to_string(stored), Whole(20))) == PULSE_KV_OK) ++stored;
  EXPECT_EQ(code, PULSE_KV_NO_MEMORY);
  ASSERT_GT(stored, 3);
  for (int i = 0; i < stored; ++i) {
    ASSERT_TRUE(client.Get("key" + std::to_string(i)) == Whole(20)) << i;
  }
}

TEST_F(LargeValuesTest, Memory_OfALargeValue_IsGivenBackBehindIt) {
  memory_bytes_ = uint64_t{256} << 20;
  Open();
  TestClient client(path());
  ASSERT_EQ(client.Set("key", std::string(8'000'000, 'v')), PULSE_KV_OK);
  EXPECT_LE(FarBytes(), uint64_t{4} << 20);
  EXPECT_EQ(client.Get("key").size(), 8'000'000u);
  EXPECT_LE(FarBytes(), uint64_t{4} << 20);
}

TEST_F(LargeValuesTest, Call_WhileOthersAreUnderWay_IsBusy) {
  Open();
  TestClient client(path());
  ASSERT_EQ(pulse_kv_submit_get(client.get(), "key", 3, 7), PULSE_KV_OK);
  EXPECT_EQ(client.Set("key", Whole(9)), PULSE_KV_BUSY);
  pulse_kv_completion done;
  size_t count = 0;
  ASSERT_EQ(pulse_kv_wait(client.get(), &done, 1, &count, 60'000), PULSE_KV_OK);
  EXPECT_EQ(done.tag, 7u);
  EXPECT_EQ(client.Set("key", Whole(9)), PULSE_KV_OK);
}

// The server may still carry it out, so the memory stays its own until it has.
TEST_F(LargeValuesTest, Call_WithoutAnswerInTime_KeepsItsValueWhole) {
  Open();
  const std::unique_ptr<TestClient> client = Impatient(20);
  ASSERT_NE(client, nullptr);
  Holder holder(store_.get(), "key");
  EXPECT_EQ(client->Set("key", Whole(3)), PULSE_KV_TIMEOUT);
  EXPECT_EQ(client->Set("other", Whole(4)), PULSE_KV_TIMEOUT);
  EXPECT_EQ(client->Set("small", "v"), PULSE_KV_TIMEOUT);
  holder.Release();
  // On a busy machine an answer may come too late at any time.
  EXPECT_TRUE(Eventually([&] { return client->Get("key") == Whole(3); }));
  EXPECT_TRUE(Eventually([&] { return client->Get("other") == "(no such item)"; }));
  EXPECT_TRUE(Eventually([&] { return client->Set("other", Whole(4)) == PULSE_KV_OK; }));
  EXPECT_TRUE(Eventually([&] { return client->Get("other") == Whole(4); }));
}

// What it took is given back then, whichever call sees the answer.
TEST_F(LargeValuesTest, Memory_OfACallWithoutAnswerInTime_IsGivenBackBehindIt) {
  memory_bytes_ = uint64_t{256} << 20;
  Open();
  const std::unique_ptr<TestClient> client = Impatient(50);
  ASSERT_NE(client, nullptr);
  const std::string value(8'000'000, 'v');
  Holder holder(store_.get(), "key");
  EXPECT_EQ(client->Set("key", value), PULSE_KV_TIMEOUT);
  EXPECT_GE(FarBytes(), value.size());
  holder.Release();
  EXPECT_TRUE(Eventually([&] { return client->Set("small", "v") == PULSE_KV_OK; }));
  EXPECT_LE(FarBytes(), uint64_t{4} << 20);
  EXPECT_TRUE(Eventually([&] { return client->Get("key") == value; }));
}

// The system ends programs that write beyond it. A child, as it is the client's limit alone.
TEST_F(LargeValuesTest, LimitOfFileSizes_IsAnErrorAndNoSignal) {
  memory_bytes_ = uint64_t{256} << 20;
  int go[2];
  ASSERT_EQ(pipe(go), 0);
  const pid_t child = fork();  // before there are threads
  if (child == 0) {
    signal(SIGXFSZ, SIG_DFL);
    char byte = 0;
    if (read(go[0], &byte, 1) != 1) _exit(100);
    const auto limit = [](rlim_t bytes) {
      const rlimit wanted{bytes, RLIM_INFINITY};
      if (setrlimit(RLIMIT_FSIZE, &wanted) != 0) _exit(101);
    };
    // Limited before it opens, by less than a page, and by some; then behind that.
    limit(100);
    TestClient none(path());
    if (none.open_code() != PULSE_KV_OK) _exit(1);
    if (none.Set("small", "v") != PULSE_KV_OK || none.Get("small") != "v") _exit(2);
    if (none.Set("key", std::string(300'000, 'v')) != PULSE_KV_SYSTEM) _exit(3);
    limit(1'000'000);
    TestClient some(path());
    if (some.open_code() != PULSE_KV_OK) _exit(4);
    const std::string large(999'424, 'v');  // whole pages
    if (some.Set("key", large) != PULSE_KV_OK || some.Get("key") != large) _exit(5);
    if (some.Set("key", large + "v") != PULSE_KV_SYSTEM) _exit(6);
    if (none.Get("key") != std::string("(") + pulse_kv_text(PULSE_KV_SYSTEM) + ")") _exit(7);
    limit(500'000);
    if (some.Set("key", large) != PULSE_KV_SYSTEM) _exit(8);
    if (some.Get("key") != large) _exit(9);
    _exit(0);
  }
  ASSERT_GT(child, 0);
  rlimit own{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &own), 0);
  Open();
  ASSERT_EQ(write(go[1], "g", 1), 1);
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  for (const int fd : go) close(fd);
  if (own.rlim_max != RLIM_INFINITY) GTEST_SKIP() << "files are limited here already";
  ASSERT_TRUE(WIFEXITED(status)) << WTERMSIG(status);
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

TEST_F(LargeValuesTest, ClientsOfManyThreads_ReadWholeValues) {
  memory_bytes_ = uint64_t{256} << 20;
  Open(2, {.threads = 2, .max_clients = 4});
  const uint64_t seed = testing_util::TestSeed();
  std::vector<std::thread> threads;
  for (uint64_t t = 0; t < 4; ++t) {
    threads.emplace_back([this, t, seed] {
      std::mt19937_64 random(seed + t);
      TestClient client(path());
      ASSERT_EQ(client.open_code(), PULSE_KV_OK) << client.why();
      for (int i = 0; i < 150; ++i) {
        const std::string key = std::to_string(random() % 3);
        if (random() % 2 == 0) {
          ASSERT_EQ(client.Set(key, Whole(random())), PULSE_KV_OK);
        } else if (const std::string value = client.Get(key); value != "(no such item)") {
          ASSERT_TRUE(IsWhole(value)) << value.size() << " " << value.substr(0, 30);
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST_F(LargeValuesTest, Clients_KilledInTheMidst_LeaveWholeValues) {
  struct Child {
    pid_t pid = 0;
    int go[2];
    int did[2];
  };
  std::vector<Child> children(8);
  // Before there are threads. Each waits until it is its turn.
  for (size_t i = 0; i < children.size(); ++i) {
    Child& c = children[i];
    ASSERT_EQ(pipe(c.go), 0);
    ASSERT_EQ(pipe(c.did), 0);
    c.pid = fork();
    if (c.pid == 0) {
      char byte = 0;
      if (read(c.go[0], &byte, 1) != 1) _exit(1);
      TestClient client(path());
      if (client.open_code() != PULSE_KV_OK) _exit(1);
      for (uint64_t draw = i;; draw += 7) {
        if (client.Set("key", Whole(draw)) != PULSE_KV_OK) _exit(1);
        if (client.Get("key") != Whole(draw)) _exit(1);
        if (write(c.did[1], "s", 1) != 1) _exit(1);
      }
    }
    ASSERT_GT(c.pid, 0);
    close(c.did[1]);
  }
  const uint64_t seed = testing_util::TestSeed();
  std::mt19937_64 random(seed);
  Open();
  TestClient client(path());
  for (const Child& c : children) {
    ASSERT_EQ(write(c.go[1], "g", 1), 1);
    char byte = 0;
    for (uint64_t sets = 1 + random() % 20; sets > 0; --sets)
      ASSERT_EQ(read(c.did[0], &byte, 1), 1);
    const int64_t until = NowNanos() + static_cast<int64_t>(random() % 2'000'000);
    while (NowNanos() < until) {
    }
    kill(c.pid, SIGKILL);
    int status = 0;
    ASSERT_EQ(waitpid(c.pid, &status, 0), c.pid);
    EXPECT_TRUE(WIFSIGNALED(status));
    const std::string value = client.Get("key");
    ASSERT_TRUE(IsWhole(value)) << value.size() << " " << value.substr(0, 30);
    ASSERT_EQ(client.Set("mine", Whole(random())), PULSE_KV_OK);
    for (const int fd : {c.go[0], c.go[1], c.did[0]}) close(fd);
  }
  EXPECT_TRUE(Eventually([&] { return server_->clients() == 1; }));
}

}  // namespace
}  // namespace pulse::kv
