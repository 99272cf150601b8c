// The fetch stage: compaction-like reads, served from what the agent reads ahead, are the file's
// bytes; whatever goes wrong there, the file itself is still to be had.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <future>
#include <thread>

#include "services/lsm/core/test_support.h"

namespace pulse::lsm::test {
namespace {

using rocksdb::FSRandomAccessFile;
using rocksdb::IOOptions;
using rocksdb::IOStatus;
using rocksdb::Slice;

constexpr size_t kRead = 64 << 10;

// As a compaction reads before RocksDB 8.3, and a user.
IOOptions Low() {
  IOOptions io;
  io.rate_limiter_priority = rocksdb::Env::IO_LOW;
  return io;
}

struct File {
  std::string path;
  std::string bytes;
  std::unique_ptr<FSRandomAccessFile> in;
};

class Fetcher {
 public:
  explicit Fetcher(const std::string& uri) : rig(MakeOptions(uri)) {}

  File Make(const std::string& name, size_t size, uint64_t seed = 1) {
    std::mt19937_64 rng(seed);
    File f{dir / (name + ".sst"), RandomBytes(&rng, size), nullptr};
    std::ofstream(f.path, std::ios::binary).write(f.bytes.data(), size);
    Open(&f);
    return f;
  }

  void Open(File* f) {
    const IOStatus s =
        rig.pulse->NewRandomAccessFile(f->path, rocksdb::FileOptions(), &f->in, nullptr);
    EXPECT_TRUE(s.ok()) << s.ToString();
  }

  // Reads and compares.
  static bool Matches(const File& f, uint64_t offset, size_t n, const IOOptions& io = Low()) {
    std::string scratch(n, '\1');
    Slice result;
    const IOStatus s = f.in->Read(offset, n, io, &result, scratch.data(), nullptr);
    EXPECT_TRUE(s.ok()) << s.ToString();
    const std::string want = offset < f.bytes.size() ? f.bytes.substr(offset, n) : "";
    return result == want;
  }

  static bool ScanMatches(const File& f, size_t step = kRead) {
    for (uint64_t at = 0; at < f.bytes.size() + step; at += step) {
      if (!Matches(f, at, step)) return false;
    }
    return true;
  }

  ScratchDir dir;
  Rig rig;
};

struct Config {
  const char* name;
  const char* uri;
};

class FetchTest : public ::testing::TestWithParam<Config> {
 protected:
  Fetcher fetcher_{GetParam().uri};
};

TEST_P(FetchTest, Read_Sequential_MatchesTheFile) {
  for (size_t size : {size_t{1}, size_t{4096}, size_t{65536}, size_t{65537}, size_t{262144},
                      size_t{262143}, size_t{1'000'001}, size_t{5'000'511}, size_t{5'000'512}}) {
    const File f = fetcher_.Make("f", size, size);
    EXPECT_TRUE(Fetcher::ScanMatches(f)) << size;
    EXPECT_TRUE(Fetcher::ScanMatches(f, 40'001)) << size;
    EXPECT_TRUE(Fetcher::ScanMatches(f, 700'000)) << size;
  }
  EXPECT_GT(fetcher_.rig.stats().bytes_fetched, 5'000'000u);
}

TEST_P(FetchTest, Read_JumpingAndOverlapping_MatchesTheFile) {
  std::mt19937_64 rng(TestSeed());
  const File f = fetcher_.Make("f", 6'000'001);
  uint64_t at = 0;
  for (int i = 0; i < 600; ++i) {
    switch (rng() % 6) {
      case 0:  // anywhere
        at = rng() % (f.bytes.size() + 100'000);
        break;
      case 1:  // back a little
        at -= std::min<uint64_t>(at, rng() % 200'000);
        break;
      case 2:  // forward a little
        at += rng() % 200'000;
        break;
      default:
        break;
    }
    const size_t n = 1 + rng() % (rng() % 3 == 0 ? 600'000 : 70'000);
    ASSERT_TRUE(Fetcher::Matches(f, at, n)) << "step " << i << ": " << at << "+" << n;
    at += n;
    if (at > f.bytes.size() + 100'000) at = 0;
  }
}

TEST_P(FetchTest, Read_FetchedPastTheEnd_IsShort) {
  const File f = fetcher_.Make("f", 300'001);
  EXPECT_TRUE(Fetcher::Matches(f, 300'000, kRead));
  EXPECT_TRUE(Fetcher::Matches(f, 300'001, kRead));
  EXPECT_TRUE(Fetcher::Matches(f, 10'000'000, kRead));
  EXPECT_TRUE(Fetcher::Matches(f, 250'000, 1 << 20));
  EXPECT_TRUE(Fetcher::Matches(f, 0, 1 << 20));
}

TEST_P(FetchTest, Read_Concurrent_MatchesTheFile) {
  const uint64_t seed = TestSeed();
  std::vector<File> files;
  for (int i = 0; i < 4; ++i) files.push_back(fetcher_.Make(std::to_string(i), 2'000'003, i));
  std::vector<std::thread> threads;
  for (int t = 0; t < 6; ++t) {
    threads.emplace_back([&, t] {
      std::mt19937_64 rng(seed + t);
      for (int i = 0; i < 6; ++i) {
        const File& f = files[rng() % files.size()];
        if (rng() % 2 != 0) {
          EXPECT_TRUE(Fetcher::ScanMatches(f));
        } else {
          for (int j = 0; j < 30; ++j) {
            EXPECT_TRUE(Fetcher::Matches(f, rng() % f.bytes.size(), kRead + rng() % 300'000));
          }
        }
      }
    });
  }
  for (auto& t : threads) t.join();
}

TEST_P(FetchTest, Read_MoreFilesThanThePool_MatchesTheFiles) {
  std::vector<File> files;
  for (int i = 0; i < 40; ++i) files.push_back(fetcher_.Make(std::to_string(i), 700'000 + i, i));
  for (uint64_t at = 0; at < 700'000; at += kRead) {
    for (const File& f : files) ASSERT_TRUE(Fetcher::Matches(f, at, kRead)) << f.path << " " << at;
  }
  files.clear();
  // What they held is to be had again.
  const Stats before = fetcher_.rig.stats();
  const File f = fetcher_.Make("after", 3'000'000);
  EXPECT_TRUE(Fetcher::ScanMatches(f));
  EXPECT_GE(fetcher_.rig.stats().bytes_fetched - before.bytes_fetched, 3'000'000u);
}

TEST_P(FetchTest, Destructor_ReadsInFlight_IsSafe) {
  fetcher_.rig.script.SetRule([](const IoRequest& r, const std::string&) {
    return r.op == IoOp::kRead ? Verdict{Verdict::kDelay, 1500} : Verdict{};
  });
  for (int i = 0; i < 30; ++i) {
    File f = fetcher_.Make("f", 4'000'000, i);
    for (int j = 0; j <= i % 4; ++j) ASSERT_TRUE(Fetcher::Matches(f, j * kRead, kRead));
    f.in.reset();  // the windows' next reads are under way
  }
  fetcher_.rig.script.Clear();
  const File f = fetcher_.Make("after", 3'000'000);
  EXPECT_TRUE(Fetcher::ScanMatches(f));
}

INSTANTIATE_TEST_SUITE_P(
    All, FetchTest,
    ::testing::Values(Config{"threads", "pulse://"}, Config{"uring", "pulse://?engine=io_uring"},
                      Config{"vmread", "pulse://?mover=vmread"},
                      Config{"buffered", "pulse://?io=buffered"},
                      Config{"small_pool", "pulse://?fetch_memory=1M&fetch_chunk=64K"},
                      Config{"four_chunks", "pulse://?fetch_memory=1M&fetch_chunk=256K"},
                      Config{"odd_chunks", "pulse://?fetch_memory=3M&fetch_chunk=69632"}),
    [](const auto& p) { return p.param.name; });

TEST(FetchFaultTest, AgentRead_Fails_FileIsRead) {
  for (int nth : {1, 2, 5}) {
    Fetcher fetcher("pulse://");
    const File f = fetcher.Make("f", 3'000'000);
    fetcher.rig.script.FailFrom(IoOp::kRead, nth, EIO);
    EXPECT_TRUE(Fetcher::ScanMatches(f)) << nth;
    EXPECT_GE(fetcher.rig.stats().fetch_misses, 1u);
    fetcher.rig.script.Clear();
    const Stats before = fetcher.rig.stats();
    EXPECT_TRUE(Fetcher::ScanMatches(f)) << nth;
    EXPECT_GT(fetcher.rig.stats().bytes_fetched, before.bytes_fetched);
  }
}

TEST(FetchFaultTest, AgentRead_ShortOrInterrupted_IsContinued) {
  Fetcher fetcher("pulse://");
  auto rng = std::make_shared<std::mt19937_64>(TestSeed());
  fetcher.rig.script.SetRule([rng](const IoRequest& r, const std::string&) {
    if (r.op != IoOp::kRead) return Verdict{};
    const uint64_t dice = (*rng)() % 100;
    if (dice < 40) return Verdict{Verdict::kShorten};
    if (dice < 50) return Verdict{Verdict::kFail, EINTR};
    if (dice < 60) return Verdict{Verdict::kDelay, 1000};
    return Verdict{};
  });
  const File f = fetcher.Make("f", 5'000'123);
  EXPECT_TRUE(Fetcher::ScanMatches(f));
  EXPECT_TRUE(Fetcher::ScanMatches(f, 200'000));
}

TEST(FetchFaultTest, Read_AgentReadHeld_Waits) {
  Fetcher fetcher("pulse://");
  const File f = fetcher.Make("f", 1'000'000);
  fetcher.rig.script.Hold(IoOp::kRead);
  auto read = std::async(std::launch::async, [&] { return Fetcher::Matches(f, 0, kRead); });
  ASSERT_TRUE(fetcher.rig.script.WaitHeld(1));
  EXPECT_TRUE(StaysBlocked(read));
  fetcher.rig.script.Release();
  EXPECT_TRUE(read.get());
  EXPECT_GE(fetcher.rig.stats().fetch_waits, 1u);
  EXPECT_GT(fetcher.rig.stats().fetch_wait_nanos, 0u);
}

// A reader that waits for its chunk must not hold up another whose bytes are there.
TEST(FetchFaultTest, Read_OtherReadHeld_DoesNotWait) {
  Fetcher fetcher("pulse://");
  const File slow = fetcher.Make("slow", 1'000'000);
  const File fast = fetcher.Make("fast", 3'000'000);
  fetcher.rig.script.Hold(IoOp::kRead, "slow.sst");
  auto read = std::async(std::launch::async, [&] { return Fetcher::Matches(slow, 0, kRead); });
  ASSERT_TRUE(fetcher.rig.script.WaitHeld(1));
  EXPECT_TRUE(Fetcher::ScanMatches(fast));
  EXPECT_EQ(read.wait_for(std::chrono::seconds(0)), std::future_status::timeout);
  fetcher.rig.script.Release();
  EXPECT_TRUE(read.get());
}

TEST(FetchFaultTest, Read_SmallOrForeground_IsNotFetched) {
  Fetcher fetcher("pulse://");
  const File f = fetcher.Make("f", 1'000'000);
  EXPECT_TRUE(Fetcher::Matches(f, 0, kRead, IOOptions()));
  EXPECT_TRUE(Fetcher::Matches(f, 0, 4096));
  EXPECT_EQ(fetcher.rig.stats().bytes_fetched, 0u);
  EXPECT_TRUE(Fetcher::Matches(f, 0, kRead));
  EXPECT_EQ(fetcher.rig.stats().bytes_fetched, kRead);

  Fetcher off("pulse://?fetch=off");
  const File g = off.Make("g", 1'000'000);
  EXPECT_TRUE(Fetcher::ScanMatches(g));
  EXPECT_EQ(off.rig.stats().bytes_fetched, 0u);
}

TEST(FetchFaultTest, Read_DeletedFile_UsesItsHandle) {
  Fetcher fetcher("pulse://");
  const File f = fetcher.Make("f", 1'000'000);
  ASSERT_TRUE(fetcher.rig.pulse->DeleteFile(f.path, IOOptions(), nullptr).ok());
  EXPECT_TRUE(Fetcher::ScanMatches(f));
}

}  // namespace
}  // namespace pulse::lsm::test
