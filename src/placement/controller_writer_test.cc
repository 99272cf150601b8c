// The controller beside a writer that wants all of the host: what the writer gets done counts.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <string>

#include "placement/controller.h"

namespace pulse::placement {
namespace {

constexpr double kMegabyte = 1e6;

using Policy = std::function<Place(uint64_t id, const Compaction&, const Load&, double now)>;
using Report = std::function<void(uint64_t id, double now)>;

// A writer that takes what compactions leave of the host's one core, and that makes `amplification`
// bytes of compaction for each byte it writes. What it gets done is what users see.
struct Writer {
  double agent_speed;
  double cost = 12e-9;  // seconds of a core for a byte
  double merge = 1 / (400 * kMegabyte);
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
    if (left <= 0 && pending >= 60 * kMegabyte) {
      Load load;
      load.host_busy = 1;
      if (tells_pending) load.pending_ratio = 4 * pending / most_pending;
      place = policy(++id, {uint64_t(60 * kMegabyte), id % 4 == 0}, load, now);
      left = 60 * kMegabyte;
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

Written WriteAdaptive(const Writer& w, double seconds, bool tells_pending, std::string* why) {
  ControllerOptions options;
  options.agent_speed = w.agent_speed;
  Controller controller(options);
  return Write(
      w, seconds,
      [&](uint64_t id, const Compaction& job, const Load& load, double now) {
        const Choice c = controller.Begin(id, job, load, now);
        if (why->empty()) *why = c.why;
        return c.place;
      },
      [&](uint64_t id, double now) { controller.End(id, now, true); }, tells_pending);
}

// OffloadAll compacts slower here than OffloadIo, and is right all the same:
// the writer gets the processor. Where the agent is so slow that the writer would wait for it, they
// are not.
TEST(ControllerWriter, AgentKeepsUp_BusyHost_IsSpared) {
  for (const double speed : {1.0, 0.81, 0.455, 0.2}) {
    Writer w{speed};
    const auto fixed = [&](Place place) {
      return Write(
          w, 300, [&](uint64_t, const Compaction&, const Load&, double) { return place; },
          [](uint64_t, double) {});
    };
    const double split = fixed(Place::kOffloadIo).bytes, whole = fixed(Place::kOffloadAll).bytes;
    for (const bool tells_pending : {false, true}) {
      std::string why;
      const Written adaptive = WriteAdaptive(w, 300, tells_pending, &why);
      EXPECT_GE(adaptive.bytes, std::max(split, whole) * 0.95)
          << "speed " << speed << ": split " << split << ", whole " << whole << ", "
          << adaptive.whole << " of it whole; " << tells_pending << " " << why;
      if (speed >= 0.8) {
        EXPECT_GT(whole, split) << "or this tests nothing";
        EXPECT_GT(adaptive.whole, 0.8);
      }
    }
  }
}

// A burst that ends before the pending-compaction limit has the host for itself, however slow the
// agent is.
TEST(ControllerWriter, Burst_BelowPendingLimit_HasTheHost) {
  for (const double speed : {0.81, 0.455}) {
    const Writer w{speed};
    const auto fixed = [&](Place place) {
      return Write(
          w, 4, [&](uint64_t, const Compaction&, const Load&, double) { return place; },
          [](uint64_t, double) {});
    };
    std::string why;
    const Written adaptive = WriteAdaptive(w, 4, true, &why);
    EXPECT_GE(adaptive.bytes, fixed(Place::kOffloadAll).bytes * 0.9) << "speed " << speed;
    EXPECT_GE(adaptive.bytes, fixed(Place::kOffloadIo).bytes * 1.4) << "speed " << speed;
  }
}

}  // namespace
}  // namespace pulse::placement
