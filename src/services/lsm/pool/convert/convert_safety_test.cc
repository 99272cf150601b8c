// What a conversion leaves alone, and what it does not take for granted: neighbours, names that
// pools keep for themselves, files that change meanwhile, and whose files they are.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

#include "services/lsm/core/test_manifest.h"
#include "services/lsm/pool/convert/convert.h"
#include "services/lsm/pool/convert/test_conversion.h"
#include "services/lsm/pool/pool_former.h"

namespace pulse::convert::test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class ConvertSafetyTest : public ConvertTest {
 protected:
  // A database in `home` with tables in `cold`, which is open.
  std::unique_ptr<TestDb> OpenNeighbour(const std::string& home, const std::string& cold,
                                        rocksdb::Env* env) {
    fs::create_directory(cold);
    rocksdb::Options options = SmallDbOptions(env);
    options.db_paths = {{home, 1}, {cold, uint64_t{1} << 30}};
    options.disable_auto_compactions = true;
    auto db = std::make_unique<TestDb>(options, home);
    EXPECT_TRUE(db->Open().ok());
    EXPECT_TRUE(db->Fill(&rng_, 3000, 300).ok());
    rocksdb::CompactRangeOptions to_cold;
    to_cold.target_path_id = 1;
    EXPECT_TRUE(db->db()->CompactRange(to_cold, nullptr, nullptr).ok());
    // The tables that it read may still be there. Who asks for the logs while nothing may be
    // deleted waits for the deletions that have begun.
    EXPECT_TRUE(db->db()->DisableFileDeletions().ok());
    rocksdb::VectorLogPtr logs;
    EXPECT_TRUE(db->db()->GetSortedWalFiles(logs).ok());
    return db;
  }
  // A database that is in one directory.
  Options MakeSimple() {
    TestDb stock(SmallDbOptions(nullptr), db_);
    EXPECT_TRUE(stock.Open().ok());
    EXPECT_TRUE(stock.Fill(&rng_, 2000, 300).ok());
    EXPECT_TRUE(stock.FlushAll().ok());
    model_ = stock.model();
    Options options = MakeOptions();
    options.db_paths.clear();
    return options;
  }
  static Options StoppedAt(Options options, const char* step) {
    options.on_step = [step](const Progress& p) {
      return p.what == std::string(step) ? absl::CancelledError("here") : absl::OkStatus();
    };
    return options;
  }
  // As a newer RocksDB might write it.
  void AddUnknownRecord() const {
    std::string manifest = Content(db_ + (Guarded() ? "/CURRENT.pulse" : "/CURRENT"));
    manifest = db_ + "/" + manifest.substr(0, manifest.size() - 1);
    lsm::test::Framer log;
    log.Add(lsm::test::Varint(777));
    ASSERT_LT(fs::file_size(manifest) % 32768 + log.bytes().size(), 32768u);
    std::ofstream(manifest, std::ios::app | std::ios::binary) << log.bytes();
  }
};

TEST_F(ConvertSafetyTest, Neighbour_InADbPathAtImport_KeepsItsTables) {
  MakeDatabase();
  const std::string cold = root_ + "/cold";
  const auto neighbour = OpenNeighbour(root_ + "/second", cold, nullptr);
  ASSERT_GT(TablesIn(cold), 0u);
  const auto before = Names(cold);
  Options options = MakeOptions();
  options.db_paths = {cold, more_};
  const auto in = Import(options);
  ASSERT_TRUE(in.ok()) << in.status();
  EXPECT_EQ(Names(cold), before);
  EXPECT_EQ(InPool().count(cold), 0u);
  EXPECT_EQ(TablesIn(more_), 0u);
  EXPECT_TRUE(neighbour->db()->VerifyChecksum().ok());
  EXPECT_EQ(neighbour->Difference(), "");
  EXPECT_EQ(Use(), "");
}

TEST_F(ConvertSafetyTest, Neighbour_InThePoolAtExport_StaysThere) {
  MakeDatabase();
  ASSERT_TRUE(Import(MakeOptions()).ok());
  const std::string cold = root_ + "/cold";
  {
    const auto env = PoolEnv();
    OpenNeighbour(root_ + "/second", cold, env.get());
  }
  const auto before = InPool();
  ASSERT_GT(before.at(cold).size(), 0u);
  Options options = MakeOptions();
  options.db_paths = {cold, more_};
  const auto out = Export(options);
  ASSERT_TRUE(out.ok()) << out.status();
  EXPECT_EQ(out->foreign_files, before.at(cold).size());
  EXPECT_EQ(InPool().at(cold), before.at(cold));
  EXPECT_EQ(TablesIn(cold), 0u);
  EXPECT_EQ(Use(), "");
}

TEST_F(ConvertSafetyTest, Import_FileReplacedMeanwhile_DoesNotDeleteIt) {
  const Options simple = MakeSimple();
  Options options = simple;
  std::string replaced;
  options.on_step = [&](const Progress& p) {
    if (p.what != std::string("deleting") || !replaced.empty()) return absl::OkStatus();
    for (const std::string& name : Names(db_)) {
      if (Pool::MayHold(name)) replaced = db_ + "/" + name;
    }
    fs::copy(replaced, replaced + ".new");
    fs::rename(replaced + ".new", replaced);
    return absl::OkStatus();
  };
  const auto in = Import(options);
  EXPECT_TRUE(absl::IsFailedPrecondition(in.status())) << in.status();
  EXPECT_THAT(std::string(in.status().message()),
              AllOf(HasSubstr(replaced), HasSubstr("not deleted")));
  EXPECT_TRUE(fs::exists(replaced));
  ASSERT_TRUE(Import(simple).ok());
  EXPECT_FALSE(fs::exists(replaced));
}

TEST_F(ConvertSafetyTest, DirectoryName_ReservedByPools_IsRefused) {
  for (const char* bad : {"/db#moving", "/db#former-1"}) {
    SCOPED_TRACE(bad);
    const std::string path = root_ + bad;
    {
      TestDb stock(SmallDbOptions(nullptr), path);
      ASSERT_TRUE(stock.Open().ok());
      ASSERT_TRUE(stock.Fill(&rng_, 1000, 300).ok());
      ASSERT_TRUE(stock.FlushAll().ok());
    }
    Options options = MakeOptions();
    options.database = path;
    options.db_paths.clear();
    for (const auto& report : {Import(options), Export(options)}) {
      EXPECT_TRUE(absl::IsInvalidArgument(report.status())) << report.status();
      EXPECT_THAT(std::string(report.status().message()),
                  AllOf(HasSubstr(path), HasSubstr("rename the directory")));
    }
    const auto env = PoolEnv();
    TestDb db(SmallDbOptions(env.get()), path);
    EXPECT_THAT(db.Open().ToString(), HasSubstr("rename the directory"));
    // Nor as one of its db_paths.
    rocksdb::Options with_path = SmallDbOptions(env.get());
    with_path.db_paths = {{path, uint64_t{1} << 30}};
    TestDb other(with_path, root_ + "/other");
    rocksdb::Status s = other.Open();
    if (s.ok()) s = other.Fill(&rng_, 1000, 300);
    if (s.ok()) s = other.FlushAll();
    EXPECT_THAT(s.ToString(), HasSubstr("rename the directory"));
  }
  EXPECT_TRUE(lsm::CheckDirectoryName("/a#moving1/b#former-/c#former-x").ok());
  EXPECT_FALSE(lsm::CheckDirectoryName("/a#moving/b").ok());
  EXPECT_TRUE(InPool().empty());
}

TEST_F(ConvertSafetyTest, Convert_DirectoryInPlaceOfCopies_IsRefused) {
  const Options options = MakeSimple();
  fs::create_directory(db_ + kMoving);
  for (const auto& report : {Import(options), Export(options)}) {
    EXPECT_TRUE(absl::IsFailedPrecondition(report.status())) << report.status();
    EXPECT_THAT(std::string(report.status().message()), HasSubstr(db_ + kMoving));
  }
}

TEST_F(ConvertSafetyTest, Convert_ManifestNotUnderstood_RefusesUnlessUnchecked) {
  const Options options = MakeSimple();
  Options unchecked = options;
  unchecked.unchecked = true;
  ASSERT_TRUE(Import(options).ok());
  AddUnknownRecord();
  const auto out = Export(options);
  EXPECT_TRUE(absl::IsFailedPrecondition(out.status())) << out.status();
  EXPECT_THAT(std::string(out.status().message()),
              AllOf(HasSubstr("not understood"), HasSubstr("--unchecked")));
  EXPECT_TRUE(Guarded());
  EXPECT_TRUE(Export(unchecked).ok());
  EXPECT_FALSE(Guarded());
  EXPECT_TRUE(absl::IsFailedPrecondition(Import(options).status()));
  EXPECT_FALSE(Guarded());
  // Which files of another directory are its own nobody knows.
  fs::create_directory(more_);
  unchecked.db_paths = {more_};
  EXPECT_THAT(std::string(Import(unchecked).status().message()), HasSubstr(more_));
  unchecked.db_paths.clear();
  EXPECT_TRUE(Import(unchecked).ok());
  EXPECT_TRUE(Guarded());
}

// Killed between the last two steps of the guard, the database is plain, and its tables are in the
// pool, too.
TEST_F(ConvertSafetyTest, Copies_GuardLost_DoNotPassForTables) {
  MakeDatabase();
  ASSERT_FALSE(Import(StoppedAt(MakeOptions(), "switching")).ok());
  fs::copy(db_ + "/CURRENT", db_ + "/CURRENT.pulse");
  {
    const auto env = PoolEnv();
    TestDb db(DbOptions(env.get()), db_, {"other"});
    db.model() = model_;
    const rocksdb::Status s = db.Open();
    ASSERT_TRUE(s.ok()) << s.ToString();
    EXPECT_EQ(db.Difference(), "");
  }
  EXPECT_EQ(Use(), "");
  ASSERT_TRUE(Import(MakeOptions()).ok());
  EXPECT_EQ(Use([this](TestDb& db) { return WriteMore(db); }), "");
}

// Root may do it for somebody else.
TEST_F(ConvertSafetyTest, Convert_ThereAndBack_KeepsOwnerAndMode) {
  const Options options = MakeSimple();
  struct stat want {};
  for (const auto& e : fs::directory_iterator(db_)) {
    if (geteuid() == 0) {
      ASSERT_EQ(chown(e.path().c_str(), 12345, 12346), 0);
    }
    ASSERT_EQ(chmod(e.path().c_str(), 0640), 0);
  }
  ASSERT_EQ(stat((db_ + "/CURRENT").c_str(), &want), 0);
  const auto check = [&](const char* when) {
    for (const std::string& name : Names(db_)) {
      struct stat st {};
      ASSERT_EQ(stat((db_ + "/" + name).c_str(), &st), 0);
      EXPECT_EQ(st.st_mode, want.st_mode) << when << ": " << name;
      EXPECT_EQ(st.st_uid, want.st_uid) << when << ": " << name;
      EXPECT_EQ(st.st_gid, want.st_gid) << when << ": " << name;
    }
  };
  fs::remove(db_ + "/LOCK");
  ASSERT_TRUE(Import(options).ok());
  check("in the pool");
  ASSERT_TRUE(Export(options).ok());
  EXPECT_GT(TablesIn(db_), 0u);
  EXPECT_EQ(Names(db_).count("LOCK"), 1u);
  check("plain");
}

TEST_F(ConvertSafetyTest, Import_LockMissingOrUnusable_DryRunsOrNamesIt) {
  Options options = MakeSimple();
  fs::remove(db_ + "/LOCK");
  options.dry_run = true;
  const auto names = Names(db_);
  ASSERT_TRUE(Import(options).ok());
  EXPECT_EQ(Names(db_), names);
  options.dry_run = false;
  fs::create_directory(db_ + "/LOCK");
  const auto in = Import(options);
  ASSERT_FALSE(in.ok());
  EXPECT_THAT(std::string(in.status().message()),
              AllOf(HasSubstr("/LOCK"), Not(HasSubstr("is open"))));
}

TEST_F(ConvertSafetyTest, Progress_ResumedRun_TellsItsLayout) {
  MakeDatabase();
  ASSERT_FALSE(Import(StoppedAt(MakeOptions(), "deleting")).ok());
  ASSERT_TRUE(Guarded());
  int steps = 0;
  Options options = MakeOptions();
  options.on_step = [&](const Progress& p) {
    EXPECT_TRUE(p.switched) << p.what;
    ++steps;
    return absl::OkStatus();
  };
  ASSERT_TRUE(Import(options).ok());
  EXPECT_GT(steps, 0);
  options.on_step = [&](const Progress& p) {
    EXPECT_FALSE(p.switched) << p.what;
    return absl::OkStatus();
  };
  ASSERT_TRUE(Export(options).ok());
}

TEST_F(ConvertSafetyTest, Import_PoolThatNoUriCanName_IsRefused) {
  Options options = MakeSimple();
  options.pool = root_ + "/a&b";
  CreatePool(options.pool, 24 << 20);
  const auto in = Import(options);
  EXPECT_TRUE(absl::IsInvalidArgument(in.status())) << in.status();
  EXPECT_THAT(std::string(in.status().message()), AllOf(HasSubstr("/a&b"), HasSubstr("without &")));
  EXPECT_FALSE(Guarded());
}

TEST_F(ConvertSafetyTest, UsersFile_NamedLikeATable_IsNotMoved) {
  const Options options = MakeSimple();
  std::ofstream(db_ + "/2026-11-22.sst") << "of the user's";
  ASSERT_TRUE(Import(options).ok());
  EXPECT_EQ(Content(db_ + "/2026-11-22.sst"), "of the user's");
  ASSERT_TRUE(Export(options).ok());
  EXPECT_EQ(lsm::test::DifferenceOnStock(db_, model_), "");
}

TEST_F(ConvertSafetyTest, Export_PathTooLongForTheCopies_IsRefused) {
  std::string path = root_;
  while (path.size() < 1015)
    path += "/" + std::string(std::min<size_t>(200, 1018 - path.size()), 'x');
  fs::create_directories(path);
  ASSERT_LE(path.size(), store::kMaxDirectoryName);
  {
    const auto env = PoolEnv();
    TestDb db(SmallDbOptions(env.get()), path);
    ASSERT_TRUE(db.Open().ok());
    ASSERT_TRUE(db.Fill(&rng_, 1000, 300).ok());
    ASSERT_TRUE(db.FlushAll().ok());
  }
  Options options = MakeOptions();
  options.database = path;
  options.db_paths.clear();
  const auto out = Export(options);
  EXPECT_TRUE(absl::IsInvalidArgument(out.status())) << out.status();
  EXPECT_THAT(std::string(out.status().message()), HasSubstr("too long"));
  EXPECT_EQ(TablesIn(path), 0u);
}

TEST_F(ConvertSafetyTest, Import_TableIsASymlink_IsRefused) {
  const Options options = MakeSimple();
  std::string table;
  for (const std::string& name : Names(db_)) {
    if (Pool::MayHold(name)) table = db_ + "/" + name;
  }
  fs::rename(table, root_ + "/elsewhere.sst");
  fs::create_symlink(root_ + "/elsewhere.sst", table);
  const auto in = Import(options);
  EXPECT_TRUE(absl::IsFailedPrecondition(in.status())) << in.status();
  EXPECT_THAT(std::string(in.status().message()), AllOf(HasSubstr(table), HasSubstr("symbolic")));
  EXPECT_TRUE(fs::is_symlink(table));
}

}  // namespace
}  // namespace pulse::convert::test
