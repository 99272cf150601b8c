// The rule in simulations: of compactions alone, against the best fixed placement; and beside a
// writer that wants all of the host, of what that writer gets done.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "base/testing.h"
#include "placement/rule.h"

namespace pulse::placement {
namespace {

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
  uint64_t bytes = 0;  // of its inputs
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
      job->bytes = static_cast<uint64_t>(size(rng) * kMB);
      job->id = static_cast<uint64_t>(begun);
      Load load;
      load.host_busy = std::min<double>(m.host_cores, m.foreground(now));
      job->place = policy(job->id, {/*urgent=*/begun % 5 == 0}, load, now);
      // An agent refuses more than it runs; RocksDB then does it here.
      const auto whole = std::count_if(running.begin(), running.end(), [](const auto& r) {
        return r->place == Place::kOffloadAll;
      });
      if (job->place == Place::kOffloadAll && whole >= m.agent_cores)
        job->place = Place::kOffloadIo;
      // Jobs differ in what a byte of them costs.
      job->left = static_cast<double>(job->bytes) * cost(rng);
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

struct ByRule {
  double seconds;
  int at[kPlaces];
};

ByRule RunRule(const Machine& m, int slots, int count, uint64_t seed, double noise = 0) {
  RuleOptions options;
  options.host_cores = m.host_cores;
  options.agent_tasks = options.agent_cores = m.agent_cores;
  options.agent_speed = m.agent_speed;
  Rule rule(options);
  ByRule r{};
  r.seconds = Simulate(
      m, slots, count, seed,
      [&](uint64_t id, const Compaction& job, const Load& load, double) {
        const Place place = rule.Begin(id, job, load).place;
        ++r.at[static_cast<size_t>(place)];
        return place;
      },
      [&](uint64_t id, double) { rule.End(id); }, noise);
  return r;
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

// Two compactions that share the host's core would be done sooner with one of them on a slow agent
// that has nothing else to do, while each of them, on its own, would not.
bool IsWhereBothProcessorsPay(const Case& c, int slots) {
  return std::string(c.name) == "a fast device" && slots == 2;
}

TEST(RuleSimulation, FixedLoad_IsNotMuchSlowerThanTheBestFixed) {
  double over_best = 0;
  int cases = 0;
  for (const Case& c : Cases()) {
    for (const int slots : {1, 2, 4}) {
      for (const double noise : {0.0, 0.2}) {
        for (const uint64_t seed : {uint64_t{1}, uint64_t{2}, TestSeed()}) {
          constexpr int kCount = 500;
          double best = 1e300;
          for (const Place p : {Place::kHost, Place::kOffloadIo, Place::kOffloadAll}) {
            best = std::min(best, Fixed(c.machine, slots, kCount, seed, p, noise));
          }
          const ByRule r = RunRule(c.machine, slots, kCount, seed, noise);
          over_best += r.seconds / best;
          ++cases;
          EXPECT_LE(r.seconds / best, IsWhereBothProcessorsPay(c, slots) ? 1.33 : 1.08)
              << c.name << ", " << slots << " slots, noise " << noise << ": host " << r.at[0]
              << ", split " << r.at[1] << ", whole " << r.at[2];
        }
      }
    }
  }
  EXPECT_LE(over_best / cases, 0.99);
}

// The foreground comes and goes: with it on the host the agent is the better place for whole
// compactions, without it the host is. No fixed placement is good at both.
TEST(RuleSimulation, ShiftingLoad_BeatsEveryFixed) {
  Machine m;
  m.agent_speed = 0.6;
  m.wait = 1 / (10'000 * kMB);
  m.foreground = [](double now) { return static_cast<int>(now / 60) % 2 == 1 ? 4.0 : 0.0; };
  for (const int slots : {1, 2}) {
    double best = 1e300;
    for (const Place p : {Place::kHost, Place::kOffloadIo, Place::kOffloadAll}) {
      best = std::min(best, Fixed(m, slots, 2000, TestSeed(), p));
    }
    const ByRule r = RunRule(m, slots, 2000, TestSeed());
    EXPECT_LT(r.seconds, best * 0.95)
        << slots << " slots: host " << r.at[0] << ", split " << r.at[1] << ", whole " << r.at[2];
  }
}

// A writer that takes what compactions leave of the host's one core, and that makes `amplification`
// bytes of compaction for each byte it writes. What it gets done is what users see.
struct Writer {
  double agent_speed;
  double cost = 12e-9;  // seconds of a core for a byte
  double merge = 1 / (400 * kMB);
  double amplification = 4;
};

struct Written {
  double bytes = 0;
  double whole = 0;  // share of what was compacted
};

// For `seconds`, with one compaction at a time. Writers stall at as much pending compaction as the
// writer makes in ten seconds, a quarter of which is the limit for deferring, if that is told.
// `policy` decides each, and hears of its end.
Written Write(const Writer& w, double seconds, const Policy& policy, const Report& report,
              bool tells_pending = false) {
  constexpr double kStep = 0.002;
  const double most_pending = 10 * w.amplification / w.cost;
  Written written;
  double pending = 0, left = 0, compacted = 0;
  uint64_t id = 0;
  Place place = Place::kHost;
  for (double now = 1; now < seconds; now += kStep) {
    if (left <= 0 && pending >= 60 * kMB) {
      Load load;
      load.host_busy = 1;
      if (tells_pending) load.pending_ratio = 4 * pending / most_pending;
      ++id;
      place = policy(id, {/*urgent=*/id % 4 == 0}, load, now);
      left = 60 * kMB;
      pending -= left;
    }
    const bool compacts = left > 0;
    const bool stalls = pending > most_pending;
    const double host = !compacts || place == Place::kOffloadAll ? 1 : stalls ? 0 : 0.5;
    if (!stalls) {
      written.bytes += kStep * host / w.cost;
      pending += kStep * host / w.cost * w.amplification;
    }
    if (!compacts) continue;
    const double rate = (place == Place::kOffloadAll ? w.agent_speed * 0.8 : 1 - host) / w.merge;
    left -= kStep * rate;
    compacted += kStep * rate;
    if (place == Place::kOffloadAll) written.whole += kStep * rate;
    if (left <= 0) report(id, now);
  }
  written.whole /= compacted;
  return written;
}

Written WriteFixed(const Writer& w, double seconds, Place place) {
  return Write(
      w, seconds, [&](uint64_t, const Compaction&, const Load&, double) { return place; },
      [](uint64_t, double) {});
}

Written WriteByRule(const Writer& w, double seconds, bool tells_pending) {
  RuleOptions options;
  options.agent_speed = w.agent_speed;
  Rule rule(options);
  return Write(
      w, seconds,
      [&](uint64_t id, const Compaction& job, const Load& load, double) {
        return rule.Begin(id, job, load).place;
      },
      [&](uint64_t id, double) { rule.End(id); }, tells_pending);
}

TEST(RuleSimulation, BusyHost_WriterGetsAsMuchDoneAsWithTheBestFixed) {
  for (const double seconds : {60.0, 300.0}) {
    for (const double speed : {1.0, 0.81, 0.6, 0.455, 0.3, 0.2}) {
      const Writer w{speed};
      const double split = WriteFixed(w, seconds, Place::kOffloadIo).bytes;
      const double whole = WriteFixed(w, seconds, Place::kOffloadAll).bytes;
      const Written by_rule = WriteByRule(w, seconds, /*tells_pending=*/true);
      EXPECT_GE(by_rule.bytes, std::max(split, whole) * 0.98)
          << seconds << " s, speed " << speed << ": split " << split << ", whole " << whole << ", "
          << by_rule.whole << " of it whole";
      if (speed >= 0.8) {
        EXPECT_GT(whole, split) << "or this tests nothing";
        EXPECT_GT(WriteByRule(w, seconds, /*tells_pending=*/false).whole, 0.98);
      }
    }
  }
}

// A burst that ends before the pending-compaction limit has the host for itself, however slow the
// agent is.
TEST(RuleSimulation, Burst_BelowPendingLimit_HasTheHost) {
  for (const double speed : {0.81, 0.455, 0.3}) {
    const Writer w{speed};
    const Written by_rule = WriteByRule(w, 4, true);
    EXPECT_GE(by_rule.bytes, WriteFixed(w, 4, Place::kOffloadAll).bytes * 0.99) << speed;
    EXPECT_GE(by_rule.bytes, WriteFixed(w, 4, Place::kOffloadIo).bytes * 1.4) << speed;
  }
}

}  // namespace
}  // namespace pulse::placement
