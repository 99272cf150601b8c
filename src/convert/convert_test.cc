// Databases that move into a pool and out again: with stops at every step, with damage, with things
// in the way.
#include "convert/convert.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <set>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "lsm/pool.h"
#include "lsm/pool_guard.h"
#include "lsm/test_db.h"
#include "lsm/test_pool.h"
#include "lsm/test_support.h"
#include "rocksdb/utilities/checkpoint.h"

namespace pulse::convert {
namespace {

using lsm::Pool;
using lsm::test::CreatePool;
using lsm::test::Model;
using lsm::test::ScratchDir;
using lsm::test::SmallDbOptions;
using lsm::test::TestDb;
using ::testing::AllOf;
using ::testing::HasSubstr;
using testing_util::TestSeed;

namespace fs = std::filesystem;

std::set<std::string> Names(const std::string& dir) {
  std::set<std::string> names;
  for (const auto& e : fs::directory_iterator(dir)) names.insert(e.path().filename().string());
  return names;
}

std::string Content(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(in), {});
}

// Inverts a byte of a file.
void Damage(const std::string& path, uint64_t at) {
  std::fstream f(path, std::ios::in | std::ios::out | std::ios::binary);
  f.seekg(static_cast<std::streamoff>(at));
  const char byte = static_cast<char>(~f.get());
  f.seekp(static_cast<std::streamoff>(at));
  f.put(byte);
  ASSERT_TRUE(f.flush().good());
}

class ConvertTest : public ::testing::Test {
 protected:
  void SetUp() override { CreatePool(pool_, 24 << 20); }

  Options MakeOptions() const {
    Options options;
    options.pool = pool_;
    options.database = db_;
    options.db_paths = {more_};
    return options;
  }
  rocksdb::Options DbOptions(rocksdb::Env* env) const {
    rocksdb::Options options = SmallDbOptions(env);
    // Some tables here, some there; and blob files.
    options.db_paths = {{db_, 200 << 10}, {more_, uint64_t{1} << 30}};
    options.enable_blob_files = true;
    options.min_blob_size = 900;
    options.enable_blob_garbage_collection = true;
    options.blob_garbage_collection_age_cutoff = 0.5;
    return options;
  }
  std::unique_ptr<rocksdb::Env> PoolEnv() const {
    std::shared_ptr<rocksdb::FileSystem> fs;
    const rocksdb::Status s = NewFileSystem(
        "pulse://?fetch=off&queue=1M&write_threshold=64K&layout=pool&pool=" + pool_, nullptr, &fs);
    EXPECT_TRUE(s.ok()) << s.ToString();
    return rocksdb::NewCompositeEnv(fs);
  }
  // Opens the database in the layout that its directory says, does `use`, and remembers what it
  // must hold. "" or what is wrong.
  std::string Use(const std::function<rocksdb::Status(TestDb&)>& use = nullptr) {
    std::unique_ptr<rocksdb::Env> env;
    if (Guarded()) env = PoolEnv();
    TestDb db(DbOptions(env.get()), db_, {"other"});
    db.model() = model_;
    db.model()["default"];
    db.model()["other"];
    rocksdb::Status s = db.Open();
    if (!s.ok()) return s.ToString();
    s = db->VerifyChecksum();
    if (!s.ok()) return s.ToString();
    if (std::string difference = db.Difference(); !difference.empty()) return difference;
    if (use != nullptr) s = use(db);
    model_ = db.model();
    return s.ok() ? db.Difference() : s.ToString();
  }
  rocksdb::Status WriteMore(TestDb& db) {
    rocksdb::Status s = db.Fill(&rng_, 200, 300, 300);
    if (s.ok()) s = db.Fill(&rng_, 60, 2000, 300);
    if (s.ok()) s = db.FlushAll();
    // And something that is in the write-ahead log only.
    return s.ok() ? db.Fill(&rng_, 10, 100, 300) : s;
  }
  void MakeDatabase() {
    fs::create_directory(more_);
    ASSERT_EQ(Use([this](TestDb& db) {
                rocksdb::Status s = WriteMore(db);
                if (s.ok()) s = db.CompactAll();
                return s.ok() ? WriteMore(db) : s;
              }),
              "");
    ASSERT_GT(TablesIn(db_), 0u);
    ASSERT_GT(TablesIn(more_), 0u);
  }
  bool Guarded() const {
    const auto guarded = lsm::IsGuarded(db_);
    return guarded.ok() && *guarded;
  }
  std::string OnStock() const {
    rocksdb::Options options = SmallDbOptions(nullptr);
    options.env = rocksdb::Env::Default();
    options.create_if_missing = false;
    rocksdb::DB* db = nullptr;
    std::vector<rocksdb::ColumnFamilyHandle*> handles;
    const rocksdb::Status s = rocksdb::DB::OpenForReadOnly(options, db_, &db);
    delete db;
    return s.ToString();
  }
  static size_t TablesIn(const std::string& dir) {
    size_t n = 0;
    for (const std::string& name : Names(dir)) n += Pool::MayHold(name) ? 1 : 0;
    return n;
  }
  // Directory -> names.
  std::map<std::string, std::set<std::string>> InPool() const {
    auto store = store::Store::Open(pool_);
    EXPECT_TRUE(store.ok()) << store.status();
    std::map<std::string, std::set<std::string>> found;
    for (const std::string& dir : (*store)->ListDirectories()) {
      const auto files = (*store)->List(dir);
      for (const auto& f : *files) found[dir].insert(f.name);
    }
    return found;
  }
  // Where the first byte of a file of the pool is on the device.
  uint64_t PlaceOf(const std::string& dir, const std::string& name) const {
    auto store = store::Store::Open(pool_);
    EXPECT_TRUE(store.ok()) << store.status();
    std::vector<store::Extent> extents;
    const auto file = (*store)->Lookup(dir, name);
    EXPECT_TRUE(file.ok()) << file.status();
    EXPECT_TRUE((*store)->MapRead(*file, 0, 1, &extents).ok());
    return extents.at(0).device_offset;
  }
  absl::Status StatusOf(const absl::StatusOr<Report>& report) { return report.status(); }

  ScratchDir dir_;
  const std::string root_ = fs::canonical(dir_.path()).string();
  const std::string pool_ = root_ + "/the_pool";
  const std::string db_ = root_ + "/db";
  const std::string more_ = root_ + "/more";
  Model model_;
  std::mt19937_64 rng_{TestSeed()};
};

TEST_F(ConvertTest, ThereAndBack) {
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
TEST_F(ConvertTest, EveryStepCanBeTheLast) {
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
TEST_F(ConvertTest, ADamagedCopyIsMadeAnew) {
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

TEST_F(ConvertTest, AnImportThatWasGivenUpIsTakenBack) {
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

TEST_F(ConvertTest, ADatabaseThatHasMovedInPartly) {
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

TEST_F(ConvertTest, VerifyComesBeforeTheOriginalsGo) {
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

TEST_F(ConvertTest, ADryRunChangesNothing) {
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

TEST_F(ConvertTest, PathsAreSpelledAsThePlugInSpellsThem) {
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

TEST_F(ConvertTest, WhatAFormerDatabaseLeftIsKeptApart) {
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

TEST_F(ConvertTest, CheckpointsKeepTheirTables) {
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

TEST_F(ConvertTest, RefusesWithARemedy) {
  MakeDatabase();
  const auto names = Names(db_);
  const auto refused = [&](const Options& options, absl::StatusCode code, const char* what,
                           const char* remedy) {
    for (const auto& report : {Import(options), Export(options)}) {
      EXPECT_EQ(report.status().code(), code) << report.status();
      EXPECT_THAT(std::string(report.status().message()),
                  AllOf(HasSubstr(what), HasSubstr(remedy)));
    }
  };
  Options options = MakeOptions();
  options.database = root_ + "/none";
  refused(options, absl::StatusCode::kNotFound, "/none", "No such file");
  options.database = pool_;
  refused(options, absl::StatusCode::kInvalidArgument, "not a directory", "name the one");
  options.database = more_;
  refused(options, absl::StatusCode::kInvalidArgument, "no RocksDB database", "name the directory");
  options = MakeOptions();
  options.pool = root_ + "/none";
  refused(options, absl::StatusCode::kNotFound, "/none", "pulse pool create");
  options.pool = db_ + "/CURRENT";
  refused(options, absl::StatusCode::kFailedPrecondition, "/CURRENT", "no PulseDB store");
  options = MakeOptions();
  options.db_paths = {db_ + "/../db", root_ + "/nowhere"};
  refused(options, absl::StatusCode::kNotFound, "/nowhere", "No such file");
  // Tables that are elsewhere.
  options.db_paths.clear();
  refused(options, absl::StatusCode::kDataLoss, "missing", "--db-path");
  options = MakeOptions();
  options.database = root_ + "/second";
  {
    TestDb second(SmallDbOptions(nullptr), options.database);
    ASSERT_TRUE(second.Open().ok());
    refused(options, absl::StatusCode::kFailedPrecondition, "is open", "close it first");
  }
  options.db_paths = {db_};
  refused(options, absl::StatusCode::kInvalidArgument, "a database of its own", "by itself");
  EXPECT_EQ(Names(db_), names);
  EXPECT_TRUE(InPool().empty());
  EXPECT_EQ(Use(), "");
}

TEST_F(ConvertTest, DamageIsFoundBeforeAnythingIsCopied) {
  MakeDatabase();
  std::string table;
  for (const std::string& name : Names(more_)) {
    if (absl::EndsWith(name, ".sst")) table = name;
  }
  const uint64_t size = fs::file_size(more_ + "/" + table);
  fs::resize_file(more_ + "/" + table, size - 1);
  auto in = Import(MakeOptions());
  EXPECT_TRUE(absl::IsDataLoss(in.status())) << in.status();
  EXPECT_THAT(std::string(in.status().message()),
              AllOf(HasSubstr(table), HasSubstr(std::to_string(size)), HasSubstr("backup")));
  fs::remove(more_ + "/" + table);
  in = Import(MakeOptions());
  EXPECT_TRUE(absl::IsDataLoss(in.status())) << in.status();
  EXPECT_THAT(std::string(in.status().message()), HasSubstr(table));
  EXPECT_FALSE(Guarded());
  EXPECT_TRUE(InPool().empty());
}

TEST_F(ConvertTest, AMissingTableOfThePoolIsNamed) {
  MakeDatabase();
  ASSERT_TRUE(Import(MakeOptions()).ok());
  const std::string gone = *InPool().at(more_).begin();
  {
    auto store = store::Store::Open(pool_);
    ASSERT_TRUE((*store)->Unlink(more_, gone).ok());
  }
  const auto out = Export(MakeOptions());
  EXPECT_TRUE(absl::IsDataLoss(out.status())) << out.status();
  EXPECT_THAT(std::string(out.status().message()), HasSubstr(gone));
  EXPECT_TRUE(Guarded());
}

TEST_F(ConvertTest, TooLittleRoomIsFoundBeforeAnythingIsCopied) {
  MakeDatabase();
  Options options = MakeOptions();
  options.pool = root_ + "/small_pool";
  CreatePool(options.pool, 4 << 20, 64 << 10);
  {
    auto store = store::Store::Open(options.pool);
    ASSERT_TRUE(store.ok()) << store.status();
    const store::Usage usage = (*store)->usage();
    ASSERT_TRUE((*store)->CreateDirectory("full").ok());
    ASSERT_TRUE((*store)->Reserve(*(*store)->CreateFile("full", "f"), (usage.free - 4) << 16).ok());
  }
  const auto in = Import(options);
  EXPECT_TRUE(absl::IsResourceExhausted(in.status())) << in.status();
  EXPECT_THAT(std::string(in.status().message()),
              AllOf(HasSubstr(options.pool), HasSubstr("bytes free"), HasSubstr("larger pool")));
  EXPECT_FALSE(Guarded());
  EXPECT_EQ(Use(), "");
}

TEST_F(ConvertTest, AnotherPoolIsNamed) {
  MakeDatabase();
  ASSERT_TRUE(Import(MakeOptions()).ok());
  Options options = MakeOptions();
  options.pool = root_ + "/another_pool";
  CreatePool(options.pool, 8 << 20);
  for (const auto& report : {Import(options), Export(options)}) {
    EXPECT_TRUE(absl::IsFailedPrecondition(report.status())) << report.status();
    EXPECT_THAT(std::string(report.status().message()), HasSubstr("are in the pool " + pool_));
  }
  // Under another path it is still the same pool.
  fs::rename(pool_, root_ + "/moved_pool");
  options.pool = root_ + "/moved_pool";
  const auto in = Import(options);
  ASSERT_TRUE(in.ok()) << in.status();
  EXPECT_TRUE(in->already);
  EXPECT_TRUE(Export(options).ok());
  EXPECT_EQ(Use(), "");
}

TEST_F(ConvertTest, APlainFileInTheWayIsNamed) {
  MakeDatabase();
  ASSERT_TRUE(Import(MakeOptions()).ok());
  const std::string name = *InPool().at(more_).begin();
  const std::string path = more_ + "/" + name;
  std::string bytes;
  {
    // Of the same size, and of another.
    auto store = store::Store::Open(pool_);
    bytes.assign((*store)->Stat(*(*store)->Lookup(more_, name))->size, 'x');
  }
  for (const size_t size : {bytes.size(), bytes.size() / 2}) {
    std::ofstream(path) << bytes.substr(0, size);
    for (const auto& report : {Import(MakeOptions()), Export(MakeOptions())}) {
      EXPECT_TRUE(absl::IsFailedPrecondition(report.status())) << report.status();
      EXPECT_THAT(std::string(report.status().message()),
                  AllOf(HasSubstr(path), HasSubstr("move the plain file away")));
    }
    EXPECT_EQ(fs::file_size(path), size);
  }
  fs::remove(path);
  EXPECT_EQ(Use(), "");
  EXPECT_TRUE(Export(MakeOptions()).ok());
  EXPECT_EQ(Use(), "");
}

// Somebody has put CURRENT back by hand, who must not be helped to lose the tables.
TEST_F(ConvertTest, AGuardThatWasRemovedByHandIsNoticed) {
  MakeDatabase();
  ASSERT_TRUE(Import(MakeOptions()).ok());
  fs::copy(db_ + "/CURRENT.pulse", db_ + "/CURRENT", fs::copy_options::overwrite_existing);
  const auto before = InPool();
  const auto in = Import(MakeOptions());
  EXPECT_TRUE(absl::IsFailedPrecondition(in.status())) << in.status();
  EXPECT_THAT(std::string(in.status().message()), HasSubstr("without the plug-in"));
  EXPECT_TRUE(absl::IsDataLoss(Export(MakeOptions()).status()));
  EXPECT_EQ(InPool(), before);
}

}  // namespace
}  // namespace pulse::convert
