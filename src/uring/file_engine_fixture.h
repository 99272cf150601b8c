// FileEngine above a scripted back-end: shared by the tests of its subjects.
#pragma once

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "uring/fake_backend.h"
#include "uring/file_engine.h"

namespace pulse {

inline bool IsOpen(int fd) { return fcntl(fd, F_GETFD) != -1; }

class FileEngineTest : public ::testing::Test, public FileEngine::Client {
 protected:
  FileEngineTest() {
    auto fake = std::make_unique<FakeBackend>();
    fake_ = fake.get();
    engine_ = std::make_unique<FileEngine>(std::move(fake));
  }

  void OnIoComplete(uint64_t cookie, int64_t result) override {
    EXPECT_EQ(results_.count(cookie), 0u) << "operation " << cookie << " completed twice";
    results_[cookie] = result;
    order_.push_back(cookie);
    if (on_complete_) on_complete_(cookie, result);
  }

  FileEngine::File* NewFile(bool pinned = false) {
    fd_ = open("/dev/null", O_RDWR | O_CLOEXEC);
    return engine_->Open(UniqueFd(fd_), this, pinned);
  }
  // What runs at the back-end, as "w0+4" (offset and length in blocks).
  std::vector<std::string> Open() {
    engine_->Poll();
    std::vector<std::string> out;
    for (const IoRequest& r : fake_->open) out.push_back(Describe(r));
    return out;
  }
  static std::string Describe(const IoRequest& r) {
    const std::string range =
        std::to_string(r.offset / kBlock) + "+" + std::to_string(r.length / kBlock);
    switch (r.op) {
      case IoOp::kRead:
        return "r" + range;
      case IoOp::kWrite:
        return "w" + range;
      case IoOp::kRangeSync:
        return "range" + range;
      case IoOp::kSync:
        return "sync";
      case IoOp::kFallocate:
        return "alloc";
      case IoOp::kSyncClose:
        return "syncclose";
      case IoOp::kClose:
        return "close";
    }
    return "?";
  }
  void Write(FileEngine::File* f, uint64_t block, uint64_t blocks, uint64_t cookie) {
    engine_->Write(f, buffer_, -1, blocks * kBlock, block * kBlock, cookie);
  }
  void Read(FileEngine::File* f, uint64_t block, uint64_t blocks, uint64_t cookie) {
    engine_->Read(f, buffer_, -1, blocks * kBlock, block * kBlock, cookie);
  }
  void RangeSync(FileEngine::File* f, uint64_t block, uint64_t blocks, uint64_t cookie) {
    engine_->RangeSync(f, block * kBlock, blocks * kBlock, cookie);
  }
  void Finish(size_t at, int64_t result) {
    engine_->Poll();
    fake_->Finish(at, result);
    engine_->Poll();
  }
  void FinishWell(size_t at) {
    engine_->Poll();
    fake_->FinishWell(at);
    engine_->Poll();
  }
  void FinishAll() {
    for (engine_->Poll(); !fake_->open.empty() || !engine_->idle(); engine_->Poll()) {
      if (!fake_->open.empty()) fake_->FinishWell(0);
    }
  }
  // Every file must be closed by its test.
  void TearDown() override {
    FinishAll();
    EXPECT_TRUE(engine_->idle());
    EXPECT_FALSE(engine_->needs_polling());
    EXPECT_TRUE(fake_->registered.empty()) << "a registered descriptor was left behind";
  }

  static constexpr uint64_t kBlock = 4096;
  char* const buffer_ = reinterpret_cast<char*>(uintptr_t{1} << 40);  // never touched
  FakeBackend* fake_;
  std::unique_ptr<FileEngine> engine_;
  int fd_ = -1;
  std::map<uint64_t, int64_t> results_;
  std::vector<uint64_t> order_;
  std::function<void(uint64_t, int64_t)> on_complete_;
};

}  // namespace pulse
