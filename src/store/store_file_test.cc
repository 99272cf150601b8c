// Stores in real files: creation, locks, sharing within a process, threads.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <fstream>
#include <thread>

#include "base/testing.h"
#include "store/sim_device.h"
#include "store/store.h"

namespace pulse::store {
namespace {

using testing::HasSubstr;
using testing_util::ScratchPath;

using testing_util::Text;

CreateOptions Small() {
  CreateOptions options;
  options.size = 4 << 20;
  options.segment_bytes = 64 << 10;
  return options;
}

TEST(StoreFileTest, Store_OpenedTwiceThenReopened_IsSharedAndKeepsItsData) {
  ScratchPath path("store");
  ASSERT_TRUE(Create(path.get(), Small()).ok());
  struct stat st {};
  ASSERT_EQ(stat(path.c_str(), &st), 0);
  EXPECT_EQ(st.st_size, 4 << 20);
  EXPECT_GE(st.st_blocks * 512, 4 << 20);  // prefilled: not sparse
  FileId file = kNoFile;
  {
    auto a = Store::Open(path.get());
    ASSERT_TRUE(a.ok()) << a.status();
    auto b = Store::Open("./" + path.get());
    ASSERT_TRUE(b.ok()) << b.status();
    EXPECT_EQ(a->get(), b->get());
    auto reader = Store::Open(path.get(), {.read_only = true, .device = nullptr});
    ASSERT_TRUE(reader.ok());
    EXPECT_EQ(a->get(), reader->get());
    EXPECT_GE((*a)->device_fd(false), 0);
    EXPECT_GE((*a)->device_fd(true), 0);
    ASSERT_TRUE((*a)->CreateDirectory("d").ok());
    file = *(*b)->CreateFile("d", "x");
    std::vector<Extent> extents;
    ASSERT_TRUE((*a)->MapWrite(file, 0, 5, &extents).ok());
    ASSERT_EQ(
        pwrite((*a)->device_fd(false), "hello", 5, static_cast<off_t>(extents[0].device_offset)),
        5);
    ASSERT_TRUE((*a)->SyncData().ok());
    ASSERT_TRUE((*a)->Wrote(file, 0, 5).ok());
    ASSERT_TRUE((*a)->Commit().ok());
  }
  auto store = Store::Open(path.get(), {.read_only = true, .device = nullptr});
  ASSERT_TRUE(store.ok()) << store.status();
  std::vector<Extent> extents;
  ASSERT_TRUE((*store)->MapRead(*(*store)->Lookup("d", "x"), 0, 100, &extents).ok());
  ASSERT_EQ(extents.size(), 1u);
  char text[6] = {};
  ASSERT_EQ(
      pread((*store)->device_fd(false), text, 5, static_cast<off_t>(extents[0].device_offset)), 5);
  EXPECT_STREQ(text, "hello");
  EXPECT_TRUE(absl::IsFailedPrecondition(Store::Open(path.get()).status()));  // read-only here
  store->reset();
  EXPECT_TRUE(Store::Open(path.get()).ok());
}

TEST(StoreFileTest, Open_UsedByAnotherProcess_IsRefusedNamingIt) {
  ScratchPath path("store");
  ASSERT_TRUE(Create(path.get(), Small()).ok());
  int ready[2];
  int quit[2];
  ASSERT_EQ(pipe(ready), 0);
  ASSERT_EQ(pipe(quit), 0);
  const pid_t child = fork();
  if (child == 0) {
    close(quit[1]);
    auto store = Store::Open(path.get());
    char c = store.ok() ? 'y' : 'n';
    (void)!write(ready[1], &c, 1);
    (void)!read(quit[0], &c, 1);
    _exit(0);
  }
  char c = 0;
  ASSERT_EQ(read(ready[0], &c, 1), 1);
  ASSERT_EQ(c, 'y');
  for (const bool read_only : {false, true}) {
    const auto store = Store::Open(path.get(), {.read_only = read_only, .device = nullptr});
    EXPECT_TRUE(absl::IsFailedPrecondition(store.status())) << store.status();
    EXPECT_THAT(Text(store.status()), HasSubstr("in use by process " + std::to_string(child)));
  }
  CreateOptions force = Small();
  force.force = true;
  EXPECT_TRUE(absl::IsFailedPrecondition(Create(path.get(), force)));
  close(quit[1]);
  waitpid(child, nullptr, 0);
  EXPECT_TRUE(Store::Open(path.get()).ok());
  for (const int fd : {ready[0], ready[1], quit[0]}) close(fd);
}

TEST(StoreFileTest, Create_OptionsThatCannotBe_IsRefusedLeavingNoFile) {
  ScratchPath path("store");
  const auto refused = [&](const CreateOptions& options, absl::StatusCode code,
                           const std::string& text) {
    const absl::Status status = Create(path.get(), options);
    EXPECT_EQ(status.code(), code) << status;
    EXPECT_THAT(Text(status), HasSubstr(text));
    EXPECT_NE(access(path.c_str(), F_OK), 0) << "a file was left behind";
  };
  CreateOptions o = Small();
  o.segment_bytes = 100'000;
  refused(o, absl::StatusCode::kInvalidArgument, "--segment");
  o = Small();
  o.size = 0;
  refused(o, absl::StatusCode::kInvalidArgument, "--size");
  o = Small();
  o.size = 100'000;
  refused(o, absl::StatusCode::kInvalidArgument, "too small");
  o = Small();
  o.metadata_bytes = 8 << 20;
  refused(o, absl::StatusCode::kInvalidArgument, "--metadata");
  o = Small();
  o.metadata_bytes = 4 << 20;
  refused(o, absl::StatusCode::kInvalidArgument, "none for data");
  o = Small();
  o.segment_bytes = 4096;
  o.metadata_bytes = 4096;
  refused(o, absl::StatusCode::kInvalidArgument, "--metadata");
  EXPECT_TRUE(absl::IsNotFound(Store::Open(path.get()).status()));
  EXPECT_THAT(Text(Store::Open(path.get()).status()), HasSubstr("pulse pool create"));
  EXPECT_TRUE(absl::IsFailedPrecondition(Store::Open("/dev/null").status()));
  EXPECT_TRUE(absl::IsFailedPrecondition(Store::Open(".").status()));
}

TEST(StoreFileTest, Create_OverAFile_ReplacesItOnlyWithForce) {
  ScratchPath path("store");
  std::ofstream(path.get()) << "something that somebody wants to keep";
  EXPECT_TRUE(absl::IsAlreadyExists(Create(path.get(), Small())));
  const absl::Status foreign = Store::Open(path.get()).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(foreign)) << foreign;
  CreateOptions force = Small();
  force.force = true;
  force.prefill = false;
  ASSERT_TRUE(Create(path.get(), force).ok());
  {
    auto store = Store::Open(path.get());
    ASSERT_TRUE(store.ok());
    ASSERT_TRUE((*store)->CreateDirectory("old").ok());
  }
  EXPECT_TRUE(absl::IsAlreadyExists(Create(path.get(), Small())));
  ASSERT_TRUE(Create(path.get(), force).ok());
  auto store = Store::Open(path.get());
  ASSERT_TRUE(store.ok()) << store.status();
  EXPECT_FALSE((*store)->HasDirectory("old"));
}

TEST(StoreFileTest, Open_FileCutShort_SaysWhereItEnds) {
  ScratchPath path("store");
  ASSERT_TRUE(Create(path.get(), Small()).ok());
  ASSERT_EQ(truncate(path.c_str(), 3 << 20), 0);
  const absl::Status status = Store::Open(path.get()).status();
  EXPECT_TRUE(absl::IsDataLoss(status)) << status;
  EXPECT_THAT(Text(status), HasSubstr("offset 3145728"));
}

TEST(StoreFileTest, Prefill_LargeFile_ReportsProgressToTheEnd) {
  ScratchPath path("store");
  CreateOptions options = Small();
  options.size = 64 << 20;
  uint64_t last = 0;
  options.progress = [&](uint64_t done, uint64_t total) {
    EXPECT_GT(done, last);
    EXPECT_LE(done, total);
    last = done;
    return absl::OkStatus();
  };
  ASSERT_TRUE(Create(path.get(), options).ok());
  EXPECT_EQ(last, 64u << 20);
}

TEST(StoreFileTest, Prefill_Stopped_LeavesNothingOfANewFile) {
  ScratchPath path("store");
  CreateOptions options = Small();
  options.progress = [](uint64_t, uint64_t) { return absl::CancelledError("enough"); };
  EXPECT_TRUE(absl::IsCancelled(Create(path.get(), options)));
  EXPECT_NE(access(path.c_str(), F_OK), 0);
}

// Many threads that each want durability share writes; each finds its changes durable.
TEST(StoreThreadsTest, Commit_ManyThreads_SharesBatchesAndIsDurable) {
  constexpr int kThreads = 8;
  constexpr int kCommits = 60;
  auto device = std::make_shared<SimDevice>(8 << 20);
  CreateOptions options;
  options.segment_bytes = 4096;
  ASSERT_TRUE(Format(*device, options).ok());
  // sleep: a device's sync takes its time, in which others come
  device->during_sync = [] { std::this_thread::sleep_for(std::chrono::microseconds(500)); };
  auto store = *Store::Open("sim", {.read_only = false, .device = device});
  ASSERT_TRUE(store->CreateDirectory("d").ok());
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < kCommits; ++i) {
        const std::string name = std::to_string(t) + "." + std::to_string(i);
        const auto file = store->CreateFile("d", name);
        ASSERT_TRUE(file.ok());
        ASSERT_TRUE(store->Reserve(*file, 4096).ok());
        ASSERT_TRUE(store->Commit().ok());
      }
    });
  }
  for (auto& thread : threads) thread.join();
  const Usage usage = store->usage();
  EXPECT_EQ(usage.files, static_cast<uint64_t>(kThreads * kCommits));
  EXPECT_LT(usage.batches, static_cast<uint64_t>(kThreads * kCommits));
  std::mt19937_64 random(1);
  auto copy = std::make_shared<SimDevice>(device->Cut(random));
  EXPECT_EQ((*Store::Open("sim", {.read_only = true, .device = copy}))->usage().files, usage.files);
}

// All calls from several threads at once, while the journal goes round.
TEST(StoreThreadsTest, AllCalls_ManyThreadsAtOnce_LeakNothing) {
  constexpr int kThreads = 4;
  constexpr int kRounds = 300;
  auto device = std::make_shared<SimDevice>(2 << 20);
  CreateOptions options;
  options.segment_bytes = 4096;
  options.metadata_bytes = 256 << 10;
  ASSERT_TRUE(Format(*device, options).ok());
  auto store = *Store::Open("sim", {.read_only = false, .device = device});
  ASSERT_TRUE(store->CreateDirectory("d").ok());
  std::atomic<int> called{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      const std::string name = "file" + std::to_string(t);
      for (int i = 0; i < kRounds; ++i) {
        const auto file = store->CreateFile("d", name);
        ASSERT_TRUE(file.ok()) << file.status();
        std::vector<Extent> extents;
        ASSERT_TRUE(store->MapWrite(*file, 0, 5 * 4096, &extents).ok());
        ASSERT_TRUE(store->Wrote(*file, 0, 4 * 4096 + 1).ok());
        auto pin = store->Pin(*file);
        const auto token = store->Quarantine(*file);
        ASSERT_TRUE(
            store->Relocate(*file, [](const auto&, const auto&) { return absl::OkStatus(); }).ok());
        if (i % 3 == 0) {
          ASSERT_TRUE(store->Commit().ok());
        }
        if (i % 5 == 0) store->CommitLater([&](const absl::Status&) { ++called; });
        ASSERT_TRUE(store->Rename("d", name, "d", name + "b").ok());
        extents.clear();
        ASSERT_TRUE(store->MapRead(*file, 0, 1 << 20, &extents).ok());
        EXPECT_TRUE(store->List("d").ok());
        store->ReleaseQuarantine(*token);
        ASSERT_TRUE(store->Unlink("d", name + "b").ok());
        pin->Reset();
        store->usage();
      }
    });
  }
  for (auto& thread : threads) thread.join();
  ASSERT_TRUE(store->Commit().ok());
  EXPECT_TRUE(testing_util::Eventually([&] { return called == kThreads * (kRounds / 5); }));
  const Usage usage = store->usage();
  EXPECT_EQ(usage.free, usage.segments);
  EXPECT_EQ(usage.files, 0u);
  EXPECT_GT(usage.checkpoints, 0u);
}

// Commits go on while a checkpoint is being written; the journal's other half waits for it.
TEST(StoreThreadsTest, Checkpoint_WritesFail_RefusesChanges) {
  auto device = std::make_shared<SimDevice>(2 << 20);
  CreateOptions options;
  options.segment_bytes = 4096;
  options.metadata_bytes = 128 << 10;
  ASSERT_TRUE(Format(*device, options).ok());
  auto store = *Store::Open("sim", {.read_only = false, .device = device});
  ASSERT_TRUE(store->CreateDirectory("d").ok());
  device->fail_writes = true;
  absl::Status status;
  for (int i = 0; i < 10'000 && status.ok(); ++i) {
    status = store->CreateFile("d", std::to_string(i)).status();
  }
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
}

TEST(StoreScaleTest, FiftyThousandFiles_Reopened_AreListedAndRemoved) {
  constexpr int kFiles = 50'000;
  auto device = std::make_shared<SimDevice>(512 << 20);
  CreateOptions options;
  options.segment_bytes = 4096;
  ASSERT_TRUE(Format(*device, options).ok());
  auto store = *Store::Open("sim", {.read_only = false, .device = device});
  ASSERT_TRUE(store->CreateDirectory("d").ok());
  for (int i = 0; i < kFiles; ++i) {
    const auto file = store->CreateFile("d", "file-" + std::to_string(i));
    ASSERT_TRUE(file.ok()) << file.status();
    ASSERT_TRUE(store->Reserve(*file, 4096).ok());
  }
  store.reset();
  store = *Store::Open("sim", {.read_only = false, .device = device});
  EXPECT_EQ(store->List("d")->size(), static_cast<size_t>(kFiles));
  for (int i = 0; i < kFiles; i += 2) {
    ASSERT_TRUE(store->Unlink("d", "file-" + std::to_string(i)).ok());
  }
  ASSERT_TRUE(store->Commit().ok());
  EXPECT_EQ(store->usage().free, store->usage().segments - kFiles / 2);
  ASSERT_TRUE(store->ClearDirectory("d").ok());
  store.reset();
  store = *Store::Open("sim", {.read_only = false, .device = device});
  EXPECT_EQ(store->usage().files, 0u);
  EXPECT_EQ(store->usage().free, store->usage().segments);
}

}  // namespace
}  // namespace pulse::store
