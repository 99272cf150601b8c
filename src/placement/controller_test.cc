// The controller against simulated processors: never much slower than the best fixed placement, and
// faster where the load shifts.
#include "placement/controller.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "base/testing.h"

namespace pulse::placement {
namespace {

using ::testing::HasSubstr;
using testing_util::TestSeed;

constexpr double kMB = 1e6;

// Two processors and a device, as fluids: what runs on a processor shares it evenly. Per byte of a
// compaction's input: `merge` and `io` seconds of a host core, and `wait` seconds for the device,
// which only the pipeline of split hides.
struct Machine {
  double merge = 1 / (400 * kMB);
  double io = 1 / (600 * kMB);
  double wait = 1 / (1500 * kMB);
  int host_cores = 1;
  int agent_cores = 1;
  double agent_speed = 0.455;  // of a core, a host's being 1
  // Threads in the foreground, by time.
  std::function<double(double)> foreground = [](double) { return 0.0; };
};

struct SimJob {
  uint64_t id = 0;
  Compaction job;
  Place place = Place::kHost;
  double left = 0;
};

using Policy = std::function<Place(uint64_t id, const Compaction&, const Load&, double now)>;
using Report = std::function<void(uint64_t id, double now)>;

// Seconds for `count` compactions, `slots` at a time.
double Simulate(const Machine& m, int slots, int count, uint64_t seed, const Policy& policy,
                const Report& report, double noise = 0) {
  std::mt19937_64 rng(seed);
  std::uniform_real_distribution<double> cost(1 - noise, 1 + noise);
  std::uniform_real_distribution<double> size(30, 300);
  std::vector<std::unique_ptr<SimJob>> running;
  int begun = 0;
  double now = 0;
  // The longest step: the foreground may change within it. Ends of compactions end a step.
  constexpr double kStep = 0.02;
  while (begun < count || !running.empty()) {
    while (begun < count && static_cast<int>(running.size()) < slots) {
      auto job = std::make_unique<SimJob>();
      job->job.bytes = static_cast<uint64_t>(size(rng) * kMB);
      job->job.urgent = begun % 5 == 0;
      job->id = static_cast<uint64_t>(begun);
      Load load;
      load.host_busy = std::min<double>(m.host_cores, m.foreground(now));
      job->place = policy(job->id, job->job, load, now);
      // An agent refuses more than it runs; RocksDB then does it here.
      const auto whole = std::count_if(running.begin(), running.end(), [](const auto& r) {
        return r->place == Place::kOffloadAll;
      });
      if (job->place == Place::kOffloadAll && whole >= m.agent_cores)
        job->place = Place::kOffloadIo;
      // Jobs differ in what a byte of them costs.
      job->left = static_cast<double>(job->job.bytes) * cost(rng);
      running.push_back(std::move(job));
      ++begun;
    }
    double on_host = m.foreground(now);
    double on_agent = 0;
    for (const auto& job : running) {
      if (job->place != Place::kOffloadAll) ++on_host;
      if (job->place != Place::kHost) on_agent += job->place == Place::kOffloadAll ? 1.0 : 0.5;
    }
    const double host = std::min(1.0, m.host_cores / std::max(1.0, on_host));
    const double agent = std::min(1.0, m.agent_cores / std::max(1.0, on_agent)) * m.agent_speed;
    const auto seconds_per_byte = [&](Place place) {
      switch (place) {
        case Place::kHost:
          return (m.merge + m.io) / host + m.wait;
        case Place::kOffloadIo:
          return std::max(m.merge * 1.05 / host, std::max(m.io / agent, m.wait));
        case Place::kOffloadAll:
          break;
      }
      return (m.merge + m.io) / agent + m.wait;
    };
    double dt = kStep;
    for (const auto& job : running) dt = std::min(dt, job->left * seconds_per_byte(job->place));
    for (const auto& job : running) {
      job->left -= dt / seconds_per_byte(job->place);
      if (job->left < 1) job->left = 0;  // of a byte, rounding may leave a part
    }
    now += dt;
    for (size_t i = 0; i < running.size();) {
      if (running[i]->left > 0) {
        ++i;
        continue;
      }
      const std::unique_ptr<SimJob> job = std::move(running[i]);
      running.erase(running.begin() + static_cast<ptrdiff_t>(i));
      report(job->id, now);
    }
  }
  return now;
}

double Fixed(const Machine& m, int slots, int count, uint64_t seed, Place place, double noise = 0) {
  return Simulate(
      m, slots, count, seed,
      [&](uint64_t, const Compaction&, const Load&, double) { return place; },
      [](uint64_t, double) {}, noise);
}

struct Adaptive {
  double seconds;
  int changes;
  int at[kPlaces];
};

Adaptive RunAdaptive(const Machine& m, int slots, int count, uint64_t seed, double noise = 0) {
  ControllerOptions options;
  options.host_cores = m.host_cores;
  options.agent_tasks = m.agent_cores;
  options.agent_speed = m.agent_speed;
  Controller controller(options);
  Adaptive a{};
  a.seconds = Simulate(
      m, slots, count, seed,
      [&](uint64_t id, const Compaction& job, const Load& load, double now) {
        const Choice c = controller.Begin(id, job, load, now);
        a.changes += c.why.empty() ? 0 : 1;
        ++a.at[static_cast<size_t>(c.place)];
        return c.place;
      },
      [&](uint64_t id, double now) { controller.End(id, now, true); }, noise);
  return a;
}

struct Case {
  const char* name;
  Machine machine;
};

std::vector<Case> Cases() {
  std::vector<Case> cases;
  const auto add = [&](const char* name, std::function<void(Machine*)> change) {
    Machine m;
    change(&m);
    cases.push_back({name, m});
  };
  add("one slow core", [](Machine*) {});
  add("eight slow cores", [](Machine* m) { m->agent_cores = 8; });
  add("sixteen better cores", [](Machine* m) {
    m->agent_cores = 16;
    m->agent_speed = 0.6;
  });
  add("an equal core", [](Machine* m) { m->agent_speed = 1; });
  add("a hopeless core", [](Machine* m) { m->agent_speed = 0.05; });
  add("a fast device", [](Machine* m) {
    m->wait = 1 / (10'000 * kMB);
    m->io = 1 / (4000 * kMB);
  });
  add("a slow device", [](Machine* m) { m->wait = 1 / (200 * kMB); });
  add("four host cores", [](Machine* m) {
    m->host_cores = 4;
    m->agent_cores = 4;
  });
  add("a busy host", [](Machine* m) { m->foreground = [](double) { return 2.0; }; });
  return cases;
}

// At most 3 % slower in every case, in the middle of several seeds, which are always the same: in
// the middle of 31 the worst case is 2.7 %. Another one may be unlucky: the worst of 40 was 4.8 %.
// In the mean of all cases it is ahead: 0.98.
constexpr double kMostOverBest = 1.03;
constexpr double kMostOfOneSeed = 1.08;
constexpr double kMeanOverBest = 0.99;
constexpr size_t kSeeds = 5;

TEST(Controller, FixedLoad_Adaptive_IsNotMuchSlowerThanTheBestFixed) {
  const uint64_t new_seed = TestSeed();
  double over_best = 0;
  int cases = 0;
  for (const Case& c : Cases()) {
    for (const int slots : {1, 2, 4}) {
      for (const double noise : {0.0, 0.2}) {
        std::vector<double> over;
        for (size_t i = 0; i <= kSeeds; ++i) {
          const bool is_new = i == kSeeds;
          const uint64_t seed = (is_new ? new_seed : 100 * i) + static_cast<uint64_t>(slots);
          const int count = 1500;
          double best = 1e300;
          for (const Place p : {Place::kHost, Place::kOffloadIo, Place::kOffloadAll}) {
            best = std::min(best, Fixed(c.machine, slots, count, seed, p, noise));
          }
          const Adaptive a = RunAdaptive(c.machine, slots, count, seed, noise);
          over.push_back(a.seconds / best);
          over_best += over.back();
          ++cases;
          EXPECT_LE(over.back(), kMostOfOneSeed)
              << c.name << ", " << slots << " slots, noise " << noise << ": host " << a.at[0]
              << ", split " << a.at[1] << ", whole " << a.at[2] << ", changes " << a.changes
              << "; fixed: " << Fixed(c.machine, slots, count, seed, Place::kHost) << " "
              << Fixed(c.machine, slots, count, seed, Place::kOffloadIo) << " "
              << Fixed(c.machine, slots, count, seed, Place::kOffloadAll);
          EXPECT_LE(a.changes, 60) << c.name << ", " << slots << " slots, noise " << noise;
        }
        over.pop_back();  // the new one
        std::sort(over.begin(), over.end());
        EXPECT_LE(over[kSeeds / 2], kMostOverBest)
            << c.name << ", " << slots << " slots, noise " << noise;
      }
    }
  }
  EXPECT_LE(over_best / cases, kMeanOverBest);
}

// The foreground comes and goes: with it on the host the agent is the better place for whole
// compactions, without it the host is. No fixed placement is good at both.
TEST(Controller, ShiftingLoad_Adaptive_BeatsEveryFixed) {
  Machine m;
  m.agent_speed = 0.6;
  m.wait = 1 / (10'000 * kMB);
  m.foreground = [](double now) { return static_cast<int>(now / 60) % 2 == 1 ? 4.0 : 0.0; };
  for (const int slots : {1, 2}) {
    double best = 1e300;
    for (const Place p : {Place::kHost, Place::kOffloadIo, Place::kOffloadAll}) {
      best = std::min(best, Fixed(m, slots, 2000, TestSeed(), p));
    }
    const Adaptive a = RunAdaptive(m, slots, 2000, TestSeed());
    EXPECT_LT(a.seconds, best * 0.985)
        << slots << " slots: host " << a.at[0] << ", split " << a.at[1] << ", whole " << a.at[2];
  }
}

// Compactions one at a time on a busy host. How long each takes is the test's to say.
struct OneByOne {
  Controller controller;
  double now = 1;
  uint64_t id = 0;

  // With a pause before it. Returns where it was done.
  Place Do(double host_seconds, double whole_seconds, Load load = BusyHost(), double pause = 0) {
    now += pause;
    const Place place = controller.Begin(++id, {100'000'000, false}, load, now).place;
    now += place == Place::kOffloadAll ? whole_seconds : host_seconds;
    controller.End(id, now, true);
    return place;
  }
  int Whole(int count, double host_seconds, double whole_seconds, Load load = BusyHost(),
            double pause = 0) {
    int whole = 0;
    for (int i = 0; i < count; ++i) {
      whole += Do(host_seconds, whole_seconds, load, pause) == Place::kOffloadAll ? 1 : 0;
    }
    return whole;
  }
  // `turn` compactions that take `slow` seconds on the host, then as many of `fast`, and so on; 0.8
  // of that on the agent.
  int WholeByTurns(int count, int turn, double slow, double fast) {
    int whole = 0;
    for (int i = 0; i < count; ++i) {
      const double seconds = i / turn % 2 == 0 ? slow : fast;
      whole += Whole(1, seconds, 0.8 * seconds);
    }
    return whole;
  }
  static Load BusyHost() {
    Load load;
    load.host_busy = 1;
    return load;
  }
};

TEST(Controller, FirstStrategy_AgentSpeed_Decides) {
  const auto first = [](double speed, Load load) {
    ControllerOptions options;
    options.agent_speed = speed;
    OneByOne one{Controller(options)};
    return one.Do(1, 1, load);
  };
  const Load busy = OneByOne::BusyHost();
  EXPECT_EQ(first(1, busy), Place::kOffloadAll);
  EXPECT_EQ(first(0.81, busy), Place::kOffloadAll);
  EXPECT_EQ(first(0.455, busy), Place::kOffloadIo);
  EXPECT_EQ(first(0.1, busy), Place::kHost);
  EXPECT_EQ(first(1, Load()), Place::kOffloadIo) << "nobody wants the host";
  Load shared = busy, split_only = busy, none = busy;
  shared.separate_cpus = false;
  split_only.can_offload_all = false;
  none.agent = none.can_offload_all = false;
  EXPECT_EQ(first(1, shared), Place::kOffloadIo);
  EXPECT_EQ(first(1, split_only), Place::kOffloadIo);
  EXPECT_EQ(first(1, none), Place::kHost);
  // Beside another one on the host: what is left there counts for each.
  ControllerOptions options;
  options.agent_speed = 0.455;
  options.host_cores = 4;
  Controller several(options);
  Load half = busy;
  half.host_busy = 2;
  EXPECT_EQ(several.Begin(1, {100'000'000, false}, half, 1).place, Place::kOffloadIo);
  EXPECT_EQ(several.Begin(2, {100'000'000, false}, half, 2).place, Place::kOffloadIo);
}

TEST(Controller, FirstStrategy_SlowAgentTellsItIsFast_IsFoundOut) {
  OneByOne one{Controller(ControllerOptions{})};
  EXPECT_GT(one.Whole(12, 1.0, 4.0), 0);
  EXPECT_LE(one.Whole(100, 1.0, 4.0), 2);
}

TEST(Controller, SharedCpus_BusyHost_IsNotSpared) {
  for (const bool apart : {true, false}) {
    OneByOne one{Controller(ControllerOptions{})};
    Load load = OneByOne::BusyHost();
    load.separate_cpus = apart;
    one.Whole(50, 0.8, 1.0, load, 1.0);
    const int whole = one.Whole(50, 0.8, 1.0, load, 1.0);
    if (apart) {
      EXPECT_GT(whole, 40);
    } else {
      EXPECT_LT(whole, 10);
    }
  }
}

// After an hour without work there was hardly any, on average: that says nothing of what comes.
TEST(Controller, Demand_Pauses_AreIncluded) {
  OneByOne one{Controller(ControllerOptions{})};
  const auto slow = [&](int count) { return one.Whole(count, 0.7, 1.0); };
  slow(150);
  EXPECT_LT(slow(50), 10) << "the agent does not keep up";
  one.now += 3600;
  EXPECT_LT(slow(100), 20);
}

TEST(Controller, AgentGone_AfterOffloadAll_GetsNothing) {
  OneByOne one{Controller(ControllerOptions{})};
  Load without = OneByOne::BusyHost();
  without.agent = without.can_offload_all = false;
  while (one.Whole(2, 1.0, 0.5) < 2) ASSERT_LT(one.id, 200u);
  for (int i = 0; i < 20; ++i) ASSERT_EQ(one.Do(1.0, 0.5, without), Place::kHost);
}

TEST(Controller, NotOffloadable_OneCompaction_ChangesNothingForOthers) {
  OneByOne one{Controller(ControllerOptions{})};
  Load never = OneByOne::BusyHost();
  never.can_offload_all = false;
  one.Whole(60, 0.8, 1.0, OneByOne::BusyHost(), 1.0);
  int whole = 0;
  for (int i = 0; i < 60; ++i) {
    EXPECT_NE(one.Do(0.8, 1.0, never, 1.0), Place::kOffloadAll);
    whole += one.Do(0.8, 1.0, OneByOne::BusyHost(), 1.0) == Place::kOffloadAll ? 1 : 0;
  }
  EXPECT_GT(whole, 45);
}

// It is held for a while, looked at, and given up where the agent has become worse.
TEST(Controller, AgentBecomesSlow_OffloadAll_IsLeft) {
  OneByOne one{Controller(ControllerOptions{})};
  one.Whole(60, 1.0, 0.8);
  EXPECT_GT(one.Whole(20, 1.0, 0.8), 15);
  one.Whole(30, 1.0, 5.0);
  EXPECT_LT(one.Whole(100, 1.0, 5.0), 10);
}

// Averages over tens of compactions would follow a load that shifts too late.
TEST(Controller, RateChange_Sudden_IsNoticedSoon) {
  OneByOne one{Controller(ControllerOptions{})};
  EXPECT_GT(one.Whole(25, 1.0, 0.8), 20);
  EXPECT_LT(one.Whole(25, 1.0, 1.8), 7) << "the agent has become slow";
  EXPECT_EQ(one.Whole(25, 1.0, 1.8), 0);
  // And fast again, while the host has become slow.
  EXPECT_GT(one.Whole(25, 1.6, 0.8), 12);
}

// Two compactions at a time, on a busy host.
struct TwoLanes {
  struct Lane {
    uint64_t id = 0;
    double end = 1;
  };
  Controller controller;
  std::array<Lane, 2> lanes;
  uint64_t id = 0;

  static TwoLanes OfOneCore() {
    ControllerOptions options;
    options.agent_tasks = 2;
    options.agent_cores = 1;
    return TwoLanes{Controller(options), {}, 0};
  }
  // Returns how many of `count` were begun on the agent.
  int Whole(int count, double whole_seconds) {
    int whole = 0;
    for (int i = 0; i < count; ++i) {
      Lane& lane = lanes[0].end <= lanes[1].end ? lanes[0] : lanes[1];
      const double now = lane.end;
      if (lane.id != 0) controller.End(lane.id, now, true);
      lane.id = ++id;
      const Place place =
          controller.Begin(id, {100'000'000, false}, OneByOne::BusyHost(), now).place;
      lane.end = now + (place == Place::kOffloadAll ? whole_seconds : 2.0) + 0.01 * (i % 3);
      whole += place == Place::kOffloadAll ? 1 : 0;
    }
    return whole;
  }
};

// How many are given to an agent after it has become very slow. Whoever waits for as many to end as
// small changes need, waits for long.
TEST(Controller, RateChange_VerySlow_IsNoticedBeforeCompactionsEnd) {
  TwoLanes two = TwoLanes::OfOneCore();
  two.Whole(100, 1.2);
  ASSERT_GT(two.Whole(40, 1.2), 30);
  EXPECT_LE(two.Whole(20, 12.0), 6);
}

// What stops all for a while, once, is over when it is seen.
TEST(Controller, RateChange_OneStallOfAll_IsNoChange) {
  TwoLanes two = TwoLanes::OfOneCore();
  two.Whole(100, 1.2);
  ASSERT_GT(two.Whole(40, 1.2), 30);
  two.Whole(2, 12.0);
  EXPECT_GT(two.Whole(40, 1.2), 30);
}

// Compactions differ: those from level 0 take longer than others, say.
TEST(Controller, RateChange_SomeSlowCompactions_AreNoChange) {
  OneByOne one{Controller(ControllerOptions{})};
  one.Whole(60, 1.0, 0.8);
  EXPECT_GT(one.WholeByTurns(100, 2, 1.7, 0.7), 85);
}

// Nor those of another kind of data, by turns.
TEST(Controller, Tries_AlternatingLoad_AreFew) {
  OneByOne one{Controller(ControllerOptions{})};
  one.Whole(60, 1.0, 0.8);
  EXPECT_GT(one.WholeByTurns(400, 4, 2.5, 0.7), 330);
}

TEST(Controller, NoAgent_AllCompactions_StayOnHost) {
  Controller controller(ControllerOptions{});
  Load load;
  load.agent = false;
  for (int i = 0; i < 100; ++i) {
    const Choice c = controller.Begin(7, {100'000'000, i % 2 == 0}, load, i);
    EXPECT_EQ(c.place, Place::kHost);
    controller.End(7, i + 0.5, true);
  }
}

TEST(Controller, AgentTasks_AllTaken_NoMoreOffloadAll) {
  ControllerOptions options;
  options.agent_tasks = 2;
  options.agent_speed = 100;
  Controller controller(options);
  std::mt19937_64 rng(TestSeed());
  std::map<uint64_t, Place> running;
  double now = 0;
  for (uint64_t id = 0; id < 3000; ++id) {
    const Place p = controller.Begin(id, {100'000'000, rng() % 2 == 0}, Load(), now).place;
    running[id] = p;
    int whole = 0;
    for (const auto& [other, place] : running) whole += place == Place::kOffloadAll ? 1 : 0;
    ASSERT_LE(whole, 2);
    ASSERT_EQ(controller.running(Place::kOffloadAll), whole);
    while (running.size() > rng() % 6) {
      now += 0.1;
      controller.End(running.begin()->first, now, rng() % 10 != 0);
      running.erase(running.begin());
    }
  }
}

// What began with one agent says nothing of the next.
TEST(Controller, SetAgent_AnotherAgent_VoidsMeasurements) {
  Controller controller(ControllerOptions{});
  std::mt19937_64 rng(TestSeed());
  std::map<uint64_t, bool> running;
  double now = 0;
  for (uint64_t id = 0; id < 3000; ++id) {
    controller.Begin(id, {100'000'000, false}, Load(), now);
    running[id] = true;
    if (rng() % 20 == 0) controller.SetAgent(1 + static_cast<int>(rng() % 3), 0.5);
    while (running.size() > rng() % 5) {
      now += 0.3;
      controller.End(running.begin()->first, now, true);
      running.erase(running.begin());
    }
  }
  while (!running.empty()) {
    controller.End(running.begin()->first, now += 1, true);
    running.erase(running.begin());
  }
  for (const Place p : {Place::kHost, Place::kOffloadIo, Place::kOffloadAll}) {
    EXPECT_EQ(controller.running(p), 0);
  }
}

TEST(Controller, Why_ChangeOfStrategy_NamesTheReason) {
  Controller controller(ControllerOptions{});
  double now = 0;
  std::string why;
  for (int i = 0; i < 200 && why.empty(); ++i) {
    const Choice c = controller.Begin(1, {100'000'000, false}, Load(), now);
    why = c.why;
    now += c.place == Place::kOffloadIo ? 1.0 : c.place == Place::kHost ? 0.5 : 4.0;
    controller.End(1, now, true);
  }
  EXPECT_THAT(why, HasSubstr("split -> host"));
  EXPECT_THAT(why, HasSubstr("split 100 MB/s"));
  EXPECT_THAT(why, HasSubstr("host 200 MB/s"));
  EXPECT_EQ(controller.Begin(1, {100'000'000, false}, Load(), now).why, "");
}

TEST(Controller, SmallDifference_Adaptive_KeepsStrategy) {
  Controller controller(ControllerOptions{});
  std::mt19937_64 rng(TestSeed());
  std::uniform_real_distribution<double> time(0.97, 1.03);
  int changes = 0;
  double now = 0;
  for (int i = 0; i < 1000; ++i) {
    changes += controller.Begin(1, {100'000'000, false}, Load(), now).why.empty() ? 0 : 1;
    now += time(rng);
    controller.End(1, now, true);
  }
  EXPECT_EQ(changes, 0);
}

TEST(Controller, AgentComesAndGoes_Adaptive_UsesItMeanwhile) {
  ControllerOptions options;
  Controller controller(options);
  double now = 0;
  for (int i = 0; i < 300; ++i) {
    Load load;
    load.agent = (i / 50) % 2 == 0;
    const Choice c = controller.Begin(1, {100'000'000, false}, load, now);
    if (!load.agent) {
      EXPECT_EQ(c.place, Place::kHost);
    }
    now += c.place == Place::kOffloadIo ? 0.5 : 1.0;
    controller.End(1, now, true);
    if (i % 50 > 20) {
      EXPECT_EQ(controller.local(), load.agent ? Place::kOffloadIo : Place::kHost);
    }
  }
}

}  // namespace
}  // namespace pulse::placement
