// That flushes and compactions of real databases arrive at the agent as what they are.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "base/testing.h"
#include "pulse/rocksdb.h"
#include "rocksdb/listener.h"
#include "services/lsm/core/output_hints.h"
#include "services/lsm/core/test_db.h"
#include "services/lsm/core/test_support.h"
#include "services/lsm/plugin/pulse_file_system.h"

namespace pulse::lsm::test {
namespace {

using rocksdb::Env;
using Activity = OutputHints::Activity;

TEST(IoClassHintsTest, PurposeOf_EachCombination_IsRight) {
  const auto job = [](Env::IOPriority p, Env::WriteLifeTimeHint l, Activity a = Activity::kUnknown,
                      bool preallocates = false, bool thread_compacts = false) {
    return PurposeOf(OutputHints{p, l, a, preallocates, thread_compacts});
  };
  EXPECT_EQ(job(Env::IO_HIGH, Env::WLTH_MEDIUM), IoPurpose::kFlush);
  EXPECT_EQ(job(Env::IO_HIGH, Env::WLTH_NOT_SET), IoPurpose::kFlush);
  EXPECT_EQ(job(Env::IO_LOW, Env::WLTH_SHORT), IoPurpose::kBase);
  EXPECT_EQ(job(Env::IO_LOW, Env::WLTH_MEDIUM), IoPurpose::kBase);
  EXPECT_EQ(job(Env::IO_LOW, Env::WLTH_LONG), IoPurpose::kDeep);
  EXPECT_EQ(job(Env::IO_LOW, Env::WLTH_EXTREME), IoPurpose::kDeep);
  EXPECT_EQ(job(Env::IO_LOW, Env::WLTH_NOT_SET), IoPurpose::kDeep);
  // In a stall the priority says nothing of the job.
  EXPECT_EQ(job(Env::IO_USER, Env::WLTH_MEDIUM), IoPurpose::kFlush);
  EXPECT_EQ(job(Env::IO_USER, Env::WLTH_MEDIUM, Activity::kUnknown, true), IoPurpose::kBase);
  EXPECT_EQ(job(Env::IO_USER, Env::WLTH_MEDIUM, Activity::kUnknown, false, true), IoPurpose::kBase);
  EXPECT_EQ(job(Env::IO_USER, Env::WLTH_LONG), IoPurpose::kDeep);
  EXPECT_EQ(job(Env::IO_USER, Env::WLTH_NOT_SET), IoPurpose::kFlush);
  EXPECT_EQ(job(Env::IO_USER, Env::WLTH_NOT_SET, Activity::kUnknown, true), IoPurpose::kBase);
  // What is told outright counts.
  EXPECT_EQ(job(Env::IO_USER, Env::WLTH_MEDIUM, Activity::kFlush, true, true), IoPurpose::kFlush);
  EXPECT_EQ(job(Env::IO_USER, Env::WLTH_MEDIUM, Activity::kCompaction), IoPurpose::kBase);
  EXPECT_EQ(job(Env::IO_TOTAL, Env::WLTH_EXTREME, Activity::kCompaction), IoPurpose::kDeep);
  // Nothing is.
  EXPECT_EQ(job(Env::IO_TOTAL, Env::WLTH_NOT_SET), IoPurpose::kUnknown);
  EXPECT_EQ(job(Env::IO_TOTAL, Env::WLTH_MEDIUM), IoPurpose::kUnknown);
}

// What RocksDB says each file was made by.
class Jobs : public rocksdb::EventListener {
 public:
  void OnFlushCompleted(rocksdb::DB*, const rocksdb::FlushJobInfo& info) override {
    std::lock_guard lock(mu_);
    made_by_[Name(info.file_path)] = "flush";
    for (const auto& b : info.blob_file_addition_infos) made_by_[Name(b.blob_file_path)] = "flush";
  }
  void OnCompactionCompleted(rocksdb::DB*, const rocksdb::CompactionJobInfo& info) override {
    std::lock_guard lock(mu_);
    const std::string level = "L" + std::to_string(info.output_level);
    for (const auto& f : info.output_files) {
      // A trivial move makes no file; and it may be told of before the compaction that made it.
      if (std::count(info.input_files.begin(), info.input_files.end(), f) == 0) {
        made_by_[Name(f)] = level;
      }
    }
    for (const auto& b : info.blob_file_addition_infos) made_by_[Name(b.blob_file_path)] = level;
  }
  std::map<std::string, std::string> made_by() const {
    std::lock_guard lock(mu_);
    return made_by_;
  }
  static std::string Name(const std::string& path) { return path.substr(path.rfind('/') + 1); }

 private:
  mutable std::mutex mu_;
  std::map<std::string, std::string> made_by_;
};

// `wrapped`: through a FileSystem that hands on less, as tracing and counting ones do.
class IoClassTest : public ::testing::TestWithParam<bool> {
 protected:
  IoClassTest() {
    rig_.script.SetRule([this](const IoRequest& r, const std::string& path) {
      std::lock_guard lock(mu_);
      const std::string name = Jobs::Name(path);
      if (r.op == IoOp::kWrite) written_as_[name].insert(r.io_class);
      if (r.op == IoOp::kRead) ++reads_as_[r.io_class];
      return Verdict{};
    });
    env_ = rocksdb::NewCompositeEnv(GetParam() ? rig_.top : rig_.pulse);
    options_ = SmallDbOptions(env_.get());
    options_.level_compaction_dynamic_level_bytes = false;  // the base level is 1
    jobs_ = std::make_shared<Jobs>();
    options_.listeners.push_back(jobs_);
  }

  uint32_t PressureWord() {
    auto* fs = static_cast<PulseFileSystem*>(rig_.pulse.get());
    return fs->context().session->connection()->link->control()->pressure.value;
  }
  static IoClass Expected(const std::string& made_by, IoClass unknown_level) {
    if (made_by == "flush") return IoClass::kCritical;
    if (unknown_level != IoClass::kUnknown) return unknown_level;
    return made_by == "L0" || made_by == "L1" ? IoClass::kElevated : IoClass::kBackground;
  }
  // Every file that RocksDB told of was written in the class of its job. Returns how many of each.
  std::map<std::string, int> Check(IoClass compactions = IoClass::kUnknown) {
    std::map<std::string, int> counts;
    std::lock_guard lock(mu_);
    for (const auto& [name, made_by] : jobs_->made_by()) {
      const auto it = written_as_.find(name);
      if (it == written_as_.end()) continue;  // moved, not made
      ++counts[absl::EndsWith(name, ".blob") ? made_by + " blob" : made_by];
      EXPECT_EQ(it->second, std::set<IoClass>{Expected(made_by, compactions)})
          << name << " by " << made_by;
    }
    return counts;
  }

  Rig rig_{MakeOptions("pulse://?write_threshold=4K&queue=1M&fetch_memory=4M&fetch_chunk=64K")};
  std::unique_ptr<Env> env_;
  rocksdb::Options options_;
  std::shared_ptr<Jobs> jobs_;
  std::mutex mu_;
  std::map<std::string, std::set<IoClass>> written_as_;
  std::map<IoClass, int> reads_as_;
};
INSTANTIATE_TEST_SUITE_P(Through, IoClassTest, ::testing::Bool(),
                         [](const auto& each) { return each.param ? "wrapper" : "plugin"; });

TEST_P(IoClassTest, Compaction_LevelsOfFamilies_HaveTheirClass) {
  const ScratchDir dir;
  std::mt19937_64 rng(testing_util::TestSeed());
  TestDb db(options_, dir / "db", {"second"});
  ASSERT_TRUE(db.Open().ok());
  for (int round = 0; round < 6; ++round) {
    ASSERT_TRUE(db.Fill(&rng, 3000, 500, 20'000).ok());
    ASSERT_TRUE(db.FlushAll().ok());
  }
  ASSERT_TRUE(db.CompactAll().ok());
  db.Close();
  auto counts = Check();
  EXPECT_GT(counts["flush"], 0);
  EXPECT_GT(counts["L1"], 0);
  EXPECT_GT(counts["L2"], 0);
  std::lock_guard lock(mu_);
  EXPECT_GT(reads_as_[IoClass::kElevated], 0);
  EXPECT_GT(reads_as_[IoClass::kBackground], 0);
  EXPECT_EQ(reads_as_[IoClass::kCritical], 0);
}

TEST_P(IoClassTest, Compaction_WithinL0_IsBase) {
  const ScratchDir dir;
  std::mt19937_64 rng(testing_util::TestSeed());
  options_.disable_auto_compactions = true;
  TestDb db(options_, dir / "db");
  ASSERT_TRUE(db.Open().ok());
  for (int round = 0; round < 4; ++round) {
    ASSERT_TRUE(db.Fill(&rng, 500, 500).ok());
    ASSERT_TRUE(db.FlushAll().ok());
  }
  rocksdb::ColumnFamilyMetaData meta;
  db->GetColumnFamilyMetaData(&meta);
  std::vector<std::string> files;
  for (const auto& f : meta.levels[0].files) files.push_back(f.name);
  ASSERT_GE(files.size(), 4u);
  std::vector<std::string> made;
  ASSERT_TRUE(db->CompactFiles(rocksdb::CompactionOptions(), files, 0, -1, &made).ok());
  db.Close();
  Check();
  ASSERT_FALSE(made.empty());
  for (const std::string& path : made) {
    EXPECT_EQ(written_as_[Jobs::Name(path)], std::set<IoClass>{IoClass::kElevated}) << path;
  }
}

// Where RocksDB delays its writers, flushes and compactions come with the same priority.
TEST_P(IoClassTest, Compaction_InAStall_HasItsClass) {
  const ScratchDir dir;
  std::mt19937_64 rng(testing_util::TestSeed());
  options_.level0_slowdown_writes_trigger = 1;
  options_.level0_file_num_compaction_trigger = 1;
  options_.delayed_write_rate = 64 << 20;
  options_.enable_blob_files = true;
  options_.min_blob_size = 2000;
  options_.enable_blob_garbage_collection = true;
  options_.blob_garbage_collection_age_cutoff = 1.0;
  EXPECT_EQ(PressureWord(), 0u);
  TestDb db(options_, dir / "db");
  ASSERT_TRUE(db.Open().ok());
  for (int round = 0; round < 6; ++round) {
    ASSERT_TRUE(db.Fill(&rng, 1000, 500, 5000).ok());
    ASSERT_TRUE(db.Fill(&rng, 200, 3000, 5000).ok());
  }
  ASSERT_TRUE(db.FlushAll().ok());
  ASSERT_TRUE(db.CompactAll().ok());
  db.Close();
  auto counts = Check();
  EXPECT_GT(counts["flush"], 0);
  EXPECT_GT(counts["flush blob"], 0);
  EXPECT_GT(counts["L1"], 0);
  EXPECT_EQ(wire::PressureLevel(PressureWord()), wire::kPressureDelayed);
}

TEST_P(IoClassTest, StallListener_StallBeginsAndEnds_TellsTheAgent) {
  using rocksdb::WriteStallCondition;
  EXPECT_EQ(NewStallListener(rocksdb::FileSystem::Default().get()), nullptr);
  const auto listener = NewStallListener(env_->GetFileSystem().get());
  ASSERT_NE(listener, nullptr);
  const auto change = [&](WriteStallCondition from, WriteStallCondition to) {
    const uint32_t before = PressureWord();
    rocksdb::WriteStallInfo info;
    info.condition.prev = from;
    info.condition.cur = to;
    listener->OnStallConditionsChanged(info);
    EXPECT_NE(PressureWord(), before) << "is no news to the agent";
    return wire::PressureLevel(PressureWord());
  };
  EXPECT_EQ(change(WriteStallCondition::kNormal, WriteStallCondition::kDelayed), 1u);
  EXPECT_EQ(change(WriteStallCondition::kNormal, WriteStallCondition::kStopped), 2u);
  EXPECT_EQ(change(WriteStallCondition::kNormal, WriteStallCondition::kDelayed), 2u);
  // An output says it again, whatever its own priority.
  auto* fs = static_cast<PulseFileSystem*>(rig_.pulse.get());
  const uint32_t before = PressureWord();
  fs->context().session->NotePressure(wire::kPressureNone);
  EXPECT_NE(PressureWord(), before);
  EXPECT_EQ(wire::PressureLevel(PressureWord()), 2u);
  EXPECT_EQ(change(WriteStallCondition::kStopped, WriteStallCondition::kDelayed), 1u);
  EXPECT_EQ(change(WriteStallCondition::kDelayed, WriteStallCondition::kNormal), 1u);
  EXPECT_EQ(change(WriteStallCondition::kDelayed, WriteStallCondition::kNormal), 1u);
  EXPECT_EQ(change(WriteStallCondition::kDelayed, WriteStallCondition::kNormal), 0u);
  const uint32_t after = PressureWord();
  fs->context().session->NotePressure(wire::kPressureNone);
  EXPECT_EQ(PressureWord(), after) << "no stall, no news";
}

TEST_P(IoClassTest, UniversalStyle_FlushAndCompaction_AreDistinguished) {
  const ScratchDir dir;
  std::mt19937_64 rng(testing_util::TestSeed());
  options_.compaction_style = rocksdb::kCompactionStyleUniversal;
  options_.max_write_buffer_number = 100;  // no stall, in which every compaction counts
  options_.level0_slowdown_writes_trigger = options_.level0_stop_writes_trigger = 1000;
  options_.soft_pending_compaction_bytes_limit = 0;
  options_.hard_pending_compaction_bytes_limit = 0;
  options_.num_levels = 4;
  TestDb db(options_, dir / "db");
  ASSERT_TRUE(db.Open().ok());
  for (int round = 0; round < 5; ++round) {
    ASSERT_TRUE(db.Fill(&rng, 1500, 500, 20'000).ok());
    ASSERT_TRUE(db.FlushAll().ok());
  }
  ASSERT_TRUE(db.CompactAll().ok());
  db.Close();
  // No level is told for this style, unless calculate_sst_write_lifetime_hint_set (10.x) names it.
  auto counts = Check(IoClass::kBackground);
  EXPECT_GT(counts["flush"], 0);
  EXPECT_GT(counts.size(), 1u) << "no compaction";
}

}  // namespace
}  // namespace pulse::lsm::test
