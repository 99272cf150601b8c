// Databases that move into a pool and out again: with stops at every step, with damage to copies,
// with others beside them.
#include "services/lsm/pool/convert/convert.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "rocksdb/utilities/checkpoint.h"
#include "services/lsm/pool/convert/test_conversion.h"

namespace pulse::convert::test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST_F(ConvertTest, Convert_ThereAndBack_MovesAllTablesAndLosesNothing) {
  MakeDatabase();
  std::ofstream(db_ + "/mine.sst") << "of the user's";
  const size_t tables = TablesIn(db_) - 1 + TablesIn(more_);
  const auto in = Import(MakeOptions());
  ASSERT_TRUE(in.ok()) << in.status();
  EXPECT_EQ(in->files, tables);
  EXPECT_EQ(in->copied_files, tables);
  EXPECT_EQ(in->copied_bytes, in->bytes);
  EXPECT_FALSE(in->already);
  EXPECT_TRUE(Guarded());
  EXPECT_EQ(TablesIn(db_), 1u);  // mine.sst
  EXPECT_EQ(TablesIn(more_), 0u);
  EXPECT_EQ(InPool().size(), 2u);
  EXPECT_THAT(OnStock(), AllOf(HasSubstr("comparator"), HasSubstr(pool_)));
  ASSERT_EQ(Use([this](TestDb& db) { return WriteMore(db); }), "");

  const auto again = Import(MakeOptions());
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_TRUE(again->already);

  const auto out = Export(MakeOptions());
  ASSERT_TRUE(out.ok()) << out.status();
  EXPECT_EQ(out->copied_files, out->files);
  EXPECT_EQ(out->foreign_files, 0u);
  EXPECT_FALSE(Guarded());
  EXPECT_TRUE(InPool().empty());
  for (const char* name : {"CURRENT.pulse", "MANIFEST-000000", "000000.dbtmp"}) {
    EXPECT_EQ(Names(db_).count(name), 0u) << name;
  }
  ASSERT_EQ(Use([this](TestDb& db) { return WriteMore(db); }), "");
  EXPECT_EQ(Content(db_ + "/mine.sst"), "of the user's");
  const auto plain = Export(MakeOptions());
  ASSERT_TRUE(plain.ok()) << plain.status();
  EXPECT_TRUE(plain->already);
  store::Usage usage;
  {
    auto store = store::Store::Open(pool_);
    usage = (*store)->usage();
  }
  EXPECT_EQ(usage.free, usage.segments);
}

// Stopped before each step in turn, the database opens in one layout or the other. Then the command
// goes on: at once, or after the database was used.
TEST_F(ConvertTest, Convert_StoppedAtAnyStep_OpensAndGoesOn) {
  MakeDatabase();
  const Model model = model_;
  for (const std::string& d : {db_, more_}) fs::copy(d, d + ".before", fs::copy_options::recursive);
  fs::copy(pool_, pool_ + ".before");
  const std::map<std::string, absl::StatusOr<Report> (*)(const Options&)> commands = {
      {"import", &Import}, {"export", &Export}};
  for (const std::string direction : {"import", "export"}) {
    const auto run = commands.at(direction);
    int steps = 0;
    for (bool stopped = true; stopped; ++steps) {
      SCOPED_TRACE(absl::StrCat(direction, " stopped at step ", steps));
      for (const std::string& d : {db_, more_, pool_}) {
        fs::remove_all(d);
        fs::copy(d + ".before", d, fs::copy_options::recursive);
      }
      model_ = model;
      if (direction == "export") {
        const auto in = Import(MakeOptions());
        ASSERT_TRUE(in.ok()) << in.status();
      }
      Options options = MakeOptions();
      int left = steps;
      bool switched = false;
      stopped = false;
      options.on_step = [&](const Progress& p) -> absl::Status {
        EXPECT_LE(p.done, p.total);
        switched = p.switched;
        if (left-- > 0) return absl::OkStatus();
        stopped = true;
        return absl::CancelledError("here");
      };
      const auto first = run(options);
      ASSERT_EQ(first.ok(), !stopped) << first.status();
      if (stopped) {
        EXPECT_EQ(first.status().message(), "here");
        EXPECT_EQ(Guarded(), (direction == "import") == switched);
      }
      switch (steps % 3) {
        case 0:
          break;
        case 1:
          ASSERT_EQ(Use(), "");
          break;
        default:
          ASSERT_EQ(Use([this](TestDb& db) { return WriteMore(db); }), "");
      }
      const auto second = run(MakeOptions());
      ASSERT_TRUE(second.ok()) << second.status();
      EXPECT_EQ(Guarded(), direction == "import");
      if (Guarded()) {
        EXPECT_EQ(TablesIn(db_) + TablesIn(more_), 0u);
        EXPECT_EQ(InPool().size(), 2u);  // nothing is left of the copying
      } else {
        EXPECT_THAT(InPool(), ::testing::IsEmpty());
      }
      ASSERT_EQ(Use([this](TestDb& db) { return WriteMore(db); }), "");
    }
    EXPECT_GT(steps, 12) << direction;
  }
}

// What an interrupted import has copied is compared before it is trusted.
TEST_F(ConvertTest, DamagedCopy_ImportGoesOn_IsMadeAnew) {
  MakeDatabase();
  for (const char* until : {"naming", "switching"}) {
    SCOPED_TRACE(until);
    Options options = MakeOptions();
    options.on_step = [&](const Progress& p) -> absl::Status {
      return p.what == std::string(until) ? absl::CancelledError("here") : absl::OkStatus();
    };
    ASSERT_FALSE(Import(options).ok());
    const std::string dir = more_ + kMoving;
    const std::string name = *InPool().at(dir).begin();
    Damage(pool_, PlaceOf(dir, name));
  }
  const auto in = Import(MakeOptions());
  ASSERT_TRUE(in.ok()) << in.status();
  EXPECT_EQ(in->copied_files, 1u);
  ASSERT_EQ(Use(), "");
  EXPECT_EQ(InPool().size(), 2u);
}

TEST_F(ConvertTest, Export_AfterImportGivenUp_TakesItBack) {
  MakeDatabase();
  Options options = MakeOptions();
  options.on_step = [&](const Progress& p) -> absl::Status {
    return p.done * 2 > p.total ? absl::CancelledError("half") : absl::OkStatus();
  };
  ASSERT_FALSE(Import(options).ok());
  ASSERT_FALSE(InPool().empty());
  ASSERT_TRUE(Export(MakeOptions()).ok());
  EXPECT_TRUE(InPool().empty());
  EXPECT_EQ(Use(), "");
}

TEST_F(ConvertTest, Import_PartlyMovedDatabase_MovesTheRest) {
  MakeDatabase();
  ASSERT_TRUE(lsm::WriteGuard(db_, lsm::GuardInfoOf(**store::Store::Open(pool_))).ok());
  ASSERT_EQ(Use([this](TestDb& db) { return WriteMore(db); }), "");
  ASSERT_GT(TablesIn(db_) + TablesIn(more_), 0u);
  const auto inside = InPool();
  ASSERT_FALSE(inside.empty());
  fs::copy(db_, db_ + ".before", fs::copy_options::recursive);
  const auto in = Import(MakeOptions());
  ASSERT_TRUE(in.ok()) << in.status();
  EXPECT_TRUE(in->switched_before);
  EXPECT_EQ(TablesIn(db_) + TablesIn(more_), 0u);
  ASSERT_EQ(Use(), "");
  ASSERT_TRUE(Export(MakeOptions()).ok());
  ASSERT_EQ(Use(), "");
}

TEST_F(ConvertTest, Import_VerifyFails_KeepsTheOriginals) {
  MakeDatabase();
  const size_t tables = TablesIn(db_) + TablesIn(more_);
  Options options = MakeOptions();
  options.verify = [&](const Report& r) -> absl::Status {
    EXPECT_EQ(r.database, db_);
    EXPECT_TRUE(Guarded());
    EXPECT_EQ(TablesIn(db_) + TablesIn(more_), tables);
    return absl::DataLossError("not what it should be");
  };
  EXPECT_EQ(Import(options).status().message(), "not what it should be");
  EXPECT_EQ(TablesIn(db_) + TablesIn(more_), tables);
  // Back again, though nothing has to be copied.
  const auto out = Export(MakeOptions());
  ASSERT_TRUE(out.ok()) << out.status();
  EXPECT_EQ(out->copied_files, 0u);
  EXPECT_EQ(TablesIn(db_) + TablesIn(more_), tables);
  EXPECT_EQ(Use(), "");
}

TEST_F(ConvertTest, DryRun_BothDirections_ChangesNothing) {
  MakeDatabase();
  Options options = MakeOptions();
  options.dry_run = true;
  for (const bool into : {true, false}) {
    const auto names = Names(db_);
    const std::string pool = Content(pool_);
    const auto report = into ? Import(options) : Export(options);
    ASSERT_TRUE(report.ok()) << report.status();
    EXPECT_GT(report->copied_files, 0u);
    EXPECT_EQ(report->copied_files, report->files);
    EXPECT_GE(report->needed, report->bytes);
    EXPECT_GT(report->room, report->needed);
    EXPECT_EQ(Names(db_), names);
    EXPECT_TRUE(Content(pool_) == pool);
    if (into) {
      ASSERT_TRUE(Import(MakeOptions()).ok());
    }
  }
  EXPECT_EQ(Use(), "");
}

TEST_F(ConvertTest, Paths_SpelledOddly_AreSpelledAsByThePlugIn) {
  MakeDatabase();
  fs::create_directory_symlink(db_, root_ + "/link");
  Options options = MakeOptions();
  options.database = fs::relative(root_ + "/link").string() + "//";
  options.pool = fs::relative(pool_).string();
  options.db_paths = {more_ + "/", root_ + "/./more", db_};
  const auto in = Import(options);
  ASSERT_TRUE(in.ok()) << in.status();
  EXPECT_EQ(in->database, db_);
  EXPECT_EQ(in->pool, pool_);
  EXPECT_EQ(lsm::ReadGuard(db_)->pool, pool_);
  EXPECT_EQ(Use(), "");
}

TEST_F(ConvertTest, FormerTables_DatabaseMadeAnew_AreKeptApart) {
  MakeDatabase();
  ASSERT_TRUE(Import(MakeOptions()).ok());
  // Deleted without the plug-in, and made anew.
  fs::remove_all(db_);
  fs::remove_all(more_);
  model_.clear();
  MakeDatabase();
  const auto in = Import(MakeOptions());
  ASSERT_TRUE(in.ok()) << in.status();
  EXPECT_EQ(InPool().count(db_ + "#former-1"), 1u);
  EXPECT_EQ(Use(), "");
  // They are not exported with it.
  ASSERT_TRUE(Export(MakeOptions()).ok());
  EXPECT_EQ(InPool().count(db_ + "#former-1"), 1u);
  EXPECT_EQ(Use(), "");
}

TEST_F(ConvertTest, Checkpoint_OriginalExported_KeepsItsTables) {
  // RocksDB makes none of databases with several paths.
  {
    TestDb stock(SmallDbOptions(nullptr), db_);
    ASSERT_TRUE(stock.Open().ok());
    ASSERT_TRUE(stock.Fill(&rng_, 2000, 300).ok());
    ASSERT_TRUE(stock.FlushAll().ok());
    model_ = stock.model();
  }
  Options options = MakeOptions();
  options.db_paths.clear();
  ASSERT_TRUE(Import(options).ok());
  const std::string copy = root_ + "/copy";
  {
    const auto env = PoolEnv();
    TestDb db(SmallDbOptions(env.get()), db_);
    ASSERT_TRUE(db.Open().ok());
    rocksdb::Checkpoint* raw = nullptr;
    ASSERT_TRUE(rocksdb::Checkpoint::Create(db.db(), &raw).ok());
    const std::unique_ptr<rocksdb::Checkpoint> checkpoint(raw);
    const rocksdb::Status s = checkpoint->CreateCheckpoint(copy, 0);
    ASSERT_TRUE(s.ok()) << s.ToString();
  }
  ASSERT_TRUE(Export(options).ok());
  EXPECT_EQ(lsm::test::DifferenceOnStock(db_, model_), "");
  options.database = copy;
  const auto out = Export(options);
  ASSERT_TRUE(out.ok()) << out.status();
  EXPECT_GT(out->copied_files, 0u);
  EXPECT_TRUE(InPool().empty());
  EXPECT_EQ(lsm::test::DifferenceOnStock(copy, model_), "");
}

}  // namespace
}  // namespace pulse::convert::test
