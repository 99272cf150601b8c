// Secondary against a primary that is written, flushed, compacted, closed and opened under it.
#include "services/redis/offload/secondary.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <rocksdb/db.h>
#include <rocksdb/table.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <filesystem>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_format.h"
#include "base/file_calls.h"
#include "base/testing.h"
#include "services/redis/offload/page_cache_files.h"

namespace pulse::redis {
namespace {

using testing_util::Eventually;
using Found = ReadView::Found;

class ScratchDirectory {
 public:
  ScratchDirectory() : path_("secondary") {}
  ~ScratchDirectory() { std::filesystem::remove_all(path_.get()); }
  std::string operator/(const std::string& name) const { return path_.get() + "/" + name; }

 private:
  testing_util::ScratchPath path_;
};

class SecondaryTest : public ::testing::Test {
 protected:
  void OpenPrimary() {
    rocksdb::Options options;
    options.create_if_missing = true;
    options.write_buffer_size = 64 << 10;
    options.level0_file_num_compaction_trigger = 2;
    options.target_file_size_base = 64 << 10;
    options.max_manifest_file_size = 2 << 10;  // a new one often
    std::filesystem::create_directories(scratch_ / "db");
    rocksdb::DB* db = nullptr;
    const auto status = rocksdb::DB::Open(options, scratch_ / "db", &db);
    ASSERT_TRUE(status.ok()) << status.ToString();
    db_.reset(db);
  }
  void OpenSecondary(PageCacheFiles::ReadNow read_now = nullptr) {
    SecondaryOptions options;
    options.db = scratch_ / "db";
    options.directory = scratch_ / "secondary";
    options.cache_bytes = cache_bytes_;
    options.min_interval_us = 100;
    options.max_interval_us = max_interval_us_;
    options.read_now = read_now;
    options.most_read_bytes = most_read_bytes_;
    auto opened = Secondary::Open(options, &clock_, [this] { return table_.wanted(); });
    ASSERT_TRUE(opened.ok()) << opened.status();
    secondary_ = *std::move(opened);
  }
  bool Valid() {
    return Eventually([&] { return secondary_->Validity() != 0; });
  }
  // What a director does with a write.
  void Put(const std::string& key, const std::string& value) {
    const auto slot = table_.SlotOf(key);
    ASSERT_TRUE(table_.Mark(slot));
    ASSERT_TRUE(db_->Put({}, key, value).ok());
    table_.Settle(slot);
    secondary_->Wake();
  }
  std::pair<Found, std::string> Get(const std::string& key, bool now = false) {
    std::vector<std::string> values;
    std::vector<Found> found;
    if (now) {
      secondary_->ReadNow({key}, &values, &found);
    } else {
      secondary_->Read({key}, &values, &found);
    }
    return {found[0], values[0]};
  }
  // A read as the flow does it; none when the host would have to be asked.
  std::optional<std::string> Offloaded(const std::string& key) {
    const auto slot = table_.SlotOf(key);
    const uint64_t validity = secondary_->Validity();
    const auto word = table_.Check(slot);
    if (validity == 0 || !word) return std::nullopt;
    auto [found, value] = Get(key);
    if (found == Found::kUnknown || !table_.Unchanged(slot, *word) ||
        secondary_->Validity() != validity) {
      return std::nullopt;
    }
    return found == Found::kYes ? value : "(none)";
  }

  ScratchDirectory scratch_;
  int64_t max_interval_us_ = 200;  // as often as it can be
  uint64_t cache_bytes_ = 1 << 20;
  uint64_t most_read_bytes_ = SecondaryOptions().most_read_bytes;
  CatchUpClock clock_;
  DirtyTable table_{&clock_, 1 << 14, 42};
  std::unique_ptr<rocksdb::DB> db_;
  std::unique_ptr<Secondary> secondary_;
};

TEST_F(SecondaryTest, Secondary_PrimaryFlushesAndReopens_FollowsItsWrites) {
  OpenPrimary();
  OpenSecondary();
  ASSERT_TRUE(Valid());
  Put("a", "1");
  ASSERT_TRUE(Eventually([&] { return Offloaded("a") == "1"; }));
  ASSERT_TRUE(db_->Flush({}).ok());
  Put("b", "2");
  ASSERT_TRUE(Eventually([&] { return Offloaded("b") == "2"; }));
  EXPECT_EQ(Get("a").second, "1");
  EXPECT_EQ(Get("c").first, Found::kNo);
  db_.reset();
  // The primary is down: reads go on.
  EXPECT_EQ(Offloaded("a"), "1");
  OpenPrimary();
  Put("a", "3");
  ASSERT_TRUE(Eventually([&] { return Offloaded("a") == "3"; }));
  EXPECT_EQ(Offloaded("b"), "2");
  const auto stats = secondary_->stats();
  EXPECT_GT(stats.catch_ups, 0u);
  EXPECT_TRUE(stats.valid);
}

TEST_F(SecondaryTest, Secondary_NoDatabaseYet_WaitsForIt) {
  OpenSecondary();
  EXPECT_EQ(secondary_->Validity(), 0u);
  EXPECT_EQ(Get("a").first, Found::kUnknown);
  OpenPrimary();
  ASSERT_TRUE(db_->Put({}, "a", "1").ok());
  ASSERT_TRUE(Valid());
  ASSERT_TRUE(Eventually([&] { return Get("a").second == "1"; }));
}

TEST_F(SecondaryTest, Database_Replaced_IsOpenedAnew) {
  OpenPrimary();
  OpenSecondary();
  ASSERT_TRUE(Valid());
  Put("a", "old");
  ASSERT_TRUE(Eventually([&] { return Offloaded("a") == "old"; }));
  const uint64_t generation = secondary_->Generation();
  ASSERT_TRUE(db_->Flush({}).ok());
  Put("b", "1");
  ASSERT_TRUE(Eventually([&] { return Offloaded("b") == "1"; }));
  EXPECT_EQ(secondary_->Generation(), generation) << "a flush is no other database";
  db_.reset();
  std::filesystem::remove_all(scratch_ / "db");
  OpenPrimary();
  ASSERT_TRUE(db_->Put({}, "a", "new").ok());
  ASSERT_TRUE(Valid());
  ASSERT_TRUE(Eventually([&] { return Offloaded("a") == "new"; }));
  EXPECT_GT(secondary_->stats().opened, 1u);
  EXPECT_NE(secondary_->Generation(), generation);
}

// Else in an hour.
TEST_F(SecondaryTest, NoteMiss_LongInterval_BringsACatchUp) {
  max_interval_us_ = int64_t{3600} * 1'000'000;
  OpenPrimary();
  OpenSecondary();
  ASSERT_TRUE(Valid());
  for (int i = 0; i < 20; ++i) {
    const std::string value = std::to_string(i);
    Put("a", value);
    ASSERT_TRUE(Eventually([&] {
      secondary_->NoteMiss();
      return Offloaded("a") == value;
    }));
  }
}

std::atomic<int> no_wait_error{0};
std::atomic<int> no_wait_calls{0};
ssize_t FailingRead(int fd, const iovec* parts, int count, off_t offset, int flags) {
  ++no_wait_calls;
  if (no_wait_error == 0) return preadv2(fd, parts, count, offset, flags & ~RWF_NOWAIT);
  errno = no_wait_error;
  return -1;
}

class ReadNowTest : public SecondaryTest {
 protected:
  void SetUp() override {
    OpenPrimary();
    for (int i = 0; i < kKeys; ++i) {
      ASSERT_TRUE(db_->Put({}, std::to_string(i), Value(i)).ok());
    }
    ASSERT_TRUE(db_->Flush({}).ok());
    ASSERT_TRUE(db_->CompactRange({}, nullptr, nullptr).ok());
    no_wait_error = no_wait_calls = 0;
  }
  static std::string Value(int i) { return std::to_string(i) + std::string(1000, 'x'); }
  bool ReadNow(const std::vector<std::string_view>& keys) {
    return secondary_->ReadNow(keys, &values_, &found_);
  }
  static constexpr int kKeys = 2000;
  std::vector<std::string> values_;
  std::vector<Found> found_;
};

TEST_F(ReadNowTest, ReadNow_WouldWait_SaysUnknownAndKeepsNothing) {
  OpenSecondary(&FailingRead);
  ASSERT_TRUE(Valid());
  no_wait_error = EAGAIN;
  EXPECT_FALSE(ReadNow({"77"}));
  EXPECT_EQ(found_[0], Found::kUnknown);
  EXPECT_FALSE(ReadNow({"78", "1500", "absent"}));
  EXPECT_EQ(found_[0], Found::kUnknown);
  EXPECT_EQ(found_[1], Found::kUnknown);
  EXPECT_EQ(Get("77"), std::pair(Found::kYes, Value(77)));
  // In the block cache now.
  EXPECT_EQ(Get("77", true), std::pair(Found::kYes, Value(77)));
  no_wait_error = 0;
  EXPECT_TRUE(ReadNow({"78", "1500", "absent"}));
  EXPECT_EQ(values_[0], Value(78));
  EXPECT_EQ(values_[1], Value(1500));
  EXPECT_EQ(found_[2], Found::kNo);
  // Nothing was missing: the instance is as good as before.
  EXPECT_NE(secondary_->Validity(), 0u);
}

// In every order with reads that wait; the block cache holds a part of it.
TEST_F(ReadNowTest, ReadNow_MixedWithReadsThatWait_AnswersAreRight) {
  OpenSecondary(&FailingRead);
  ASSERT_TRUE(Valid());
  std::mt19937_64 random(testing_util::TestSeed());
  int unknown = 0;
  for (int round = 0; round < 5000; ++round) {
    const int i = static_cast<int>(random() % (kKeys + 200));
    const int j = static_cast<int>(random() % (kKeys + 200));
    no_wait_error = random() % 2 == 0 ? EAGAIN : 0;
    const std::string a = std::to_string(i), b = std::to_string(j);
    if (random() % 2 == 0) {
      ReadNow({a, b});
    } else {
      secondary_->Read({a, b}, &values_, &found_);
      EXPECT_NE(found_[0], Found::kUnknown);
    }
    unknown += found_[0] == Found::kUnknown;
    for (const auto& [k, n] : {std::pair(0, i), std::pair(1, j)}) {
      const auto at = static_cast<size_t>(k);
      if (found_[at] == Found::kUnknown) continue;
      ASSERT_EQ(found_[at], n < kKeys ? Found::kYes : Found::kNo) << n;
      if (n < kKeys) {
        ASSERT_EQ(values_[at], Value(n));
      }
    }
  }
  EXPECT_GT(unknown, 0);
  EXPECT_GT(no_wait_calls, 0);
}

TEST_F(ReadNowTest, FileSystem_WithoutNoWaitReads_IsAskedOnce) {
  OpenSecondary(&FailingRead);
  ASSERT_TRUE(Valid());
  no_wait_error = EOPNOTSUPP;
  EXPECT_FALSE(ReadNow({"77"}));
  EXPECT_EQ(found_[0], Found::kUnknown);
  EXPECT_FALSE(ReadNow({"1077"}));
  EXPECT_EQ(no_wait_calls, 1);
  // Nor are several keys.
  EXPECT_FALSE(ReadNow({"78", "1500"}));
  EXPECT_EQ(found_[0], Found::kUnknown);
  EXPECT_EQ(found_[1], Found::kUnknown);
  EXPECT_EQ(Get("77"), std::pair(Found::kYes, Value(77)));
  EXPECT_EQ(Get("1500"), std::pair(Found::kYes, Value(1500)));
  // From the block cache alone.
  EXPECT_EQ(Get("77", true), std::pair(Found::kYes, Value(77)));
  EXPECT_FALSE(ReadNow({"1500", "77"}));
  EXPECT_EQ(values_, (std::vector<std::string>{Value(1500), Value(77)}));
  EXPECT_EQ(no_wait_calls, 1);
}

TEST_F(ReadNowTest, Read_MoreBytesThanTheLimit_RestIsUnknown) {
  most_read_bytes_ = 20'000;
  OpenSecondary(&FailingRead);
  ASSERT_TRUE(Valid());
  std::vector<std::string> names;
  for (int i = 0; i < 100; ++i) names.push_back(std::to_string(i));
  const std::vector<std::string_view> keys(names.begin(), names.end());
  const auto check = [&] {
    size_t bytes = 0;
    for (size_t i = 0; i < keys.size(); ++i) {
      if (found_[i] != Found::kYes) continue;
      bytes += values_[i].size();
      EXPECT_EQ(values_[i], Value(static_cast<int>(i)));
    }
    EXPECT_EQ(found_[0], Found::kYes);
    EXPECT_EQ(found_[99], Found::kUnknown);
    EXPECT_GE(bytes, most_read_bytes_);
    EXPECT_LT(bytes, most_read_bytes_ + 10'000);
  };
  secondary_->Read(keys, &values_, &found_);
  check();
  ReadNow(keys);
  check();
  no_wait_error = EOPNOTSUPP;
  ReadNow({"1777"});
  ReadNow(keys);
  check();
}

// A cache in many small shards would keep no block that is larger than one of them, and read this
// index again for every key.
TEST_F(SecondaryTest, TableIndex_LargerThanASmallShard_IsKeptInTheCache) {
  constexpr int kKeys = 100'000;
  rocksdb::Options options;
  options.create_if_missing = true;
  rocksdb::BlockBasedTableOptions table;
  table.block_size = 16;  // an entry of the index for each key
  options.table_factory.reset(rocksdb::NewBlockBasedTableFactory(table));
  std::filesystem::create_directories(scratch_ / "db");
  rocksdb::DB* db = nullptr;
  ASSERT_TRUE(rocksdb::DB::Open(options, scratch_ / "db", &db).ok());
  db_.reset(db);
  const auto key = [](int i) { return absl::StrFormat("%016d", i); };
  for (int i = 0; i < kKeys; ++i) ASSERT_TRUE(db_->Put({}, key(i), "value").ok());
  ASSERT_TRUE(db_->Flush({}).ok());
  rocksdb::TablePropertiesCollection tables;
  ASSERT_TRUE(db_->GetPropertiesOfAllTables(&tables).ok());
  ASSERT_EQ(tables.size(), 1u);
  cache_bytes_ = SecondaryOptions().cache_bytes;
  ASSERT_GT(tables.begin()->second->index_size, cache_bytes_ >> 6);

  OpenSecondary(&FailingRead);
  ASSERT_TRUE(Valid());
  no_wait_error = EAGAIN;  // what is not in the cache is unknown
  EXPECT_EQ(Get(key(500), true).first, Found::kUnknown);
  EXPECT_EQ(Get(key(500)), std::pair(Found::kYes, std::string("value")));
  EXPECT_EQ(Get(key(500), true), std::pair(Found::kYes, std::string("value")));
}

// The kernel's own word for it.
TEST(PageCacheFilesTest, Read_WithoutWaiting_TakesOnlyCachedPages) {
  const testing_util::ScratchPath path("pages");
  constexpr size_t kBytes = 64 << 10;
  const std::string bytes(kBytes, 'p');
  const UniqueFd fd = OpenFile(path.get(), O_RDWR | O_CREAT, 0600);
  ASSERT_EQ(pwrite(fd.get(), bytes.data(), kBytes, 0), static_cast<ssize_t>(kBytes));
  ASSERT_EQ(fsync(fd.get()), 0);
  std::string scratch(kBytes, ' ');
  const iovec part = {scratch.data(), 1};
  if (preadv2(fd.get(), &part, 1, 0, RWF_NOWAIT) < 0 && errno == EOPNOTSUPP) {
    GTEST_SKIP() << "this file system cannot read without waiting";
  }
  void* pages = mmap(nullptr, kBytes, PROT_READ, MAP_SHARED, fd.get(), 0);
  ASSERT_NE(pages, MAP_FAILED);
  // The kernel keeps pages that are just being looked at. A read would not do as a look: even one
  // that does not wait has the kernel fetch what it misses.
  const auto dropped = [&] {
    posix_fadvise(fd.get(), 0, 0, POSIX_FADV_DONTNEED);
    std::vector<unsigned char> cached(kBytes / sysconf(_SC_PAGESIZE));
    EXPECT_EQ(mincore(pages, kBytes, cached.data()), 0);
    return std::ranges::none_of(cached, [](unsigned char page) { return (page & 1) != 0; });
  };

  PageCacheFiles files;
  std::unique_ptr<rocksdb::FSRandomAccessFile> file;
  ASSERT_TRUE(files.NewRandomAccessFile(path.get(), {}, &file, nullptr).ok());
  rocksdb::Slice result;
  const auto read = [&](uint64_t offset) {
    return file->Read(offset, kBytes, {}, &result, scratch.data(), nullptr);
  };
  // A disk may be quicker than a thread that is interrupted between the fetch and the look, so that
  // a read may find the pages; not each time.
  bool was_dropped = false;
  bool was_busy = false;
  int looks = 0;
  testing_util::Eventually(
      [&] {
        if (dropped()) {
          was_dropped = true;
          const WithoutWaiting without_waiting;
          was_busy = read(0).IsBusy();
          EXPECT_EQ(without_waiting.has_read(), !was_busy);
        }
        return was_busy || ++looks == 1000;
      },
      std::chrono::milliseconds(2));
  munmap(pages, kBytes);
  if (!was_dropped) GTEST_SKIP() << "this file system's pages cannot be dropped";
  EXPECT_TRUE(was_busy);
  EXPECT_TRUE(read(0).ok());
  EXPECT_EQ(result.ToString(), bytes);
  {
    const WithoutWaiting without_waiting;
    EXPECT_TRUE(read(0).ok());
    EXPECT_EQ(result.ToString(), bytes);
    EXPECT_TRUE(without_waiting.has_read());
    EXPECT_TRUE(read(1).IsBusy());  // who waits, sees the end of the file
  }
  EXPECT_TRUE(read(1).ok());
  EXPECT_EQ(result.size(), kBytes - 1);
  EXPECT_TRUE(files.usable());
  std::filesystem::remove(path.get());
}

// A table that were opened without waiting could lose its range deletions for good.
TEST_F(ReadNowTest, NewFile_WithoutWaiting_IsBusy) {
  PageCacheFiles files;
  std::unique_ptr<rocksdb::FSRandomAccessFile> file;
  {
    const WithoutWaiting without_waiting;
    EXPECT_TRUE(files.NewRandomAccessFile(scratch_ / "db/CURRENT", {}, &file, nullptr).IsBusy());
  }
  EXPECT_TRUE(files.NewRandomAccessFile(scratch_ / "db/CURRENT", {}, &file, nullptr).ok());
  EXPECT_TRUE(files.NewRandomAccessFile(scratch_ / "db/none", {}, &file, nullptr).IsPathNotFound());
  EXPECT_TRUE(files.usable());
  rocksdb::FileOptions direct;
  direct.use_direct_reads = true;
  files.NewRandomAccessFile(scratch_ / "db/CURRENT", direct, &file, nullptr).PermitUncheckedError();
  EXPECT_FALSE(files.usable());
}

// Never stale, whatever the primary deletes meanwhile: flushes, compactions and new MANIFESTs all
// the time, and now and then the primary is closed and opened again.
TEST_F(SecondaryTest, CleanRead_PrimaryChangesItsFiles_IsNeverStale) {
  std::mt19937_64 random(testing_util::TestSeed());
  OpenPrimary();
  OpenSecondary();
  ASSERT_TRUE(Valid());
  constexpr int kKeys = 64;
  std::vector<std::atomic<uint64_t>> written(kKeys);  // begun
  std::vector<std::atomic<uint64_t>> acked(kKeys);
  std::atomic<bool> stop{false};
  std::atomic<uint64_t> good{0};
  std::vector<std::thread> readers;
  for (int r = 0; r < 2; ++r) {
    readers.emplace_back([&, seed = random()] {
      std::mt19937_64 mine(seed);
      while (!stop) {
        const auto k = static_cast<size_t>(mine() % kKeys);
        const uint64_t low = acked[k];
        const auto value = Offloaded("key" + std::to_string(k));
        const uint64_t high = written[k];
        if (!value) continue;
        const uint64_t seen = *value == "(none)" ? 0 : std::stoull(*value);
        if (seen < low || seen > high) {
          ADD_FAILURE() << "key " << k << " read as " << seen << ", written between " << low
                        << " and " << high;
          stop = true;
          return;
        }
        ++good;
      }
    });
  }
  constexpr uint64_t kWrites = testing_util::kThreadSanitizer ? 2000 : 10'000;
  for (uint64_t i = 1; i <= kWrites && !stop; ++i) {
    const auto k = static_cast<size_t>(random() % kKeys);
    written[k] = i;
    Put("key" + std::to_string(k), std::to_string(i) + std::string(random() % 200, ' '));
    acked[k] = i;
    if (random() % 100 == 0) {
      // So that keys become clean between the writes.
      const uint64_t seen = good;
      ASSERT_TRUE(testing_util::Eventually([&] { return stop || good > seen; }));
    }
    if (random() % 400 == 0) {
      ASSERT_TRUE(db_->Flush({}).ok());
    }
    if (random() % 4000 == 0) {
      db_.reset();
      OpenPrimary();
    }
  }
  const uint64_t before = good;
  EXPECT_TRUE(Eventually([&] { return good > before + 1000 || stop; }));
  stop = true;
  for (auto& reader : readers) reader.join();
  // All is there at the end.
  for (int k = 0; k < kKeys; ++k) {
    if (acked[static_cast<size_t>(k)] == 0) continue;
    const std::string key = "key" + std::to_string(k);
    ASSERT_TRUE(Eventually([&] { return Offloaded(key).has_value(); }));
    EXPECT_EQ(std::stoull(*Offloaded(key)), acked[static_cast<size_t>(k)]);
  }
  const auto stats = secondary_->stats();
  printf("catch-ups %llu, repeated %llu, opened %llu times, %llu clean reads\n",
         static_cast<unsigned long long>(stats.catch_ups),
         static_cast<unsigned long long>(stats.repeated),
         static_cast<unsigned long long>(stats.opened), static_cast<unsigned long long>(good));
}

}  // namespace
}  // namespace pulse::redis
