// The names of a pool: whatever is done to tables and directories through the plug-in has the
// outcome that it has in plain directories.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "services/lsm/core/test_agent.h"
#include "services/lsm/core/test_support.h"
#include "services/lsm/pool/pool.h"
#include "services/lsm/pool/pool_former.h"
#include "services/lsm/pool/test_pool.h"

namespace pulse::lsm::test {
namespace {

using rocksdb::FileSystem;
using rocksdb::IOStatus;

std::string Outcome(const IOStatus& s) {
  if (s.ok()) return "ok";
  if (s.IsNotFound() || s.IsPathNotFound()) return "not found";
  return "error";
}

std::shared_ptr<FileSystem> OpenPoolFs(const std::string& pool) {
  std::shared_ptr<FileSystem> fs;
  const rocksdb::Status s = NewFileSystem("pulse://?layout=pool&pool=" + pool, nullptr, &fs);
  EXPECT_TRUE(s.ok()) << s.ToString();
  return fs;
}

// One side: a FileSystem and the directory in it.
struct Side {
  std::shared_ptr<FileSystem> fs;
  std::string root;

  std::string Write(const std::string& name, const std::string& bytes) {
    std::unique_ptr<rocksdb::FSWritableFile> f;
    IOStatus s = fs->NewWritableFile(root + name, rocksdb::FileOptions(), &f, nullptr);
    if (s.ok()) s = f->Append(bytes, kIo, nullptr);
    if (s.ok()) s = f->Sync(kIo, nullptr);
    if (s.ok()) s = f->Close(kIo, nullptr);
    return Outcome(s);
  }
  std::string Read(const std::string& name) {
    std::unique_ptr<rocksdb::FSSequentialFile> f;
    IOStatus s = fs->NewSequentialFile(root + name, rocksdb::FileOptions(), &f, nullptr);
    if (!s.ok()) return Outcome(s);
    std::string scratch(1 << 20, '\0');
    rocksdb::Slice result;
    s = f->Read(scratch.size(), kIo, &result, scratch.data(), nullptr);
    return s.ok() ? "=" + result.ToString() : "unreadable";
  }
  std::string List(const std::string& name) {
    std::vector<std::string> names;
    IOStatus s = fs->GetChildren(root + name, kIo, &names, nullptr);
    if (!s.ok()) return Outcome(s);
    std::sort(names.begin(), names.end());
    std::string all;
    for (const std::string& n : names) all += n + "\n";
    std::vector<rocksdb::FileAttributes> attributes;
    s = fs->GetChildrenFileAttributes(root + name, kIo, &attributes, nullptr);
    std::sort(attributes.begin(), attributes.end(),
              [](const auto& a, const auto& b) { return a.name < b.name; });
    for (const auto& a : attributes) {
      bool directory = false;
      fs->IsDirectory(root + name + "/" + a.name, kIo, &directory, nullptr);
      all += a.name + (directory ? "/" : " " + std::to_string(a.size_bytes)) + "\n";
    }
    return all;
  }
  std::string Facts(const std::string& name) {
    uint64_t size = 0;
    uint64_t links = 0;
    std::string all = Outcome(fs->FileExists(root + name, kIo, nullptr));
    all += Outcome(fs->GetFileSize(root + name, kIo, &size, nullptr)) + std::to_string(size);
    all += Outcome(fs->NumFileLinks(root + name, kIo, &links, nullptr)) + std::to_string(links);
    return all;
  }
  uint64_t Links(const std::string& name) {
    uint64_t links = 0;
    return fs->NumFileLinks(root + name, kIo, &links, nullptr).ok() ? links : 0;
  }
};

// The same random operation on both sides; what each came to must be the same.
class NamesTest : public ::testing::Test {
 protected:
  void SetUp() override {
    CreatePool(dir_ / "the_pool", 256 << 20);
    std::filesystem::create_directory(dir_ / "plain");
    std::filesystem::create_directory(dir_ / "pool");
    sides_[0] = {FileSystem::Default(), dir_ / "plain/"};
    sides_[1] = {OpenPoolFs(dir_ / "the_pool"), dir_ / "pool/"};
    for (Side& side : sides_) {
      for (const char* d : {"a", "b"}) {
        ASSERT_TRUE(side.fs->CreateDir(side.root + d, kIo, nullptr).ok());
      }
    }
  }

  template <typename F>
  void Both(const std::string& what, F f) {
    const std::string plain = f(sides_[0]);
    const std::string pool = f(sides_[1]);
    ASSERT_EQ(plain, pool) << what;
  }
  std::string File() {
    static const char* const kDirs[] = {"a", "b", "c", "missing"};
    static const char* const kNames[] = {"1.sst", "2.sst",       "3.blob",
                                         "4.sst", "5.sst.trash", "6.sst.tmp"};
    return std::string(kDirs[rng_() % (rng_() % 4 == 0 ? 4 : 2)]) + "/" + kNames[rng_() % 6];
  }
  std::string Dir() {
    static const char* const kDirs[] = {"a", "b", "c", "d"};
    return kDirs[rng_() % 4];
  }

  ScratchDir dir_;
  Side sides_[2];
  std::mt19937_64 rng_{TestSeed()};
};

// But for tables that are written over while they have other names: a plain file is written over
// for all of them, a table of the plug-in begins anew (LinkedTable_WrittenOver_BeginsAnew).
TEST_F(NamesTest, NameOperations_Random_EndAsInPlainDirectories) {
  for (int i = 0; i < 1500; ++i) {
    const std::string file = File();
    const std::string other = File();
    const std::string dir = Dir();
    const std::string other_dir = Dir();
    const std::string bytes = RandomBytes(&rng_, rng_() % 3000);
    switch (rng_() % 14) {
      case 0:
      case 1:
      case 2:
        if (sides_[0].Links(file) > 1) break;
        Both("write " + file, [&](Side& s) { return s.Write(file, bytes); });
        break;
      case 3:
      case 4:
        Both("delete " + file,
             [&](Side& s) { return Outcome(s.fs->DeleteFile(s.root + file, kIo, nullptr)); });
        break;
      case 5:
      case 6:
        Both("rename " + file + " to " + other, [&](Side& s) {
          return Outcome(s.fs->RenameFile(s.root + file, s.root + other, kIo, nullptr));
        });
        break;
      case 7:
      case 8:
        Both("link " + file + " to " + other, [&](Side& s) {
          return Outcome(s.fs->LinkFile(s.root + file, s.root + other, kIo, nullptr));
        });
        break;
      case 9:
        Both("make " + dir,
             [&](Side& s) { return Outcome(s.fs->CreateDir(s.root + dir, kIo, nullptr)); });
        break;
      case 10:
        Both("make if missing " + dir, [&](Side& s) {
          return Outcome(s.fs->CreateDirIfMissing(s.root + dir, kIo, nullptr));
        });
        break;
      case 11:
        Both("remove " + dir,
             [&](Side& s) { return Outcome(s.fs->DeleteDir(s.root + dir, kIo, nullptr)); });
        break;
      case 12:
        if (dir == other_dir) break;
        Both("rename " + dir + " to " + other_dir, [&](Side& s) {
          return Outcome(s.fs->RenameFile(s.root + dir, s.root + other_dir, kIo, nullptr));
        });
        break;
      default:
        // As RocksDB deletes a large file in steps. (Truncate by name is not for every base.)
        Both("shorten " + file, [&](Side& s) {
          std::unique_ptr<rocksdb::FSWritableFile> f;
          IOStatus st =
              s.fs->ReopenWritableFile(s.root + file, rocksdb::FileOptions(), &f, nullptr);
          uint64_t size = 0;
          if (st.ok()) st = s.fs->GetFileSize(s.root + file, kIo, &size, nullptr);
          if (st.ok()) st = f->Truncate(size / 2, kIo, nullptr);
          if (st.ok()) st = f->Fsync(kIo, nullptr);
          if (st.ok()) st = f->Close(kIo, nullptr);
          return Outcome(st);
        });
        break;
    }
    if (HasFatalFailure()) return;
    Both("read " + file, [&](Side& s) { return s.Read(file); });
    Both("facts of " + other, [&](Side& s) { return s.Facts(other); });
    Both("list " + dir, [&](Side& s) { return s.List(dir); });
    if (HasFatalFailure()) return;
    if (i % 100 == 99) {
      // And so it is when all is opened again.
      sides_[1].fs.reset();
      sides_[1].fs = OpenPoolFs(dir_ / "the_pool");
      for (const char* d : {"a", "b", "c", "d"}) {
        Both(std::string("list again ") + d, [&](Side& s) { return s.List(d); });
      }
      if (HasFatalFailure()) return;
    }
  }
  // No table is a plain file.
  for (const auto& e : std::filesystem::recursive_directory_iterator(dir_ / "pool")) {
    EXPECT_TRUE(e.is_directory()) << e.path();
  }
}

TEST_F(NamesTest, LinkedTable_WrittenOver_BeginsAnew) {
  Side& s = sides_[1];
  ASSERT_EQ(s.Write("a/1.sst", "old"), "ok");
  ASSERT_TRUE(s.fs->LinkFile(s.root + "a/1.sst", s.root + "b/2.sst", kIo, nullptr).ok());
  ASSERT_EQ(s.Write("a/1.sst", "renewed"), "ok");
  EXPECT_EQ(s.Read("a/1.sst"), "=renewed");
  EXPECT_EQ(s.Read("b/2.sst"), "=old");
  EXPECT_EQ(s.Links("a/1.sst"), 1u);
  EXPECT_EQ(s.Links("b/2.sst"), 1u);
}

TEST_F(NamesTest, Link_InOrOutOfThePool_IsTheSameFileOrUnsupported) {
  Side& s = sides_[1];
  ASSERT_EQ(s.Write("a/1.sst", "one"), "ok");
  ASSERT_TRUE(s.fs->LinkFile(s.root + "a/1.sst", s.root + "b/2.sst", kIo, nullptr).ok());
  ASSERT_EQ(s.Write("a/3.sst", "one"), "ok");
  bool same = false;
  ASSERT_TRUE(s.fs->AreFilesSame(s.root + "a/1.sst", s.root + "b/2.sst", kIo, &same, nullptr).ok());
  EXPECT_TRUE(same);
  ASSERT_TRUE(s.fs->AreFilesSame(s.root + "a/1.sst", s.root + "a/3.sst", kIo, &same, nullptr).ok());
  EXPECT_FALSE(same);
  // Out of the pool: RocksDB copies then.
  EXPECT_TRUE(
      s.fs->LinkFile(s.root + "a/1.sst", s.root + "b/plain", kIo, nullptr).IsNotSupported());
}

// A directory that was removed and made again behind the plug-in's back.
TEST_F(NamesTest, NewDirectory_WhereAFormerOneWas_IsEmpty) {
  Side& s = sides_[1];
  ASSERT_EQ(s.Write("a/1.sst", "old"), "ok");
  std::filesystem::remove(s.root + "a");
  ASSERT_TRUE(s.fs->CreateDirIfMissing(s.root + "a", kIo, nullptr).ok());
  EXPECT_EQ(s.List("a"), "");
  EXPECT_EQ(s.Read("a/1.sst"), "not found");
}

// A database that is not mounted comes back, perhaps without the checkpoint that shares its tables.
TEST_F(NamesTest, DatabaseMadeWhereAFormerOneWas_KeepsTheTablesOfThatOne) {
  Side& s = sides_[1];
  ASSERT_EQ(s.Write("a/1.sst", "old"), "ok");
  ASSERT_TRUE(s.fs->LinkFile(s.root + "a/1.sst", s.root + "b/2.sst", kIo, nullptr).ok());
  std::filesystem::remove(s.root + "a");
  ASSERT_TRUE(s.fs->CreateDirIfMissing(s.root + "a", kIo, nullptr).ok());
  EXPECT_EQ(s.Read("a/1.sst"), "not found");
  EXPECT_EQ(s.Links("b/2.sst"), 2u);
  // A checkpoint is on its way there.
  ASSERT_TRUE(s.fs->CreateDirIfMissing(s.root + "c", kIo, nullptr).ok());
  ASSERT_TRUE(s.fs->LinkFile(s.root + "b/2.sst", s.root + "c/3.sst", kIo, nullptr).ok());
  std::filesystem::remove(s.root + "c");
  ASSERT_TRUE(s.fs->CreateDir(s.root + "c", kIo, nullptr).ok());
  EXPECT_EQ(s.Links("b/2.sst"), 2u);
}

// Such names are the pool's own, for what conversions and former databases leave.
TEST_F(NamesTest, Table_ToANameThePoolReserves_IsRefused) {
  Side& s = sides_[1];
  ASSERT_EQ(s.Write("a/1.sst", "kept"), "ok");
  for (const char* kept : {"x#moving", "x#former-3"}) {
    ASSERT_TRUE(s.fs->CreateDirIfMissing(s.root + kept, kIo, nullptr).ok());
    const std::string table = std::string(kept) + "/1.sst";
    EXPECT_EQ(s.Write(table, "new"), "error");
    EXPECT_EQ(Outcome(s.fs->LinkFile(s.root + "a/1.sst", s.root + table, kIo, nullptr)), "error");
    EXPECT_EQ(Outcome(s.fs->RenameFile(s.root + "a/1.sst", s.root + table, kIo, nullptr)), "error");
    ASSERT_TRUE(s.fs->DeleteDir(s.root + kept, kIo, nullptr).ok());
    EXPECT_EQ(Outcome(s.fs->RenameFile(s.root + "a", s.root + kept, kIo, nullptr)), "error");
    EXPECT_EQ(s.Read("a/1.sst"), "=kept");
  }
}

TEST(IsNumberedTest, IsNumbered_NamesOfAllKinds_TakesOnlyRocksDbs) {
  for (const char* name : {"000012.sst", "1234567.blob", "000012.sst.trash", "000012.sst.tmp",
                           "000012.blob.trash.tmp"}) {
    EXPECT_TRUE(IsNumbered(name)) << name;
  }
  for (const char* name : {"", ".sst", "mine.sst", "2026-11-22.sst", "7days.blob", "000012",
                           "000012.log", "000012.sst.old", "12.sst.sst", "12 .sst"}) {
    EXPECT_FALSE(IsNumbered(name)) << name;
  }
}

// Writes in place, as ingestion makes them, and reads past what was mapped at first.
TEST_F(NamesTest, RandomWrites_ToATable_ReadAsInPlainFiles) {
  ASSERT_EQ(sides_[0].Write("a/1.sst", ""), "ok");
  ASSERT_EQ(sides_[1].Write("a/1.sst", ""), "ok");
  std::unique_ptr<rocksdb::FSRandomRWFile> files[2];
  for (int i = 0; i < 2; ++i) {
    ASSERT_TRUE(sides_[i]
                    .fs
                    ->NewRandomRWFile(sides_[i].root + "a/1.sst", rocksdb::FileOptions(), &files[i],
                                      nullptr)
                    .ok());
  }
  uint64_t size = 0;
  for (int n = 0; n < 200; ++n) {
    const uint64_t offset = rng_() % (size + 200'000);
    const std::string bytes = RandomBytes(&rng_, 1 + rng_() % 20'000);
    const size_t want = rng_() % 40'000;
    const uint64_t from = rng_() % (size + 1000);
    size = std::max<uint64_t>(size, offset + bytes.size());
    std::string got[2];
    for (int i = 0; i < 2; ++i) {
      ASSERT_TRUE(files[i]->Write(offset, bytes, kIo, nullptr).ok());
      std::string scratch(want, '\0');
      rocksdb::Slice result;
      ASSERT_TRUE(files[i]->Read(from, want, kIo, &result, scratch.data(), nullptr).ok());
      got[i] = result.ToString();
    }
    ASSERT_TRUE(got[0] == got[1]) << n;
    if (n % 50 == 0) {
      ASSERT_TRUE(files[1]->Sync(kIo, nullptr).ok());
    }
    if (size > (20u << 20)) break;
  }
  Both("size", [](Side& s) { return s.Facts("a/1.sst"); });
}

TEST_F(NamesTest, OpenFile_Deleted_StaysReadable) {
  Side& s = sides_[1];
  const std::string old = RandomBytes(&rng_, 300'000);
  ASSERT_EQ(s.Write("a/1.sst", old), "ok");
  std::unique_ptr<rocksdb::FSRandomAccessFile> f;
  ASSERT_TRUE(
      s.fs->NewRandomAccessFile(s.root + "a/1.sst", rocksdb::FileOptions(), &f, nullptr).ok());
  ASSERT_TRUE(s.fs->DeleteFile(s.root + "a/1.sst", kIo, nullptr).ok());
  for (int i = 0; i < 20; ++i) {
    ASSERT_EQ(s.Write("a/" + std::to_string(i) + ".sst", RandomBytes(&rng_, 300'000)), "ok");
  }
  std::string scratch(old.size(), '\0');
  rocksdb::Slice result;
  ASSERT_TRUE(f->Read(0, old.size(), kIo, &result, scratch.data(), nullptr).ok());
  EXPECT_TRUE(result == old);
}

}  // namespace
}  // namespace pulse::lsm::test
