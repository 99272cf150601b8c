// A store in a file: another one goes on with it, and what does not fit is refused.
#include "services/kv/store_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>

#include "base/cpu_list.h"
#include "services/kv/store.h"
#include "services/redis/commands/command_suite.h"

namespace pulse::kv {
namespace {

using ::testing::HasSubstr;

class StoreFileTest : public testing::Test {
 protected:
  void SetUp() override {
    struct statfs system {};
    if (statfs("/dev/shm", &system) != 0 || system.f_type != TMPFS_MAGIC ||
        access("/dev/shm", W_OK) != 0) {
      GTEST_SKIP() << "/dev/shm is no tmpfs that this test may write to";
    }
    path_ = "/dev/shm/pulse-store-file-test-" + std::to_string(getpid());
    unlink(path_.c_str());
    options_.memory_bytes = 2 * kLeastMemory;
    options_.partitions = 2;
    options_.ticks = false;
    options_.memory_file = path_;
  }
  void TearDown() override { unlink(path_.c_str()); }

  static bool Put(KvStore* store, const std::string& key, const std::string& value) {
    bool stored = false;
    store->WithPartition(key, true, [&](Partition& partition, uint64_t hash) {
      Item* item = nullptr;
      stored = partition.Put(key, hash, value.size(), {}, &item) == Partition::Result::kStored;
      if (stored) CopyValue(item->value_bytes(), value);
    });
    return stored;
  }
  static std::string Get(KvStore* store, const std::string& key) {
    std::string value = "(none)";
    store->WithPartition(key, true, [&](Partition& partition, uint64_t hash) {
      if (const Item* item = partition.Find(key, hash)) value = item->value();
    });
    return value;
  }
  std::string WhyNot() {
    const auto store = KvStore::Open(options_);
    return store.ok() ? "" : std::string(store.status().message());
  }

  std::string path_;
  KvStoreOptions options_;
};

TEST_F(StoreFileTest, DesignOnTheAgent_ItemsStayInTheFile) {
  redis::Designs designs(2, MyCpus(), MyCpus());
  options_.designs = &designs;
  options_.agent_memory_bytes = 1;
  auto store = KvStore::Open(options_);
  ASSERT_TRUE(store.ok()) << store.status();
  ASSERT_TRUE(Put(store->get(), "key", "value"));
  EXPECT_EQ((*store)->Configure("design", "dpu"), "");
  std::string info;
  (*store)->AddInfo("KV", &info);
  EXPECT_THAT(info, HasSubstr("design_now:dpu\r\nitems_in:file\r\nagent_items_bytes:0\r\n"));
  EXPECT_EQ(Get(store->get(), "key"), "value");
}

TEST_F(StoreFileTest, NextStore_GoesOnWithKeysAndVersions) {
  uint64_t version = 0;
  {
    auto store = KvStore::Open(options_);
    ASSERT_TRUE(store.ok()) << store.status();
    EXPECT_FALSE((*store)->resumed());
    for (int i = 0; i < 1000; ++i) {
      ASSERT_TRUE(Put(store->get(), "key" + std::to_string(i), std::to_string(i)));
    }
    version = (*store)->NextCas();
  }
  auto store = KvStore::Open(options_);
  ASSERT_TRUE(store.ok()) << store.status();
  EXPECT_TRUE((*store)->resumed());
  EXPECT_EQ((*store)->recovered(), 0);
  EXPECT_EQ((*store)->numbers().items, 1000u);
  EXPECT_EQ((*store)->largest_value(), UINT64_MAX);  // of what is there nobody knows
  for (int i = 0; i < 1000; ++i) {
    EXPECT_EQ(Get(store->get(), "key" + std::to_string(i)), std::to_string(i));
  }
  EXPECT_GT((*store)->NextCas(), version);
}

// A process whose hashes have another seed.
TEST_F(StoreFileTest, AnotherProcess_FindsTheKeys) {
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    SetHashSeed(HashSeed() + 1);
    auto store = KvStore::Open(options_);
    _exit(store.ok() && Put(store->get(), "a", "1") ? 0 : 1);
  }
  int status = -1;
  waitpid(child, &status, 0);
  ASSERT_EQ(status, 0);
  auto store = KvStore::Open(options_);
  ASSERT_TRUE(store.ok()) << store.status();
  EXPECT_EQ(Get(store->get(), "a"), "1");
}

// The partitions are opened at the same time: none of them changes its length.
TEST_F(StoreFileTest, NewFile_HasItsWholeLengthBeforeItsPartitionsAreOpened) {
  const auto file = StoreFile::Open(path_, 4 * kLeastMemory, 4, nullptr);
  ASSERT_TRUE(file.ok()) << file.status();
  struct stat facts {};
  ASSERT_EQ(stat(path_.c_str(), &facts), 0);
  EXPECT_GE(static_cast<uint64_t>(facts.st_size),
            (*file)->place(3).offset + Partition::FileBytes(kLeastMemory));
}

TEST_F(StoreFileTest, SecondStore_IsKeptOut) {
  auto store = KvStore::Open(options_);
  ASSERT_TRUE(store.ok()) << store.status();
  EXPECT_THAT(WhyNot(), HasSubstr("another server"));
}

TEST_F(StoreFileTest, OtherSizes_AreRefusedAndNothingIsLost) {
  {
    auto store = KvStore::Open(options_);
    ASSERT_TRUE(store.ok()) << store.status();
    ASSERT_TRUE(Put(store->get(), "a", "1"));
  }
  options_.partitions = 1;
  EXPECT_THAT(WhyNot(), HasSubstr("2 threads"));
  EXPECT_THAT(WhyNot(), HasSubstr("--max-value"));
  options_.partitions = 2;
  options_.memory_bytes = 4 * kLeastMemory;
  EXPECT_THAT(WhyNot(), HasSubstr("64 MiB"));
  options_.memory_bytes = uint64_t{1} << 50;
  EXPECT_THAT(WhyNot(), HasSubstr("--memory"));
  options_.memory_bytes = 2 * kLeastMemory;
  const redis::Cluster cluster(true, 2, "host");
  options_.cluster = &cluster;
  EXPECT_THAT(WhyNot(), HasSubstr("without --cluster"));
  options_.cluster = nullptr;
  auto store = KvStore::Open(options_);
  ASSERT_TRUE(store.ok()) << store.status();
  EXPECT_EQ(Get(store->get(), "a"), "1");
}

TEST_F(StoreFileTest, Cluster_NextStore_GoesOnWithKeysOfTheirSlots) {
  const redis::Cluster cluster(true, 2, "host");
  options_.cluster = &cluster;
  for (const bool next : {false, true}) {
    auto store = KvStore::Open(options_);
    ASSERT_TRUE(store.ok()) << store.status();
    for (int i = 0; i < 100; ++i) {
      const std::string key = "key" + std::to_string(i);
      if (!next) {
        ASSERT_TRUE(Put(store->get(), key, "1"));
      }
      EXPECT_EQ(Get(store->get(), key), "1");
    }
  }
  options_.cluster = nullptr;
  EXPECT_THAT(WhyNot(), HasSubstr("with --cluster"));
  const redis::Cluster half(true, 2, "host", redis::SlotRange{0, 8191});
  options_.cluster = &half;
  EXPECT_THAT(WhyNot(), HasSubstr("other slots"));
}

TEST_F(StoreFileTest, TooLittleRoom_IsRefusedAndLeavesNoFile) {
  options_.memory_bytes = uint64_t{1} << 45;
  EXPECT_THAT(WhyNot(), HasSubstr("MiB of room"));
  EXPECT_FALSE(std::filesystem::exists(path_));
}

TEST_F(StoreFileTest, WhatIsNoMemoryFile_IsRefusedAndKept) {
  std::ofstream(path_) << "something else, and worth keeping";
  chmod(path_.c_str(), 0600);
  EXPECT_THAT(WhyNot(), HasSubstr("no memory file"));
  EXPECT_EQ(std::filesystem::file_size(path_), 33u);
  chmod(path_.c_str(), 0644);
  EXPECT_THAT(WhyNot(), HasSubstr("0600"));
  options_.memory_file = "/dev/shm";
  EXPECT_THAT(WhyNot(), HasSubstr("/dev/shm"));
  options_.memory_file = "/proc/self/none";
  EXPECT_THAT(WhyNot(), HasSubstr("/proc/self/none"));
  options_.memory_file = path_ + "-none/file";
  EXPECT_THAT(WhyNot(), HasSubstr("make its directory"));
  const std::string link = path_ + "-link";
  ASSERT_EQ(symlink(path_.c_str(), link.c_str()), 0);
  options_.memory_file = link;
  EXPECT_THAT(WhyNot(), HasSubstr("no link"));
  unlink(link.c_str());
  // On a disk.
  options_.memory_file = testing::TempDir() + "pulse-store-file-test";
  struct statfs system {};
  if (statfs(testing::TempDir().c_str(), &system) == 0 && system.f_type != TMPFS_MAGIC) {
    unlink(options_.memory_file.c_str());
    EXPECT_THAT(WhyNot(), HasSubstr("tmpfs"));
    EXPECT_FALSE(std::filesystem::exists(options_.memory_file));
    // One that it has not made stays.
    std::ofstream(options_.memory_file) << "";
    chmod(options_.memory_file.c_str(), 0600);
    EXPECT_THAT(WhyNot(), HasSubstr("tmpfs"));
    EXPECT_TRUE(std::filesystem::exists(options_.memory_file));
    unlink(options_.memory_file.c_str());
  }
}

// As servers left it that died before they had marked it.
TEST_F(StoreFileTest, FileOfZeros_IsBegunAnew) {
  std::ofstream(path_) << std::string(kPageBytes, '\0');
  chmod(path_.c_str(), 0600);
  EXPECT_EQ(WhyNot(), "");
  std::ofstream(path_) << std::string(kPageBytes, '\0') << "something else";
  EXPECT_THAT(WhyNot(), HasSubstr("no memory file"));
  EXPECT_EQ(std::filesystem::file_size(path_), kPageBytes + 14);
  // With a hole at its beginning, as an image of a disk may have one.
  std::ofstream(path_) << "";
  std::filesystem::resize_file(path_, 4 * kPageBytes);
  std::fstream(path_, std::ios::in | std::ios::out).seekp(2 * kPageBytes).write("x", 1);
  EXPECT_THAT(WhyNot(), HasSubstr("no memory file"));
  EXPECT_EQ(std::filesystem::file_size(path_), 4 * kPageBytes);
}

TEST_F(StoreFileTest, NextStore_CountsFromItsStart) {
  const auto expired = [](const KvStore& store) {
    std::string info;
    store.AddInfo("stats", &info);
    return info.substr(0, info.find('\r'));
  };
  std::atomic<int64_t> now_ms{1'000'000};
  options_.clock = [&] { return now_ms.load(); };
  for (int i = 0; i < 2; ++i) {
    const auto store = KvStore::Open(options_);
    ASSERT_TRUE(store.ok()) << store.status();
    EXPECT_EQ(expired(**store), "expired_keys:0");
    EXPECT_EQ(redis::RunLine(store->get(), "SET a 1 PX 5"), "+OK");
    now_ms += 10;
    EXPECT_EQ(redis::RunLine(store->get(), "GET a"), "$-1");
    EXPECT_EQ(expired(**store), "expired_keys:1");
  }
}

// Values are not written over in place: the key that had no room must not be put back.
TEST_F(StoreFileTest, Mset_KeyWithoutRoom_KeepsItsOldValue) {
  options_.memory_bytes = kLeastMemory;
  options_.partitions = 1;
  const auto store = KvStore::Open(options_);
  ASSERT_TRUE(store.ok()) << store.status();
  const auto run = [&](const std::string& line) { return redis::RunLine(store->get(), line); };
  ASSERT_EQ(run("SET big " + std::string(5'000'000, 'b')), "+OK");
  ASSERT_EQ(run("SET small old"), "+OK");
  const std::string value(300'000, 'v');
  for (int i = 0; run("SET k" + std::to_string(i) + " " + value) == "+OK"; ++i) continue;
  EXPECT_THAT(run("MSET small new big " + std::string(6'000'000, 'c')), HasSubstr("-OOM"));
  EXPECT_EQ(run("GET small"), "$3 old");
  EXPECT_EQ(run("STRLEN big"), ":5000000");
}

}  // namespace
}  // namespace pulse::kv
