// Databases whose tables are in a pool: what comes of them over time, with other databases, without
// the plug-in, and when there is no room.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <filesystem>
#include <future>

#include "rocksdb/sst_file_writer.h"
#include "rocksdb/utilities/backup_engine.h"
#include "rocksdb/utilities/checkpoint.h"
#include "services/lsm/core/test_agent.h"
#include "services/lsm/core/test_db.h"
#include "services/lsm/core/test_support.h"
#include "services/lsm/pool/pool.h"
#include "services/lsm/pool/test_pool.h"

namespace pulse::lsm::test {
namespace {

using rocksdb::FileSystem;
using rocksdb::IOStatus;
using rocksdb::Status;
using ::testing::HasSubstr;

class PoolDbTest : public ::testing::Test {
 protected:
  void SetUp() override { CreatePool(pool_, 256 << 20); }

  std::string Uri(const std::string& more = "") const {
    return "pulse://?layout=pool&pool=" + pool_ + more;
  }
  std::unique_ptr<rocksdb::Env> OpenEnv(const std::string& more = "") {
    std::shared_ptr<FileSystem> fs;
    const Status s = NewFileSystem(Uri(more), nullptr, &fs);
    EXPECT_TRUE(s.ok()) << s.ToString();
    return rocksdb::NewCompositeEnv(fs);
  }
  store::Usage Usage() {
    auto pool = Pool::Open(pool_);
    EXPECT_TRUE(pool.ok()) << pool.status();
    EXPECT_TRUE((*pool)->store().Commit().ok());
    return (*pool)->store().usage();
  }
  // Opens on stock RocksDB; "" or what it says.
  static std::string OnStock(const std::string& path) {
    rocksdb::Options options = SmallDbOptions(nullptr);
    options.env = rocksdb::Env::Default();
    options.create_if_missing = false;
    rocksdb::DB* db = nullptr;
    const Status s = rocksdb::DB::Open(options, path, &db);
    delete db;
    return s.ok() ? "" : s.ToString();
  }
  static size_t TablesIn(const std::string& dir) {
    size_t n = 0;
    for (const auto& e : std::filesystem::directory_iterator(dir)) {
      n += Pool::MayHold(e.path().filename().string()) ? 1 : 0;
    }
    return n;
  }
  std::string Reopened(const std::string& path, const Model& model, const std::string& more = "") {
    auto env = OpenEnv(more);
    TestDb db(SmallDbOptions(env.get()), path);
    db.model() = model;
    Status s = db.Open();
    if (!s.ok()) return s.ToString();
    s = db->VerifyChecksum();
    return s.ok() ? db.Difference() : s.ToString();
  }

  ScratchDir dir_;
  const std::string pool_ = dir_ / "the_pool";
  std::mt19937_64 rng_{TestSeed()};
};

TEST_F(PoolDbTest, Database_OfStockRocksDb_MovesInWithCompactions) {
  const std::string path = dir_ / "db";
  Model model;
  {
    TestDb stock(SmallDbOptions(nullptr), path);
    ASSERT_TRUE(stock.Open().ok());
    ASSERT_TRUE(stock.Fill(&rng_, 2000, 300).ok());
    ASSERT_TRUE(stock.FlushAll().ok());
    model = stock.model();
  }
  ASSERT_GT(TablesIn(path), 0u);
  EXPECT_EQ(Usage().files, 0u);
  {
    auto env = OpenEnv();
    TestDb db(SmallDbOptions(env.get()), path);
    db.model() = model;
    ASSERT_TRUE(db.Open().ok());
    ASSERT_EQ(db.Difference(), "");
    ASSERT_TRUE(db.Fill(&rng_, 500, 300).ok());
    ASSERT_TRUE(db.FlushAll().ok());
    ASSERT_GT(Usage().files, 0u);  // some here, some there
    ASSERT_EQ(db.Difference(), "");
    ASSERT_TRUE(db.CompactAll().ok());
    ASSERT_TRUE(db.CompactAll().ok());  // what was trivially moved before
    EXPECT_EQ(db.Difference(), "");
    model = db.model();
  }
  EXPECT_EQ(TablesIn(path), 0u);
  EXPECT_THAT(OnStock(path), HasSubstr(pool_));
  EXPECT_EQ(Reopened(path, model), "");
}

// RocksDB deletes files that it finds in a list and does not know, also in one that came with an
// error.
TEST_F(PoolDbTest, Listing_GuardUnreadable_FailsAndIsEmpty) {
  const std::string path = dir_ / "db";
  auto env = OpenEnv();
  {
    TestDb db(SmallDbOptions(env.get()), path);
    ASSERT_TRUE(db.Open().ok());
  }
  std::vector<std::string> names;
  const auto& fs = env->GetFileSystem();
  ASSERT_TRUE(fs->GetChildren(path, kIo, &names, nullptr).ok());
  EXPECT_EQ(std::count(names.begin(), names.end(), "MANIFEST-000000"), 0);
  EXPECT_FALSE(fs->DeleteFile(path + "/MANIFEST-000000", kIo, nullptr).ok());
  EXPECT_TRUE(std::filesystem::exists(path + "/MANIFEST-000000"));

  // A directory opens, and cannot be read.
  std::filesystem::rename(path + "/CURRENT", path + "/elsewhere");
  std::filesystem::create_directory(path + "/CURRENT");
  EXPECT_FALSE(fs->GetChildren(path, kIo, &names, nullptr).ok());
  EXPECT_TRUE(names.empty());
  EXPECT_FALSE(fs->DeleteFile(path + "/MANIFEST-000000", kIo, nullptr).ok());
  EXPECT_TRUE(std::filesystem::exists(path + "/MANIFEST-000000"));
}

TEST_F(PoolDbTest, DestroyDb_DatabaseInThePool_LeavesNothing) {
  const std::string path = dir_ / "db";
  auto env = OpenEnv();
  TestDb db(SmallDbOptions(env.get()), path);
  ASSERT_TRUE(db.Open().ok());
  ASSERT_TRUE(db.Fill(&rng_, 3000, 300).ok());
  ASSERT_TRUE(db.CompactAll().ok());
  db.Close();
  ASSERT_GT(Usage().files, 0u);
  const Status s = rocksdb::DestroyDB(path, SmallDbOptions(env.get()));
  ASSERT_TRUE(s.ok()) << s.ToString();
  EXPECT_FALSE(std::filesystem::exists(path));
  EXPECT_EQ(Usage().files, 0u);
  const store::Usage after = Usage();
  EXPECT_EQ(after.free, after.segments);
}

TEST_F(PoolDbTest, Checkpoint_OriginalDestroyed_IsStillWhole) {
  const std::string path = dir_ / "db";
  const std::string copy = dir_ / "copy";
  Model model;
  {
    auto env = OpenEnv();
    TestDb db(SmallDbOptions(env.get()), path);
    ASSERT_TRUE(db.Open().ok());
    ASSERT_TRUE(db.Fill(&rng_, 2000, 300).ok());
    rocksdb::Checkpoint* raw = nullptr;
    ASSERT_TRUE(rocksdb::Checkpoint::Create(db.db(), &raw).ok());
    const std::unique_ptr<rocksdb::Checkpoint> checkpoint(raw);
    const uint64_t before = Usage().segments - Usage().free;
    Status s = checkpoint->CreateCheckpoint(copy, 0);
    ASSERT_TRUE(s.ok()) << s.ToString();
    EXPECT_LE(Usage().segments - Usage().free, before + 16);  // links, and what it has flushed
    model = db.model();
    ASSERT_TRUE(db.Fill(&rng_, 2000, 300).ok());
    ASSERT_TRUE(db.CompactAll().ok());
    db.Close();
    ASSERT_TRUE(rocksdb::DestroyDB(path, SmallDbOptions(env.get())).ok());
  }
  EXPECT_THAT(OnStock(copy), HasSubstr(pool_));
  EXPECT_EQ(Reopened(copy, model), "");
  // And under another name.
  {
    auto env = OpenEnv();
    ASSERT_TRUE(env->RenameFile(copy, dir_ / "renamed").ok());
  }
  EXPECT_EQ(Reopened(dir_ / "renamed", model), "");
}

TEST_F(PoolDbTest, Backup_InOrOutOfThePool_RestoresTheDatabase) {
  auto env = OpenEnv();
  TestDb db(SmallDbOptions(env.get()), dir_ / "db");
  ASSERT_TRUE(db.Open().ok());
  ASSERT_TRUE(db.Fill(&rng_, 2000, 300).ok());
  for (rocksdb::Env* to : {env.get(), rocksdb::Env::Default()}) {
    const bool in_pool = to == env.get();
    const std::string where = dir_ / (in_pool ? "backup_pool" : "backup_files");
    rocksdb::BackupEngine* raw = nullptr;
    ASSERT_TRUE(
        rocksdb::BackupEngine::Open(env.get(), rocksdb::BackupEngineOptions(where, to), &raw).ok());
    const std::unique_ptr<rocksdb::BackupEngine> engine(raw);
    Status s = engine->CreateNewBackup(db.db(), /*flush_before_backup=*/true);
    ASSERT_TRUE(s.ok()) << s.ToString();
    EXPECT_TRUE(engine->VerifyBackup(1, true).ok());
    EXPECT_EQ(TablesIn(where + "/shared_checksum") == 0, in_pool);
    s = engine->RestoreDBFromLatestBackup(where + "_db", where + "_db");
    ASSERT_TRUE(s.ok()) << s.ToString();
    EXPECT_EQ(TablesIn(where + "_db"), 0u);
    ASSERT_TRUE(engine->PurgeOldBackups(0).ok());
  }
  const Model model = db.model();
  db.Close();
  env.reset();
  EXPECT_EQ(Reopened(dir_ / "backup_pool_db", model), "");
  EXPECT_EQ(Reopened(dir_ / "backup_files_db", model), "");
}

// A database that stock RocksDB has made anew where one of the pool was.
TEST_F(PoolDbTest, FormerTables_DatabaseMadeAnewOutside_AreNotRead) {
  const std::string path = dir_ / "db";
  {
    auto env = OpenEnv();
    TestDb db(SmallDbOptions(env.get()), path);
    ASSERT_TRUE(db.Open().ok());
    ASSERT_TRUE(db.Fill(&rng_, 2000, 300).ok());
    ASSERT_TRUE(db.FlushAll().ok());
  }
  std::filesystem::remove_all(path);
  Model model;
  {
    TestDb stock(SmallDbOptions(nullptr), path);
    ASSERT_TRUE(stock.Open().ok());
    ASSERT_TRUE(stock.Fill(&rng_, 2000, 300).ok());
    ASSERT_TRUE(stock.FlushAll().ok());
    model = stock.model();
  }
  ASSERT_GT(Usage().files, 0u);
  EXPECT_EQ(Reopened(path, model), "");
}

TEST_F(PoolDbTest, FullPool_UnderADatabase_IsNoSpaceUntilRoomIsMade) {
  const std::string small = dir_ / "small_pool";
  CreatePool(small, 16 << 20);
  std::shared_ptr<FileSystem> fs;
  ASSERT_TRUE(NewFileSystem("pulse://?layout=pool&pool=" + small, nullptr, &fs).ok());
  const auto env = rocksdb::NewCompositeEnv(fs);
  // What is in the way, and goes later.
  const std::string other = dir_ / "other.sst";
  auto f = CreateOutput(fs.get(), other);
  ASSERT_TRUE(f->Append(std::string(9 << 20, 'x'), kIo, nullptr).ok());
  ASSERT_TRUE(f->Close(kIo, nullptr).ok());
  rocksdb::Options options = SmallDbOptions(env.get());
  options.max_bgerror_resume_count = 0;  // the test says when
  TestDb db(options, dir_ / "db");
  ASSERT_TRUE(db.Open().ok());
  Status s;
  for (int i = 0; i < 100 && s.ok(); ++i) {
    s = db.Fill(&rng_, 100, 1000, 1 << 20);
    if (s.ok()) s = db.FlushAll();
  }
  ASSERT_TRUE(s.IsNoSpace()) << s.ToString();
  EXPECT_THAT(s.ToString(), HasSubstr(small));
  uint64_t free = ~uint64_t{0};
  ASSERT_TRUE(fs->GetFreeSpace(dir_.path(), kIo, &free, nullptr).ok());
  // Not zero: the job that failed may have deleted its outputs by now, of as much as its inputs
  // have.
  EXPECT_LT(free, 5u << 20);
  ASSERT_TRUE(fs->DeleteFile(other, kIo, nullptr).ok());
  ASSERT_TRUE(fs->GetFreeSpace(dir_.path(), kIo, &free, nullptr).ok());
  EXPECT_GT(free, 8u << 20);
  // By the path of a table, too, as RocksDB asks before a compaction.
  uint64_t of_table = 0;
  ASSERT_TRUE(fs->GetFreeSpace(dir_.path() + "/000123.sst", kIo, &of_table, nullptr).ok());
  EXPECT_GT(of_table, 8u << 20);
  // A compaction that the error had interrupted may need all of the room once more before the
  // flush.
  const auto resume_and_flush = [&] {
    s = db->Resume();
    if (s.ok()) s = db.FlushAll();
    return s.ok();
  };
  ASSERT_TRUE(Eventually(resume_and_flush)) << s.ToString();
  // A write that met the error is in the log or not.
  const Status put = db.Put("default", "after", "all is well");
  EXPECT_TRUE(put.ok()) << put.ToString();
}

TEST_F(PoolDbTest, Open_PoolMissingLockedOrNoStore_NamesIt) {
  std::shared_ptr<FileSystem> fs;
  Status s = NewFileSystem("pulse://?layout=pool&pool=" + (dir_ / "none"), nullptr, &fs);
  EXPECT_THAT(s.ToString(), HasSubstr("pulse pool create"));
  EXPECT_THAT(s.ToString(), HasSubstr(dir_ / "none"));
  std::filesystem::copy_file("/proc/self/exe", dir_ / "program");
  s = NewFileSystem("pulse://?layout=pool&pool=" + (dir_ / "program"), nullptr, &fs);
  EXPECT_FALSE(s.ok());
  EXPECT_THAT(s.ToString(), HasSubstr("program"));
  const auto env = OpenEnv();
  const pid_t child = fork();
  if (child == 0) {
    // Another process, which has not inherited what this one knows of the pool.
    unsetenv("PULSE_OPTIONS");
    unsetenv("PULSE_TEST_LAYOUT");
    unsetenv("GTEST_TOTAL_SHARDS");
    unsetenv("GTEST_SHARD_INDEX");
    unsetenv("GTEST_SHARD_STATUS_FILE");
    setenv("PULSE_TEST_LOCKED_POOL", pool_.c_str(), 1);
    execl("/proc/self/exe", "lsm_test",
          "--gtest_filter=LockedPool.Open_HeldByTheParentProcess_IsRefusedNamingIt", nullptr);
    _exit(1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

TEST(LockedPool, Open_HeldByTheParentProcess_IsRefusedNamingIt) {
  const char* pool = getenv("PULSE_TEST_LOCKED_POOL");
  if (pool == nullptr) GTEST_SKIP() << "part of Open_PoolMissingLockedOrNoStore_NamesIt";
  std::shared_ptr<FileSystem> fs;
  const Status s = NewFileSystem(std::string("pulse://?layout=pool&pool=") + pool, nullptr, &fs);
  EXPECT_FALSE(s.ok());
  EXPECT_THAT(s.ToString(), HasSubstr("in use"));
  EXPECT_THAT(s.ToString(), HasSubstr(std::to_string(getppid())));
}

// The segments of a file that was deleted while the agent writes to it are nobody's until it has
// closed it.
TEST_F(PoolDbTest, Segments_AgentStillWrites_AreNotUsedAgain) {
  auto pool = Pool::Open(pool_);
  ASSERT_TRUE(pool.ok());
  Rig rig(MakeOptions(Uri("&write_threshold=64K&queue=32M")));
  const std::string old = dir_ / "1.sst";
  rig.script.Hold(IoOp::kWrite);
  {
    auto f = CreateOutput(rig.pulse.get(), old);
    ASSERT_TRUE(f->Append(std::string(1 << 20, 'o'), kIo, nullptr).ok());
    ASSERT_TRUE(rig.script.WaitHeld(4));
    ASSERT_TRUE(rig.pulse->DeleteFile(old, kIo, nullptr).ok());
  }
  // A rule for the old file's requests only: they are held already.
  rig.script.SetRule(nullptr);
  std::map<std::string, std::string> files;
  std::mt19937_64 rng(TestSeed());
  for (int i = 2; i < 40; ++i) {
    const std::string path = dir_ / (std::to_string(i) + ".sst");
    files[path] = RandomBytes(&rng, 1 << 19);  // all that the queue holds meanwhile fits
    auto f = CreateOutput(rig.pulse.get(), path);
    ASSERT_TRUE(f->Append(files[path], kIo, nullptr).ok());
    ASSERT_TRUE(f->Close(kIo, nullptr).ok());
    SyncDirectory(rig.pulse.get(), dir_.path());
  }
  EXPECT_GT((*pool)->store().usage().quarantined, 0u);
  rig.script.ReleaseHeld("");
  ASSERT_TRUE(Eventually([&] {
    auto f = CreateOutput(rig.pulse.get(), dir_ / "last.sst");
    EXPECT_TRUE(f->Close(kIo, nullptr).ok());
    return (*pool)->store().usage().quarantined == 0;
  }));
  for (const auto& [path, bytes] : files) {
    std::unique_ptr<rocksdb::FSRandomAccessFile> f;
    ASSERT_TRUE(rig.pulse->NewRandomAccessFile(path, rocksdb::FileOptions(), &f, nullptr).ok());
    std::string scratch(bytes.size(), '\0');
    rocksdb::Slice result;
    ASSERT_TRUE(f->Read(0, bytes.size(), kIo, &result, scratch.data(), nullptr).ok());
    EXPECT_TRUE(result == bytes) << path;
  }
}

// An agent that hangs and goes on later writes where its outputs were, and nobody is there.
TEST_F(PoolDbTest, HungAgent_WritesLate_DamagesNoFile) {
  auto pool = Pool::Open(pool_);
  ASSERT_TRUE(pool.ok());
  AgentProcess agent;
  auto fs = agent.Attach("?agent_deadline=2000&write_threshold=64K&layout=pool&pool=" + pool_);
  std::mt19937_64 rng(TestSeed());
  std::map<std::string, std::string> files;
  const auto path_of = [&](int n) { return dir_ / (std::to_string(n) + ".sst"); };
  const auto create = [&](int n) {
    if (files.count(path_of(n)) == 0) files[path_of(n)] = RandomBytes(&rng, 2 << 20);
    return CreateOutput(fs.get(), path_of(n));
  };
  const auto append = [&](rocksdb::FSWritableFile* f, int n) {
    EXPECT_TRUE(f->Append(files[path_of(n)], kIo, nullptr).ok());
  };
  const auto write = [&](int n) {
    auto f = create(n);
    append(f.get(), n);
    return f;
  };
  auto before = write(1);
  EXPECT_TRUE(before->Flush(kIo, nullptr).ok());
  std::vector<std::unique_ptr<rocksdb::FSWritableFile>> open;
  for (int n = 2; n < 4; ++n) open.push_back(create(n));
  for (int n = 4; n < 6; ++n) files[path_of(n)] = RandomBytes(&rng, 2 << 20);
  // At once, before it is found to hang: these the agent has to write.
  const uint64_t failovers = agent.StopUnder(fs.get());
  for (int n = 2; n < 4; ++n) append(open[static_cast<size_t>(n - 2)].get(), n);
  for (int n = 4; n < 6; ++n) open.push_back(write(n));
  ASSERT_TRUE(Eventually([&] { return StatsOf(fs.get()).failovers == failovers + 1; }));
  for (auto& f : open) EXPECT_TRUE(f->Close(kIo, nullptr).ok());
  EXPECT_TRUE(before->Close(kIo, nullptr).ok());
  SyncDirectory(fs.get(), dir_.path());
  for (int n = 6; n < 30; ++n) {
    EXPECT_TRUE(write(n)->Close(kIo, nullptr).ok());
    if (n % 3 == 0) {
      ASSERT_TRUE(fs->DeleteFile(path_of(n), kIo, nullptr).ok());
      files.erase(path_of(n));
    }
  }
  SyncDirectory(fs.get(), dir_.path());
  EXPECT_GT((*pool)->store().usage().quarantined, 0u);
  agent.Continue();
  ASSERT_TRUE(Eventually([&] {
    auto f = CreateOutput(fs.get(), dir_ / "last.sst");
    EXPECT_TRUE(f->Close(kIo, nullptr).ok());
    return (*pool)->store().usage().quarantined == 0;
  }));
  for (const auto& [path, bytes] : files) {
    std::unique_ptr<rocksdb::FSRandomAccessFile> f;
    ASSERT_TRUE(fs->NewRandomAccessFile(path, rocksdb::FileOptions(), &f, nullptr).ok());
    std::string scratch(bytes.size(), '\0');
    rocksdb::Slice result;
    ASSERT_TRUE(f->Read(0, bytes.size(), kIo, &result, scratch.data(), nullptr).ok());
    EXPECT_TRUE(result == bytes) << path;
  }
}

// A host that was killed has left an agent at work: the next one waits until it is done.
TEST_F(PoolDbTest, Open_FormerHostsAgentAtWork_WaitsForIt) {
  UniqueFd agents;
  {
    auto pool = Pool::Open(pool_);
    ASSERT_TRUE(pool.ok());
    auto file = (*pool)->Create(dir_ / "1.sst");
    ASSERT_TRUE(file.ok());
    agents = (*pool)->OpenForAgent(*file, false);
    ASSERT_TRUE(agents.valid());
    EXPECT_TRUE((*pool)->MayStillWrite(*file));
    EXPECT_FALSE((*pool)->MayStillWrite(*file + 1));
  }
  auto opening = std::async(std::launch::async, [&] { return Pool::Open(pool_).status(); });
  EXPECT_TRUE(StaysBlocked(opening));
  agents.reset();
  EXPECT_TRUE(opening.get().ok());
}

}  // namespace
}  // namespace pulse::lsm::test
