// Secondary against a primary that is written, flushed, compacted, closed and opened under it.
#include "secondary.h"

#include <gtest/gtest.h>
#include <rocksdb/db.h>

#include <atomic>
#include <filesystem>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "base/testing.h"

namespace pulse::resp {
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
  void OpenSecondary() {
    SecondaryOptions options;
    options.db = scratch_ / "db";
    options.directory = scratch_ / "secondary";
    options.cache_bytes = 1 << 20;
    options.min_interval_us = 100;
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
  std::pair<Found, std::string> Get(const std::string& key, bool memory_only = false) {
    std::vector<std::string> values;
    std::vector<Found> found;
    secondary_->Read({key}, memory_only, &values, &found);
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
  CatchUpClock clock_;
  DirtyTable table_{&clock_, 1 << 14, 42};
  std::unique_ptr<rocksdb::DB> db_;
  std::unique_ptr<Secondary> secondary_;
};

TEST_F(SecondaryTest, FollowsWritesFlushesAndReopening) {
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

TEST_F(SecondaryTest, WaitsForADatabaseThatIsNotThereYet) {
  OpenSecondary();
  EXPECT_EQ(secondary_->Validity(), 0u);
  EXPECT_EQ(Get("a").first, Found::kUnknown);
  OpenPrimary();
  ASSERT_TRUE(db_->Put({}, "a", "1").ok());
  ASSERT_TRUE(Valid());
  ASSERT_TRUE(Eventually([&] { return Get("a").second == "1"; }));
}

TEST_F(SecondaryTest, ADatabaseThatIsReplacedIsOpenedAnew) {
  OpenPrimary();
  OpenSecondary();
  ASSERT_TRUE(Valid());
  Put("a", "old");
  ASSERT_TRUE(Eventually([&] { return Offloaded("a") == "old"; }));
  db_.reset();
  std::filesystem::remove_all(scratch_ / "db");
  OpenPrimary();
  ASSERT_TRUE(db_->Put({}, "a", "new").ok());
  ASSERT_TRUE(Valid());
  ASSERT_TRUE(Eventually([&] { return Offloaded("a") == "new"; }));
  EXPECT_GT(secondary_->stats().opened, 1u);
}

TEST_F(SecondaryTest, FromMemoryOnlyWhatIsThere) {
  OpenPrimary();
  for (int i = 0; i < 2000; ++i) {
    ASSERT_TRUE(db_->Put({}, std::to_string(i), std::string(1000, 'x')).ok());
  }
  ASSERT_TRUE(db_->Flush({}).ok());
  OpenSecondary();
  ASSERT_TRUE(Valid());
  EXPECT_EQ(Get("77", true).first, Found::kUnknown);
  EXPECT_EQ(Get("77").first, Found::kYes);
  EXPECT_EQ(Get("77", true).first, Found::kYes);
}

// Never stale, whatever the primary deletes meanwhile: flushes, compactions and new MANIFESTs all
// the time, and now and then the primary is closed and opened again.
TEST_F(SecondaryTest, CleanReadsAreNeverStaleWhilePrimaryChangesItsFiles) {
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
    if (random() % 100 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(2));
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
}  // namespace pulse::resp
