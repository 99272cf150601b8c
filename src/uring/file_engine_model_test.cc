// FileEngine against an oracle that knows the rules of file_engine.h: under random operations, and
// through every execution of small cases. The oracle sees what is handed in, what reaches the
// back-end, and what is reported, and judges every step.
#include <fcntl.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <deque>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/testing.h"
#include "uring/fake_backend.h"
#include "uring/file_engine.h"

namespace pulse {
namespace {

constexpr uint64_t kModelBlock = 4096;

struct ModelOp {
  IoOp op;  // kClose is a discard
  uint64_t file = 0;
  uint64_t offset = 0, length = 0;
  uint64_t done = 0;  // bytes moved so far
  bool started = false;
  bool answered = false;  // the back-end gave its last result ...
  int64_t result = 0;     // ... which is this
  bool completed = false;
};

struct ModelFile {
  FileEngine::File* file = nullptr;
  int fd = -1;
  int error = 0;
  uint64_t failed_in = 0;  // the Poll that brought the error
  bool closing = false;
  std::deque<uint64_t> waiting;  // handed in and not started, in order; reads excepted
  std::set<uint64_t> in_flight;
};

// A depth-first search over every sequence of decisions of a deterministic run.
class Search {
 public:
  // The next of `n` choices in this run.
  size_t Pick(size_t n) {
    if (at_ == path_.size()) path_.push_back({0, n});
    EXPECT_EQ(path_[at_].second, n) << "the run is not deterministic";
    return path_[at_++].first;
  }
  // Begins the next run; false after the last.
  bool Next() {
    at_ = 0;
    while (!path_.empty() && path_.back().first + 1 == path_.back().second) path_.pop_back();
    if (path_.empty()) return false;
    ++path_.back().first;
    return true;
  }

 private:
  std::vector<std::pair<size_t, size_t>> path_;  // choice, of how many
  size_t at_ = 0;
};

struct SmallOp {
  IoOp op;
  uint64_t offset = 0;
  uint64_t length = 0;
};

class EngineModelTest : public ::testing::Test, public FileEngine::Client {
 protected:
  // `program` on one file, ending with a close. At every point `search` decides what comes next:
  // the next operation, one of those in flight ends well or (one in all) with an error, or the
  // engine looks at what has ended.
  void RunSmall(const std::vector<SmallOp>& program, size_t depth, Search* search) {
    small_ = true;
    fails_ = true;
    Start(depth);
    files_[0].fd = open("/dev/null", O_RDWR | O_CLOEXEC);
    files_[0].file = engine_->Open(UniqueFd(files_[0].fd), this, false);
    size_t next = 0;
    bool failed = false;
    bool looked = true;
    while (!HasFailure()) {
      const size_t in_flight = fake_->open.size();
      const size_t hand_in = next < program.size() ? 1 : 0;
      // No second failure: it would be told from the first by nothing.
      const size_t choices = hand_in + in_flight * (failed ? 1 : 2) + (looked ? 0 : 1);
      if (choices == 0) break;
      size_t c = search->Pick(choices);
      if (c < hand_in) {
        HandIn(program[next++]);
        looked = false;
        continue;
      }
      c -= hand_in;
      if (c < in_flight * (failed ? 1 : 2)) {
        const size_t at = c % in_flight;
        const bool fail = c >= in_flight;
        failed |= fail;
        const IoRequest& r = fake_->open[at];
        Answer(at, fail ? -EIO : Moves(ops_[running_.at(r.tag)]) ? int64_t(r.length) : 0);
        looked = false;
        continue;
      }
      Poll();
      looked = !engine_->needs_polling();
    }
    if (!HasFailure()) CheckDone();
  }

  void Run(uint64_t seed) {
    random_.seed(seed);
    // Either requests that wait for room, or requests that fail: one that waited may go although
    // its file failed meanwhile, and then nobody outside could tell whether that was right.
    fails_ = Below(2) == 0;
    Start(fails_ ? 1'000'000 : 1 + Below(40));
    fake_->registers_files = Below(2) == 0;
    for (int step = 0; step < 500 && !HasFailure(); ++step) {
      const uint64_t dice = Below(16);
      if (files_.empty() || (dice == 0 && files_.size() < 6)) {
        AddFile();
      } else if (dice < 9) {
        AddOperation();
      } else if (dice < 14) {
        FinishOne();
      } else {
        Poll();
      }
    }
    while (!files_.empty() && !HasFailure()) {
      for (auto& [id, f] : files_) {
        if (!f.closing) Close(id);
      }
      Poll();
      FinishOne();
    }
    if (!HasFailure()) CheckDone();
  }

 private:
  void Start(size_t depth) {
    auto fake = std::make_unique<FakeBackend>();
    fake_ = fake.get();
    fake_->depth = depth;
    fake_->on_start = [this](const IoRequest& r) { OnStart(r); };
    engine_ = std::make_unique<FileEngine>(std::move(fake));
  }

  void CheckDone() {
    EXPECT_TRUE(engine_->idle());
    EXPECT_FALSE(engine_->needs_polling());
    EXPECT_TRUE(fake_->open.empty());
    EXPECT_TRUE(fake_->registered.empty());
    EXPECT_TRUE(files_.empty());
    for (const auto& [cookie, op] : ops_) EXPECT_TRUE(op.completed) << Name(cookie);
  }

  uint64_t Below(uint64_t n) { return random_() % n; }

  std::string Name(uint64_t cookie) {
    static const char* const kNames[] = {"read",      "write",      "range_sync", "sync",
                                         "fallocate", "sync_close", "discard"};
    const ModelOp& op = ops_.at(cookie);
    return std::string(kNames[static_cast<int>(op.op)]) + " " + std::to_string(cookie) + " [" +
           std::to_string(op.offset) + "+" + std::to_string(op.length) + "] of file " +
           std::to_string(op.file);
  }

  // Payload that tells which operation it belongs to; never touched.
  static char* BufferOf(uint64_t cookie) { return reinterpret_cast<char*>(cookie << 32); }
  static uint64_t CookieOf(const char* buffer) { return reinterpret_cast<uintptr_t>(buffer) >> 32; }

  // --- Handing in.

  void AddFile() {
    ModelFile f;
    f.fd = open("/dev/null", O_RDWR | O_CLOEXEC);
    f.file = engine_->Open(UniqueFd(f.fd), this, Below(2) == 0);
    files_[next_file_++] = f;
  }

  uint64_t Enter(uint64_t id, IoOp op, uint64_t offset, uint64_t length) {
    const uint64_t cookie = next_cookie_++;
    ops_[cookie] = ModelOp{op, id, offset, length};
    if (op == IoOp::kRead) {
      reads_.insert(cookie);
    } else {
      files_[id].waiting.push_back(cookie);
    }
    return cookie;
  }

  void HandIn(const SmallOp& small) {
    FileEngine::File* f = files_[0].file;
    const uint64_t c = Enter(0, small.op, small.offset, small.length);
    switch (small.op) {
      case IoOp::kRead:
        return engine_->Read(f, BufferOf(c), -1, small.length, small.offset, c);
      case IoOp::kWrite:
        return engine_->Write(f, BufferOf(c), -1, small.length, small.offset, c);
      case IoOp::kRangeSync:
        return engine_->RangeSync(f, small.offset, small.length, c);
      case IoOp::kSync:
        return engine_->Sync(f, c);
      case IoOp::kFallocate:
        return engine_->Fallocate(f, small.length, c);
      case IoOp::kSyncClose:
        return engine_->SyncClose(f, small.length, c);
      case IoOp::kClose:
        return engine_->Discard(f, c);
    }
  }

  void AddOperation() {
    auto it = files_.begin();
    std::advance(it, Below(files_.size()));
    const uint64_t id = it->first;
    if (it->second.closing) return;
    FileEngine::File* f = it->second.file;
    const uint64_t offset = Below(8) * kModelBlock;
    const uint64_t length = (1 + Below(4)) * kModelBlock;
    switch (Below(14)) {
      case 0:
        Close(id);
        break;
      case 1:
        engine_->Sync(f, Enter(id, IoOp::kSync, 0, 0));
        break;
      case 2:
        engine_->Fallocate(f, length, Enter(id, IoOp::kFallocate, 0, length));
        break;
      case 3:
      case 4:
      case 5:
        engine_->RangeSync(f, offset, length, Enter(id, IoOp::kRangeSync, offset, length));
        break;
      case 6:
      case 7: {
        const uint64_t c = Enter(id, IoOp::kRead, offset, length);
        engine_->Read(f, BufferOf(c), -1, length, offset, c);
        break;
      }
      default: {
        const uint64_t c = Enter(id, IoOp::kWrite, offset, length);
        engine_->Write(f, BufferOf(c), -1, length, offset, c);
      }
    }
  }

  void Close(uint64_t id) {
    ModelFile& f = files_[id];
    f.closing = true;
    if (Below(3) == 0) {
      engine_->Discard(f.file, Enter(id, IoOp::kClose, 0, 0));
    } else {
      engine_->SyncClose(f.file, 7, Enter(id, IoOp::kSyncClose, 0, 7));
    }
  }

  // --- Judging.

  bool MayStart(const ModelFile& f, const ModelOp& op) {
    for (uint64_t other : f.in_flight) {
      const ModelOp& o = ops_[other];
      if (op.op == IoOp::kRangeSync) {
        if (o.op == IoOp::kWrite && o.offset < op.offset + op.length &&
            op.offset < o.offset + o.length) {
          return false;
        }
      } else if (op.op == IoOp::kWrite) {
        if (o.op == IoOp::kFallocate) return false;
      } else {
        return false;  // sync, fallocate and both closes want the file for themselves
      }
    }
    return true;
  }
  static bool Closes(const ModelOp& op) {
    return op.op == IoOp::kSyncClose || op.op == IoOp::kClose;
  }
  static bool Moves(const ModelOp& op) { return op.op == IoOp::kRead || op.op == IoOp::kWrite; }

  void OnStart(const IoRequest& r) {
    const auto running = running_.find(r.tag);
    if (running != running_.end()) {  // goes on, or is tried again
      ExpectRequest(r, running->second);
      return;
    }
    const auto file =
        std::find_if(files_.begin(), files_.end(), [&](auto& e) { return e.second.fd == r.fd; });
    ASSERT_NE(file, files_.end()) << "started on a descriptor of no open file";
    ModelFile& f = file->second;
    uint64_t cookie;
    if (r.op == IoOp::kRead) {
      cookie = CookieOf(r.buffer);
      ASSERT_EQ(reads_.erase(cookie), 1u) << "a read that nobody asked for";
    } else {
      ASSERT_FALSE(f.waiting.empty()) << "started and never handed in";
      cookie = f.waiting.front();
      f.waiting.pop_front();
      EXPECT_TRUE(MayStart(f, ops_[cookie])) << Name(cookie) << " started too early";
      // Results that arrive together are handled in turn: what one of them let start may go
      // although the next one was a failure.
      EXPECT_TRUE(f.error == 0 || f.failed_in == polls_ || Closes(ops_[cookie]))
          << Name(cookie) << " was tried though the file had failed";
    }
    ops_[cookie].started = true;
    f.in_flight.insert(cookie);
    running_[r.tag] = cookie;
    ExpectRequest(r, cookie);
  }

  void ExpectRequest(const IoRequest& r, uint64_t cookie) {
    const ModelOp& op = ops_[cookie];
    const ModelFile& f = files_[op.file];
    const bool fails = op.op == IoOp::kSyncClose && f.error != 0;
    EXPECT_EQ(r.op, fails ? IoOp::kClose : op.op) << "in the place of " << Name(cookie);
    EXPECT_EQ(r.fd, f.fd) << Name(cookie);
    EXPECT_EQ(r.offset, op.offset + op.done) << Name(cookie);
    EXPECT_EQ(r.length, op.length - op.done) << Name(cookie);
    EXPECT_EQ(r.buffer, Moves(op) ? BufferOf(cookie) + op.done : nullptr) << Name(cookie);
  }

  void OnIoComplete(uint64_t cookie, int64_t result) override {
    ASSERT_EQ(ops_.count(cookie), 1u) << "completion of nothing";
    ModelOp& op = ops_[cookie];
    ModelFile& f = files_[op.file];
    ASSERT_FALSE(op.completed) << Name(cookie) << " completed twice";
    op.completed = true;
    if (!op.started) {
      // Only because the file had failed, and then in order.
      EXPECT_NE(f.error, 0) << Name(cookie) << " was answered without being tried";
      EXPECT_EQ(result, -f.error) << Name(cookie);
      ASSERT_FALSE(f.waiting.empty());
      EXPECT_EQ(f.waiting.front(), cookie) << "answered out of order";
      f.waiting.pop_front();
      return;
    }
    ASSERT_TRUE(op.answered) << Name(cookie) << " was reported before it had ended";
    int64_t expected = op.op == IoOp::kFallocate ? 0 : op.result;
    if (op.op != IoOp::kRead && op.op != IoOp::kClose) {
      if (f.error != 0) {
        expected = -f.error;
      } else if (expected < 0) {
        f.error = static_cast<int>(-expected);
        f.failed_in = polls_;
      }
    }
    EXPECT_EQ(result, expected) << Name(cookie);
    f.in_flight.erase(cookie);
    if (Closes(op)) {
      EXPECT_TRUE(f.in_flight.empty() && f.waiting.empty()) << Name(cookie) << " left work behind";
      files_.erase(op.file);
    } else if (!small_ && Below(8) == 0 && next_cookie_ < 2000) {
      AddOperation();  // clients do that
    }
  }

  // Everything that may run does: files do not wait for each other, nor without a reason.
  void Poll() {
    ++polls_;
    engine_->Poll();
    if (fake_->in_flight() >= fake_->depth) return;
    for (uint64_t cookie : reads_) ADD_FAILURE() << Name(cookie) << " waits";
    for (const auto& [id, f] : files_) {
      if (f.waiting.empty()) continue;
      const ModelOp& first = ops_[f.waiting.front()];
      if (f.error != 0 && !Closes(first)) {
        EXPECT_TRUE(!MayStart(f, first) || engine_->needs_polling())
            << Name(f.waiting.front()) << " would never be answered";
      } else {
        EXPECT_FALSE(MayStart(f, first)) << Name(f.waiting.front()) << " waits without a reason";
      }
    }
  }

  // --- The device.

  void FinishOne() {
    if (fake_->open.empty()) return;
    const size_t at = Below(fake_->open.size());
    const IoRequest r = fake_->open[at];
    const uint64_t cookie = running_.at(r.tag);
    ModelOp& op = ops_[cookie];
    int64_t result = Moves(op) ? static_cast<int64_t>(r.length) : 0;
    const uint64_t dice = Below(30);
    if (dice == 0 && !Closes(op)) {
      result = Below(2) == 0 ? -EINTR : -EAGAIN;
    } else if (dice == 1 && fails_) {
      result = Below(2) == 0 ? -EIO : -ENOSPC;
    } else if (dice == 2 && op.op == IoOp::kRead) {
      result = static_cast<int64_t>(Below(r.length));  // the end of the file
    } else if (dice < 8 && Moves(op) && r.length > 512) {
      result = static_cast<int64_t>((1 + Below(r.length / 512 - 1)) * 512);
    }
    Answer(at, result);
    if (Below(3) != 0) Poll();  // else several come at once
  }

  void Answer(size_t at, int64_t result) {
    const IoRequest r = fake_->open[at];
    ModelOp& op = ops_[running_.at(r.tag)];
    if (result != -EINTR && result != -EAGAIN) {
      if (Moves(op) && result > 0) op.done += static_cast<uint64_t>(result);
      const bool goes_on = Moves(op) && result > 0 && op.done < op.length &&
                           (op.op == IoOp::kWrite || op.done % 512 == 0);
      if (!goes_on) {
        op.answered = true;
        op.result = Moves(op) && result >= 0 ? static_cast<int64_t>(op.done) : result;
        running_.erase(r.tag);
      }
    }
    if (Closes(op)) files_[op.file].fd = -1;  // the number may be another file's from now on
    fake_->Finish(at, result);
  }

  std::mt19937_64 random_;
  bool small_ = false;
  bool fails_ = false;
  uint64_t polls_ = 0;
  FakeBackend* fake_ = nullptr;
  std::unique_ptr<FileEngine> engine_;
  uint64_t next_file_ = 0;
  uint64_t next_cookie_ = 1;
  std::map<uint64_t, ModelFile> files_;   // open ones
  std::map<uint64_t, ModelOp> ops_;       // all
  std::set<uint64_t> reads_;              // handed in and not started
  std::map<uint64_t, uint64_t> running_;  // tag to cookie
};

// One fixture per run would hide its seed: this test makes its own.
class OneRun : public EngineModelTest {
 public:
  void TestBody() override {}
  using EngineModelTest::Run;
  using EngineModelTest::RunSmall;
};

TEST(EngineModel, Engine_RandomOperations_FollowsTheRules) {
  const uint64_t seed = testing_util::TestSeed();
  for (uint64_t i = 0; i < 300; ++i) {
    SCOPED_TRACE("run " + std::to_string(i) + " of seed " + std::to_string(seed));
    OneRun run;
    run.Run(seed + i);
    if (::testing::Test::HasFailure()) return;
  }
}

// All programs of two operations and a close, and of three for those that interact, in every order
// in which things can happen.
TEST(EngineModel, EveryExecution_OfSmallPrograms_FollowsTheRules) {
  const std::vector<SmallOp> all = {{IoOp::kWrite, 0, kModelBlock},
                                    {IoOp::kWrite, kModelBlock, kModelBlock},
                                    {IoOp::kRead, 0, kModelBlock},
                                    {IoOp::kRangeSync, 0, kModelBlock},
                                    {IoOp::kSync, 0, 0},
                                    {IoOp::kFallocate, 0, kModelBlock}};
  const std::vector<SmallOp> closes = {{IoOp::kSyncClose, 0, 7}, {IoOp::kClose, 0, 0}};
  std::vector<std::vector<SmallOp>> programs;
  for (const SmallOp& a : all) {
    for (const SmallOp& b : all) {
      for (const SmallOp& close : closes) programs.push_back({a, b, close});
      for (const SmallOp& c : all) programs.push_back({a, b, c, closes[0]});
    }
  }
  size_t executions = 0;
  for (size_t p = 0; p < programs.size(); ++p) {
    SCOPED_TRACE("program " + std::to_string(p));
    Search search;
    do {
      ++executions;
      OneRun run;
      run.RunSmall(programs[p], 1'000'000, &search);
      if (::testing::Test::HasFailure()) return;
    } while (search.Next());
  }
  std::printf("%zu programs, %zu executions\n", programs.size(), executions);
  EXPECT_GT(executions, 100'000u);
}

}  // namespace
}  // namespace pulse
