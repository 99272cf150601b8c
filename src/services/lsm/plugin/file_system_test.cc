// The FileSystem itself: outputs written through every engine and mover, at every awkward size, and
// seen while they are in flight.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <cstddef>
#include <filesystem>
#include <future>
#include <thread>

#include "rocksdb/convenience.h"
#include "rocksdb/env_encryption.h"
#include "services/lsm/core/test_support.h"
#include "services/lsm/plugin/pulse_file_system.h"
#include "services/lsm/pool/test_pool.h"

namespace pulse::lsm::test {
namespace {

using rocksdb::FileSystem;
using rocksdb::FSRandomAccessFile;
using rocksdb::FSWritableFile;
using rocksdb::IOOptions;
using rocksdb::IOStatus;
using rocksdb::Slice;

std::shared_ptr<FileSystem> OpenFs(const std::string& uri) {
  std::shared_ptr<FileSystem> fs;
  const rocksdb::Status s = NewFileSystem(uri, nullptr, &fs);
  EXPECT_TRUE(s.ok()) << s.ToString();
  return fs;
}

std::unique_ptr<FSWritableFile> Create(FileSystem* fs, const std::string& path) {
  std::unique_ptr<FSWritableFile> f;
  const IOStatus s = fs->NewWritableFile(path, OutputOptions(), &f, nullptr);
  EXPECT_TRUE(s.ok()) << s.ToString();
  return f;
}

std::unique_ptr<FSRandomAccessFile> OpenRandom(FileSystem* fs, const std::string& path) {
  std::unique_ptr<FSRandomAccessFile> f;
  const IOStatus s = fs->NewRandomAccessFile(path, rocksdb::FileOptions(), &f, nullptr);
  EXPECT_TRUE(s.ok()) << s.ToString();
  return f;
}

std::string Read(FSRandomAccessFile* f, uint64_t offset, size_t n) {
  std::string scratch(n, '\0');
  Slice result;
  const IOStatus s = f->Read(offset, n, kIo, &result, scratch.data(), nullptr);
  EXPECT_TRUE(s.ok()) << s.ToString();
  return result.ToString();
}

uint64_t SizeOf(FileSystem* fs, const std::string& path) {
  uint64_t size = 0;
  EXPECT_TRUE(fs->GetFileSize(path, kIo, &size, nullptr).ok());
  return size;
}

void SyncDirectory(FileSystem* fs, const std::string& path) {
  std::unique_ptr<rocksdb::FSDirectory> d;
  ASSERT_TRUE(fs->NewDirectory(path, kIo, &d, nullptr).ok());
  const IOStatus s = d->Fsync(kIo, nullptr);
  ASSERT_TRUE(s.ok()) << s.ToString();
}

struct FsConfig {
  const char* name;
  const char* uri;
};

class EveryConfigTest : public ::testing::TestWithParam<FsConfig> {
 protected:
  void SetUp() override { fs_ = OpenFs(GetParam().uri); }

  ScratchDir dir_;
  std::shared_ptr<FileSystem> fs_;
};

TEST_P(EveryConfigTest, Append_AwkwardSizes_WritesAll) {
  std::mt19937_64 rng(21);
  const std::string source = RandomBytes(&rng, 3 << 20);
  const size_t sizes[] = {0,
                          1,
                          511,
                          512,
                          4095,
                          4096,
                          4097,
                          8191,
                          65535,
                          65536,
                          65537,
                          131072,
                          262144 - 1,
                          262144,
                          262145,
                          1 << 20,
                          (1 << 20) - 1,
                          (1 << 20) + 1,
                          2 << 20,
                          (2 << 20) + 4097};
  int n = 0;
  for (size_t first : {size_t{0}, size_t{1}, size_t{4096}, size_t{5000}}) {
    for (size_t second : sizes) {
      const std::string path = dir_ / (std::to_string(n++) + ".sst");
      auto f = Create(fs_.get(), path);
      // The first part makes the second begin anywhere in a page.
      ASSERT_TRUE(f->Append(Slice(source.data(), first), kIo, nullptr).ok());
      ASSERT_TRUE(f->Append(Slice(source.data() + first, second), kIo, nullptr).ok());
      EXPECT_EQ(f->GetFileSize(kIo, nullptr), first + second);
      ASSERT_TRUE(f->Sync(kIo, nullptr).ok());
      ASSERT_TRUE(f->Close(kIo, nullptr).ok());
      EXPECT_EQ(SizeOf(fs_.get(), path), first + second);
      SyncDirectory(fs_.get(), dir_.path());
      ASSERT_TRUE(ReadRaw(path) == source.substr(0, first + second)) << first << "+" << second;
      ASSERT_TRUE(fs_->DeleteFile(path, kIo, nullptr).ok());
    }
  }
}

// A file and what must be in it.
class ModelFile {
 public:
  ModelFile(FileSystem* fs, std::string path, std::mt19937_64* rng)
      : fs_(fs), path_(std::move(path)), rng_(rng), file_(Create(fs, path_)) {
    if ((*rng_)() % 2 != 0) file_->SetPreallocationBlockSize(1 << 20);
  }

  void Step() {
    switch ((*rng_)() % 16) {
      case 0:
        Do(file_->Flush(kIo, nullptr));
        visible_ = bytes_.size();
        break;
      case 1:
        Do((*rng_)() % 2 != 0 ? file_->Sync(kIo, nullptr) : file_->Fsync(kIo, nullptr));
        visible_ = bytes_.size();
        break;
      case 2: {
        if ((*rng_)() % 4 != 0) break;
        const uint64_t size = (*rng_)() % (bytes_.size() + bytes_.size() / 8 + 1);
        Do(file_->Truncate(size, kIo, nullptr));
        bytes_.resize(size);
        visible_ = size;
        break;
      }
      case 3:
        Check();
        break;
      default: {
        static constexpr size_t kMax[] = {16, 600, 4096, 5000, 70'000, 300'000};
        const std::string part = RandomBytes(rng_, (*rng_)() % kMax[(*rng_)() % 6]);
        Do(file_->Append(part, kIo, nullptr));
        bytes_ += part;
      }
    }
    ASSERT_EQ(file_->GetFileSize(kIo, nullptr), bytes_.size());
  }

  void Check() {
    ASSERT_EQ(SizeOf(fs_, path_), bytes_.size());
    if (visible_ == 0) return;
    if (reader_ == nullptr || (*rng_)() % 2 != 0) reader_ = OpenRandom(fs_, path_);
    const uint64_t from = (*rng_)() % visible_;
    const size_t n = 1 + (*rng_)() % (visible_ - from);
    ASSERT_TRUE(Read(reader_.get(), from, n) == bytes_.substr(from, n)) << from << " " << n;
  }

  void Finish() {
    closed_ = (*rng_)() % 8 != 0;
    if (closed_) Do(file_->Close(kIo, nullptr));
    file_.reset();
    visible_ = bytes_.size();
    Check();
    if ((*rng_)() % 2 != 0) {
      std::unique_ptr<rocksdb::FSSequentialFile> in;
      Do(fs_->NewSequentialFile(path_, rocksdb::FileOptions(), &in, nullptr));
      std::string scratch(bytes_.size() + 4096, '\0');
      Slice result;
      Do(in->Read(scratch.size(), kIo, &result, scratch.data(), nullptr));
      ASSERT_TRUE(result == bytes_);
    }
  }

  // Barriers do not wait for a file that was given up without Close.
  void CheckDisk() {
    if (!closed_ && OnPool()) return;  // nor does anybody else look for its size
    const auto same = [this] { return ReadRaw(path_) == bytes_; };
    ASSERT_TRUE(closed_ ? same() : Eventually(same)) << path_;
  }

 private:
  static void Do(const IOStatus& s) { ASSERT_TRUE(s.ok()) << s.ToString(); }

  FileSystem* const fs_;
  const std::string path_;
  std::mt19937_64* const rng_;
  std::unique_ptr<FSWritableFile> file_;
  std::unique_ptr<FSRandomAccessFile> reader_;
  bool closed_ = false;
  std::string bytes_;
  size_t visible_ = 0;
};

TEST_P(EveryConfigTest, File_RandomSequences_MatchTheModel) {
  std::mt19937_64 rng(TestSeed());
  for (int file = 0; file < 12; ++file) {
    ModelFile f(fs_.get(), dir_ / (std::to_string(file) + ".sst"), &rng);
    const int steps = 5 + static_cast<int>(rng() % 60);
    for (int i = 0; i < steps; ++i) {
      f.Step();
      if (HasFatalFailure()) return;
    }
    f.Finish();
    if (HasFatalFailure()) return;
    SyncDirectory(fs_.get(), dir_.path());
    f.CheckDisk();
  }
}

TEST_P(EveryConfigTest, Threads_SeveralFilesEach_WriteAll) {
  const uint64_t seed = TestSeed();
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      std::mt19937_64 rng(seed + t);
      for (int round = 0; round < 3; ++round) {
        std::vector<std::unique_ptr<ModelFile>> files;
        for (int i = 0; i < 3; ++i) {
          const std::string name = std::to_string(t * 100 + round * 10 + i) + ".blob";
          files.push_back(std::make_unique<ModelFile>(fs_.get(), dir_ / name, &rng));
        }
        for (int i = 0; i < 60; ++i) {
          files[rng() % files.size()]->Step();
          if (HasFatalFailure()) return;
        }
        for (auto& f : files) f->Finish();
        SyncDirectory(fs_.get(), dir_.path());
        for (auto& f : files) f->CheckDisk();
      }
    });
  }
  for (auto& t : threads) t.join();
}

TEST_P(EveryConfigTest, Append_LargerThanTheQueue_WritesAll) {
  std::mt19937_64 rng(22);
  const std::string bytes = RandomBytes(&rng, (40 << 20) + 123);
  const std::string path = dir_ / "1.sst";
  auto f = Create(fs_.get(), path);
  ASSERT_TRUE(f->Append(bytes, kIo, nullptr).ok());
  ASSERT_TRUE(f->Close(kIo, nullptr).ok());
  SyncDirectory(fs_.get(), dir_.path());
  EXPECT_TRUE(ReadRaw(path) == bytes);
}

// A write for each page: little data, since each of them may wait for a device.
TEST(SmallestThresholdTest, Append_AwkwardSizes_WritesAll) {
  for (const char* engine : {"", "&engine=threads"}) {
    SCOPED_TRACE(engine);
    ScratchDir dir;
    const auto fs = OpenFs(std::string("pulse://?queue=1M&write_threshold=4K") + engine);
    std::mt19937_64 rng(23);
    const std::string bytes = RandomBytes(&rng, (1 << 20) + 4097);
    const std::string path = dir / "1.sst";
    auto f = Create(fs.get(), path);
    size_t at = 0;
    for (const size_t size : {1, 511, 4095, 4096, 4097, 65537}) {
      ASSERT_TRUE(f->Append(Slice(bytes.data() + at, size), kIo, nullptr).ok());
      at += size;
    }
    ASSERT_TRUE(f->Append(Slice(bytes.data() + at, bytes.size() - at), kIo, nullptr).ok());
    ASSERT_TRUE(f->Close(kIo, nullptr).ok());
    SyncDirectory(fs.get(), dir.path());
    EXPECT_TRUE(ReadRaw(path) == bytes);
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, EveryConfigTest,
    ::testing::Values(FsConfig{"uring", "pulse://"},
                      FsConfig{"uring_vmread", "pulse://?mover=vmread&io=direct"},
                      FsConfig{"small_threshold", "pulse://?queue=1M&write_threshold=64K"},
                      FsConfig{"threads", "pulse://?engine=threads&queue=1M&write_threshold=32K"},
                      FsConfig{
                          "buffered",
                          "pulse://?io=buffered&sync_interval=64K&queue=1M&write_threshold=128K"},
                      FsConfig{"threads_buffered_vmread",
                               "pulse://?engine=threads&io=buffered&mover=vmread&sync_interval=4K"},
                      FsConfig{"small_queue", "pulse://?queue=1M&write_threshold=512K"},
                      FsConfig{"odd_queue", "pulse://?queue=1052672&write_threshold=69632"},
                      FsConfig{"strict", "pulse://?sync=strict&queue=1M&write_threshold=64K"},
                      FsConfig{"one_stream", "pulse://?streams=1&queue=1M&write_threshold=64K"},
                      FsConfig{"no_fetch", "pulse://?fetch=off"}),
    [](const auto& p) { return p.param.name; });

TEST(FileSystemTest, Create_AllStreamsInUse_HostWrites) {
  ScratchDir dir;
  auto fs = OpenFs("pulse://?streams=1");
  std::mt19937_64 rng(23);
  const std::string bytes = RandomBytes(&rng, 3'000'001);
  auto a = Create(fs.get(), dir / "1.sst");
  auto b = Create(fs.get(), dir / "2.sst");
  for (FSWritableFile* f : {a.get(), b.get()}) {
    ASSERT_TRUE(f->Append(bytes, kIo, nullptr).ok());
    ASSERT_TRUE(f->Flush(kIo, nullptr).ok());
    ASSERT_TRUE(f->Append("tail", kIo, nullptr).ok());
    ASSERT_TRUE(f->Sync(kIo, nullptr).ok());
    ASSERT_TRUE(f->Close(kIo, nullptr).ok());
  }
  SyncDirectory(fs.get(), dir.path());
  EXPECT_TRUE(ReadRaw(dir / "1.sst") == bytes + "tail");
  EXPECT_TRUE(ReadRaw(dir / "2.sst") == bytes + "tail");
  Stats s{};
  ASSERT_TRUE(GetStats(fs.get(), &s));
  EXPECT_GE(s.bytes_inline, bytes.size());
  EXPECT_GE(s.bytes_persisted, bytes.size());
  EXPECT_EQ(s.files_persisted, 2u);
  // A stream that was given back serves the next file.
  const uint64_t inline_before = s.bytes_inline;
  auto c = Create(fs.get(), dir / "3.sst");
  ASSERT_TRUE(c->Append(bytes, kIo, nullptr).ok());
  ASSERT_TRUE(c->Close(kIo, nullptr).ok());
  ASSERT_TRUE(GetStats(fs.get(), &s));
  EXPECT_EQ(s.bytes_inline, inline_before);
}

TEST(FileSystemTest, Append_FullQueue_WaitsAndIsCounted) {
  ScratchDir dir;
  Rig rig(MakeOptions("pulse://?queue=1M&write_threshold=256K"));
  std::mt19937_64 rng(24);
  const std::string bytes = RandomBytes(&rng, 4 << 20);
  rig.script.Hold(IoOp::kWrite);
  auto f = Create(rig.pulse.get(), dir / "1.sst");
  auto append = std::async(std::launch::async, [&] { return f->Append(bytes, kIo, nullptr); });
  ASSERT_TRUE(rig.script.WaitHeld(4));
  EXPECT_TRUE(Eventually([&] { return rig.stats().backpressure_waits >= 1; }));
  EXPECT_EQ(append.wait_for(std::chrono::seconds(0)), std::future_status::timeout);
  // Bounded by the queue; a pool's segments may part a piece.
  EXPECT_LE(rig.script.held(), OnPool() ? 8u : 4u);
  rig.script.Release();
  EXPECT_TRUE(append.get().ok());
  EXPECT_TRUE(f->Close(kIo, nullptr).ok());
  SyncDirectory(rig.pulse.get(), dir.path());
  EXPECT_TRUE(ReadRaw(dir / "1.sst") == bytes);
  const Stats s = rig.stats();
  EXPECT_GE(s.backpressure_waits, 1u);
  EXPECT_GT(s.backpressure_nanos, 0u);
  EXPECT_EQ(s.bytes_inline, 0u);
}

TEST(FileSystemTest, Stats_AfterWrites_AddUp) {
  ScratchDir dir;
  auto fs = OpenFs("pulse://");
  for (int i = 0; i < 5; ++i) {
    auto f = Create(fs.get(), dir / (std::to_string(i) + ".sst"));
    ASSERT_TRUE(f->Append(std::string(8192, 'x'), kIo, nullptr).ok());
    ASSERT_TRUE(f->Close(kIo, nullptr).ok());
  }
  SyncDirectory(fs.get(), dir.path());
  Stats s{};
  ASSERT_TRUE(GetStats(fs.get(), &s));
  EXPECT_EQ(s.files_persisted, 5u);
  EXPECT_EQ(s.bytes_persisted, 5u * 8192);
  EXPECT_EQ(s.bytes_inline, 0u);
  EXPECT_EQ(s.failovers, 0u);
  // A caller of an earlier release, whose struct ends before the member `failovers`.
  Stats early{};
  early.struct_size = offsetof(Stats, failovers);
  early.failovers = 77;
  ASSERT_TRUE(GetStats(fs.get(), &early));
  EXPECT_EQ(early.files_persisted, 5u);
  EXPECT_EQ(early.failovers, 77u) << "nothing is written behind what the caller knows";
  EXPECT_FALSE(GetStats(FileSystem::Default().get(), &s));
  EXPECT_FALSE(GetStats(nullptr, &s));
}

TEST(FileSystemTest, Agent_Idle_UsesNoCpu) {
  ScratchDir dir;
  for (const char* uri : {"pulse://", "pulse://?engine=threads"}) {
    auto fs = OpenFs(uri);
    auto f = Create(fs.get(), dir / "1.sst");
    ASSERT_TRUE(f->Append(std::string(3 << 20, 'x'), kIo, nullptr).ok());
    ASSERT_TRUE(f->Close(kIo, nullptr).ok());
    SyncDirectory(fs.get(), dir.path());
    // sleep: the agent looks for work before it sleeps
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    const auto cpu_ms = [] {
      rusage u{};
      getrusage(RUSAGE_SELF, &u);
      return (u.ru_utime.tv_sec + u.ru_stime.tv_sec) * 1000 +
             (u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1000;
    };
    // What it did before may end late on a busy machine: one such second of five is enough.
    int64_t used = 50;
    for (int i = 0; i < 5 && used >= 50; ++i) {
      const auto before = cpu_ms();
      std::this_thread::sleep_for(std::chrono::seconds(1));  // sleep: so that it is idle
      used = cpu_ms() - before;
    }
    EXPECT_LT(used, 50) << uri;
  }
}

TEST(FileSystemTest, Create_UnwritablePath_IsNamed) {
  ScratchDir dir;
  auto fs = OpenFs("pulse://");
  std::unique_ptr<FSWritableFile> f;
  const std::string missing = dir / "missing/1.sst";
  const IOStatus s = fs->NewWritableFile(missing, OutputOptions(), &f, nullptr);
  EXPECT_TRUE(s.IsPathNotFound()) << s.ToString();
  EXPECT_THAT(s.ToString(), ::testing::HasSubstr("missing/1.sst"));
}

// Outputs are opened by path: what changes paths or contents must not be below.
TEST(FileSystemTest, Open_BaseChangesPathsOrContents_IsRefused) {
  class Named : public rocksdb::FileSystemWrapper {
   public:
    Named(std::shared_ptr<FileSystem> below, const char* called)
        : FileSystemWrapper(std::move(below)), called_(called) {}
    const char* Name() const override { return called_; }

   private:
    const char* const called_;
  };
  std::shared_ptr<rocksdb::EncryptionProvider> provider;
  ASSERT_TRUE(
      rocksdb::EncryptionProvider::CreateFromString(rocksdb::ConfigOptions(), "1://test", &provider)
          .ok());
  const std::unique_ptr<rocksdb::Env> memory(rocksdb::NewMemEnv(rocksdb::Env::Default()));
  const std::vector<std::pair<std::shared_ptr<FileSystem>, std::string>> bad = {
      {rocksdb::NewEncryptedFS(FileSystem::Default(), provider), "EncryptedFileSystem"},
      {std::make_shared<Named>(rocksdb::NewEncryptedFS(FileSystem::Default(), provider),
                               "Counting"),
       "EncryptedFileSystem"},
      {std::make_shared<Named>(FileSystem::Default(), "ChrootFS"), "ChrootFS"},
      {std::make_shared<Named>(FileSystem::Default(), "RemapFileSystem"), "RemapFileSystem"},
      {memory->GetFileSystem(), memory->GetFileSystem()->Name()}};
  for (const auto& [base, name] : bad) {
    std::shared_ptr<FileSystem> fs;
    const rocksdb::Status s = NewFileSystem("pulse://", base, &fs);
    EXPECT_TRUE(s.IsInvalidArgument()) << name << ": " << s.ToString();
    EXPECT_THAT(s.ToString(), ::testing::HasSubstr(name));
    EXPECT_EQ(fs, nullptr);
  }
  std::shared_ptr<FileSystem> fs;
  EXPECT_TRUE(
      NewFileSystem("pulse://", std::make_shared<Named>(FileSystem::Default(), "Counting"), &fs)
          .ok());
}

TEST(FileSystemTest, Create_NoFallocate_DoesNotPreallocate) {
  PULSE_SKIP_ON_POOL("the host reserves segments");
  ScratchDir dir;
  Rig rig;
  std::atomic<int> preallocations{0};
  rig.script.SetRule([&](const IoRequest& r, const std::string&) {
    if (r.op == IoOp::kFallocate) ++preallocations;
    return Verdict{};
  });
  for (bool allowed : {true, false}) {
    rocksdb::FileOptions options = OutputOptions();
    options.allow_fallocate = allowed;
    std::unique_ptr<FSWritableFile> f;
    ASSERT_TRUE(rig.pulse->NewWritableFile(dir / "1.sst", options, &f, nullptr).ok());
    f->SetPreallocationBlockSize(1 << 20);
    ASSERT_TRUE(f->Append("hello", kIo, nullptr).ok());
    ASSERT_TRUE(f->Close(kIo, nullptr).ok());
    SyncDirectory(rig.pulse.get(), dir.path());
    EXPECT_EQ(preallocations.exchange(0), allowed ? 1 : 0);
  }
}

// As a base does that keeps its files to their owner.
class PrivateFiles : public rocksdb::FileSystemWrapper {
 public:
  PrivateFiles() : FileSystemWrapper(FileSystem::Default()) {}
  const char* Name() const override { return "PrivateFiles"; }
  IOStatus NewWritableFile(const std::string& path, const rocksdb::FileOptions& options,
                           std::unique_ptr<FSWritableFile>* out,
                           rocksdb::IODebugContext* dbg) override {
    IOStatus s = target()->NewWritableFile(path, options, out, dbg);
    std::filesystem::permissions(path, kPrivate);
    return s;
  }
  static constexpr auto kPrivate =
      std::filesystem::perms::owner_read | std::filesystem::perms::owner_write;
};

TEST(FileSystemTest, Create_Output_HasTheRightsOfTheBase) {
  PULSE_SKIP_ON_POOL("the pool has its own");
  ScratchDir dir;
  std::shared_ptr<FileSystem> fs;
  ASSERT_TRUE(NewFileSystem("pulse://", std::make_shared<PrivateFiles>(), &fs).ok());
  for (int i = 0; i < 2; ++i) {  // new, and in the place of a former one
    auto f = Create(fs.get(), dir / "1.sst");
    EXPECT_TRUE(f->Append("hello", kIo, nullptr).ok());
    EXPECT_TRUE(f->Close(kIo, nullptr).ok());
    SyncDirectory(fs.get(), dir.path());
    EXPECT_EQ(std::filesystem::status(dir / "1.sst").permissions(), PrivateFiles::kPrivate);
    EXPECT_EQ(ReadRaw(dir / "1.sst"), "hello");
  }
}

}  // namespace
}  // namespace pulse::lsm::test
