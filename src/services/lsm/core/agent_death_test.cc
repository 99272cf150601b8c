// An agent process that is killed in the middle of its work: no operation fails, no byte is wrong,
// and the host goes on alone. (Its return: failover_test.cc.)
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <future>
#include <thread>

#include "base/testing.h"
#include "services/lsm/core/test_agent.h"
#include "services/lsm/core/test_db.h"
#include "services/lsm/core/test_support.h"

namespace pulse::lsm::test {
namespace {

using rocksdb::FSWritableFile;
using rocksdb::IOOptions;
using rocksdb::IOStatus;
using rocksdb::Status;

TEST(AgentDeathTest, Agent_Alive_WritesEverything) {
  ScratchDir dir;
  AgentProcess agent;
  auto fs = agent.Attach();
  std::mt19937_64 rng(41);
  const std::string bytes = RandomBytes(&rng, 5'000'001);
  auto f = CreateOutput(fs.get(), dir / "1.sst");
  ASSERT_TRUE(f->Append(bytes, kIo, nullptr).ok());
  ASSERT_TRUE(f->Close(kIo, nullptr).ok());
  SyncDirectory(fs.get(), dir.path());
  EXPECT_TRUE(ReadRaw(dir / "1.sst") == bytes);
  EXPECT_EQ(StatsOf(fs.get()).bytes_inline, 0u);
  EXPECT_EQ(StatsOf(fs.get()).failovers, 0u);
}

// A static object's, say, as a forked child ends by exit().
TEST(AgentDeathTest, ForkedChild_DestroysItsCopyOfTheFileSystem_ParentGoesOn) {
  ScratchDir dir;
  AgentProcess agent;
  auto fs = agent.Attach();
  std::unique_ptr<FSWritableFile> manifest;
  ASSERT_TRUE(
      fs->NewWritableFile(dir / "MANIFEST-000001", rocksdb::FileOptions(), &manifest, nullptr)
          .ok());  // with which the session makes a thread more
  const pid_t child = fork();
  if (child == 0) {
    fs.reset();
    _exit(0);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  for (int i = 0; i < 3; ++i) {
    auto f = CreateOutput(fs.get(), dir / (std::to_string(i) + ".sst"));
    ASSERT_TRUE(f->Append(std::string(3'000'000, 'x'), kIo, nullptr).ok());
    ASSERT_TRUE(f->Sync(kIo, nullptr).ok());
    ASSERT_TRUE(f->Close(kIo, nullptr).ok());
  }
  SyncDirectory(fs.get(), dir.path());
  EXPECT_EQ(StatsOf(fs.get()).failovers, 0u);
  EXPECT_EQ(StatsOf(fs.get()).bytes_inline, 0u);
}

// Stopped first, so that what it had been given is certainly unfinished when it is killed.
TEST(AgentDeathTest, UnacknowledgedWrites_AgentKilled_AreFinishedByTheHost) {
  for (const char* options :
       {"?write_threshold=64K", "?write_threshold=64K&io=buffered&sync_interval=64K",
        "?write_threshold=64K&mover=vmread"}) {
    SCOPED_TRACE(options);
    ScratchDir dir;
    AgentProcess agent;
    auto fs = agent.Attach(options);
    std::mt19937_64 rng(42);
    std::vector<std::unique_ptr<FSWritableFile>> files;
    std::vector<std::string> bytes(3);
    for (int i = 0; i < 3; ++i) {
      files.push_back(CreateOutput(fs.get(), dir / (std::to_string(i) + ".sst")));
      bytes[i] = RandomBytes(&rng, 500'000 + i);
      ASSERT_TRUE(files[i]->Append(bytes[i], kIo, nullptr).ok());
    }
    agent.Stop();
    for (int i = 0; i < 3; ++i) {
      const std::string more = RandomBytes(&rng, 3'000'000 + i);
      ASSERT_TRUE(files[i]->Append(more, kIo, nullptr).ok());
      bytes[i] += more;
    }
    ASSERT_TRUE(files[0]->Sync(kIo, nullptr).ok());
    ASSERT_TRUE(files[0]->Close(kIo, nullptr).ok());  // its sync_close will never be answered
    ASSERT_TRUE(files[1]->Flush(kIo, nullptr).ok());  // a padded page is under way
    agent.Kill();
    ASSERT_TRUE(files[1]->Append("after death", kIo, nullptr).ok());
    bytes[1] += "after death";
    ASSERT_TRUE(files[1]->Close(kIo, nullptr).ok());
    const std::string large = RandomBytes(&rng, 40 << 20);  // more than the queue has left
    ASSERT_TRUE(files[2]->Append(large, kIo, nullptr).ok());
    bytes[2] += large;
    ASSERT_TRUE(files[2]->Close(kIo, nullptr).ok());
    SyncDirectory(fs.get(), dir.path());
    // And a file that begins without an agent.
    auto later = CreateOutput(fs.get(), dir / "later.sst");
    ASSERT_TRUE(later->Append("alone", kIo, nullptr).ok());
    ASSERT_TRUE(later->Close(kIo, nullptr).ok());
    SyncDirectory(fs.get(), dir.path());
    for (int i = 0; i < 3; ++i) {
      EXPECT_TRUE(ReadRaw(dir / (std::to_string(i) + ".sst")) == bytes[i]) << i;
    }
    EXPECT_EQ(ReadRaw(dir / "later.sst"), "alone");
    EXPECT_EQ(StatsOf(fs.get()).failovers, 1u);
    EXPECT_GT(StatsOf(fs.get()).bytes_inline, 0u);
  }
}

TEST(AgentDeathTest, Writer_AgentKilledWhileQueueIsFull_GoesOn) {
  ScratchDir dir;
  AgentProcess agent;
  auto fs = agent.Attach("?queue=1M&write_threshold=128K");
  std::mt19937_64 rng(43);
  const std::string bytes = RandomBytes(&rng, 6'000'000);
  auto f = CreateOutput(fs.get(), dir / "1.sst");
  ASSERT_TRUE(f->Append(rocksdb::Slice(bytes.data(), 1000), kIo, nullptr).ok());
  agent.Stop();
  auto append = std::async(std::launch::async, [&] {
    return f->Append(rocksdb::Slice(bytes.data() + 1000, bytes.size() - 1000), kIo, nullptr);
  });
  EXPECT_TRUE(Eventually([&] { return StatsOf(fs.get()).backpressure_waits >= 1; }));
  agent.Kill();
  EXPECT_TRUE(append.get().ok());
  ASSERT_TRUE(f->Close(kIo, nullptr).ok());
  SyncDirectory(fs.get(), dir.path());
  EXPECT_TRUE(ReadRaw(dir / "1.sst") == bytes);
  EXPECT_EQ(StatsOf(fs.get()).failovers, 1u);
}

TEST(AgentDeathTest, Waiters_AgentKilled_AreWokenAndServed) {
  ScratchDir dir;
  AgentProcess agent;
  auto fs = agent.Attach();
  std::mt19937_64 rng(44);
  const std::string bytes = RandomBytes(&rng, 3'000'001);
  auto f = CreateOutput(fs.get(), dir / "1.sst");
  ASSERT_TRUE(f->Append(bytes, kIo, nullptr).ok());
  ASSERT_TRUE(f->Close(kIo, nullptr).ok());
  SyncDirectory(fs.get(), dir.path());
  IOOptions low;
  low.rate_limiter_priority = rocksdb::Env::IO_LOW;
  std::unique_ptr<rocksdb::FSRandomAccessFile> in;
  ASSERT_TRUE(fs->NewRandomAccessFile(dir / "1.sst", rocksdb::FileOptions(), &in, nullptr).ok());
  const auto read = [&](uint64_t offset, size_t n) {
    std::string scratch(n, '\0');
    rocksdb::Slice result;
    const IOStatus s = in->Read(offset, n, low, &result, scratch.data(), nullptr);
    return s.ok() && result == rocksdb::Slice(bytes).ToString().substr(offset, n);
  };
  EXPECT_TRUE(read(0, 100'000));
  agent.Stop();
  auto g = CreateOutput(fs.get(), dir / "2.sst");
  ASSERT_TRUE(g->Append("in flight", kIo, nullptr).ok());
  ASSERT_TRUE(g->Close(kIo, nullptr).ok());
  // One waits for read-ahead, one at the barrier, one for the file to be whole.
  auto reader = std::async(std::launch::async, [&] { return read(2'500'000, 400'000); });
  std::unique_ptr<FSWritableFile> manifest;
  ASSERT_TRUE(fs->NewWritableFile(dir / "MANIFEST-000001", {}, &manifest, nullptr).ok());
  auto barrier =
      std::async(std::launch::async, [&] { return manifest->Append("edit", kIo, nullptr).ok(); });
  auto linker = std::async(std::launch::async, [&] {
    return fs->LinkFile(dir / "2.sst", dir / "3.sst", kIo, nullptr).ok();
  });
  EXPECT_TRUE(StaysBlocked(barrier));
  agent.Kill();
  EXPECT_TRUE(reader.get());
  EXPECT_TRUE(barrier.get());
  EXPECT_TRUE(linker.get());
  EXPECT_EQ(ReadRaw(dir / "3.sst"), "in flight");
  for (uint64_t at = 0; at < bytes.size(); at += 65536) EXPECT_TRUE(read(at, 65536)) << at;
  EXPECT_EQ(StatsOf(fs.get()).failovers, 1u);
}

// Killed at a random moment under random writers.
TEST(AgentDeathTest, Writers_AgentKilledAtAnyMoment_LoseNothing) {
  const uint64_t seed = TestSeed();
  for (int round = 0; round < 8; ++round) {
    SCOPED_TRACE(round);
    std::mt19937_64 dice(seed + round);
    ScratchDir dir;
    AgentProcess agent;
    auto fs = agent.Attach("?queue=1M&write_threshold=32K");
    auto last =
        CreateOutput(fs.get(), dir / "last.sst");  // has a stream, whatever becomes of the others
    std::vector<std::thread> writers;
    for (int t = 0; t < 3; ++t) {
      writers.emplace_back([&, t] {
        std::mt19937_64 rng(seed + round * 10 + t);
        for (int n = 0; n < 6; ++n) {
          const std::string path = dir / (std::to_string(t * 10 + n) + ".sst");
          auto f = CreateOutput(fs.get(), path);
          std::string bytes;
          for (int i = 0; i < 40; ++i) {
            const std::string part = RandomBytes(&rng, rng() % 60'000);
            ASSERT_TRUE(f->Append(part, kIo, nullptr).ok());
            bytes += part;
            if (rng() % 5 == 0) {
              ASSERT_TRUE(f->Flush(kIo, nullptr).ok());
            }
            if (rng() % 20 == 0) {
              bytes.resize(bytes.size() - bytes.size() / 3);
              ASSERT_TRUE(f->Truncate(bytes.size(), kIo, nullptr).ok());
            }
          }
          ASSERT_TRUE(f->Close(kIo, nullptr).ok());
          if (rng() % 2 != 0) SyncDirectory(fs.get(), dir.path());
          uint64_t size = 0;
          ASSERT_TRUE(fs->GetFileSize(path, kIo, &size, nullptr).ok());
          ASSERT_EQ(size, bytes.size());
          std::unique_ptr<rocksdb::FSRandomAccessFile> in;
          ASSERT_TRUE(fs->NewRandomAccessFile(path, rocksdb::FileOptions(), &in, nullptr).ok());
          std::string scratch(bytes.size() + 1, '\0');
          rocksdb::Slice result;
          const IOStatus s = in->Read(0, scratch.size(), kIo, &result, scratch.data(), nullptr);
          ASSERT_TRUE(s.ok()) << s.ToString();
          ASSERT_TRUE(result == bytes) << path;
        }
      });
    }
    testing_util::RandomPause(&dice, std::chrono::milliseconds(80));
    agent.Kill();
    for (auto& t : writers) t.join();
    SyncDirectory(fs.get(), dir.path());
    ASSERT_TRUE(last->Append("x", kIo, nullptr).ok());
    ASSERT_TRUE(last->Close(kIo, nullptr).ok());
    SyncDirectory(fs.get(), dir.path());
    EXPECT_EQ(ReadRaw(dir / "last.sst"), "x");
    EXPECT_EQ(StatsOf(fs.get()).failovers, 1u);
    if (HasFatalFailure()) return;
  }
}

TEST(AgentDeathTest, Database_AgentKilledUnderLoad_LosesNothing) {
  const uint64_t seed = TestSeed();
  for (const char* options : {"", "?queue=1M&write_threshold=32K", "?io=buffered&sync=strict"}) {
    SCOPED_TRACE(options);
    std::mt19937_64 rng(seed);
    ScratchDir dir;
    AgentProcess agent;
    auto fs = agent.Attach(options);
    auto env = rocksdb::NewCompositeEnv(fs);
    rocksdb::Options db_options = SmallDbOptions(env.get());
    TestDb db(db_options, dir / "db", {"a"});
    db.family_options("a").enable_blob_files = true;
    db.family_options("a").min_blob_size = 500;
    ASSERT_TRUE(db.Open().ok());
    for (int i = 0; i < 10; ++i) {
      ASSERT_TRUE(db.Fill(&rng, 800, 100 + rng() % 900).ok());
      if (i == 4) agent.Kill();  // flushes and compactions are running
    }
    Status s = db.FlushAll();
    EXPECT_TRUE(s.ok()) << s.ToString();
    s = db.CompactAll();
    EXPECT_TRUE(s.ok()) << s.ToString();
    EXPECT_EQ(db.Difference(), "");
    EXPECT_EQ(StatsOf(fs.get()).failovers, 1u);
    // Opened again on the same FileSystem, and without it.
    db.Close();
    s = db.Open();
    ASSERT_TRUE(s.ok()) << s.ToString();
    EXPECT_EQ(db.Difference(), "");
    db.Close();
    EXPECT_EQ(DifferenceOnStock(db.path(), db.model(), db_options), "");
  }
}

}  // namespace
}  // namespace pulse::lsm::test
