// Host writes against offloaded reads: never stale, never torn.
#include <gtest/gtest.h>
#include <sys/eventfd.h>

#include <mutex>
#include <random>

#include "base/clock.h"
#include "services/offload/register_checker.h"
#include "services/offload/test_bench.h"

namespace pulse::offload::test {
namespace {

const Program kProgram = MakeProgram(Order::kAny);

TEST(RegisterCheckerTest, Checker_GoodAndBadHistories_TellsThemApart) {
  using History = std::vector<Operation>;
  const Operation w1{true, 1, 0, 1};
  const auto write = [](uint64_t v, int64_t b, int64_t e) { return Operation{true, v, b, e}; };
  const auto read = [](uint64_t v, int64_t b, int64_t e) { return Operation{false, v, b, e}; };
  const std::vector<History> good = {
      {w1, read(1, 2, 3)},
      {w1, write(2, 2, 10), read(1, 3, 4), read(2, 5, 6), read(2, 11, 12)},
      {w1, write(2, 2, 10), read(2, 3, 4), read(2, 5, 6)},
      {w1, write(2, 2, 10), write(3, 2, 10), read(3, 3, 4), read(2, 5, 6), read(2, 12, 13)},
      {w1, write(2, 2, 10), read(1, 2, 10)},
  };
  for (const History& h : good) EXPECT_EQ(NotLinearizable(h), "");
  const std::vector<History> bad = {
      {w1, read(2, 2, 3)},                                  // of nowhere
      {w1, write(2, 5, 6), read(2, 2, 3)},                  // of the future
      {w1, write(2, 2, 3), read(1, 4, 5)},                  // stale
      {w1, write(2, 2, 10), read(2, 3, 4), read(1, 5, 6)},  // new, then old
      {w1, write(2, 2, 10), read(2, 3, 4), read(1, 5, 6), read(2, 7, 8)},
      {w1, write(2, 3, 4), read(1, 2, 6), read(1, 5, 7)},
      {w1, write(2, 2, 3), write(3, 4, 5), read(2, 6, 7)},
  };
  for (const History& h : bad) EXPECT_NE(NotLinearizable(h), "") << h.size();
}

// Carries out at once what it is given, but for a large write: half of it, then, after a while, the
// other half. So that who looks meanwhile sees that it does.
class HalfWrites : public IoBackend {
 public:
  HalfWrites() : never_(eventfd(0, EFD_CLOEXEC)) {}
  bool Enqueue(const IoRequest& r) override {
    if (in_flight_ == 64) return false;
    ++in_flight_;
    queued_.push_back(r);
    return true;
  }
  void Submit() override {
    for (const IoRequest& r : std::exchange(queued_, {})) done_.push_back({r.tag, Do(r)});
  }
  size_t Harvest(IoResult* out, size_t max) override {
    const size_t n = std::min(max, done_.size());
    std::copy_n(done_.begin(), n, out);
    done_.erase(done_.begin(), done_.begin() + static_cast<ptrdiff_t>(n));
    in_flight_ -= n;
    return n;
  }
  int wait_fd() const override { return never_.get(); }
  bool needs_polling() const override { return in_flight_ > 0; }
  size_t in_flight() const override { return in_flight_; }
  EngineKind kind() const override { return EngineKind::kThreads; }

 private:
  static int64_t Do(const IoRequest& r) {
    if (r.op != IoOp::kWrite || r.length < 8192) return ExecuteBlocking(r);
    IoRequest half = r;
    half.length = r.length / 8192 * 4096;
    const int64_t first = ExecuteBlocking(half);
    if (first != static_cast<int64_t>(half.length)) return first;
    // sleep: a device that has written one half and takes its time for the other
    std::this_thread::sleep_for(std::chrono::microseconds(500));
    IoRequest rest = r;
    rest.buffer += half.length;
    rest.offset += half.length;
    rest.length -= half.length;
    const int64_t second = ExecuteBlocking(rest);
    return second < 0 ? second : first + second;
  }

  const UniqueFd never_;
  std::vector<IoRequest> queued_;
  std::vector<IoResult> done_;
  size_t in_flight_ = 0;
};

absl::StatusOr<std::unique_ptr<IoBackend>> NewHalfWrites(const IoBackendOptions&) {
  return std::make_unique<HalfWrites>();
}

struct Race {
  uint64_t block = 4096;  // bytes
  uint64_t blocks = 4;
  int clients = 4;
  int operations = 400;  // of each
  uint64_t seed = 1;
};

struct Outcome {
  uint64_t torn = 0;
  std::string wrong;
  uint64_t by_agent = 0;
  uint64_t reads = 0;
};

// Clients that read and write blocks; each write stamps its whole block as no other does.
Outcome RunRace(Setting* s, const Race& race) {
  std::vector<std::vector<Operation>> histories(race.blocks);
  for (uint64_t b = 0; b < race.blocks; ++b) {
    const uint64_t stamp = 1 + b;
    EXPECT_EQ(s->files->Write(s->file, b * race.block, Stamped(stamp, race.block)).status,
              absl::OkStatus());
    histories[b].push_back({true, stamp, 0, 1});
  }
  Outcome out;
  std::mutex mu;
  std::vector<std::thread> threads;
  for (int t = 0; t < race.clients; ++t) {
    threads.emplace_back([&, t] {
      TestClient client = s->NewClient();
      std::mt19937_64 random(race.seed + static_cast<uint64_t>(t));
      for (int i = 0; i < race.operations; ++i) {
        const uint64_t b = random() % race.blocks;
        const uint64_t id =
            (uint64_t{1} << 40) * static_cast<uint64_t>(t + 1) + static_cast<uint64_t>(i) + 1000;
        const auto size = static_cast<uint32_t>(race.block);
        // One client writes half of the time, the others seldom.
        const bool write = random() % (t == 0 ? 2 : 8) == 0;
        Request r{id, s->file_id, b * race.block, size, write ? Op::kWrite : Op::kRead};
        Operation o{write, id, NowNanos(), 0};
        const Answer a = client.Do(r);
        o.end = NowNanos();
        std::lock_guard lock(mu);
        if (a.ended || a.header.status != 0) {
          out.wrong = "an operation failed";
          return;
        }
        if (!write) {
          ++out.reads;
          out.by_agent += a.header.by_agent;
          if (a.data.size() < 8) {
            out.wrong = "a read is short";
            return;
          }
          std::memcpy(&o.value, a.data.data(), 8);
          if (a.data != Stamped(o.value, race.block)) {
            ++out.torn;
            continue;
          }
        }
        histories[b].push_back(o);
      }
    });
  }
  for (std::thread& t : threads) t.join();
  for (const auto& h : histories) {
    const std::string wrong = NotLinearizable(h);
    if (!wrong.empty()) out.wrong = wrong;
  }
  return out;
}

// Blocks smaller than the device's (written by reading and writing the whole of it), as large, and
// of several, also across the store's segments.
TEST(RaceTest, OffloadedReads_BesideHostWrites_AreLinearizable) {
  const uint64_t seed = testing_util::TestSeed();
  const char* more = getenv("PULSE_RACE_OPERATIONS");
  for (const uint64_t block : {512, 4096, 12288, 49152}) {
    Setting s({.program = &kProgram,
               .backend = block > 4096 ? IoBackendFactory(&NewHalfWrites) : nullptr});
    Race race{.block = block, .seed = seed};
    race.operations = more != nullptr ? atoi(more) : testing_util::kThreadSanitizer ? 150 : 400;
    const Outcome out = RunRace(&s, race);
    EXPECT_EQ(out.wrong, "") << "blocks of " << block;
    EXPECT_EQ(out.torn, 0u) << "blocks of " << block;
    EXPECT_GT(out.by_agent, 0u);
    printf("blocks of %llu: %llu reads, %llu by the agent, %llu changed under way\n",
           static_cast<unsigned long long>(block), static_cast<unsigned long long>(out.reads),
           static_cast<unsigned long long>(out.by_agent),
           static_cast<unsigned long long>(s.Count(EngineStats::kChanged)));
  }
}

// That the race would show it: without the guard, reads are torn.
TEST(RaceTest, Reads_WithoutTheGuard_AreTornOrStale) {
  class Deaf : public files::FileHooks {
    void WriteBegins(store::FileId, uint64_t, uint64_t) override {}
    void WriteEnds(store::FileId, uint64_t, uint64_t) override {}
    void FileChangeBegins(store::FileId) override {}
    void FileChangeEnds(store::FileId) override {}
    void Wrote(store::FileId, uint64_t, uint64_t, const char*) override {}
    void ReadTaken(store::FileId, uint64_t, uint64_t) override {}
  };
  Deaf deaf;
  uint64_t torn = 0;
  std::string wrong;
  for (int i = 0; i < 40 && torn == 0 && wrong.empty(); ++i) {
    Setting s({.program = &kProgram, .hooks = &deaf, .backend = &NewHalfWrites});
    const Outcome out = RunRace(&s, {.block = 49152,
                                     .blocks = 3,
                                     .operations = 300,
                                     .seed = testing_util::TestSeed() + static_cast<uint64_t>(i)});
    torn = out.torn;
    wrong = out.wrong;
  }
  EXPECT_TRUE(torn > 0 || !wrong.empty());
}

// Files are cut, grown, removed and made anew while they are read: bytes are the file's own.
TEST(RaceTest, Read_FileCutOrMadeAnew_GetsNoOtherFilesBytes) {
  Setting s({.program = &kProgram, .file_bytes = 64 << 10});
  std::atomic<bool> stop{false};
  std::atomic<uint64_t> id{0};
  std::atomic<uint64_t> by_agent{0};
  std::atomic<uint64_t> foreign{0};
  std::thread reader([&] {
    TestClient client = s.NewClient();
    for (uint64_t i = 1; !stop; ++i) {
      const uint64_t file = id;
      if (file == 0) continue;
      const Answer a = client.Do({i, file, (i % 20) * 4096, 4096, Op::kRead});
      if (a.ended) return;
      // The host knows "d/f" alone, and answers for that.
      if (a.header.by_agent == 0 || a.data.empty()) continue;
      by_agent.fetch_add(1);
      // A file's bytes are all its number's.
      if (a.data != Stamped(file + 5000000, 4096)) foreign.fetch_add(1);
    }
  });
  constexpr int kRounds = testing_util::kThreadSanitizer ? 25 : 80;
  // Until the reader has had its turn, too.
  const int64_t limit = NowNanos() + int64_t{60} * 1'000'000'000;
  for (int i = 0; i < kRounds || (by_agent == 0 && NowNanos() < limit); ++i) {
    const std::string name = "x" + std::to_string(i);
    const files::Completion made = s.files->Create("d", name);
    ASSERT_EQ(made.status, absl::OkStatus());
    const uint64_t number = made.attributes.id;
    const std::string data = Stamped(number + 5000000, 20 * 4096);
    ASSERT_EQ(s.files->Write(made.file, 0, data).status, absl::OkStatus());
    ASSERT_EQ(s.files->Sync(made.file), absl::OkStatus());
    id = number;
    if (i % 2 == 0) {
      ASSERT_EQ(s.files->SetSize(made.file, 5000), absl::OkStatus());
      // Others get its segments.
      const files::Completion other = s.files->Create("d", name + "o");
      ASSERT_EQ(s.files->Write(other.file, 0, Stamped(1, 40 * 4096)).status, absl::OkStatus());
      ASSERT_EQ(s.files->Close(other.file), absl::OkStatus());
      ASSERT_EQ(s.files->SetSize(made.file, 5000 - 904), absl::OkStatus());
    }
    ASSERT_EQ(s.files->Wait(s.library->RemoveFile(s.files->poll(), "d", name, 0)).status,
              absl::OkStatus());
    ASSERT_EQ(s.files->Close(made.file), absl::OkStatus());
    if (i % 2 == 0) {
      ASSERT_EQ(s.files->Wait(s.library->RemoveFile(s.files->poll(), "d", name + "o", 0)).status,
                absl::OkStatus());
    }
  }
  stop = true;
  reader.join();
  EXPECT_EQ(foreign.load(), 0u);
  EXPECT_GT(by_agent.load(), 0u);
}

}  // namespace
}  // namespace pulse::offload::test
