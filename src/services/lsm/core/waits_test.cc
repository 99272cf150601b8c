// What RocksDB shows of the plug-in's waits: statistics, the listener's lines and its callback.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <mutex>
#include <sstream>
#include <thread>

#include "rocksdb/convenience.h"
#include "rocksdb/utilities/options_util.h"
#include "services/lsm/core/test_db.h"
#include "services/lsm/core/test_support.h"

namespace pulse::lsm::test {
namespace {

using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using ::testing::Not;

// The jobs that a listener told of.
class WaitJobs {
 public:
  JobCallback callback() {
    return [this](const JobWaits& w) {
      std::lock_guard lock(mu_);
      jobs_.push_back(w);
    };
  }
  std::vector<JobWaits> all() const {
    std::lock_guard lock(mu_);
    return jobs_;
  }
  JobWaits Sum() const {
    JobWaits sum;
    for (const JobWaits& w : all()) {
      sum.backpressure_waits += w.backpressure_waits;
      sum.backpressure_nanos += w.backpressure_nanos;
      sum.barrier_waits += w.barrier_waits;
      sum.barrier_nanos += w.barrier_nanos;
      sum.fetch_waits += w.fetch_waits;
      sum.fetch_wait_nanos += w.fetch_wait_nanos;
      sum.bytes_persisted += w.bytes_persisted;
      sum.bytes_inline += w.bytes_inline;
      sum.bytes_fetched += w.bytes_fetched;
    }
    return sum;
  }
  size_t Count(bool flush) const {
    size_t n = 0;
    for (const JobWaits& w : all()) n += w.is_flush == flush;
    return n;
  }

 private:
  mutable std::mutex mu_;
  std::vector<JobWaits> jobs_;
};

std::string TextOf(const std::string& path) {
  std::ifstream in(path);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

// A queue that is smaller than what a flush writes.
Options SmallQueue() { return MakeOptions("pulse://?queue=1M&write_threshold=64K&io=buffered"); }

// Flushes of 2 MB at least, whose writes are held until one waits for queue space; from then on,
// reads and syncs are slow enough to be waited for.
void FlushUntilItWaits(Rig* rig, TestDb* db, std::mt19937_64* rng) {
  rig->script.Hold(IoOp::kWrite);
  ASSERT_TRUE(db->Fill(rng, 1500, 4000).ok());
  std::thread flush([&] { EXPECT_TRUE(db->FlushAll().ok()); });
  EXPECT_TRUE(testing_util::Eventually([&] { return rig->stats().backpressure_waits > 0; }));
  rig->script.Release();
  flush.join();
  rig->script.SetRule([](const IoRequest& request, const std::string&) {
    const bool slow = request.op == IoOp::kSyncClose || request.op == IoOp::kRead;
    return slow ? Verdict{Verdict::kDelay, 20'000} : Verdict{};
  });
}

TEST(WaitsTest, Listener_JobEnds_TellsItsWaits) {
  Rig rig(SmallQueue());
  const ScratchDir dir;
  WaitJobs jobs;
  rocksdb::Options options = SmallDbOptions(rig.env.get());
  options.write_buffer_size = 8 << 20;
  options.target_file_size_base = 4 << 20;
  options.listeners = {NewWaitListener(jobs.callback())};
  options.max_subcompactions = 2;
  TestDb db(options, dir / "db", {"other"});
  ASSERT_TRUE(db.Open().ok());
  std::mt19937_64 rng(TestSeed());
  FlushUntilItWaits(&rig, &db, &rng);
  for (int round = 0; round < 2; ++round) {
    ASSERT_TRUE(db.Fill(&rng, 6000, 1000).ok());
    ASSERT_TRUE(db.FlushAll().ok());
  }
  ASSERT_TRUE(db.CompactAll().ok());
  const std::string log = dir / "db" + "/LOG";
  ASSERT_TRUE(db->PauseBackgroundWork().ok());  // returns when no job is at work
  const Stats stats = rig.stats();
  const JobWaits sum = jobs.Sum();
  ASSERT_TRUE(db->ContinueBackgroundWork().ok());
  db.Close();

  EXPECT_GE(jobs.Count(/*flush=*/true), 6u) << "three of each family";
  EXPECT_GE(jobs.Count(/*flush=*/false), 2u);
  // Only jobs write outputs here, so that what they tell is what the session has counted.
  EXPECT_GT(sum.backpressure_waits, 0u);
  EXPECT_GT(sum.backpressure_nanos, 0u);
  EXPECT_GT(sum.barrier_waits, 0u);
  EXPECT_GT(sum.barrier_nanos, 0u);
  EXPECT_GT(sum.fetch_waits, 0u);
  EXPECT_GT(sum.fetch_wait_nanos, 0u);
  EXPECT_GT(sum.bytes_fetched, 0u);
  EXPECT_EQ(sum.bytes_persisted, stats.bytes_persisted);
  EXPECT_LE(sum.backpressure_nanos, stats.backpressure_nanos);
  EXPECT_EQ(sum.backpressure_waits, stats.backpressure_waits);
  EXPECT_LE(sum.barrier_waits, stats.barrier_waits) << "opening waits, too";
  for (const JobWaits& w : jobs.all()) {
    EXPECT_EQ(w.database, dir / "db");
    EXPECT_TRUE(w.column_family == "default" || w.column_family == "other") << w.column_family;
    EXPECT_GT(w.job_id, 0);
  }
  // A line for each, in RocksDB's own log.
  const std::string text = TextOf(log);
  size_t lines = 0;
  for (size_t at = 0; (at = text.find("[pulse] [", at)) != std::string::npos; ++at) ++lines;
  EXPECT_EQ(lines, jobs.all().size());
  EXPECT_THAT(text, HasSubstr("[pulse] [default] flush job "));
  EXPECT_THAT(text, HasSubstr("[pulse] [other] compaction job "));
  EXPECT_THAT(text, HasSubstr(" MiB through the agent, 0.0 MiB inline, "));
}

TEST(WaitsTest, Listener_OtherFileSystem_SaysSo) {
  const ScratchDir dir;
  rocksdb::Options options = SmallDbOptions(nullptr);
  options.listeners = {NewWaitListener()};
  TestDb db(options, dir / "db");
  ASSERT_TRUE(db.Open().ok());
  ASSERT_TRUE(db.Put("default", "k", "v").ok());
  ASSERT_TRUE(db.FlushAll().ok());
  db.Close();
  EXPECT_THAT(TextOf(dir / "db/LOG"), HasSubstr("[pulse] job "));
  EXPECT_THAT(TextOf(dir / "db/LOG"), HasSubstr("the database is not on pulse://"));
}

TEST(WaitsTest, Listener_OptionsFile_NamesIt) {
  ASSERT_TRUE(RegisterRocksDb().ok());
  rocksdb::ConfigOptions config;
  config.ignore_unsupported_options = false;
  rocksdb::DBOptions options;
  const rocksdb::Status s = rocksdb::GetDBOptionsFromString(
      config, rocksdb::DBOptions(), "listeners={PulseWaitListener}", &options);
  ASSERT_TRUE(s.ok()) << s.ToString();
  ASSERT_EQ(options.listeners.size(), 1u);
  EXPECT_STREQ(options.listeners[0]->Name(), "PulseWaitListener");
  // And a database's OPTIONS file brings it back.
  const ScratchDir dir;
  Rig rig;
  rocksdb::Options db_options = SmallDbOptions(rig.env.get());
  db_options.listeners = {NewWaitListener()};
  TestDb db(db_options, dir / "db");
  ASSERT_TRUE(db.Open().ok());
  db.Close();
  rocksdb::DBOptions loaded;
  std::vector<rocksdb::ColumnFamilyDescriptor> families;
  rocksdb::ConfigOptions load;
  load.env = rig.env.get();
  load.ignore_unsupported_options = true;  // of the test's own comparators and operators
  const rocksdb::Status read = rocksdb::LoadLatestOptions(load, dir / "db", &loaded, &families);
  ASSERT_TRUE(read.ok()) << read.ToString();
  ASSERT_EQ(loaded.listeners.size(), 1u);
  EXPECT_STREQ(loaded.listeners[0]->Name(), "PulseWaitListener");
}

TEST(WaitsTest, Statistics_Wrapped_ShowBoth) {
  Rig rig(SmallQueue());
  const ScratchDir dir;
  std::shared_ptr<rocksdb::Statistics> statistics;
  ASSERT_TRUE(NewStatistics(rig.pulse, nullptr, &statistics).ok());
  rocksdb::Options options = SmallDbOptions(rig.env.get());
  options.write_buffer_size = 8 << 20;
  options.target_file_size_base = 4 << 20;
  options.statistics = statistics;
  TestDb db(options, dir / "db");
  ASSERT_TRUE(db.Open().ok());
  std::mt19937_64 rng(TestSeed());
  FlushUntilItWaits(&rig, &db, &rng);
  ASSERT_TRUE(db.Fill(&rng, 1000, 1000).ok());
  ASSERT_TRUE(db.FlushAll().ok());
  ASSERT_TRUE(db.CompactAll().ok());
  ASSERT_TRUE(db->PauseBackgroundWork().ok());  // returns when no job is at work

  std::map<std::string, uint64_t> tickers, own;
  ASSERT_TRUE(GetTickerMap(rig.pulse.get(), &own));
  ASSERT_TRUE(statistics->getTickerMap(&tickers));
  EXPECT_EQ(tickers.at("pulse.persisted.bytes"), own.at("pulse.persisted.bytes"));
  EXPECT_GT(tickers.at("pulse.persisted.bytes"), 0u);
  EXPECT_GT(tickers.at("pulse.backpressure.micros"), 0u);
  EXPECT_GT(tickers.at("pulse.barrier.waits"), 0u);
  EXPECT_GT(tickers.at("pulse.syncs"), 0u);
  EXPECT_EQ(tickers.at("pulse.whole.compactions"), 0u) << "the host merges here";
  EXPECT_GT(tickers.at("pulse.sync.micros"), 0u);
  EXPECT_GE(tickers.at("rocksdb.bytes.written"), 4000u * 1000) << "RocksDB's own go on";
  EXPECT_EQ(statistics->getTickerCount(rocksdb::BYTES_WRITTEN),
            tickers.at("rocksdb.bytes.written"));
  EXPECT_THAT(statistics->ToString(), HasSubstr("pulse.backpressure.micros COUNT : "));
  EXPECT_THAT(statistics->ToString(), HasSubstr("rocksdb.bytes.written COUNT : "));
  rocksdb::HistogramData writes{};
  statistics->histogramData(rocksdb::DB_WRITE, &writes);
  EXPECT_GT(writes.count, 0u);
  // RocksDB writes them to its LOG.
  ASSERT_TRUE(db->ContinueBackgroundWork().ok());
  ASSERT_TRUE(db->SetDBOptions({{"stats_dump_period_sec", "1"}}).ok());
  EXPECT_TRUE(testing_util::Eventually([&] {
    return TextOf(dir / "db/LOG").find("pulse.barrier.micros COUNT : ") != std::string::npos;
  }));

  // A reset begins anew, for both.
  ASSERT_TRUE(statistics->Reset().ok());
  std::map<std::string, uint64_t> after;
  ASSERT_TRUE(statistics->getTickerMap(&after));
  EXPECT_EQ(after.at("pulse.persisted.bytes"), 0u);
  EXPECT_EQ(after.at("rocksdb.bytes.written"), 0u);
  ASSERT_TRUE(db.Fill(&rng, 100, 1000).ok());
  ASSERT_TRUE(db.FlushAll().ok());
  ASSERT_TRUE(statistics->getTickerMap(&after));
  EXPECT_GT(after.at("pulse.persisted.bytes"), 0u);
  EXPECT_LT(after.at("pulse.persisted.bytes"), own.at("pulse.persisted.bytes"));
  db.Close();
}

TEST(WaitsTest, Statistics_OtherFileSystem_IsRefused) {
  std::shared_ptr<rocksdb::Statistics> statistics;
  const rocksdb::Status s = NewStatistics(rocksdb::FileSystem::Default(), nullptr, &statistics);
  EXPECT_TRUE(s.IsInvalidArgument()) << s.ToString();
  std::map<std::string, uint64_t> own;
  EXPECT_FALSE(GetTickerMap(rocksdb::FileSystem::Default().get(), &own));
  EXPECT_FALSE(GetTickerMap(nullptr, &own));
}

}  // namespace
}  // namespace pulse::lsm::test
