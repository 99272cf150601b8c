// A process that changes a partition in a file is killed at a random moment; another one goes on
// with the file. What was settled is there; what came after it is there up to some operation.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "base/testing.h"
#include "base/unique_fd.h"
#include "services/kv/core/partition.h"

namespace pulse::kv {
namespace {

constexpr int64_t kKillStart = 1'700'000'000'000;
constexpr uint64_t kKillMemory = kLeastMemory + (uint64_t{8} << 20);
constexpr uint64_t kMostOperations = 100'000;

// What the child tells its parent; it outlives the child.
struct Told {
  std::atomic<uint64_t> done;     // operations
  std::atomic<uint64_t> settled;  // of them
  std::atomic<uint8_t> results[kMostOperations];
};

struct KillOperation {
  enum Kind { kPut, kErase, kExpiry, kClear, kTick } kind;
  std::string key;
  std::string value;
  ItemFacts facts;
};

struct Stored {
  std::string bytes;
  ItemFacts facts;
  bool operator==(const Stored& other) const {
    return bytes == other.bytes && facts.expires_ms == other.facts.expires_ms &&
           facts.client_flags == other.facts.client_flags;
  }
};
using Expected = std::map<std::string, Stored>;

// The same operations for everybody who has the seed.
class Operations {
 public:
  explicit Operations(uint64_t seed) : random_(seed) {}
  KillOperation Next(uint64_t number) {
    KillOperation o;
    const uint64_t draw = random_() % 1000;
    o.kind = draw < 700   ? KillOperation::kPut
             : draw < 860 ? KillOperation::kErase
             : draw < 940 ? KillOperation::kExpiry
             : draw < 942 ? KillOperation::kClear
                          : KillOperation::kTick;
    o.key = "key" + std::to_string(random_() % 300);
    size_t size = random_() % 200;
    if (random_() % 20 == 0) size = random_() % 100'000;
    if (random_() % 100 == 0) size = random_() % (uint64_t{5} << 20);
    o.value = std::string(size, static_cast<char>('a' + random_() % 26));
    if (!o.value.empty()) o.value.back() = static_cast<char>('A' + number % 26);
    if (random_() % 3 == 0)
      o.facts.expires_ms = Now(number) + 1 + static_cast<int64_t>(random_() % 3000);
    if (random_() % 4 == 0) o.facts.client_flags = static_cast<uint32_t>(random_());
    return o;
  }
  static int64_t Now(uint64_t number) { return kKillStart + static_cast<int64_t>(number) * 3; }

 private:
  std::mt19937_64 random_;
};

// Returns whether it was carried out.
bool Apply(const KillOperation& o, Partition* partition) {
  const uint64_t hash = HashKey(o.key);
  Item* item = nullptr;
  bool found = false;
  switch (o.kind) {
    case KillOperation::kPut:
      // One that is given up half way changes nothing.
      if (o.value.size() % 2 == 1) {
        const auto give_up = [&](char* value) {
          std::memset(value, '?', o.value.size() / 2);
          return false;
        };
        EXPECT_NE(partition->PutFilled(o.key, hash, o.value.size(), o.facts, give_up),
                  Partition::Result::kStored);
      }
      if (o.value.size() % 3 == 0) {
        const auto fill = [&](char* value) {
          std::memcpy(value, o.value.data(), o.value.size());
          return true;
        };
        return partition->PutFilled(o.key, hash, o.value.size(), o.facts, fill) ==
               Partition::Result::kStored;
      }
      if (partition->Put(o.key, hash, o.value.size(), o.facts, &item) !=
          Partition::Result::kStored) {
        return false;
      }
      std::memcpy(item->value_bytes(), o.value.data(), o.value.size());
      return true;
    case KillOperation::kErase:
      return partition->Erase(o.key, hash);
    case KillOperation::kExpiry:
      return partition->SetFacts(o.key, hash, o.facts, &found) == Partition::Result::kStored &&
             found;
    case KillOperation::kClear:
      partition->Clear();
      return true;
    case KillOperation::kTick:
      partition->Tick();
      return true;
  }
  return false;
}

void Apply(const KillOperation& o, int64_t now, Expected* model) {
  std::erase_if(*model, [now](const auto& entry) { return entry.second.facts.expires_ms <= now; });
  switch (o.kind) {
    case KillOperation::kPut:
      (*model)[o.key] = {o.value, o.facts};
      break;
    case KillOperation::kErase:
      model->erase(o.key);
      break;
    case KillOperation::kExpiry:
      if (model->contains(o.key)) (*model)[o.key].facts = o.facts;
      break;
    case KillOperation::kClear:
      model->clear();
      break;
    case KillOperation::kTick:
      break;
  }
}

uint64_t WordAt(const UniqueFd& file, uint64_t at) {
  uint64_t word = 0;
  EXPECT_EQ(pread(file.get(), &word, sizeof(word), static_cast<off_t>(at)), 8);
  return word;
}
void SetWordAt(const UniqueFd& file, uint64_t at, uint64_t word) {
  EXPECT_EQ(pwrite(file.get(), &word, sizeof(word), static_cast<off_t>(at)), 8);
}

class KillTest : public testing::Test {
 protected:
  void SetUp() override {
    file_ = UniqueFd(memfd_create("partition", MFD_CLOEXEC));
    ASSERT_TRUE(file_.valid());
    void* at =
        mmap(nullptr, sizeof(Told), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(at, MAP_FAILED);
    told_ = static_cast<Told*>(at);
  }
  ~KillTest() override { munmap(told_, sizeof(Told)); }

  absl::StatusOr<std::unique_ptr<Partition>> Open() {
    PartitionOptions options;
    options.memory_bytes = memory_;
    options.file = {file_.get(), 0};
    return Partition::Open(options);
  }
  // The next Open reads all items: as if the process had died where nothing can be taken back.
  void ForbidUndo() { SetWordAt(file_, Partition::UndoOffset(memory_), UndoLog::kForbidden); }
  // In a process of its own, from operation `first` on, until it is killed.
  [[noreturn]] void Change(uint64_t seed, uint64_t first, uint64_t settle_every) {
    auto partition = Open();
    if (!partition.ok()) _exit(2);
    Operations operations(seed);
    for (uint64_t i = 0; i < kMostOperations; ++i) {
      const KillOperation o = operations.Next(i);
      if (i < first) continue;
      (*partition)->SetNow(Operations::Now(i));
      told_->results[i].store(Apply(o, partition->get()) ? 1 : 2);
      told_->done.store(i + 1);
      if ((i + 1) % settle_every != 0) continue;
      (*partition)->Settle();
      told_->settled.store(i + 1);
    }
    (*partition)->Settle();
    told_->settled.store(kMostOperations);
    _exit(0);
  }
  // As far as it is there at `now`.
  static Expected Contents(Partition* partition, int64_t now) {
    Expected contents;
    partition->SetNow(now);
    uint64_t cursor = 0;
    do {
      cursor = partition->Scan(cursor, [&](const Item& item) {
        EXPECT_TRUE(contents
                        .try_emplace(std::string(item.key()),
                                     Stored{std::string(item.value()), item.facts()})
                        .second);
        EXPECT_EQ(partition->Peek(item.key(), HashKey(item.key())), &item);
      });
    } while (cursor != 0);
    return contents;
  }

  uint64_t memory_ = kKillMemory;
  UniqueFd file_;
  Told* told_ = nullptr;
};

TEST_F(KillTest, AtAnyMoment_WhatWasSettledIsThere) {
  const uint64_t seed = testing_util::TestSeed();
  std::mt19937_64 random(seed);
  int recovered = 0;
  int undone = 0;
  Operations again(seed);
  Expected model;  // after `known` operations
  uint64_t known = 0;
  for (int round = 0; round < testing_util::Rounds(150) && known < kMostOperations; ++round) {
    const uint64_t settle_every = round % 2 == 0 ? 1 : 8;
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) Change(seed, known, settle_every);
    // Once it is at work, at any moment.
    siginfo_t ended{};
    ASSERT_TRUE(testing_util::Eventually([&] {
      waitid(P_PID, static_cast<id_t>(child), &ended, WEXITED | WNOHANG | WNOWAIT);
      return told_->done.load() > known || ended.si_pid == child;
    }));
    testing_util::RandomPause(&random, std::chrono::milliseconds(3));
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);

    if (round % 4 >= 2) ForbidUndo();
    auto opened = Open();
    ASSERT_TRUE(opened.ok()) << opened.status();
    Partition* partition = opened->get();
    ASSERT_FALSE(partition->recovered() && partition->undone());
    recovered += partition->recovered();
    undone += partition->undone();
    const uint64_t settled = std::max(known, told_->settled.load());
    const uint64_t done = std::max(known, told_->done.load());
    const int64_t now = Operations::Now(done);
    const Expected contents = Contents(partition, now);
    // Whichever operation was the last to count: one that was told, or the one after it.
    bool matches = false;
    while (true) {
      if (known >= settled) {
        Expected live = model;
        std::erase_if(live, [now](const auto& e) { return e.second.facts.expires_ms <= now; });
        matches = live == contents;
      }
      if (matches || known > done || known == kMostOperations) break;
      const KillOperation o = again.Next(known);
      // 0: nobody was told of it. A refusal has changed nothing.
      if (told_->results[known].load() != 2) Apply(o, Operations::Now(known), &model);
      ++known;
    }
    ASSERT_TRUE(matches) << "round " << round << ", settled " << settled << ", done " << done
                         << ", " << contents.size() << " keys of " << model.size();
    if (partition->undone()) {
      // What can be read of it is what its items say, and so are its sums.
      const PartitionNumbers before = partition->numbers();
      opened->reset();
      SetWordAt(file_, 0, 1);
      ForbidUndo();
      opened = Open();
      ASSERT_TRUE(opened.ok()) << opened.status();
      partition = opened->get();
      ASSERT_TRUE(partition->recovered());
      ASSERT_TRUE(Contents(partition, now) == contents) << "round " << round;
      EXPECT_EQ(partition->numbers().items, before.items);
      EXPECT_EQ(partition->numbers().item_bytes, before.item_bytes);
      EXPECT_EQ(partition->numbers().expiring, before.expiring);
      EXPECT_EQ(partition->numbers().expiry_seconds, before.expiry_seconds);
    }
    // The next child goes on behind it; what it finds again was told by another.
    for (uint64_t i = known; i < std::min(done + 1, kMostOperations); ++i) told_->results[i] = 0;
    told_->done = known;
    told_->settled = known;
    const auto numbers = partition->numbers();
    EXPECT_EQ(numbers.items >= contents.size(), true);
  }
  // Else the test has not seen what it is about.
  EXPECT_GT(recovered, 0);
  EXPECT_GT(undone, 0);
}

// What a batch leaves that was not settled is taken back, or a part of it: so many keys that
// buckets overflow and split.
TEST_F(KillTest, UnsettledBatch_ManyKeys_IsTakenBackInOrder) {
  constexpr uint64_t kKeys = 330'000;
  constexpr int kRounds = 300;
  // Each new index seals the open segment, however little is in it.
  memory_ = uint64_t{256} << 20;
  std::mt19937_64 random(testing_util::TestSeed());
  auto partition = Open();
  ASSERT_TRUE(partition.ok());
  const auto value_of = [&](std::string_view key) -> std::optional<std::string> {
    const Item* item = (*partition)->Peek(key, HashKey(key));
    return item == nullptr ? std::nullopt : std::optional<std::string>(item->value());
  };
  const auto change = [&](const std::string& key, const std::optional<std::string>& value) {
    if (!value) {
      (*partition)->Erase(key, HashKey(key));
      return;
    }
    Item* item = nullptr;
    ASSERT_EQ((*partition)->Put(key, HashKey(key), value->size(), {}, &item),
              Partition::Result::kStored);
    std::memcpy(item->value_bytes(), value->data(), value->size());
  };
  uint64_t filled = 0;
  int undone = 0;
  for (int round = 0; round < kRounds; ++round) {
    for (; filled < kKeys * static_cast<uint64_t>(round + 1) / kRounds; ++filled) {
      change(std::to_string(filled), "v");
      if (filled % 64 == 0) (*partition)->Settle();
    }
    (*partition)->Settle();
    const uint64_t items = (*partition)->numbers().items;
    // The batch: what each key that it touches has after so many operations.
    using Values = std::map<std::string, std::optional<std::string>>;
    std::vector<Values> after(1);
    std::vector<std::pair<std::string, std::optional<std::string>>> batch;
    for (uint64_t n = 1 + random() % 80; n > 0; --n) {
      std::string key = std::to_string(random() % (filled + 2000));
      after[0][key] = value_of(key);
      std::optional<std::string> value;
      if (random() % 3 != 0) value = std::string(random() % 20, static_cast<char>('a' + n % 26));
      batch.emplace_back(std::move(key), std::move(value));
    }
    for (const auto& [key, value] : batch) {
      after.push_back(after.back());
      after.back()[key] = value;
      change(key, value);
    }
    partition->reset();
    partition = Open();
    ASSERT_TRUE(partition.ok()) << partition.status();
    undone += (*partition)->undone();
    const auto is_there = [&] {
      Values found;
      for (const auto& [key, value] : after[0]) found[key] = value_of(key);
      for (const Values& values : after) {
        uint64_t expected = items;
        for (const auto& [key, value] : values) {
          expected += value.has_value();
          expected -= after[0][key].has_value();
        }
        if (values == found && (*partition)->numbers().items == expected) return true;
      }
      return false;
    };
    ASSERT_TRUE(is_there()) << "round " << round << ", undone " << (*partition)->undone();
    if (round % 30 != 0) continue;
    // The items say the same.
    const PartitionNumbers before = (*partition)->numbers();
    partition->reset();
    SetWordAt(file_, 0, 1);
    ForbidUndo();
    partition = Open();
    ASSERT_TRUE(partition.ok()) << partition.status();
    ASSERT_TRUE((*partition)->recovered());
    ASSERT_TRUE(is_there()) << "round " << round;
    EXPECT_EQ((*partition)->numbers().items, before.items);
    EXPECT_EQ((*partition)->numbers().item_bytes, before.item_bytes);
    EXPECT_EQ((*partition)->numbers().expiring, before.expiring);
    EXPECT_EQ((*partition)->numbers().expiry_seconds, before.expiry_seconds);
  }
  EXPECT_GT(undone, kRounds / 2);
  // Two pages of buckets, which take splits, and one of overflow buckets.
  EXPECT_GE((*partition)->numbers().index_bytes, 3 * kPageBytes);
}

// A log that makes no sense is not put back: all items are read.
TEST_F(KillTest, UndoLogOfNonsense_ItemsAreRead) {
  const uint64_t count_at = Partition::UndoOffset(kKillMemory);
  const uint64_t first_line = count_at + offsetof(UndoLog::Area, lines);
  for (const bool wrong_place : {true, false}) {
    {
      auto partition = Open();
      ASSERT_TRUE(partition.ok());
      (*partition)->SetNow(kKillStart);
      Item* item = nullptr;
      ASSERT_EQ((*partition)->Put("a", HashKey("a"), 3, {}, &item), Partition::Result::kStored);
      std::memcpy(item->value_bytes(), "one", 3);
      (*partition)->Settle();
      ASSERT_EQ((*partition)->Put("b", HashKey("b"), 3, {}, &item), Partition::Result::kStored);
      std::memcpy(item->value_bytes(), "two", 3);
    }
    const uint64_t count = WordAt(file_, count_at);
    ASSERT_GT(count, 0u);
    ASSERT_LE(count, UndoLog::kLines);
    if (wrong_place) {
      SetWordAt(file_, first_line, UINT64_MAX - 8);
    } else {
      SetWordAt(file_, count_at, UndoLog::kLines + 1);
    }
    auto partition = Open();
    ASSERT_TRUE(partition.ok()) << partition.status();
    EXPECT_TRUE((*partition)->recovered());
    EXPECT_NE((*partition)->Find("a", HashKey("a")), nullptr);
    (*partition)->Clear();
    (*partition)->Settle();
  }
  // A head of nonsense is put back, but is not sound.
  {
    auto partition = Open();
    ASSERT_TRUE(partition.ok());
    Item* item = nullptr;
    ASSERT_EQ((*partition)->Put("a", HashKey("a"), 3, {}, &item), Partition::Result::kStored);
    std::memcpy(item->value_bytes(), "one", 3);
    (*partition)->Settle();
    ASSERT_EQ((*partition)->Put("b", HashKey("b"), 3, {}, &item), Partition::Result::kStored);
  }
  const uint64_t pages_at = count_at + offsetof(UndoLog::Area, head) + 24;
  SetWordAt(file_, pages_at, WordAt(file_, pages_at) + 5);
  auto partition = Open();
  ASSERT_TRUE(partition.ok()) << partition.status();
  EXPECT_TRUE((*partition)->recovered());
  EXPECT_NE((*partition)->Find("a", HashKey("a")), nullptr);
}

TEST_F(KillTest, Settled_IsTakenAsItIs) {
  {
    auto partition = Open();
    ASSERT_TRUE(partition.ok());
    Item* item = nullptr;
    (*partition)->SetNow(kKillStart);
    ASSERT_EQ((*partition)->Put("a", HashKey("a"), 3, {}, &item), Partition::Result::kStored);
    std::memcpy(item->value_bytes(), "one", 3);
    (*partition)->Settle();
  }
  auto partition = Open();
  ASSERT_TRUE(partition.ok()) << partition.status();
  EXPECT_FALSE((*partition)->recovered());
  ASSERT_NE((*partition)->Find("a", HashKey("a")), nullptr);
  EXPECT_EQ((*partition)->Find("a", HashKey("a"))->value(), "one");
}

// The value that was being written is not there; the one before it is.
// A process is killed while it drops all items, of which some segments have gone: none comes back.
TEST_F(KillTest, Clear_KilledInItsMidst_IsBroughtToItsEnd) {
  {
    auto partition = Open();
    ASSERT_TRUE(partition.ok()) << partition.status();
    for (int i = 0; i < 100; ++i) {
      const std::string key = absl::StrCat("key", i);
      Item* item = nullptr;
      ASSERT_EQ((*partition)->Put(key, HashKey(key), 60'000, {}, &item),
                Partition::Result::kStored);
    }
    (*partition)->Settle();
  }
  constexpr uint64_t kClearing = 2;  // Partition::State::busy
  SetWordAt(file_, 0, kClearing);
  ForbidUndo();
  for (int i = 0; i < 2; ++i) {
    auto partition = Open();
    ASSERT_TRUE(partition.ok()) << partition.status();
    EXPECT_EQ((*partition)->recovered(), i == 0);
    EXPECT_EQ((*partition)->numbers().items, 0u);
    EXPECT_EQ((*partition)->Find("key7", HashKey("key7")), nullptr);
    Item* item = nullptr;
    ASSERT_EQ((*partition)->Put("after", HashKey("after"), 5, {}, &item),
              Partition::Result::kStored);
    EXPECT_TRUE((*partition)->Erase("after", HashKey("after")));
    (*partition)->Settle();
  }
}

TEST_F(KillTest, HalfWrittenValue_IsTheOneBefore) {
  for (int i = 0; i < 6; ++i) {
    const size_t size = std::array{size_t{3}, size_t{300}, size_t{5} << 20}[i / 2];
    {
      auto partition = Open();
      ASSERT_TRUE(partition.ok());
      (*partition)->SetNow(kKillStart);
      Item* item = nullptr;
      ASSERT_EQ((*partition)->Put("a", HashKey("a"), size, {}, &item), Partition::Result::kStored);
      std::memset(item->value_bytes(), 'x', size);
      (*partition)->Settle();
      ASSERT_EQ((*partition)->Put("a", HashKey("a"), size, {}, &item), Partition::Result::kStored);
      std::memset(item->value_bytes(), 'y', size / 2);
      ASSERT_EQ((*partition)->Put("b", HashKey("b"), 1, {}, &item), Partition::Result::kStored);
      *item->value_bytes() = 'b';
      (*partition)->Settle();
      ASSERT_EQ((*partition)->Put("a", HashKey("a"), size, {}, &item), Partition::Result::kStored);
      std::memset(item->value_bytes(), 'z', size / 2);
    }
    if (i % 2 == 0) ForbidUndo();
    auto partition = Open();
    ASSERT_TRUE(partition.ok()) << partition.status();
    // A run is not taken back.
    EXPECT_EQ((*partition)->recovered(), i % 2 == 0 || size > kSegmentBytes);
    EXPECT_NE((*partition)->recovered(), (*partition)->undone());
    const Item* item = (*partition)->Find("a", HashKey("a"));
    ASSERT_NE(item, nullptr);
    ASSERT_EQ(item->value_size(), size);
    EXPECT_EQ(item->value()[0], 'y');
    EXPECT_NE((*partition)->Find("b", HashKey("b")), nullptr);
    // It is settled now, and sound.
    partition->reset();
    auto next = Open();
    ASSERT_TRUE(next.ok()) << next.status();
    EXPECT_FALSE((*next)->recovered());
    (*next)->Clear();
    (*next)->Settle();
  }
}

TEST_F(KillTest, NumbersThatMakeNoSense_AreRefused) {
  {
    auto partition = Open();
    ASSERT_TRUE(partition.ok());
    (*partition)->Settle();
  }
  // Any word of the state but the counters, one at a time.
  int refused = 0;
  for (uint64_t at = 24; at < 24 + 8 * 29; at += 8) {
    const uint64_t word = WordAt(file_, at);
    SetWordAt(file_, at, word ^ 0x123'4567);
    const auto partition = Open();
    if (!partition.ok()) {
      EXPECT_EQ(partition.status().code(), absl::StatusCode::kDataLoss);
      ++refused;
    }
    SetWordAt(file_, at, word);
  }
  EXPECT_GT(refused, 8);
  EXPECT_TRUE(Open().ok());
}

}  // namespace
}  // namespace pulse::kv
