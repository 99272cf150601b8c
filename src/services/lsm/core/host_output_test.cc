// Outputs at the edges of what carries them: full rings, queues that come back late, agents and
// hosts that are out of descriptors.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <map>
#include <mutex>
#include <thread>
#include <vector>

#include "base/testing.h"
#include "base/unique_fd.h"
#include "channel/wire.h"
#include "services/lsm/core/test_agent.h"
#include "services/lsm/core/test_support.h"
#include "services/lsm/pool/test_pool.h"

namespace pulse::lsm::test {
namespace {

using rocksdb::FSWritableFile;
using rocksdb::IOOptions;
using rocksdb::IOStatus;

void Append(FSWritableFile* f, const std::string& bytes) {
  const IOStatus s = f->Append(bytes, kIo, nullptr);
  ASSERT_TRUE(s.ok()) << s.ToString();
}
void Flush(FSWritableFile* f) {
  const IOStatus s = f->Flush(kIo, nullptr);
  ASSERT_TRUE(s.ok()) << s.ToString();
}
void Sync(FSWritableFile* f) {
  const IOStatus s = f->Sync(kIo, nullptr);
  ASSERT_TRUE(s.ok()) << s.ToString();
}
void Close(FSWritableFile* f) {
  const IOStatus s = f->Close(kIo, nullptr);
  ASSERT_TRUE(s.ok()) << s.ToString();
}

// More writes than rings hold, and an agent that answers none of them at first: when it goes on,
// each is made once. One that was made twice could overwrite a page that has been written anew.
TEST(HostOutputTest, Request_FullRing_IsTakenOnce) {
  ScratchDir dir;
  // Buffered: thousands of direct writes of a page would wait for the device.
  Rig rig(MakeOptions("pulse://?queue=32M&write_threshold=4K&io=buffered"));
  std::mutex mu;
  std::map<uint64_t, int> writes;
  std::atomic<bool> hold{true};
  rig.script.SetRule([&](const IoRequest& r, const std::string&) -> Verdict {
    if (r.op != IoOp::kWrite) return {};
    std::lock_guard lock(mu);
    ++writes[r.offset];
    return {hold ? Verdict::kHold : Verdict::kPass};
  });
  std::mt19937_64 rng(TestSeed());
  const std::string bytes = RandomBytes(&rng, 12 << 20);
  auto f = CreateOutput(rig.top.get(), dir / "000001.sst");
  std::thread writer([&] {
    for (size_t at = 0; at < bytes.size(); at += 4096) Append(f.get(), bytes.substr(at, 4096));
    Close(f.get());
  });
  ASSERT_TRUE(rig.script.WaitHeld(1));
  ASSERT_TRUE(Eventually([&] { return rig.stats().queued_requests == wire::kSubmissionSlots; }));
  EXPECT_EQ(rig.stats().streams, 1u);
  EXPECT_GT(rig.stats().queued_bytes, 1000u * 4096);
  hold = false;
  rig.script.ReleaseHeld("");
  writer.join();
  SyncDirectory(rig.top.get(), dir.path());
  EXPECT_EQ(writes.size(), bytes.size() / 4096);
  for (const auto& [offset, n] : writes) ASSERT_EQ(n, 1) << "at " << offset;
  EXPECT_EQ(rig.stats().streams, 0u);
  EXPECT_EQ(rig.stats().queued_requests, 0u);
  EXPECT_TRUE(Eventually([&] { return rig.stats().queued_bytes == 0; }));
  EXPECT_TRUE(ReadRaw(dir / "000001.sst") == bytes);
}

// RocksDB makes such files and drops them: a flush whose entries all cancel out.
TEST(HostOutputTest, Destructor_NotTakenByAgent_ReturnsTheQueue) {
  ScratchDir dir;
  Rig rig(MakeOptions("pulse://?streams=2&queue=1M&write_threshold=64K"));
  for (int i = 0; i < 20; ++i) {
    const std::string path = dir / (std::to_string(100 + i) + ".sst");
    auto f = CreateOutput(rig.top.get(), path);
    Append(f.get(), "a few bytes");
    Close(f.get());
    f.reset();
    ASSERT_TRUE(rig.top->DeleteFile(path, kIo, nullptr).ok());
  }
  const uint64_t inline_before = rig.stats().bytes_inline;
  std::mt19937_64 rng(TestSeed());
  const std::string bytes = RandomBytes(&rng, 3 << 20);
  auto f = CreateOutput(rig.top.get(), dir / "000001.sst");
  Append(f.get(), bytes);
  Close(f.get());
  SyncDirectory(rig.top.get(), dir.path());
  EXPECT_EQ(rig.stats().bytes_inline, inline_before);
  EXPECT_TRUE(ReadRaw(dir / "000001.sst") == bytes);
}

// An agent of a process that was killed may be busy with that process's file still.
TEST(HostOutputTest, Create_LeftoverOfTheSameName_IsAnotherInode) {
  ScratchDir dir;
  Rig rig;
  for (const bool marked : {true, false}) {
    const std::string path = dir / "000007.sst";
    const UniqueFd old(open(path.c_str(), O_CREAT | O_TRUNC | O_RDWR | O_CLOEXEC, 0644));
    ASSERT_TRUE(old.valid());
    std::unique_ptr<FSWritableFile> f;
    const auto options = marked ? OutputOptions() : rocksdb::FileOptions();
    ASSERT_TRUE(rig.top->NewWritableFile(path, options, &f, nullptr).ok());
    Append(f.get(), "new");
    Sync(f.get());
    Close(f.get());
    SyncDirectory(rig.top.get(), dir.path());
    ASSERT_EQ(pwrite(old.get(), "late", 4, 0), 4);
    EXPECT_EQ(ReadRaw(path), "new") << "marked " << marked;
    std::filesystem::remove(path);
  }
}

// RocksDB's Flush promises what the page cache would keep: bytes that outlive the process.
TEST(HostOutputTest, HostKilled_AfterFlush_DataIsInTheFile) {
  PULSE_SKIP_ON_POOL("the host enters sizes, at the end of each output");
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "ThreadSanitizer starts no threads in a forked process";
#endif
  ScratchDir dir;
  AgentProcess agent;
  std::mt19937_64 rng(TestSeed());
  const std::string bytes = RandomBytes(&rng, 3'000'001);
  int ends[2];  // the test's and the host's
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
  const auto say = [](int end) { return write(end, "x", 1) == 1; };
  const auto hear = [](int end) {
    char c;
    return read(end, &c, 1) == 1;
  };
  const pid_t host = fork();
  ASSERT_GE(host, 0);
  if (host == 0) {
    close(ends[0]);
    auto fs = agent.Attach("?write_threshold=64K");
    auto f = CreateOutput(fs.get(), dir / "000001.sst");
    Append(f.get(), bytes.substr(0, 8192));  // whole pages, which need not be written again
    Flush(f.get());                          // the queue is attached
    if (!say(ends[1]) || !hear(ends[1])) _exit(1);
    Append(f.get(), bytes.substr(8192));
    Flush(f.get());
    if (!say(ends[1])) _exit(1);
    hear(ends[1]);
    _exit(1);
  }
  close(ends[1]);
  ASSERT_TRUE(hear(ends[0]));
  agent.Stop();  // nothing of what follows is taken before the host dies
  ASSERT_TRUE(say(ends[0]) && hear(ends[0]));
  ASSERT_EQ(kill(host, SIGKILL), 0);
  ASSERT_EQ(waitpid(host, nullptr, 0), host);
  agent.Continue();
  EXPECT_TRUE(
      Eventually([&] { return ReadRaw(dir / "000001.sst").substr(0, bytes.size()) == bytes; }));
  close(ends[0]);
}

class RefusingAgentTest : public ::testing::TestWithParam<const char*> {
 protected:
  static constexpr int kNone = 3;  // no number is free below it
  static constexpr int kMany = 512;
  std::shared_ptr<rocksdb::FileSystem> Attach() {
    auto fs = agent_.Attach(std::string("?queue=1M&write_threshold=64K") + GetParam());
    // The queue is attached before the agent is limited.
    Close(CreateOutput(fs.get(), dir_ / "first.sst").get());
    SyncDirectory(fs.get(), dir_.path());
    return fs;
  }

  ScratchDir dir_;
  AgentProcess agent_;
  std::mt19937_64 rng_{TestSeed()};
};

// Also with sync=strict, where the writer itself waits for what only it can write.
TEST_P(RefusingAgentTest, Open_Refused_HostWrites) {
  auto fs = Attach();
  agent_.LimitFiles(kNone);
  for (const size_t size : {0u, 1u, 4096u, 5000u, 100'000u, 3'000'001u}) {
    const std::string bytes = RandomBytes(&rng_, size);
    const std::string path = dir_ / (std::to_string(size) + ".sst");
    auto f = CreateOutput(fs.get(), path);
    Append(f.get(), bytes.substr(0, size / 2));
    Flush(f.get());
    Sync(f.get());
    Append(f.get(), bytes.substr(size / 2));
    Sync(f.get());
    Close(f.get());
    SyncDirectory(fs.get(), dir_.path());
    EXPECT_TRUE(ReadRaw(path) == bytes) << size;
  }
  EXPECT_GT(StatsOf(fs.get()).bytes_inline, 3'000'000u);
  EXPECT_EQ(StatsOf(fs.get()).failovers, 0u);
  EXPECT_EQ(StatsOf(fs.get()).streams, 0u) << "all queues are back";
  agent_.LimitFiles(kMany);
  const uint64_t inline_before = StatsOf(fs.get()).bytes_inline;
  auto f = CreateOutput(fs.get(), dir_ / "after.sst");
  Append(f.get(), RandomBytes(&rng_, 1'000'000));
  Close(f.get());
  SyncDirectory(fs.get(), dir_.path());
  EXPECT_EQ(StatsOf(fs.get()).bytes_inline, inline_before) << "the agent can, and is not asked";
}

// The host cannot write it either: an error of that file, and no queue is lost over it.
TEST_P(RefusingAgentTest, Open_RefusedAndHostCannot_ReportsTheError) {
  auto fs = Attach();
  agent_.LimitFiles(kNone);
  rlimit before;
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto handler = signal(SIGXFSZ, SIG_IGN);
  for (int i = 0; i < 5; ++i) {
    auto f = CreateOutput(fs.get(), dir_ / ("full" + std::to_string(i) + ".sst"));
    rlimit low = before;
    low.rlim_cur = 64 << 10;
    ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &low), 0);
    const std::string bytes = RandomBytes(&rng_, 300'000);
    IOStatus s;
    for (size_t at = 0; s.ok() && at < bytes.size(); at += 10'000) {
      s = f->Append(bytes.substr(at, 10'000), kIo, nullptr);
    }
    if (s.ok()) s = f->Close(kIo, nullptr);
    std::unique_ptr<rocksdb::FSDirectory> d;
    ASSERT_TRUE(fs->NewDirectory(dir_.path(), kIo, &d, nullptr).ok());
    if (s.ok()) s = d->Fsync(kIo, nullptr);
    ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
    EXPECT_FALSE(s.ok());
    EXPECT_THAT(s.ToString(), ::testing::HasSubstr("full" + std::to_string(i)));
  }
  signal(SIGXFSZ, handler);
  EXPECT_TRUE(Eventually([&] { return StatsOf(fs.get()).streams == 0; }));
}

// Files of which the host has taken over some while the agent dies or hangs.
TEST_P(RefusingAgentTest, Open_RefusedAndAgentLost_HostWrites) {
  for (int round = 0; round < 6; ++round) {
    auto fs = Attach();
    agent_.LimitFiles(kNone);
    std::vector<std::thread> writers;
    std::vector<std::string> contents;
    for (int i = 0; i < 4; ++i)
      contents.push_back(RandomBytes(&rng_, 500'000 + rng_() % 2'000'000));
    for (int i = 0; i < 4; ++i) {
      writers.emplace_back([&, i] {
        auto f = CreateOutput(fs.get(), dir_ / ("lost" + std::to_string(i) + ".sst"));
        for (size_t at = 0; at < contents[i].size(); at += 10'000) {
          Append(f.get(), contents[i].substr(at, 10'000));
        }
        Close(f.get());
      });
    }
    testing_util::RandomPause(&rng_, std::chrono::milliseconds(5));
    agent_.Kill();
    for (std::thread& t : writers) t.join();
    SyncDirectory(fs.get(), dir_.path());
    for (int i = 0; i < 4; ++i) {
      EXPECT_TRUE(ReadRaw(dir_ / ("lost" + std::to_string(i) + ".sst")) == contents[i]) << i;
    }
    agent_.Start();
  }
}

INSTANTIATE_TEST_SUITE_P(All, RefusingAgentTest,
                         ::testing::Values("", "&sync=strict", "&io=buffered&sync_interval=64K"),
                         [](const auto& p) {
                           return p.param[0] == '\0'  ? "barrier"
                                  : p.param[1] == 's' ? "strict"
                                                      : "buffered";
                         });

// A host with one descriptor left can open a file for itself, and not for the agent. However many
// files that befalls, the queue keeps its room.
TEST(HostOutputTest, Open_CannotPassTheFile_KeepsTheQueue) {
  ScratchDir dir;
  Rig rig(MakeOptions("pulse://?queue=1M&write_threshold=64K&streams=1&fetch=off"));
  std::mt19937_64 rng(TestSeed());
  const std::string bytes = RandomBytes(&rng, 200'000);
  const auto write = [&](const std::string& name) {
    auto f = CreateOutput(rig.top.get(), dir / name);
    Append(f.get(), bytes);
    Close(f.get());
  };
  write("000001.sst");
  SyncDirectory(rig.top.get(), dir.path());

  rlimit before;
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  rlimit low = before;
  low.rlim_cur = 200;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &low), 0);
  {
    std::vector<UniqueFd> taken;
    for (int fd; (fd = dup(STDIN_FILENO)) >= 0;) taken.emplace_back(fd);
    ASSERT_FALSE(taken.empty());
    taken.pop_back();
    for (int i = 0; i < 40; ++i) write("0001" + std::to_string(10 + i) + ".sst");
  }
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_GE(rig.stats().bytes_inline, 40 * bytes.size());
  for (int i = 0; i < 5; ++i) write("00020" + std::to_string(i) + ".sst");
  SyncDirectory(rig.top.get(), dir.path());
  for (const auto& entry : std::filesystem::directory_iterator(dir.path())) {
    EXPECT_TRUE(ReadRaw(entry.path()) == bytes) << entry.path();
  }
}

}  // namespace
}  // namespace pulse::lsm::test
