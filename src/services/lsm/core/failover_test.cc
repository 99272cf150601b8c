// An agent that hangs, comes back, or is another one: no operation fails, no byte is wrong, and new
// outputs return to the agent.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <future>
#include <thread>

#include "agent/socket_server.h"
#include "base/testing.h"
#include "services/lsm/core/agent_service.h"
#include "services/lsm/core/spec.h"
#include "services/lsm/core/test_agent.h"
#include "services/lsm/core/test_db.h"
#include "services/lsm/core/test_support.h"

namespace pulse::lsm::test {
namespace {

using rocksdb::FSWritableFile;
using rocksdb::IOOptions;
using rocksdb::IOStatus;
using rocksdb::Slice;
using rocksdb::Status;
using testing_util::RandomPause;

bool WaitReconnects(rocksdb::FileSystem* fs, uint64_t n) {
  return Eventually([&] { return StatsOf(fs).reconnects >= n; });
}

// Writes a file through `fs` and says whether the agent wrote all of it.
bool AgentWritesOnce(rocksdb::FileSystem* fs, const std::string& path, std::mt19937_64* rng) {
  const Stats before = StatsOf(fs);
  const std::string bytes = RandomBytes(rng, 2'000'001);
  auto f = CreateOutput(fs, path);
  EXPECT_TRUE(f->Append(bytes, kIo, nullptr).ok());
  EXPECT_TRUE(f->Close(kIo, nullptr).ok());
  SyncDirectory(fs, std::filesystem::path(path).parent_path());
  EXPECT_TRUE(ReadRaw(path) == bytes);
  const Stats after = StatsOf(fs);
  return after.bytes_inline == before.bytes_inline &&
         after.bytes_persisted > before.bytes_persisted;
}

// On a busy machine, an agent may be taken for hung once more: so not at the first try.
bool AgentWrites(rocksdb::FileSystem* fs, const std::string& path, std::mt19937_64* rng) {
  return Eventually([&] { return AgentWritesOnce(fs, path, rng); });
}

TEST(FailoverTest, IdleAgent_KilledAndReplaced_IsMissedAndSuccessorUsed) {
  ScratchDir dir;
  AgentProcess agent;
  auto fs = agent.Attach();
  std::mt19937_64 rng(1);
  agent.Kill();
  ASSERT_TRUE(Eventually([&] { return StatsOf(fs.get()).failovers == 1; }));
  EXPECT_FALSE(AgentWritesOnce(fs.get(), dir / "1.sst", &rng));
  agent.Start();
  ASSERT_TRUE(WaitReconnects(fs.get(), 1));
  EXPECT_TRUE(AgentWrites(fs.get(), dir / "2.sst", &rng));
  EXPECT_GT(StatsOf(fs.get()).agentless_nanos, 0u);
  agent.Terminate();
  agent.Start();
  ASSERT_TRUE(WaitReconnects(fs.get(), 2));
  EXPECT_TRUE(AgentWrites(fs.get(), dir / "3.sst", &rng));
  EXPECT_GE(StatsOf(fs.get()).failovers, 2u);
}

// What the stopped agent was asked to do, it does once it goes on: too late to harm anybody.
// The agent hangs after its hello, and nothing but an attachment is outstanding.
TEST(FailoverTest, Agent_HangsWhileAttaching_IsLeftBehind) {
  ScratchDir dir;
  AgentProcess agent;
  std::mt19937_64 rng(TestSeed());
  for (const bool prewarmed : {false, true}) {
    auto fs = agent.Attach("?agent_deadline=1000");
    agent.Stop();
    if (prewarmed) {  // then another thread attaches, too
      std::unique_ptr<FSWritableFile> manifest;
      ASSERT_TRUE(
          fs->NewWritableFile(dir / "MANIFEST-000001", rocksdb::FileOptions(), &manifest, nullptr)
              .ok());
    }
    const std::string bytes = RandomBytes(&rng, 1'000'001);
    auto f = CreateOutput(fs.get(), dir / "000002.sst");
    EXPECT_TRUE(f->Append(bytes, kIo, nullptr).ok());
    EXPECT_TRUE(f->Close(kIo, nullptr).ok());
    SyncDirectory(fs.get(), dir.path());
    EXPECT_TRUE(ReadRaw(dir / "000002.sst") == bytes);
    EXPECT_EQ(StatsOf(fs.get()).failovers, 1u);
    agent.Continue();
    EXPECT_TRUE(WaitReconnects(fs.get(), 1));
    EXPECT_TRUE(AgentWrites(fs.get(), dir / "000003.sst", &rng));
  }
}

TEST(FailoverTest, Agent_HangsThenWakes_IsLeftBehindAndDoesNoHarm) {
  for (const char* options : {"", "&io=buffered", "&mover=vmread"}) {
    SCOPED_TRACE(options);
    ScratchDir dir;
    AgentProcess agent;
    auto fs = agent.Attach(std::string("?agent_deadline=1000&write_threshold=64K") + options);
    std::mt19937_64 rng(2);
    std::vector<std::unique_ptr<FSWritableFile>> files;
    std::vector<std::string> bytes(4);
    for (int i = 0; i < 3; ++i) {
      files.push_back(CreateOutput(fs.get(), dir / (std::to_string(i) + ".sst")));
      files.back()->SetPreallocationBlockSize(8 << 20);
      bytes[i] = RandomBytes(&rng, 500'000 + i);
      ASSERT_TRUE(files[i]->Append(bytes[i], kIo, nullptr).ok());
    }
    const uint64_t before = agent.StopUnder(fs.get());
    for (int i = 0; i < 3; ++i) {
      const std::string more = RandomBytes(&rng, 3'000'000 + i);
      ASSERT_TRUE(files[i]->Append(more, kIo, nullptr).ok());
      bytes[i] += more;
    }
    // One that the agent has not even opened: it will preallocate late.
    files.push_back(CreateOutput(fs.get(), dir / "3.sst"));
    files.back()->SetPreallocationBlockSize(8 << 20);
    bytes[3] = RandomBytes(&rng, 200'000);
    ASSERT_TRUE(files[3]->Append(bytes[3], kIo, nullptr).ok());
    ASSERT_TRUE(files[1]->Flush(kIo, nullptr).ok());  // a padded page is under way
    ASSERT_TRUE(files[0]->Close(kIo, nullptr).ok());
    ASSERT_TRUE(files[3]->Flush(kIo, nullptr).ok());
    auto last = std::async(std::launch::async, [&] { return files[3]->Close(kIo, nullptr).ok(); });
    SyncDirectory(fs.get(), dir.path());  // waits until the agent is given up
    // Lost before, it may have had nothing of what was closed.
    if (before == 0) {
      EXPECT_EQ(StatsOf(fs.get()).failovers, 1u);
    }
    EXPECT_TRUE(Eventually([&] { return StatsOf(fs.get()).failovers == before + 1; }));
    EXPECT_TRUE(last.get());
    ASSERT_TRUE(files[1]->Append("after", kIo, nullptr).ok());
    bytes[1] += "after";
    bytes[2].resize(bytes[2].size() - 1'000'001);
    ASSERT_TRUE(files[2]->Truncate(bytes[2].size(), kIo, nullptr).ok());
    ASSERT_TRUE(files[1]->Close(kIo, nullptr).ok());
    ASSERT_TRUE(files[2]->Close(kIo, nullptr).ok());
    SyncDirectory(fs.get(), dir.path());
    const auto check = [&] {
      for (int i = 0; i < 4; ++i) {
        EXPECT_TRUE(ReadRaw(dir / (std::to_string(i) + ".sst")) == bytes[i]) << i;
      }
    };
    check();
    agent.Continue();
    // It ends the old session before it answers a new one, or serves both: either way it has had
    // its chance.
    ASSERT_TRUE(WaitReconnects(fs.get(), before + 1));
    EXPECT_TRUE(AgentWrites(fs.get(), dir / "4.sst", &rng));
    check();
    for (const auto& entry : std::filesystem::directory_iterator(dir.path())) {
      EXPECT_EQ(entry.path().extension(), ".sst") << entry.path();
    }
  }
}

TEST(FailoverTest, DeletedFile_AgentHangs_StaysDeleted) {
  ScratchDir dir;
  AgentProcess agent;
  auto fs = agent.Attach("?agent_deadline=1000");
  auto other = CreateOutput(fs.get(), dir / "2.sst");
  ASSERT_TRUE(other->Append("x", kIo, nullptr).ok());
  const uint64_t before = agent.StopUnder(fs.get());
  auto f = CreateOutput(fs.get(), dir / "1.sst");
  ASSERT_TRUE(f->Append(std::string(3 << 20, 'a'), kIo, nullptr).ok());
  ASSERT_TRUE(fs->DeleteFile(dir / "1.sst", kIo, nullptr).ok());
  ASSERT_TRUE(Eventually([&] { return StatsOf(fs.get()).failovers == before + 1; }));
  ASSERT_TRUE(f->Close(kIo, nullptr).ok());
  ASSERT_TRUE(other->Close(kIo, nullptr).ok());
  SyncDirectory(fs.get(), dir.path());
  std::vector<std::string> left;
  ASSERT_TRUE(fs->GetChildren(dir.path(), kIo, &left, nullptr).ok());
  EXPECT_THAT(left, testing::ElementsAre("2.sst"));
}

// A reader that began before the failover must not keep reading the file that was left behind.
TEST(FailoverTest, Reader_OpenedBeforeFailover_FollowsTheFile) {
  ScratchDir dir;
  AgentProcess agent;
  auto fs = agent.Attach("?agent_deadline=1000&write_threshold=64K");
  std::mt19937_64 rng(3);
  const std::string bytes = RandomBytes(&rng, 1'500'001);
  agent.Stop();
  auto f = CreateOutput(fs.get(), dir / "1.sst");
  ASSERT_TRUE(f->Append(bytes, kIo, nullptr).ok());
  std::unique_ptr<rocksdb::FSRandomAccessFile> in;
  ASSERT_TRUE(fs->NewRandomAccessFile(dir / "1.sst", rocksdb::FileOptions(), &in, nullptr).ok());
  auto close = std::async(std::launch::async, [&] { return f->Close(kIo, nullptr).ok(); });
  const auto read = [&](uint64_t offset, size_t n) {
    std::string scratch(n, '\0');
    Slice result;
    const IOStatus s = in->Read(offset, n, kIo, &result, scratch.data(), nullptr);
    EXPECT_TRUE(s.ok()) << s.ToString();
    return result.ToString();
  };
  EXPECT_TRUE(close.get());
  EXPECT_TRUE(read(0, bytes.size() + 1) == bytes);
  SyncDirectory(fs.get(), dir.path());
  EXPECT_TRUE(read(1'000'000, 300'000) == bytes.substr(1'000'000, 300'000));
  rocksdb::FSReadRequest request;
  std::string scratch(1000, '\0');
  request.offset = 1'400'000;
  request.len = scratch.size();
  request.scratch = scratch.data();
  ASSERT_TRUE(in->MultiRead(&request, 1, kIo, nullptr).ok());
  EXPECT_EQ(request.result, bytes.substr(1'400'000, 1000));
}

// A device that answers late is not an agent that hangs.
TEST(FailoverTest, SlowDevice_BeyondTheDeadline_IsWaitedFor) {
  ScratchDir dir;
  ScratchDir socket_dir;
  IoScript script;
  AgentOptions options;
  options.socket_path = socket_dir / "s";
  options.handshake_ms = 60'000;
  options.backend_factory = script.factory();
  auto server = SocketServer::Open(options, {{&kSpec, &CreateAgentService}});
  ASSERT_TRUE(server.ok()) << server.status();
  std::shared_ptr<rocksdb::FileSystem> fs;
  const Status s = NewFileSystem(
      "pulse://" + options.socket_path + "?agent_deadline=2000&sync=strict", nullptr, &fs);
  ASSERT_TRUE(s.ok()) << s.ToString();
  script.Hold(IoOp::kWrite);
  auto f = CreateOutput(fs.get(), dir / "1.sst");
  ASSERT_TRUE(f->Append("late", kIo, nullptr).ok());
  ASSERT_TRUE(f->Flush(kIo, nullptr).ok());
  ASSERT_TRUE(script.WaitHeld(1));
  auto close = std::async(std::launch::async, [&] { return f->Close(kIo, nullptr).ok(); });
  // sleep: for two deadlines, in which the agent answers each ping
  EXPECT_EQ(close.wait_for(std::chrono::seconds(4)), std::future_status::timeout);
  EXPECT_EQ(StatsOf(fs.get()).failovers, 0u);
  script.Release();
  EXPECT_TRUE(close.get());
  EXPECT_EQ(ReadRaw(dir / "1.sst"), "late");
  EXPECT_EQ(StatsOf(fs.get()).failovers, 0u);
  EXPECT_EQ(StatsOf(fs.get()).bytes_inline, 0u);
}

TEST(FailoverTest, Fetch_AgentGoneAndBack_ReturnsWithIt) {
  ScratchDir dir;
  AgentProcess agent;
  auto fs = agent.Attach();
  std::mt19937_64 rng(4);
  const std::string bytes = RandomBytes(&rng, 3'000'001);
  auto f = CreateOutput(fs.get(), dir / "1.sst");
  ASSERT_TRUE(f->Append(bytes, kIo, nullptr).ok());
  ASSERT_TRUE(f->Close(kIo, nullptr).ok());
  SyncDirectory(fs.get(), dir.path());
  IOOptions low;
  low.rate_limiter_priority = rocksdb::Env::IO_LOW;
  std::unique_ptr<rocksdb::FSRandomAccessFile> in;
  ASSERT_TRUE(fs->NewRandomAccessFile(dir / "1.sst", rocksdb::FileOptions(), &in, nullptr).ok());
  const auto read_all = [&] {
    for (uint64_t at = 0; at < bytes.size(); at += 65536) {
      std::string scratch(65536, '\0');
      Slice result;
      ASSERT_TRUE(in->Read(at, scratch.size(), low, &result, scratch.data(), nullptr).ok());
      ASSERT_TRUE(result == bytes.substr(at, 65536)) << at;
    }
  };
  const auto fetched = [&] { return StatsOf(fs.get()).bytes_fetched; };
  read_all();
  EXPECT_GT(fetched(), 0u);
  agent.Kill();
  ASSERT_TRUE(Eventually([&] { return StatsOf(fs.get()).failovers == 1; }));
  const uint64_t before = fetched();
  read_all();
  EXPECT_EQ(fetched(), before);
  agent.Start();
  ASSERT_TRUE(WaitReconnects(fs.get(), 1));
  read_all();
  EXPECT_GT(fetched(), before);
}

// The database does not notice: agents are killed, stopped and started under it.
TEST(FailoverTest, Database_AgentsComeAndGo_LosesNothing) {
  const uint64_t seed = TestSeed();
  std::mt19937_64 rng(seed);
  ScratchDir dir;
  AgentProcess agent;
  auto fs = agent.Attach("?queue=1M&write_threshold=32K&agent_deadline=400");
  auto env = rocksdb::NewCompositeEnv(fs);
  rocksdb::Options db_options = SmallDbOptions(env.get());
  TestDb db(db_options, dir / "db", {"a"});
  db.family_options("a").enable_blob_files = true;
  db.family_options("a").min_blob_size = 500;
  ASSERT_TRUE(db.Open().ok());
  std::atomic<bool> stop{false};
  std::thread chaos([&] {
    std::mt19937_64 dice(seed + 1);
    while (!stop) {
      RandomPause(&dice, std::chrono::milliseconds(60));
      switch (dice() % 3) {
        case 0:
          agent.Stop();
          RandomPause(&dice, std::chrono::milliseconds(900));
          agent.Continue();
          break;
        case 1:
          agent.Kill();
          RandomPause(&dice, std::chrono::milliseconds(60));
          agent.Start();
          break;
        default:
          agent.Terminate();
          agent.Start();
      }
      WaitReconnects(fs.get(), StatsOf(fs.get()).failovers);
    }
  });
  // Until enough has happened, however fast the load is.
  for (int i = 0; i < 25 || (StatsOf(fs.get()).failovers < 3 && i < 1000); ++i) {
    const Status s = db.Fill(&rng, 800, 100 + rng() % 900);
    EXPECT_TRUE(s.ok()) << s.ToString();
  }
  Status s = db.FlushAll();
  EXPECT_TRUE(s.ok()) << s.ToString();
  s = db.CompactAll();
  EXPECT_TRUE(s.ok()) << s.ToString();
  stop = true;
  chaos.join();
  EXPECT_GT(StatsOf(fs.get()).failovers, 1u);
  // On a busy machine none may have lived long enough to write anything; this one does. (The last
  // one has ended with the thread that started it.)
  agent.Kill();
  agent.Start();
  EXPECT_TRUE(Eventually([&] {
    EXPECT_TRUE(db.Fill(&rng, 100, 500).ok());
    EXPECT_TRUE(db.FlushAll().ok());
    return StatsOf(fs.get()).bytes_persisted > 0;
  }));
  EXPECT_EQ(db.Difference(), "");
  db.Close();
  EXPECT_EQ(DifferenceOnStock(db.path(), db.model(), db_options), "");
}

}  // namespace
}  // namespace pulse::lsm::test
