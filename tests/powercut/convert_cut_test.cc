// Power cuts and I/O errors while a database moves into a pool or out of it: after each, the
// database opens in the layout that its directory says and has every key, and the same command then
// ends what was begun.
//
//   PULSE_TEST_SEED   chooses the database and the images
//   PULSE_POWER_CUTS  how many cuts for each direction, 150 unless given
#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <memory>
#include <random>
#include <string>

#include "base/testing.h"
#include "powercut/crash_image.h"
#include "powercut/cutter.h"
#include "powercut/faults.h"
#include "powercut/sim_disk.h"
#include "pulse/rocksdb.h"
#include "rocksdb/db.h"
#include "rocksdb/env.h"
#include "services/lsm/pool/convert/convert.h"
#include "services/lsm/pool/pool_guard.h"
#include "store/store.h"

namespace pulse::powercut {
namespace {

namespace fs = std::filesystem;
using testing_util::TestSeed;

int CutsInAll() {
  const char* text = getenv("PULSE_POWER_CUTS");
  if (text == nullptr) return testing_util::LongTests() ? 150 : 40;
  return std::max(atoi(text), 1);
}

class ConvertCutTest : public ::testing::Test {
 protected:
  void SetUp() override {
    fs::create_directories(root_ + "/more");
    store::CreateOptions options;
    options.size = 6 << 20;
    options.segment_bytes = 32 << 10;
    options.prefill = false;
    ASSERT_TRUE(store::Create(root_ + "/pool", options).ok());
    MakeDatabase();
  }
  void TearDown() override {
    std::error_code ec;
    fs::remove_all(scratch_, ec);
  }

  rocksdb::Options DbOptions(rocksdb::Env* env) const {
    rocksdb::Options o;
    o.env = env;
    o.create_if_missing = true;
    o.compression = rocksdb::kNoCompression;
    o.write_buffer_size = 128 << 10;
    o.target_file_size_base = 32 << 10;
    o.enable_blob_files = true;
    o.min_blob_size = 900;
    o.db_paths = {{root_ + "/db", 100 << 10}, {root_ + "/more", uint64_t{1} << 30}};
    return o;
  }
  void MakeDatabase() {
    std::unique_ptr<rocksdb::DB> db;
    rocksdb::DB* raw = nullptr;
    ASSERT_TRUE(rocksdb::DB::Open(DbOptions(rocksdb::Env::Default()), root_ + "/db", &raw).ok());
    db.reset(raw);
    const auto put = [&](int n, size_t most) {
      for (int i = 0; i < n; ++i) {
        std::string value(rng_() % most, '\0');
        for (char& c : value) c = static_cast<char>(rng_());
        const std::string key = std::to_string(rng_() % 3000);
        ASSERT_TRUE(db->Put(rocksdb::WriteOptions(), key, value).ok());
        model_[key] = value;
      }
    };
    put(4000, 300);
    put(50, 2000);
    rocksdb::CompactRangeOptions to_more;
    to_more.target_path_id = 1;
    ASSERT_TRUE(db->CompactRange(to_more, nullptr, nullptr).ok());
    put(200, 300);
    ASSERT_TRUE(db->Flush(rocksdb::FlushOptions()).ok());
    put(20, 100);
    ASSERT_TRUE(db->Close().ok());
  }
  convert::Options MakeOptions() const {
    convert::Options options;
    options.pool = root_ + "/pool";
    options.database = root_ + "/db";
    options.db_paths = {root_ + "/more"};
    return options;
  }
  // "" or what is wrong with the database, opened in the layout that it is in. Read-only, since the
  // conversion is to go on.
  std::string Judge() const {
    std::unique_ptr<rocksdb::Env> own;
    rocksdb::Env* env = rocksdb::Env::Default();
    const auto guarded = lsm::IsGuarded(root_ + "/db");
    if (!guarded.ok()) return std::string(guarded.status().message());
    if (*guarded) {
      std::shared_ptr<rocksdb::FileSystem> file_system;
      const rocksdb::Status s = NewFileSystem(
          "pulse://?engine=threads&fetch=off&queue=1M&write_threshold=64K&layout=pool&pool=" +
              root_ + "/pool",
          nullptr, &file_system);
      if (!s.ok()) return "the pool does not open: " + s.ToString();
      own = rocksdb::NewCompositeEnv(file_system);
      env = own.get();
    }
    rocksdb::Options options = DbOptions(env);
    options.create_if_missing = false;
    rocksdb::DB* raw = nullptr;
    rocksdb::Status s = rocksdb::DB::OpenForReadOnly(options, root_ + "/db", &raw);
    if (!s.ok()) return "does not open: " + s.ToString();
    const std::unique_ptr<rocksdb::DB> db(raw);
    s = db->VerifyChecksum();
    if (!s.ok()) return "checksums: " + s.ToString();
    const std::unique_ptr<rocksdb::Iterator> it(db->NewIterator(rocksdb::ReadOptions()));
    auto want = model_.begin();
    for (it->SeekToFirst(); it->Valid(); it->Next(), ++want) {
      if (want == model_.end() || it->key() != want->first || it->value() != want->second) {
        return "differs at key " + it->key().ToString();
      }
    }
    if (!it->status().ok()) return it->status().ToString();
    return want == model_.end() ? "" : "has lost key " + want->first;
  }

  using Command = absl::StatusOr<convert::Report> (*)(const convert::Options&);
  void CutPower(Command run, bool into_pool);
  void InjectFaults(Command run, bool into_pool);
  // Power cuts in the run that goes on after one which could not sync a directory: as after one
  // that was killed there, what that has renamed is not durable yet.
  void CutRerun(Command run);
  // How many of the cuts lose something on a disk that only says that it syncs these files.
  int LossesOnALyingDisk(Command run, FileClass lying);

  const std::string scratch_ = fs::canonical(FastScratchDir("convert")).string();
  const std::string root_ = scratch_ + "/disk";
  std::map<std::string, std::string> model_;
  std::mt19937_64 rng_{TestSeed()};
};

void ConvertCutTest::CutPower(Command run, bool into_pool) {
  SimDisk::Get().Start(root_, {});
  const size_t begin = SimDisk::Get().position();
  const auto report = run(MakeOptions());
  const OpLog log = SimDisk::Get().Stop();
  ASSERT_TRUE(report.ok()) << report.status();
  ASSERT_GT(report->copied_files, 8u);
  ASSERT_EQ(Judge(), "");

  CrashImage images(&log, scratch_ + "/cache");
  const int cuts = CutsInAll();
  int in_pool = 0;
  int copied_less = 0;
  for (int n = 0; n < cuts; ++n) {
    // Evenly, so that each step is met; and the last moment, too.
    const size_t at = begin + (log.size() - begin) * (n + 1) / cuts;
    const uint64_t image = rng_();
    SCOPED_TRACE("cut at " + std::to_string(at) + " of " + std::to_string(log.size()) + ", image " +
                 std::to_string(image));
    fs::remove_all(root_);
    ASSERT_TRUE(images.Build(at, image, "", root_));
    ASSERT_EQ(Judge(), "");
    in_pool += *lsm::IsGuarded(root_ + "/db") ? 1 : 0;
    const auto again = run(MakeOptions());
    ASSERT_TRUE(again.ok()) << again.status();
    copied_less += again->copied_files < report->copied_files ? 1 : 0;
    ASSERT_EQ(*lsm::IsGuarded(root_ + "/db"), into_pool);
    ASSERT_EQ(Judge(), "");
    const auto third = run(MakeOptions());
    ASSERT_TRUE(third.ok()) << third.status();
    EXPECT_TRUE(third->already);
  }
  printf(
      "%d cuts in %zu operations: %d before the switch, %d went on with copies that were there\n",
      cuts, log.size() - begin, into_pool ? cuts - in_pool : in_pool, copied_less);
  EXPECT_GT(in_pool, 0);
  EXPECT_LT(in_pool, cuts);
  EXPECT_GT(copied_less, 0);
}

int ConvertCutTest::LossesOnALyingDisk(Command run, FileClass lying) {
  SimDiskOptions options;
  options.lie[static_cast<int>(lying)] = true;
  SimDisk::Get().Start(root_, options);
  const size_t begin = SimDisk::Get().position();
  const auto report = run(MakeOptions());
  const OpLog log = SimDisk::Get().Stop();
  EXPECT_TRUE(report.ok()) << report.status();
  CrashImage images(&log, scratch_ + "/cache");
  int losses = 0;
  constexpr int kCuts = 60;
  for (int n = 0; n < kCuts; ++n) {
    fs::remove_all(root_);
    images.Build(begin + (log.size() - begin) * (n + 1) / kCuts, rng_(), "", root_);
    losses += Judge().empty() ? 0 : 1;
  }
  return losses;
}

// An effect that such a call can have.
Fault FaultAt(const Position& at, uint64_t dice) {
  Fault fault;
  fault.at = at;
  fault.effect = Effect::kError;
  fault.err = EIO;
  const bool moves_data = at.call == Call::kRead || at.call == Call::kWrite;
  const bool takes_space =
      at.call == Call::kWrite || at.call == Call::kAllocate || at.call == Call::kCreate;
  if (moves_data && dice % 3 == 0) fault.effect = Effect::kShort;
  if (takes_space && dice % 3 == 1) fault.err = ENOSPC;
  return fault;
}

// One fault at each call in turn; of the calls of a kind each commit takes every third.
void ConvertCutTest::InjectFaults(Command run, bool into_pool) {
  const std::string before = scratch_ + "/before";
  fs::copy(root_, before, fs::copy_options::recursive);
  SimDisk& disk = SimDisk::Get();
  SimDiskOptions no_log;
  no_log.record = false;
  disk.Start(root_, no_log);
  disk.SetFault({});
  const auto healthy = run(MakeOptions());
  CallCount counts = disk.counts();
  disk.Stop();
  ASSERT_TRUE(healthy.ok()) << healthy.status();
  int faults = 0;
  int errors = 0;
  for (int call = 0; call < kCalls; ++call) {
    for (int file_class = 0; file_class < kFileClasses; ++file_class) {
      const int stride = testing_util::LongTests() ? 1 : 3;
      const int first = 1 + static_cast<int>(testing_util::TestSample() % stride);
      for (int n = first; n <= counts.n[call][file_class]; n += stride) {
        const Fault fault =
            FaultAt({static_cast<Call>(call), static_cast<FileClass>(file_class), n}, rng_());
        SCOPED_TRACE(fault.ToString());
        fs::remove_all(root_);
        fs::copy(before, root_, fs::copy_options::recursive);
        disk.Start(root_, no_log);
        disk.SetFault(fault);
        const auto report = run(MakeOptions());
        faults += disk.fault_hits() > 0 ? 1 : 0;
        disk.ClearFault();
        disk.Stop();
        ASSERT_EQ(Judge(), "") << report.status();
        if (report.ok()) {
          ASSERT_EQ(*lsm::IsGuarded(root_ + "/db"), into_pool);
          continue;
        }
        ++errors;
        const auto again = run(MakeOptions());
        ASSERT_TRUE(again.ok()) << again.status() << " after " << report.status();
        ASSERT_EQ(*lsm::IsGuarded(root_ + "/db"), into_pool);
        ASSERT_EQ(Judge(), "");
      }
    }
  }
  printf("%d faults, %d of them ended the command\n", faults, errors);
  EXPECT_GT(errors, 15);
}

void ConvertCutTest::CutRerun(Command run) {
  const std::string before = scratch_ + "/before";
  fs::copy(root_, before, fs::copy_options::recursive);
  SimDisk& disk = SimDisk::Get();
  int reruns = 0;
  for (bool struck = true; struck; ++reruns) {
    const Fault fault{{Call::kSync, FileClass::kDirectory, reruns + 1}, Effect::kError, EIO};
    SCOPED_TRACE(fault.ToString());
    fs::remove_all(root_);
    fs::copy(before, root_, fs::copy_options::recursive);
    disk.Start(root_, {});
    disk.SetFault(fault);
    const auto first = run(MakeOptions());
    struck = disk.fault_hits() > 0;
    disk.ClearFault();
    const size_t begin = disk.position();
    const auto second = run(MakeOptions());
    const OpLog log = disk.Stop();
    ASSERT_EQ(first.ok(), !struck) << first.status();
    ASSERT_TRUE(second.ok()) << second.status();
    CrashImage images(&log, scratch_ + "/cache" + std::to_string(reruns));
    // The last moments are those in which files go for good.
    const int cuts = testing_util::LongTests() ? 80 : 25;
    for (int n = 0; struck && n < cuts; ++n) {
      const uint64_t image = rng_();
      const size_t at = begin + (log.size() - begin) * (n + 1) / cuts;
      SCOPED_TRACE("cut at " + std::to_string(at) + ", image " + std::to_string(image));
      fs::remove_all(root_);
      ASSERT_TRUE(images.Build(at, image, "", root_));
      ASSERT_EQ(Judge(), "");
    }
  }
  printf("%d runs that went on\n", reruns - 1);
  EXPECT_GT(reruns, 3);
}

TEST_F(ConvertCutTest, Import_PowerCutInARerun_LosesNothing) { CutRerun(&convert::Import); }

TEST_F(ConvertCutTest, Export_PowerCutInARerun_LosesNothing) {
  const auto in = convert::Import(MakeOptions());
  ASSERT_TRUE(in.ok()) << in.status();
  CutRerun(&convert::Export);
}

TEST_F(ConvertCutTest, Import_PowerCutAnywhere_LosesNothingAndGoesOn) {
  CutPower(&convert::Import, true);
}

TEST_F(ConvertCutTest, Export_PowerCutAnywhere_LosesNothingAndGoesOn) {
  const auto in = convert::Import(MakeOptions());
  ASSERT_TRUE(in.ok()) << in.status();
  CutPower(&convert::Export, false);
}

// The tests of this test.
TEST_F(ConvertCutTest, Import_PoolSyncsThatLie_LossIsFound) {
  EXPECT_GT(LossesOnALyingDisk(&convert::Import, FileClass::kPool), 0);
}

TEST_F(ConvertCutTest, Export_TableSyncsThatLie_LossIsFound) {
  const auto in = convert::Import(MakeOptions());
  ASSERT_TRUE(in.ok()) << in.status();
  // Tables on their way are called as CURRENT on its way is.
  EXPECT_GT(LossesOnALyingDisk(&convert::Export, FileClass::kCurrent), 0);
}

TEST_F(ConvertCutTest, Export_DirectorySyncsThatLie_LossIsFound) {
  const auto in = convert::Import(MakeOptions());
  ASSERT_TRUE(in.ok()) << in.status();
  EXPECT_GT(LossesOnALyingDisk(&convert::Export, FileClass::kDirectory), 0);
}

TEST_F(ConvertCutTest, Import_FaultAtAnyCall_LosesNothingAndGoesOn) {
  InjectFaults(&convert::Import, true);
}

TEST_F(ConvertCutTest, Export_FaultAtAnyCall_LosesNothingAndGoesOn) {
  const auto in = convert::Import(MakeOptions());
  ASSERT_TRUE(in.ok()) << in.status();
  InjectFaults(&convert::Export, false);
}

}  // namespace
}  // namespace pulse::powercut
