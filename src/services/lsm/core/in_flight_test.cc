// Outputs seen while they are in flight: what readers find, what waits and what does not.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>

#include "base/testing.h"
#include "services/lsm/core/test_support.h"
#include "services/lsm/plugin/pulse_file_system.h"
#include "services/lsm/pool/test_pool.h"

namespace pulse::lsm::test {
namespace {

using rocksdb::FSRandomAccessFile;
using rocksdb::FSWritableFile;
using rocksdb::IOOptions;
using rocksdb::IOStatus;
using rocksdb::Slice;

class InFlightTest : public ::testing::Test {
 protected:
  static constexpr size_t kSize = 300'001;

  void SetUp() override {
    std::mt19937_64 rng(31);
    bytes_ = RandomBytes(&rng, kSize);
    path_ = dir_ / "000001.sst";
  }

  std::unique_ptr<FSWritableFile> Create(const std::string& path) {
    std::unique_ptr<FSWritableFile> f;
    EXPECT_TRUE(rig_.pulse->NewWritableFile(path, OutputOptions(), &f, nullptr).ok());
    f->SetPreallocationBlockSize(1 << 20);  // as RocksDB does: the physical size lies
    return f;
  }

  // Written and closed; `held` stays in flight.
  void WriteHolding(IoOp held) {
    rig_.script.Hold(held, "000001.sst");
    auto f = Create(path_);
    ASSERT_TRUE(f->Append(bytes_, kIo, nullptr).ok());
    ASSERT_TRUE(f->Close(kIo, nullptr).ok());
    ASSERT_TRUE(rig_.script.WaitHeld(1));
  }

  std::unique_ptr<FSRandomAccessFile> Open(const rocksdb::FileOptions& options = {}) {
    std::unique_ptr<FSRandomAccessFile> f;
    const IOStatus s = rig_.pulse->NewRandomAccessFile(path_, options, &f, nullptr);
    EXPECT_TRUE(s.ok()) << s.ToString();
    return f;
  }

  static std::string Read(FSRandomAccessFile* f, uint64_t offset, size_t n,
                          const IOOptions& io = kIo) {
    std::string scratch(n, '\0');
    Slice result;
    const IOStatus s = f->Read(offset, n, io, &result, scratch.data(), nullptr);
    EXPECT_TRUE(s.ok()) << s.ToString();
    return result.ToString();
  }

  // A read from just before the end on, of more than there is.
  void ReadTail(const std::function<IOStatus(FSReadRequest&)>& read) {
    std::string scratch(5000, '\0');
    FSReadRequest r;
    r.offset = kSize - 10;
    r.len = scratch.size();
    r.scratch = scratch.data();
    const IOStatus s = read(r);
    EXPECT_TRUE(s.ok()) << s.ToString();
    EXPECT_TRUE(r.status.ok()) << r.status.ToString();
  }

  // `job` must wait for what is held.
  void ExpectWaits(const std::function<IOStatus()>& job) {
    auto done = std::async(std::launch::async, job);
    EXPECT_TRUE(StaysBlocked(done));
    rig_.script.Release();
    const IOStatus s = done.get();
    EXPECT_TRUE(s.ok()) << s.ToString();
  }

  ScratchDir dir_;
  Rig rig_;
  std::string bytes_;
  std::string path_;
};

TEST_F(InFlightTest, FileSize_InFlight_IsLogical) {
  for (IoOp op : {IoOp::kWrite, IoOp::kSyncClose}) {
    WriteHolding(op);
    uint64_t size = 0;
    EXPECT_TRUE(rig_.pulse->GetFileSize(path_, kIo, &size, nullptr).ok());
    EXPECT_EQ(size, kSize);
    std::vector<rocksdb::FileAttributes> children;
    EXPECT_TRUE(rig_.pulse->GetChildrenFileAttributes(dir_.path(), kIo, &children, nullptr).ok());
    size_t found = 0;
    for (const auto& c : children) {
      if (c.name != "000001.sst") continue;
      ++found;
      EXPECT_EQ(c.size_bytes, kSize);
    }
    EXPECT_EQ(found, 1u);
    EXPECT_TRUE(rig_.pulse->FileExists(path_, kIo, nullptr).ok());
    rig_.script.Release();
    EXPECT_TRUE(rig_.pulse->DeleteFile(path_, kIo, nullptr).ok());
  }
}

TEST_F(InFlightTest, Read_SyncInFlight_DoesNotWait) {
  WriteHolding(IoOp::kSyncClose);
  auto f = Open();
  EXPECT_TRUE(Read(f.get(), 0, kSize) == bytes_);
  EXPECT_TRUE(Read(f.get(), kSize - 100, 100) == bytes_.substr(kSize - 100));
  EXPECT_TRUE(Read(f.get(), 4095, 70'000) == bytes_.substr(4095, 70'000));
  rig_.script.Release();
}

// The file is physically longer: padded to pages, and preallocated.
TEST_F(InFlightTest, Read_PastTheEnd_IsShort) {
  WriteHolding(IoOp::kSyncClose);
  IOOptions low;
  low.rate_limiter_priority = rocksdb::Env::IO_LOW;  // as a compaction reads
  for (const IOOptions& io : {kIo, low}) {
    auto f = Open();
    EXPECT_TRUE(Read(f.get(), kSize - 100, 5000, io) == bytes_.substr(kSize - 100));
    EXPECT_TRUE(Read(f.get(), kSize - 50'000, 100'000, io) == bytes_.substr(kSize - 50'000));
    EXPECT_EQ(Read(f.get(), kSize, 40'000, io), "");
    EXPECT_EQ(Read(f.get(), kSize + 100'000, 40'000, io), "");
  }
  rig_.script.Release();
}

TEST_F(InFlightTest, MultiRead_InFlight_ReadsTheData) {
  WriteHolding(IoOp::kSyncClose);
  auto f = Open();
  std::string a(100, '\0');
  std::string b(5000, '\0');
  FSReadRequest r[2];
  r[0].offset = 17;
  r[0].len = a.size();
  r[0].scratch = a.data();
  r[1].offset = kSize - 10;
  r[1].len = b.size();
  r[1].scratch = b.data();
  ASSERT_TRUE(f->MultiRead(r, 2, kIo, nullptr).ok());
  EXPECT_TRUE(r[0].status.ok());
  EXPECT_TRUE(r[1].status.ok());
  EXPECT_EQ(r[0].result, bytes_.substr(17, 100));
  EXPECT_EQ(r[1].result, bytes_.substr(kSize - 10));
  rig_.script.Release();
}

TEST_F(InFlightTest, ReadAsync_InFlight_ReadsTheData) {
  WriteHolding(IoOp::kSyncClose);
  auto f = Open();
  std::string got;
  ReadTail([&](FSReadRequest& r) {
    void* handle = nullptr;
    rocksdb::IOHandleDeleter deleter;
    const auto take = [&](auto& done, void*) { got = done.result.ToString(); };
    return f->ReadAsync(r, kIo, take, nullptr, &handle, &deleter, nullptr);
  });
  EXPECT_EQ(got, bytes_.substr(kSize - 10));
  rig_.script.Release();
}

#if PULSE_ROCKSDB_AT_LEAST(11, 8)
TEST_F(InFlightTest, SubmitReadAsync_InFlight_ReadsTheData) {
  WriteHolding(IoOp::kSyncClose);
  auto f = Open();
  std::string got;
  ReadTail([&](FSReadRequest& r) {
    f->SubmitReadAsync(
        r, kIo, [&](FSReadRequest& done) { got = done.result.ToString(); }, nullptr);
    return r.status;
  });
  EXPECT_EQ(got, bytes_.substr(kSize - 10));
  rig_.script.Release();
}
#endif

TEST_F(InFlightTest, Read_FlushedData_WaitsForItsWrite) {
  rig_.script.Hold(IoOp::kWrite);
  auto f = Create(path_);
  ASSERT_TRUE(f->Append(bytes_, kIo, nullptr).ok());
  ASSERT_TRUE(f->Flush(kIo, nullptr).ok());
  ASSERT_TRUE(rig_.script.WaitHeld(1));
  auto in = Open();
  ExpectWaits([&] {
    EXPECT_TRUE(Read(in.get(), 0, kSize) == bytes_);
    return IOStatus::OK();
  });
}

// A compaction-like reader must not keep what lay ahead of the writer.
TEST_F(InFlightTest, Read_OpenFileGrows_SeesTheNewData) {
  IOOptions low;
  low.rate_limiter_priority = rocksdb::Env::IO_LOW;
  auto f = Create(path_);
  auto in = Open();
  std::string all;
  for (int i = 0; i < 6; ++i) {
    ASSERT_TRUE(f->Append(bytes_, kIo, nullptr).ok());
    all += bytes_;
    ASSERT_TRUE(f->Flush(kIo, nullptr).ok());
    ASSERT_TRUE(Read(in.get(), all.size() - kSize, kSize, low) == bytes_) << i;
    ASSERT_TRUE(Read(in.get(), 0, all.size(), low) == all) << i;
  }
  ASSERT_TRUE(f->Close(kIo, nullptr).ok());
  EXPECT_TRUE(Read(in.get(), 0, all.size(), low) == all);
}

TEST_F(InFlightTest, Append_AfterPartialFlush_WaitsForItsPage) {
  rig_.script.Hold(IoOp::kWrite);
  auto f = Create(path_);
  ASSERT_TRUE(f->Append(Slice(bytes_.data(), 5000), kIo, nullptr).ok());
  ASSERT_TRUE(f->Flush(kIo, nullptr).ok());
  ASSERT_TRUE(rig_.script.WaitHeld(1));
  // Two writes of the same page in flight would land in any order.
  ExpectWaits([&] { return f->Append(Slice(bytes_.data() + 5000, 10'000), kIo, nullptr); });
  ASSERT_TRUE(f->Close(kIo, nullptr).ok());
  auto in = Open();
  EXPECT_TRUE(Read(in.get(), 0, 20'000) == bytes_.substr(0, 15'000));
}

TEST_F(InFlightTest, SequentialRead_InFlight_WaitsUntilDurable) {
  WriteHolding(IoOp::kSyncClose);
  std::unique_ptr<rocksdb::FSSequentialFile> in;
  ExpectWaits(
      [&] { return rig_.pulse->NewSequentialFile(path_, rocksdb::FileOptions(), &in, nullptr); });
  std::string scratch(2 * kSize, '\0');
  Slice result;
  ASSERT_TRUE(in->Read(2 * kSize, kIo, &result, scratch.data(), nullptr).ok());
  EXPECT_TRUE(result == bytes_);
}

TEST_F(InFlightTest, MappedRead_InFlight_WaitsUntilDurable) {
  WriteHolding(IoOp::kSyncClose);
  rocksdb::FileOptions mapped;
  mapped.use_mmap_reads = true;
  std::unique_ptr<FSRandomAccessFile> in;
  ExpectWaits([&] { return rig_.pulse->NewRandomAccessFile(path_, mapped, &in, nullptr); });
  EXPECT_TRUE(Read(in.get(), 0, 2 * kSize) == bytes_);
}

TEST_F(InFlightTest, Rename_InFlight_WaitsUntilDurable) {
  WriteHolding(IoOp::kSyncClose);
  const std::string to = dir_ / "renamed.sst";
  ExpectWaits([&] { return rig_.pulse->RenameFile(path_, to, kIo, nullptr); });
  EXPECT_TRUE(ReadRaw(to) == bytes_);
}

TEST_F(InFlightTest, Link_InFlight_WaitsUntilDurable) {
  WriteHolding(IoOp::kSyncClose);
  const std::string to = dir_ / "linked.sst";
  ExpectWaits([&] { return rig_.pulse->LinkFile(path_, to, kIo, nullptr); });
  EXPECT_TRUE(ReadRaw(to) == bytes_);
}

TEST_F(InFlightTest, Truncate_InFlight_WaitsUntilDurable) {
  WriteHolding(IoOp::kSyncClose);
  ExpectWaits([&] {
    const IOStatus s = rig_.pulse->Truncate(path_, 12'345, kIo, nullptr);
    // Not every base file system can.
    return s.IsNotSupported() ? IOStatus::OK() : s;
  });
}

TEST_F(InFlightTest, Reopen_InFlight_WaitsUntilDurable) {
  WriteHolding(IoOp::kSyncClose);
  std::unique_ptr<FSWritableFile> f;
  ExpectWaits(
      [&] { return rig_.pulse->ReopenWritableFile(path_, rocksdb::FileOptions(), &f, nullptr); });
  // Who opens a finished table again wants to sync it; more than that a pool does not do.
  const IOStatus s = f->Append("more", kIo, nullptr);
  EXPECT_EQ(s.IsNotSupported(), OnPool());
  EXPECT_EQ(s.ok(), !OnPool());
  ASSERT_TRUE(f->Sync(kIo, nullptr).ok());
  ASSERT_TRUE(f->Close(kIo, nullptr).ok());
  EXPECT_TRUE(ReadRaw(path_) == bytes_ + (OnPool() ? "" : "more"));
}

TEST_F(InFlightTest, Delete_InFlight_DoesNotWait) {
  WriteHolding(IoOp::kSyncClose);
  EXPECT_TRUE(rig_.pulse->DeleteFile(path_, kIo, nullptr).ok());
  EXPECT_TRUE(rig_.pulse->FileExists(path_, kIo, nullptr).IsNotFound());
  std::unique_ptr<rocksdb::FSDirectory> d;
  ASSERT_TRUE(rig_.pulse->NewDirectory(dir_.path(), kIo, &d, nullptr).ok());
  EXPECT_TRUE(d->Fsync(kIo, nullptr).ok());
  // And the name is free for another file, which the old one's last operations do not touch.
  auto f = Create(path_);
  ASSERT_TRUE(f->Append("new", kIo, nullptr).ok());
  rig_.script.Release();
  ASSERT_TRUE(f->Close(kIo, nullptr).ok());
  EXPECT_TRUE(d->Fsync(kIo, nullptr).ok());
  EXPECT_EQ(ReadRaw(path_), "new");
}

// A name that is used again without being deleted: as after a database was closed in the middle of
// a compaction and opened again.
TEST_F(InFlightTest, Create_AgainInFlight_IsNotTouchedByTheFirst) {
  for (IoOp op : {IoOp::kWrite, IoOp::kSyncClose}) {
    for (bool output : {true, false}) {
      WriteHolding(op);
      rig_.script.SetRule(nullptr);  // what is held stays held
      std::unique_ptr<FSWritableFile> f;
      ASSERT_TRUE(rig_.pulse
                      ->NewWritableFile(path_, output ? OutputOptions() : rocksdb::FileOptions(),
                                        &f, nullptr)
                      .ok());
      ASSERT_TRUE(f->Append("new", kIo, nullptr).ok());
      ASSERT_TRUE(f->Sync(kIo, nullptr).ok());
      rig_.script.Release();
      ASSERT_TRUE(f->Close(kIo, nullptr).ok());
      std::unique_ptr<rocksdb::FSDirectory> d;
      ASSERT_TRUE(rig_.pulse->NewDirectory(dir_.path(), kIo, &d, nullptr).ok());
      EXPECT_TRUE(d->Fsync(kIo, nullptr).ok());
      ASSERT_TRUE(Eventually([&] { return rig_.script.held() == 0; }));
      // Also after the old one's last operations.
      EXPECT_TRUE(testing_util::Stays([&] { return ReadRaw(path_) == "new"; }))
          << static_cast<int>(op) << " " << output;
      EXPECT_TRUE(rig_.pulse->DeleteFile(path_, kIo, nullptr).ok());
    }
  }
}

// A base whose deletions and renames fail.
class Stuck : public rocksdb::FileSystemWrapper {
 public:
  Stuck() : FileSystemWrapper(rocksdb::FileSystem::Default()) {}
  const char* Name() const override { return "Stuck"; }
  IOStatus DeleteFile(const std::string&, const IOOptions&, rocksdb::IODebugContext*) override {
    return IOStatus::IOError("stuck");
  }
  IOStatus RenameFile(const std::string&, const std::string&, const IOOptions&,
                      rocksdb::IODebugContext*) override {
    return IOStatus::IOError("stuck");
  }
};

// An output whose file could not be deleted or replaced is still part of the barrier.
TEST_F(InFlightTest, Delete_Fails_OutputIsStillWaitedFor) {
  PULSE_SKIP_ON_POOL("it is the base file system here that fails to delete");
  Options options = MakeOptions("pulse://?engine=threads");
  options.backend_factory = rig_.script.factory();
  // One agent at a time listens to the script.
  rig_.env.reset();
  rig_.top.reset();
  rig_.pulse.reset();
  auto fs = PulseFileSystem::Open(options, std::make_shared<Stuck>());
  ASSERT_TRUE(fs.ok()) << fs.status();
  rig_.pulse = *std::move(fs);
  const std::string other = dir_ / "other";
  std::unique_ptr<FSWritableFile> plain;
  ASSERT_TRUE(rig_.pulse->NewWritableFile(other, rocksdb::FileOptions(), &plain, nullptr).ok());
  const std::vector<std::function<IOStatus()>> ways = {
      [&] { return rig_.pulse->DeleteFile(path_, kIo, nullptr); },
      [&] { return rig_.pulse->RenameFile(other, path_, kIo, nullptr); },
      [&] {
        std::unique_ptr<FSWritableFile> f;
        return rig_.pulse->NewWritableFile(path_, rocksdb::FileOptions(), &f, nullptr);
      }};
  for (const auto& way : ways) {
    WriteHolding(IoOp::kSyncClose);
    const IOStatus s = way();
    EXPECT_TRUE(s.IsIOError()) << s.ToString();
    uint64_t size = 0;
    EXPECT_TRUE(rig_.pulse->GetFileSize(path_, kIo, &size, nullptr).ok());
    EXPECT_EQ(size, kSize);
    std::unique_ptr<FSWritableFile> manifest;
    const std::string name = dir_ / "MANIFEST-000001";
    ASSERT_TRUE(rig_.pulse->NewWritableFile(name, rocksdb::FileOptions(), &manifest, nullptr).ok());
    ExpectWaits([&] { return manifest->Append("edit", kIo, nullptr); });
    EXPECT_TRUE(ReadRaw(path_) == bytes_);
  }
  plain.reset();
}

TEST_F(InFlightTest, Error_InFlight_ReachesEveryReader) {
  rig_.script.FailFrom(IoOp::kWrite, 1, EIO);
  auto f = Create(path_);
  ASSERT_TRUE(f->Append(bytes_, kIo, nullptr).ok());
  // The error may be noticed here or later; it must not be forgotten in between.
  f->Flush(kIo, nullptr).PermitUncheckedError();
  auto in = Open();
  for (int i = 0; i < 2; ++i) {
    std::string scratch(100, '\0');
    Slice result;
    const IOStatus s = in->Read(0, 100, kIo, &result, scratch.data(), nullptr);
    EXPECT_TRUE(s.IsIOError()) << s.ToString();
    EXPECT_THAT(s.ToString(), ::testing::HasSubstr("000001.sst"));
    const IOStatus closed = f->Close(kIo, nullptr);
    EXPECT_EQ(closed.IsIOError(), i == 0) << closed.ToString();
    std::unique_ptr<rocksdb::FSSequentialFile> seq;
    EXPECT_TRUE(
        rig_.pulse->NewSequentialFile(path_, rocksdb::FileOptions(), &seq, nullptr).IsIOError());
    EXPECT_TRUE(rig_.pulse->LinkFile(path_, dir_ / "l", kIo, nullptr).IsIOError());
  }
}

TEST_F(InFlightTest, Error_Repeated_IsSticky) {
  rig_.script.FailFrom(IoOp::kWrite, 1, ENOSPC);
  auto f = Create(path_);
  ASSERT_TRUE(f->Append(bytes_, kIo, nullptr).ok());
  f->Flush(kIo, nullptr).PermitUncheckedError();
  ASSERT_TRUE(Eventually([&] { return !f->Flush(kIo, nullptr).ok(); }));
  rig_.script.Clear();
  EXPECT_TRUE(f->Sync(kIo, nullptr).IsNoSpace());
  EXPECT_TRUE(f->Truncate(1, kIo, nullptr).IsNoSpace());
  EXPECT_TRUE(f->Append(std::string(4 << 20, 'x'), kIo, nullptr).IsNoSpace());
  const IOStatus s = f->Close(kIo, nullptr);
  EXPECT_TRUE(s.IsNoSpace()) << s.ToString();
  EXPECT_THAT(s.ToString(), ::testing::HasSubstr("000001.sst"));
}

TEST_F(InFlightTest, Destructors_AnyOrder_AreSafe) {
  for (int i = 0; i < 20; ++i) {
    auto rig = std::make_unique<Rig>();
    rig->script.SetRule([i](const IoRequest&, const std::string&) {
      return Verdict{i % 2 != 0 ? Verdict::kDelay : Verdict::kPass, 2000};
    });
    std::vector<std::unique_ptr<FSWritableFile>> files;
    std::vector<std::unique_ptr<FSRandomAccessFile>> readers;
    for (int j = 0; j < 6; ++j) {
      const std::string path = dir_ / (std::to_string(j) + ".sst");
      std::unique_ptr<FSWritableFile> f;
      ASSERT_TRUE(rig->pulse->NewWritableFile(path, OutputOptions(), &f, nullptr).ok());
      ASSERT_TRUE(f->Append(bytes_, kIo, nullptr).ok());
      if (j % 3 != 0) f->Close(kIo, nullptr).PermitUncheckedError();
      std::unique_ptr<FSRandomAccessFile> r;
      ASSERT_TRUE(rig->pulse->NewRandomAccessFile(path, rocksdb::FileOptions(), &r, nullptr).ok());
      readers.push_back(std::move(r));
      files.push_back(std::move(f));
      if (j % 2 != 0) rig->pulse->DeleteFile(path, kIo, nullptr).PermitUncheckedError();
    }
    // The files keep alive what they need; the script must outlive the agent, so the rig goes last.
    rig->env.reset();
    rig->top.reset();
    rig->pulse.reset();
    if (i % 4 < 2) files.clear();
    readers.clear();
    files.clear();
  }
}

}  // namespace
}  // namespace pulse::lsm::test
