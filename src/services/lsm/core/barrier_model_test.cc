// The barrier as a model small enough to visit every state: two databases that may share a path
// directory, a few outputs, an agent that may finish, fail or die at any point, and metadata writes
// that enter the barrier, wait and decide while everything else goes on. The rules are those of
// barrier_rules.h, which the plug-in applies as well.
//
// The invariant: when a record that names an output reaches the MANIFEST, the output is durable
// (the kernel may write the MANIFEST at any time from then on). The rules with one part taken away
// must break it, or the model proves nothing.
#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <string>
#include <unordered_set>
#include <vector>

#include "base/testing.h"
#include "services/lsm/core/barrier_rules.h"

namespace pulse::lsm {
namespace {

constexpr int kOutputs = 3;
constexpr int kDatabases = 2;
const std::string kHome[kDatabases] = {"a", "b"};
const std::string kPaths = "paths";  // in both databases' db_paths

// Where an output is, and whose. The same for all its lives.
struct Slot {
  int database;
  bool in_paths;
  int number;

  const std::string& at() const { return in_paths ? kPaths : kHome[database]; }
};
using Slots = std::array<Slot, kOutputs>;

enum Phase : uint8_t {
  kNone,      // no file, or nobody's: it is not in the registry
  kOpen,      // its writer appends
  kPromised,  // ... and was told that Sync succeeded
  kClosed,    // Close has succeeded; the agent has yet to make it durable
  kDurable,
  kFailed,  // the error came after Close
};

struct Output {
  Phase phase = kNone;
  bool forgotten = false;  // not in the registry though the file is there
  bool learned = false;    // its job knows that it failed, and will not name it
  bool abandoned = false;  // its database was closed before it was named
  bool named = false;      // by a record in the MANIFEST
  uint8_t owners = 0;
};

// A database's MANIFEST write, between entering the barrier and leaving it.
struct Write {
  bool waiting = false;
  uint8_t names = 0;
  uint8_t wait_for = 0;
};

struct State {
  std::array<Output, kOutputs> outputs;
  std::array<Write, kDatabases> writes;
  uint8_t open = 0;  // databases
  bool agent_alive = true;

  uint64_t Key() const {
    uint64_t key = 0;
    const auto push = [&key](uint64_t value, int bits) { key = key << bits | value; };
    for (const Output& o : outputs) {
      push(o.phase, 3);
      push(o.forgotten | o.learned << 1 | o.abandoned << 2 | o.named << 3, 4);
      push(o.owners, kDatabases);
    }
    for (const Write& w : writes) {
      push(w.waiting, 1);
      push(w.names, kOutputs);
      push(w.wait_for, kOutputs);
    }
    push(open, kDatabases);
    push(agent_alive, 1);
    return key;
  }
};
static_assert(kOutputs * (7 + kDatabases) + kDatabases * (1 + 2 * kOutputs) + kDatabases + 1 <= 64);

// The rules, replaceable one by one.
struct Rules {
  bool wait = true;
  bool look_at_failures = true;
  bool see_numbers = true;
  std::function<bool(const barrier::Homes&, const std::string&, const std::string&)> in_scope =
      barrier::InScope;
  std::function<barrier::Homes(const barrier::Homes&, const std::string&)> owners_of =
      barrier::OwnersOf;
  std::function<bool(const barrier::Homes&, const std::string&, const std::string&,
                     const barrier::Homes&)>
      could_be_named = barrier::CouldBeNamed;
  std::function<bool(const barrier::Homes&, const std::string&, const std::string&,
                     const barrier::Homes&)>
      is_orphan = barrier::IsOrphan;
};

barrier::Homes HomesOf(uint8_t mask) {
  barrier::Homes homes;
  for (int d = 0; d < kDatabases; ++d) {
    if ((mask >> d & 1) != 0) homes.insert(kHome[d]);
  }
  return homes;
}

class Model {
 public:
  Model(const Slots& slots, const Rules& rules) : slots_(slots), rules_(rules) { Tabulate(); }

  // Visits every state. "" or what is wrong.
  std::string Check() {
    Add(State());
    while (!todo_.empty() && wrong_.empty()) {
      const State s = todo_.back();
      todo_.pop_back();
      for (int i = 0; i < kOutputs; ++i) StepOutput(s, i);
      for (int d = 0; d < kDatabases; ++d) StepDatabase(s, d);
      if (s.agent_alive) {
        State t = s;
        t.agent_alive = false;  // what it had is finished by the host, one by one
        Add(t);
      }
    }
    return wrong_;
  }

  size_t visited() const { return seen_.size(); }
  size_t records() const { return records_; }
  size_t refused() const { return refused_; }

 private:
  void Add(const State& s) {
    if (seen_.insert(s.Key()).second) todo_.push_back(s);
  }

  void StepOutput(const State& s, int i) {
    const Output& o = s.outputs[i];
    const int d = slots_[i].database;
    const bool open = (s.open >> d & 1) != 0;
    const bool mine = open && !o.abandoned;
    const auto become = [&](Phase phase, bool learned) {
      State t = s;
      t.outputs[i].phase = phase;
      t.outputs[i].learned |= learned;
      Add(t);
    };
    if (open && !o.named && (o.phase == kNone || o.abandoned)) {
      // Also where another of an earlier life still is: it is unlinked and forgotten.
      State t = s;
      t.outputs[i] = Output();
      t.outputs[i].phase = kOpen;
      t.outputs[i].owners = owners_of_[s.open][i];
      for (Write& w : t.writes) w.wait_for &= ~(1 << i);
      Add(t);
    }
    switch (o.phase) {
      case kNone:
        break;
      case kOpen:
      case kPromised:
        if (!mine) break;
        if (o.phase == kOpen) become(kPromised, false);
        if (s.agent_alive) {
          become(kClosed, false);
        } else {
          become(kDurable, false);
        }
        become(kFailed, true);  // Close says so
        break;
      case kClosed:
        become(kDurable, false);
        become(kFailed, false);
        break;
      case kDurable:
        break;
      case kFailed:
        if (!o.learned) become(kFailed, true);  // at the directory's sync
        break;
    }
    if (o.phase != kNone && !o.named && (o.learned || o.abandoned) && !IsBeingNamed(s, i)) {
      State t = s;
      t.outputs[i] = Output();
      for (Write& w : t.writes) w.wait_for &= ~(1 << i);
      Add(t);
    }
  }

  void StepDatabase(const State& s, int d) {
    const uint8_t bit = 1 << d;
    if ((s.open & bit) == 0) {
      State t = s;
      Drop(&t, d);
      t.open |= bit;
      Add(t);
      return;
    }
    if (s.writes[d].waiting) {
      Leave(s, d);
      return;
    }
    uint8_t candidates = 0;
    for (int i = 0; i < kOutputs; ++i) {
      const Output& o = s.outputs[i];
      if (slots_[i].database == d && o.phase >= kClosed && !o.learned && !o.abandoned && !o.named) {
        candidates |= 1 << i;
      }
    }
    for (int names = 0; names < 1 << kOutputs; ++names) {
      if ((names & ~candidates) == 0) Enter(s, d, names);
    }
    State t = s;
    t.open &= ~bit;
    for (int i = 0; i < kOutputs; ++i) {
      Output& o = t.outputs[i];
      if (slots_[i].database != d || o.phase == kNone || o.named) continue;
      o.abandoned = true;
      // Its writer is gone: given up without Close, which no barrier waits for.
      if (o.phase == kOpen || o.phase == kPromised) o = Output();
    }
    Drop(&t, d);
    Add(t);
  }

  // The database of home d comes or goes.
  void Drop(State* s, int d) {
    const uint8_t others = s->open & ~(1 << d);
    for (int i = 0; i < kOutputs; ++i) {
      Output& o = s->outputs[i];
      if (o.phase != kFailed || o.forgotten) continue;
      o.forgotten = is_orphan_[others][d][i][o.owners];
    }
  }

  void Enter(const State& s, int d, uint8_t names) {
    State t = s;
    Write& w = t.writes[d];
    w.waiting = true;
    w.names = names;
    w.wait_for = 0;
    for (int i = 0; i < kOutputs; ++i) {
      const Output& o = s.outputs[i];
      const bool counts =
          o.phase == kPromised || o.phase == kClosed || (o.phase == kFailed && !o.learned);
      if (!counts || o.forgotten) continue;
      if (!in_scope_[s.open][d][i]) continue;
      if (rules_.wait || o.phase == kFailed) w.wait_for |= 1 << i;
    }
    Add(t);
  }

  void Leave(const State& s, int d) {
    const Write& w = s.writes[d];
    bool refuse = false;
    for (int i = 0; i < kOutputs; ++i) {
      if ((w.wait_for >> i & 1) == 0) continue;
      const Output& o = s.outputs[i];
      if (o.phase == kClosed) return;  // still waiting
      if (o.phase != kFailed || !rules_.look_at_failures) continue;
      const bool named = rules_.see_numbers && IsNumberIn(w.names, slots_[i].number);
      refuse |= named && could_be_named_[s.open][d][i][o.owners];
    }
    State t = s;
    t.writes[d] = Write();
    if (refuse) ++refused_;
    if (!refuse && w.names != 0) ++records_;
    for (int i = 0; i < kOutputs; ++i) {
      if ((w.names >> i & 1) == 0) continue;
      Output& o = t.outputs[i];
      if (refuse) {
        o.learned = true;  // the jobs fail
        continue;
      }
      if (o.phase != kDurable) {
        wrong_ = "a record of " + kHome[d] + " names output " + std::to_string(i) + " in " +
                 slots_[i].at() + ", which is not durable";
      }
      o.named = true;
    }
    Add(t);
  }

  bool IsNumberIn(uint8_t names, int number) const {
    for (int i = 0; i < kOutputs; ++i) {
      if ((names >> i & 1) != 0 && slots_[i].number == number) return true;
    }
    return false;
  }
  static bool IsBeingNamed(const State& s, int i) {
    for (const Write& w : s.writes) {
      if (w.waiting && (w.names >> i & 1) != 0) return true;
    }
    return false;
  }
  static uint8_t Mask(const barrier::Homes& homes) {
    uint8_t mask = 0;
    for (int d = 0; d < kDatabases; ++d) mask |= homes.count(kHome[d]) << d;
    return mask;
  }

  // The rules, for every argument: the search asks them millions of times.
  void Tabulate() {
    for (int open = 0; open < kMasks; ++open) {
      const barrier::Homes homes = HomesOf(open);
      for (int i = 0; i < kOutputs; ++i) {
        const std::string& at = slots_[i].at();
        owners_of_[open][i] = Mask(rules_.owners_of(homes, at));
        for (int d = 0; d < kDatabases; ++d) {
          in_scope_[open][d][i] = rules_.in_scope(homes, kHome[d], at);
          for (int owners = 0; owners < kMasks; ++owners) {
            could_be_named_[open][d][i][owners] =
                rules_.could_be_named(homes, kHome[d], at, HomesOf(owners));
            is_orphan_[open][d][i][owners] = rules_.is_orphan(homes, kHome[d], at, HomesOf(owners));
          }
        }
      }
    }
  }

  static constexpr int kMasks = 1 << kDatabases;

  const Slots slots_;
  const Rules rules_;
  uint8_t owners_of_[kMasks][kOutputs] = {};
  bool in_scope_[kMasks][kDatabases][kOutputs] = {};
  bool could_be_named_[kMasks][kDatabases][kOutputs][kMasks] = {};
  bool is_orphan_[kMasks][kDatabases][kOutputs][kMasks] = {};
  std::unordered_set<uint64_t> seen_;
  std::vector<State> todo_;
  std::string wrong_;
  size_t records_ = 0;
  size_t refused_ = 0;
};

// Every way to place the outputs that differs by more than the databases' names.
std::vector<Slots> Placements() {
  std::vector<Slot> all;
  for (int database : {0, 1}) {
    for (bool in_paths : {false, true}) {
      for (int number : {1, 2}) all.push_back({database, in_paths, number});
    }
  }
  const auto same_file = [](const Slot& a, const Slot& b) {
    return a.at() == b.at() && a.number == b.number;
  };
  std::vector<Slots> placements;
  for (size_t i = 0; i < all.size(); ++i) {
    for (size_t j = i + 1; j < all.size(); ++j) {
      for (size_t k = j + 1; k < all.size(); ++k) {
        const Slots s = {all[i], all[j], all[k]};
        if (same_file(s[0], s[1]) || same_file(s[0], s[2]) || same_file(s[1], s[2])) continue;
        // Databases, and numbers, are interchangeable.
        if (s[0].database + s[1].database + s[2].database > 1) continue;
        if (s[0].number + s[1].number + s[2].number > 4) continue;
        placements.push_back(s);
      }
    }
  }
  return placements;
}

TEST(BarrierModel, ReachableStates_Metadata_NamesOnlyDurableFiles) {
  size_t states = 0;
  size_t records = 0;
  size_t refused = 0;
  const std::vector<Slots> placements = Placements();
  // One placement is about as good as another: each commit takes every third.
  const size_t stride = testing_util::LongTests() ? 1 : 3;
  for (size_t i = testing_util::TestSample() % stride; i < placements.size(); i += stride) {
    Model model(placements[i], Rules());
    ASSERT_EQ(model.Check(), "");
    states += model.visited();
    records += model.records();
    refused += model.refused();
  }
  std::printf("1 of %zu of %zu placements, %zu states, %zu records written, %zu refused\n", stride,
              placements.size(), states, records, refused);
  // It does get somewhere.
  EXPECT_GT(records, 1000u);
  EXPECT_GT(refused, 1000u);
}

// Some placement must show it.
bool Breaks(const Rules& rules) {
  for (const Slots& slots : Placements()) {
    if (!Model(slots, rules).Check().empty()) return true;
  }
  return false;
}

TEST(BarrierModel, RuleRemoved_Model_FindsAViolation) {
  Rules rules;
  rules.wait = false;
  EXPECT_TRUE(Breaks(rules)) << "no waiting";

  rules = Rules();
  rules.look_at_failures = false;
  EXPECT_TRUE(Breaks(rules)) << "failures pass";

  rules = Rules();
  rules.see_numbers = false;
  EXPECT_TRUE(Breaks(rules)) << "records are not looked at";

  rules = Rules();
  rules.in_scope = [](const auto&, const auto& dir, const auto& at) { return at == dir; };
  EXPECT_TRUE(Breaks(rules)) << "only the database's own directory";

  rules = Rules();
  rules.in_scope = [](const auto&, const auto& dir, const auto& at) { return at != dir; };
  EXPECT_TRUE(Breaks(rules)) << "all but the database's own directory";

  rules = Rules();
  rules.owners_of = [](const auto& homes, const auto& at) {
    return homes.count(at) != 0 || homes.empty() ? barrier::Homes{at}
                                                 : barrier::Homes{*homes.begin()};
  };
  EXPECT_TRUE(Breaks(rules)) << "one owner of several";

  rules = Rules();
  rules.could_be_named = [](const auto&, const auto& dir, const auto& at, const auto&) {
    return at == dir;
  };
  EXPECT_TRUE(Breaks(rules)) << "failures in paths are nobody's";

  rules = Rules();
  rules.is_orphan = [](const auto&, const auto&, const auto&, const auto&) { return true; };
  EXPECT_TRUE(Breaks(rules)) << "any database that comes or goes drops all failures";

  // And finds nothing where the rules are only stricter.
  rules = Rules();
  rules.in_scope = [](const auto&, const auto&, const auto&) { return true; };
  rules.could_be_named = [](const auto&, const auto&, const auto&, const auto&) { return true; };
  rules.is_orphan = [](const auto&, const auto&, const auto&, const auto&) { return false; };
  EXPECT_EQ(Model(Placements().back(), rules).Check(), "");
}

}  // namespace
}  // namespace pulse::lsm
