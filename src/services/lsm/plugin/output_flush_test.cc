// An output's Flush: in the middle of an append it is RocksDB making room in its own buffer, else a
// promise that what was appended is visible.
#include <gtest/gtest.h>

#include <atomic>

#include "services/lsm/core/test_agent.h"
#include "services/lsm/core/test_support.h"

namespace pulse::lsm::test {
namespace {

using rocksdb::FSWritableFile;
using rocksdb::Slice;

class OutputFlushTest : public ::testing::Test {
 protected:
  OutputFlushTest() : rig_(MakeOptions("pulse://")) {
    rig_.script.SetRule([this](const IoRequest& r, const std::string&) {
      if (r.op == IoOp::kWrite) ++writes_;
      return Verdict{};
    });
    file_ = CreateOutput(rig_.pulse.get(), path_);
  }
  void Prepare(size_t offset, size_t n) { file_->PrepareWrite(offset, n, kIo, nullptr); }
  void Append(size_t from, size_t n) {
    ASSERT_TRUE(file_->Append(Slice(bytes_.data() + from, n), kIo, nullptr).ok());
  }
  void Flush() { ASSERT_TRUE(file_->Flush(kIo, nullptr).ok()); }
  std::string Read(size_t n) {
    std::unique_ptr<rocksdb::FSRandomAccessFile> in;
    EXPECT_TRUE(rig_.pulse->NewRandomAccessFile(path_, rocksdb::FileOptions(), &in, nullptr).ok());
    std::string scratch(n, '\0');
    Slice result;
    EXPECT_TRUE(in->Read(0, n, kIo, &result, scratch.data(), nullptr).ok());
    return result.ToString();
  }

  std::mt19937_64 rng_{TestSeed()};
  const std::string bytes_ = RandomBytes(&rng_, 20'000);
  ScratchDir dir_;
  std::atomic<int> writes_{0};
  Rig rig_;
  const std::string path_ = dir_ / "000012.sst";
  std::unique_ptr<FSWritableFile> file_;
};

TEST_F(OutputFlushTest, FlushWithinAnAppend_SendsNothing) {
  Prepare(0, 5);  // a trailer, which stays in the writer's buffer
  for (size_t at = 0; at < 15'000; at += 5000) {
    Prepare(at + 5, 5000);
    Append(at, 5);  // the buffer has no room for the next block
    Flush();
    Append(at + 5, 4995);
  }
  ASSERT_TRUE(file_->Close(kIo, nullptr).ok());
  ASSERT_TRUE(Eventually([&] { return rig_.stats().files_persisted == 1; }));
  EXPECT_EQ(writes_, 1) << "all of it at once, below the write threshold";
  EXPECT_EQ(ReadRaw(path_), bytes_.substr(0, 15'000));
}

TEST_F(OutputFlushTest, FlushAfterAnAppend_MakesItVisible) {
  Prepare(0, 5000);
  Append(0, 5000);
  Flush();
  EXPECT_EQ(Read(20'000), bytes_.substr(0, 5000));
  Prepare(5000, 3000);
  Append(5000, 1000);
  Flush();  // within
  Append(6000, 2000);
  Flush();
  EXPECT_EQ(Read(20'000), bytes_.substr(0, 8000));
  ASSERT_TRUE(file_->Close(kIo, nullptr).ok());
}

// Pad announces nothing.
TEST_F(OutputFlushTest, FlushAfterPadding_MakesItVisible) {
  Prepare(0, 5000);
  Append(0, 5000);
  Append(5000, 3192);
  Flush();
  EXPECT_EQ(Read(20'000), bytes_.substr(0, 8192));
  ASSERT_TRUE(file_->Close(kIo, nullptr).ok());
}

}  // namespace
}  // namespace pulse::lsm::test
