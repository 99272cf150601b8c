// The conformance suite of I/O back-ends: what they do, and the errors they give, are those of
// ExecuteBlocking. A test program includes it once, and names its engines:
//   INSTANTIATE_TEST_SUITE_P(Engines, EngineTest, ::testing::Values(Engine{...}), NameOf);
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "base/testing.h"
#include "base/unique_fd.h"
#include "uring/io_backend.h"

namespace pulse::io_backend_suite {

using testing_util::ScratchPath;
using testing_util::TestSeed;

constexpr size_t kIoBlock = 4096;

inline bool IsOpenFd(int fd) { return fcntl(fd, F_GETFD) != -1 || errno != EBADF; }

using Buffer = std::unique_ptr<char, decltype(&free)>;
inline Buffer AlignedBuffer(size_t bytes, char fill = 0) {
  Buffer b(static_cast<char*>(aligned_alloc(kIoBlock, bytes)), &free);
  std::memset(b.get(), fill, bytes);
  return b;
}

// Drives one engine the way FileEngine does.
class Driver {
 public:
  explicit Driver(std::unique_ptr<IoBackend> backend) : backend_(std::move(backend)) {}

  IoBackend& backend() { return *backend_; }

  // Waits, as an agent does, until Harvest may have something.
  void WaitForNews() {
    if (backend_->needs_polling()) return;
    pollfd p{backend_->wait_fd(), POLLIN, 0};
    int n;
    do {
      n = poll(&p, 1, 60'000);
    } while (n < 0 && errno == EINTR);
    ASSERT_EQ(n, 1) << "wait_fd did not become readable";
  }

  // Waits for `n` results in all, and keeps them by tag.
  void Collect(size_t n) {
    while (results_.size() < n && !::testing::Test::HasFatalFailure()) {
      backend_->Submit();
      WaitForNews();
      IoResult out[7];
      const size_t got = backend_->Harvest(out, std::size(out));
      ASSERT_LE(got, std::size(out));
      for (size_t i = 0; i < got; ++i) {
        ASSERT_EQ(results_.count(out[i].tag), 0u) << "tag " << out[i].tag << " twice";
        results_[out[i].tag] = out[i].result;
      }
    }
  }

  int64_t Execute(IoRequest r) {
    results_.clear();
    r.tag = ++next_tag_;
    EXPECT_TRUE(backend_->Enqueue(r));
    Collect(1);
    EXPECT_EQ(backend_->in_flight(), 0u);
    return results_.count(r.tag) != 0 ? results_[r.tag] : -ENODATA;
  }

  std::map<uint64_t, int64_t>& results() { return results_; }

 private:
  std::unique_ptr<IoBackend> backend_;
  uint64_t next_tag_ = 1'000'000;
  std::map<uint64_t, int64_t> results_;
};

// An engine under test.
struct Engine {
  const char* name;
  EngineKind kind;  // what it says that it is
  absl::StatusOr<std::unique_ptr<IoBackend>> (*create)(const IoBackendOptions&);

  absl::StatusOr<std::unique_ptr<IoBackend>> Create(uint32_t depth) const {
    IoBackendOptions options;
    options.kind = kind;
    options.depth = depth;
    return create(options);
  }
};
inline std::string NameOf(const ::testing::TestParamInfo<Engine>& engine) {
  return engine.param.name;
}

class EngineTest : public ::testing::TestWithParam<Engine> {
 protected:
  void SetUp() override {
    auto made = GetParam().Create(kDepth);
    if (!made.ok()) GTEST_SKIP() << "not to be had here: " << made.status();
    ASSERT_EQ((*made)->kind(), GetParam().kind);
    driver_ = std::make_unique<Driver>(*std::move(made));
  }
  IoBackend& backend() { return driver_->backend(); }
  UniqueFd OpenScratch(int flags = 0) {
    UniqueFd fd(open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | flags, 0600));
    EXPECT_TRUE(fd.valid()) << strerror(errno);
    return fd;
  }
  int64_t SizeOf(const ScratchPath& path) {
    struct stat st;
    return stat(path.c_str(), &st) == 0 ? st.st_size : -1;
  }
  static IoRequest Request(IoOp op, int fd, uint64_t offset = 0, uint64_t length = 0,
                           char* buffer = nullptr) {
    IoRequest r{};
    r.op = op;
    r.fd = fd;
    r.file_index = r.buffer_index = -1;
    r.offset = offset;
    r.length = length;
    r.buffer = buffer;
    return r;
  }

  static constexpr uint32_t kDepth = 16;
  ScratchPath path_{"io"};
  std::unique_ptr<Driver> driver_;
};

TEST_P(EngineTest, WriteThenRead_BufferedOrDirect_GivesTheBytesBack) {
  for (int flags : {0, O_DIRECT}) {
    UniqueFd fd(open(path_.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC | flags, 0600));
    if (!fd.valid() && errno == EINVAL) continue;  // a file system without direct I/O
    ASSERT_TRUE(fd.valid()) << strerror(errno);
    Buffer out = AlignedBuffer(4 * kIoBlock, 'w');
    Buffer in = AlignedBuffer(4 * kIoBlock);
    EXPECT_EQ(
        driver_->Execute(Request(IoOp::kWrite, fd.get(), 2 * kIoBlock, 4 * kIoBlock, out.get())),
        static_cast<int64_t>(4 * kIoBlock));
    EXPECT_EQ(SizeOf(path_), static_cast<int64_t>(6 * kIoBlock));
    EXPECT_EQ(
        driver_->Execute(Request(IoOp::kRead, fd.get(), 2 * kIoBlock, 4 * kIoBlock, in.get())),
        static_cast<int64_t>(4 * kIoBlock));
    EXPECT_EQ(std::memcmp(in.get(), out.get(), 4 * kIoBlock), 0);
    // The hole before; the end of the file; behind it.
    EXPECT_EQ(driver_->Execute(Request(IoOp::kRead, fd.get(), 0, kIoBlock, in.get())),
              static_cast<int64_t>(kIoBlock));
    EXPECT_EQ(in.get()[kIoBlock - 1], 0);
    EXPECT_EQ(
        driver_->Execute(Request(IoOp::kRead, fd.get(), 5 * kIoBlock, 4 * kIoBlock, in.get())),
        static_cast<int64_t>(kIoBlock));
    EXPECT_EQ(driver_->Execute(Request(IoOp::kRead, fd.get(), 100 * kIoBlock, kIoBlock, in.get())),
              0);
  }
}

TEST_P(EngineTest, BufferedTransfer_AnyAlignment_MovesTheBytes) {
  UniqueFd fd = OpenScratch();
  Buffer b = AlignedBuffer(2 * kIoBlock, 'u');
  EXPECT_EQ(driver_->Execute(Request(IoOp::kWrite, fd.get(), 13, 4097, b.get() + 1)), 4097);
  Buffer in = AlignedBuffer(2 * kIoBlock);
  EXPECT_EQ(driver_->Execute(Request(IoOp::kRead, fd.get(), 12, 8000, in.get() + 3)), 4098);
  EXPECT_EQ(in.get()[3], 0);
  EXPECT_EQ(std::memcmp(in.get() + 4, b.get() + 1, 4097), 0);
}

TEST_P(EngineTest, Sync_OfRangesAndFiles_Succeeds) {
  UniqueFd fd = OpenScratch();
  Buffer b = AlignedBuffer(kIoBlock, 's');
  ASSERT_EQ(driver_->Execute(Request(IoOp::kWrite, fd.get(), 0, kIoBlock, b.get())),
            static_cast<int64_t>(kIoBlock));
  EXPECT_EQ(driver_->Execute(Request(IoOp::kRangeSync, fd.get(), 0, kIoBlock)), 0);
  EXPECT_EQ(driver_->Execute(Request(IoOp::kRangeSync, fd.get(), 10 * kIoBlock, kIoBlock)), 0);
  EXPECT_EQ(driver_->Execute(Request(IoOp::kSync, fd.get())), 0);
}

TEST_P(EngineTest, Fallocate_EmptyFile_ExtendsIt) {
  UniqueFd fd = OpenScratch();
  const int64_t rc = driver_->Execute(Request(IoOp::kFallocate, fd.get(), 0, 10 * kIoBlock + 5));
  if (rc == -EOPNOTSUPP) GTEST_SKIP() << "the file system has no fallocate";
  EXPECT_EQ(rc, 0);
  EXPECT_EQ(SizeOf(path_), static_cast<int64_t>(10 * kIoBlock + 5));
}

TEST_P(EngineTest, SyncClose_AnySize_TruncatesAndCloses) {
  for (uint64_t size : {uint64_t{0}, uint64_t{100}, uint64_t{5000}, uint64_t{3 * kIoBlock}}) {
    UniqueFd fd = OpenScratch(O_TRUNC);
    Buffer b = AlignedBuffer(2 * kIoBlock, 't');
    ASSERT_EQ(driver_->Execute(Request(IoOp::kWrite, fd.get(), 0, 2 * kIoBlock, b.get())),
              static_cast<int64_t>(2 * kIoBlock));
    const int raw = fd.release();
    EXPECT_EQ(driver_->Execute(Request(IoOp::kSyncClose, raw, 0, size)), 0) << size;
    EXPECT_FALSE(IsOpenFd(raw)) << size;
    EXPECT_EQ(SizeOf(path_), static_cast<int64_t>(size));
  }
}

TEST_P(EngineTest, SyncClose_WithoutTruncation_KeepsTheSize) {
  UniqueFd fd = OpenScratch();
  ASSERT_EQ(pwrite(fd.get(), "abc", 3, 0), 3);
  const int raw = fd.release();
  EXPECT_EQ(driver_->Execute(Request(IoOp::kSyncClose, raw, 0, kNoTruncate)), 0);
  EXPECT_FALSE(IsOpenFd(raw));
  EXPECT_EQ(SizeOf(path_), 3);
}

TEST_P(EngineTest, SyncClose_TruncationFails_StillCloses) {
  OpenScratch();
  const int raw = open(path_.c_str(), O_RDONLY | O_CLOEXEC);
  ASSERT_GE(raw, 0);
  EXPECT_EQ(driver_->Execute(Request(IoOp::kSyncClose, raw, 0, 10)), -EINVAL);
  EXPECT_FALSE(IsOpenFd(raw));
}

TEST_P(EngineTest, SyncClose_SyncFails_StillCloses) {
  int fds[2];
  ASSERT_EQ(pipe2(fds, O_CLOEXEC), 0);
  UniqueFd reader(fds[0]);
  EXPECT_EQ(driver_->Execute(Request(IoOp::kSyncClose, fds[1], 0, kNoTruncate)), -EINVAL);
  EXPECT_FALSE(IsOpenFd(fds[1]));
  char c;
  EXPECT_EQ(read(reader.get(), &c, 1), 0) << "the pipe's end is really gone";
}

TEST_P(EngineTest, Close_OpenDescriptor_ClosesIt) {
  const int raw = OpenScratch().release();
  EXPECT_EQ(driver_->Execute(Request(IoOp::kClose, raw)), 0);
  EXPECT_FALSE(IsOpenFd(raw));
  EXPECT_EQ(driver_->Execute(Request(IoOp::kClose, raw)), -EBADF);
}

TEST_P(EngineTest, BadRequest_OfEveryKind_GivesTheSystemCallsError) {
  UniqueFd file = OpenScratch();
  ASSERT_EQ(ftruncate(file.get(), 4 * kIoBlock), 0);
  UniqueFd read_only(open(path_.c_str(), O_RDONLY | O_CLOEXEC));
  UniqueFd write_only(open(path_.c_str(), O_WRONLY | O_CLOEXEC));
  UniqueFd direct(open(path_.c_str(), O_RDWR | O_DIRECT | O_CLOEXEC));
  int fds[2];
  ASSERT_EQ(pipe2(fds, O_CLOEXEC), 0);
  UniqueFd reader(fds[0]), writer(fds[1]);
  Buffer b = AlignedBuffer(2 * kIoBlock);
  const int none = 987654;  // no such descriptor
  const uint64_t huge = uint64_t{1} << 62;
  std::vector<IoRequest> requests = {
      Request(IoOp::kRead, none, 0, kIoBlock, b.get()),
      Request(IoOp::kWrite, none, 0, kIoBlock, b.get()),
      Request(IoOp::kRangeSync, none, 0, kIoBlock),
      Request(IoOp::kSync, none),
      Request(IoOp::kFallocate, none, 0, kIoBlock),
      Request(IoOp::kSyncClose, none, 0, 0),
      Request(IoOp::kSyncClose, none, 0, kNoTruncate),
      Request(IoOp::kClose, none),
      Request(IoOp::kWrite, read_only.get(), 0, kIoBlock, b.get()),
      Request(IoOp::kRead, write_only.get(), 0, kIoBlock, b.get()),
      Request(IoOp::kWrite, file.get(), huge, kIoBlock, b.get()),
      Request(IoOp::kRead, file.get(), 0, kIoBlock, reinterpret_cast<char*>(8)),
      Request(IoOp::kWrite, file.get(), 0, kIoBlock, reinterpret_cast<char*>(8)),
      Request(IoOp::kFallocate, read_only.get(), 0, kIoBlock),
      Request(IoOp::kFallocate, file.get(), 0, 0),
      Request(IoOp::kFallocate, file.get(), 0, huge),
      Request(IoOp::kSync, writer.get()),
      Request(IoOp::kRangeSync, writer.get(), 0, kIoBlock),
      Request(IoOp::kRangeSync, file.get(), ~uint64_t{0} - 5, kIoBlock),
      Request(IoOp::kFallocate, writer.get(), 0, kIoBlock),
  };
  if (direct.valid()) {
    requests.push_back(Request(IoOp::kWrite, direct.get(), 1, kIoBlock, b.get()));
    requests.push_back(Request(IoOp::kRead, direct.get(), 0, 100, b.get()));
    requests.push_back(Request(IoOp::kRead, direct.get(), 4 * kIoBlock, kIoBlock, b.get()));
  }
  for (size_t i = 0; i < requests.size(); ++i) {
    const IoRequest& r = requests[i];
    const int64_t expected = ExecuteBlocking(r);
    EXPECT_EQ(driver_->Execute(r), expected)
        << "request " << i << ", op " << static_cast<int>(r.op) << ", fd " << r.fd << ": expected "
        << strerror(static_cast<int>(-expected));
  }
}

TEST_P(EngineTest, Batch_WithBadRequests_OthersSucceed) {
  UniqueFd fd = OpenScratch();
  Buffer b = AlignedBuffer(kIoBlock, 'g');
  for (uint64_t i = 0; i < 9; ++i) {
    IoRequest r =
        Request(IoOp::kWrite, i % 3 == 0 ? 987654 : fd.get(), i * kIoBlock, kIoBlock, b.get());
    r.tag = i;
    ASSERT_TRUE(backend().Enqueue(r));
  }
  driver_->Collect(9);
  for (uint64_t i = 0; i < 9; ++i) {
    EXPECT_EQ(driver_->results()[i], i % 3 == 0 ? -EBADF : static_cast<int64_t>(kIoBlock)) << i;
  }
}

TEST_P(EngineTest, Enqueue_DepthReached_IsRefusedForEveryOperation) {
  UniqueFd fd = OpenScratch();
  Buffer b = AlignedBuffer(kIoBlock, 'd');
  const IoRequest kinds[] = {Request(IoOp::kWrite, fd.get(), 0, kIoBlock, b.get()),
                             Request(IoOp::kSync, fd.get()),
                             Request(IoOp::kRangeSync, fd.get(), 0, kIoBlock)};
  for (size_t first = 0; first < 3; ++first) {
    driver_->results().clear();
    for (uint64_t i = 0; i < kDepth; ++i) {
      IoRequest r = kinds[first];
      r.tag = i;
      ASSERT_TRUE(backend().Enqueue(r)) << i;
    }
    EXPECT_EQ(backend().in_flight(), kDepth);
    for (const IoRequest& r : kinds) {
      EXPECT_FALSE(backend().Enqueue(r))
          << "op " << static_cast<int>(r.op) << " behind " << static_cast<int>(kinds[first].op);
    }
    EXPECT_EQ(backend().in_flight(), kDepth);
    driver_->Collect(1);
    const size_t harvested = driver_->results().size();
    EXPECT_EQ(backend().in_flight(), kDepth - harvested);
    for (uint64_t i = 0; i < harvested; ++i) {
      IoRequest r = kinds[0];
      r.tag = 1000 + i;
      ASSERT_TRUE(backend().Enqueue(r)) << "there is room again";
    }
    EXPECT_FALSE(backend().Enqueue(kinds[0]));
    driver_->Collect(kDepth + harvested);
    EXPECT_EQ(backend().in_flight(), 0u);
  }
}

TEST_P(EngineTest, Harvest_NothingSubmitted_GivesNothing) {
  IoResult out[4];
  EXPECT_EQ(backend().Harvest(out, 4), 0u);
  backend().Submit();
  EXPECT_EQ(backend().Harvest(out, 4), 0u);
  EXPECT_EQ(backend().in_flight(), 0u);
  EXPECT_FALSE(backend().needs_polling());
  EXPECT_GE(backend().wait_fd(), 0);
}

// Files, sync_closes among reads and writes, many laps of the rings; results harvested in crumbs.
TEST_P(EngineTest, ManyRequests_InFlight_EachCompletesOnce) {
  std::mt19937_64 random(TestSeed());
  constexpr uint64_t kTotal = 3000;
  constexpr size_t kFileBlocks = 64;
  // Apart, as the kernel answers direct writes over cached pages with EIO at the next sync.
  ScratchPath other("closing"), direct_path("direct");
  UniqueFd buffered = OpenScratch();
  ASSERT_EQ(ftruncate(buffered.get(), kFileBlocks * kIoBlock), 0);
  UniqueFd direct(open(direct_path.c_str(), O_RDWR | O_CREAT | O_DIRECT | O_CLOEXEC, 0600));
  if (direct.valid()) {
    ASSERT_EQ(ftruncate(direct.get(), kFileBlocks * kIoBlock), 0);
  }
  std::vector<Buffer> buffers;
  std::map<uint64_t, IoRequest> expected;

  for (uint32_t i = 0; i < kDepth; ++i) buffers.push_back(AlignedBuffer(kIoBlock, 'm'));
  uint64_t next = 0;
  size_t done = 0;
  std::vector<uint32_t> free_buffers;
  for (uint32_t i = 0; i < kDepth; ++i) free_buffers.push_back(i);
  while (done < kTotal) {
    while (next < kTotal && !free_buffers.empty() && random() % 8 != 0) {
      const int fd = direct.valid() && random() % 2 != 0 ? direct.get() : buffered.get();
      const uint64_t offset = random() % kFileBlocks * kIoBlock;
      IoRequest r;
      switch (random() % 8) {
        case 0:
          r = Request(IoOp::kSync, fd);
          break;
        case 1:
          r = Request(IoOp::kRangeSync, fd, offset, kIoBlock);
          break;
        case 2:
          r = Request(IoOp::kSyncClose, open(other.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600), 0,
                      random() % 9000);
          break;
        case 3:
        case 4:
          r = Request(IoOp::kRead, fd, offset, kIoBlock, buffers[free_buffers.back()].get());
          break;
        default:
          r = Request(IoOp::kWrite, fd, offset, kIoBlock, buffers[free_buffers.back()].get());
      }
      r.tag = next << 8 | free_buffers.back();
      ASSERT_TRUE(backend().Enqueue(r)) << next;
      free_buffers.pop_back();
      expected[r.tag] = r;
      ++next;
    }
    backend().Submit();
    if (expected.empty()) continue;
    driver_->WaitForNews();
    IoResult out[3];
    const size_t got = backend().Harvest(out, 1 + random() % 3);
    for (size_t i = 0; i < got; ++i) {
      const auto it = expected.find(out[i].tag);
      ASSERT_NE(it, expected.end()) << "tag " << out[i].tag << " twice, or never sent";
      const bool moves = it->second.op == IoOp::kRead || it->second.op == IoOp::kWrite;
      EXPECT_EQ(out[i].result, moves ? static_cast<int64_t>(kIoBlock) : 0)
          << "op " << static_cast<int>(it->second.op);
      free_buffers.push_back(static_cast<uint32_t>(out[i].tag & 0xff));
      expected.erase(it);
      ++done;
    }
  }
  EXPECT_EQ(backend().in_flight(), 0u);
  EXPECT_FALSE(backend().needs_polling());
}

TEST_P(EngineTest, Engine_Destroyed_LeavesNoDescriptorBehind) {
  const size_t open_before = testing_util::OpenDescriptors();
  {
    auto made = GetParam().Create(4);
    ASSERT_TRUE(made.ok()) << made.status();
    Driver d(*std::move(made));
    UniqueFd fd = OpenScratch();
    EXPECT_EQ(d.Execute(Request(IoOp::kSync, fd.get())), 0);
  }
  EXPECT_EQ(testing_util::OpenDescriptors(), open_before);
}

TEST_P(EngineTest, RegisteredBuffersAndFiles_BehaveAsPlainOnes) {
  Buffer b = AlignedBuffer(16 * kIoBlock, 'r');
  for (int flags : {0, O_DIRECT}) {
    UniqueFd fd(open(path_.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC | flags, 0600));
    if (!fd.valid()) continue;
    const int buffer_index = backend().RegisterBuffer(b.get(), 16 * kIoBlock);
    const int file_index = backend().RegisterFile(fd.get());
    const auto with = [&](IoRequest r) {
      r.buffer_index = buffer_index;
      r.file_index = file_index;
      return r;
    };
    std::memset(b.get(), 'r', 8 * kIoBlock);
    EXPECT_EQ(driver_->Execute(with(
                  Request(IoOp::kWrite, fd.get(), kIoBlock, 4 * kIoBlock, b.get() + 2 * kIoBlock))),
              static_cast<int64_t>(4 * kIoBlock));
    EXPECT_EQ(driver_->Execute(with(
                  Request(IoOp::kRead, fd.get(), kIoBlock, 4 * kIoBlock, b.get() + 8 * kIoBlock))),
              static_cast<int64_t>(4 * kIoBlock));
    EXPECT_EQ(std::memcmp(b.get() + 8 * kIoBlock, b.get(), 4 * kIoBlock), 0);
    EXPECT_EQ(driver_->Execute(with(Request(IoOp::kRangeSync, fd.get(), 0, kIoBlock))), 0);
    EXPECT_EQ(driver_->Execute(with(Request(IoOp::kSync, fd.get()))), 0);
    // FileEngine unregisters a file before it closes it.
    backend().UnregisterFile(file_index);
    const int raw = fd.release();
    EXPECT_EQ(driver_->Execute(Request(IoOp::kSyncClose, raw, 0, 5)), 0);
    EXPECT_FALSE(IsOpenFd(raw));
    EXPECT_EQ(SizeOf(path_), 5);
    backend().UnregisterBuffer(buffer_index);
  }
}

TEST_P(EngineTest, Registration_UntilRefused_PlacesAreReused) {
  Buffer b = AlignedBuffer(kIoBlock);
  UniqueFd fd = OpenScratch();
  for (int lap = 0; lap < 3; ++lap) {
    std::vector<int> buffers, files;
    for (int i; (i = backend().RegisterBuffer(b.get(), kIoBlock)) >= 0 && buffers.size() < 5000;) {
      buffers.push_back(i);
    }
    for (int i; (i = backend().RegisterFile(fd.get())) >= 0 && files.size() < 5000;) {
      files.push_back(i);
    }
    EXPECT_LT(buffers.size(), 5000u);
    EXPECT_LT(files.size(), 5000u);
    std::sort(files.begin(), files.end());
    EXPECT_EQ(std::adjacent_find(files.begin(), files.end()), files.end());
    for (int i : buffers) backend().UnregisterBuffer(i);
    for (int i : files) backend().UnregisterFile(i);
    if (GetParam().kind == EngineKind::kUring) {
      EXPECT_FALSE(files.empty());
    }
  }
  backend().UnregisterBuffer(-1);
  backend().UnregisterFile(-1);
  EXPECT_EQ(driver_->Execute(Request(IoOp::kSync, fd.get())), 0);
}

}  // namespace pulse::io_backend_suite
