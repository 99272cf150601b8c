#include "services/ops/scheduler.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <queue>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/check.h"

namespace pulse::ops {
namespace {

constexpr uint64_t kManyChunks = uint64_t{1} << 40;
// Of what costs at most this part of a set-up, so many chunks tell whether it is worth it.
constexpr int64_t kCheapChunk = 8;
constexpr uint64_t kEnoughChunks = 4;
// A pipeline of which nothing is known has two chunks, or this part of what is left; one that is
// known, so much beyond what hides its latency: two chunks, and what a lane may be late.
constexpr uint64_t kFirstPart = 8;
constexpr int64_t kChunksAhead = 2;
constexpr int64_t kNanosAhead = 2'000'000;
// Of kPaper: an engine stalls that takes so many times as long as it should.
constexpr int64_t kStalls = 4;

uint64_t LanesOf(const std::vector<Scheduler::EngineState>& engines, Side side) {
  uint64_t lanes = 0;
  for (const Scheduler::EngineState& engine : engines) {
    if (engine.side == side) lanes += engine.pipeline ? 1 : static_cast<uint64_t>(engine.lanes);
  }
  return lanes;
}

}  // namespace

absl::StatusOr<Placement> Placement::Parse(absl::string_view text) {
  Placement placement;
  if (text == "host") {
    placement.kind = Kind::kHost;
  } else if (text == "agent") {
    placement.kind = Kind::kAgent;
  } else if (text == "auto") {
    placement.kind = Kind::kAuto;
  } else if (text == "paper") {
    placement.kind = Kind::kPaper;
  } else if (absl::ConsumePrefix(&text, "split=")) {
    placement.kind = Kind::kSplit;
    if (!absl::SimpleAtoi(text, &placement.percent) || placement.percent < 0 ||
        placement.percent > 100) {
      return absl::InvalidArgumentError(absl::StrCat(
          "placement split=", text, ": the agent's share is a number of percent, 0 to 100"));
    }
  } else {
    return absl::InvalidArgumentError(
        absl::StrCat("placement ", text, " is none of host, agent, split=PERCENT, auto and paper"));
  }
  return placement;
}

Side Placement::SideOf(uint64_t n) const {
  const uint64_t share = static_cast<uint64_t>(percent);
  return (n + 1) * share / 100 > n * share / 100 ? Side::kAgent : Side::kHost;
}

Scheduler::Scheduler(const Options& options, std::vector<EngineState> engines)
    : options_(options),
      engines_(std::move(engines)),
      lost_(engines_.size(), false),
      busy_(engines_.size(), 0),
      finished_(engines_.size(), 0),
      pipes_(engines_.size()),
      sharing_(LanesOf(engines_, Side::kHost), LanesOf(engines_, Side::kAgent), options.verdict) {
  PULSE_CHECK(options_.window > 0 && options_.chunk_bytes > 0);
}

bool Scheduler::Alive(Side side) const {
  for (size_t i = 0; i < engines_.size(); ++i) {
    if (!lost_[i] && engines_[i].side == side) return true;
  }
  return false;
}

double Scheduler::RateOf(Side side, uint64_t bytes, int64_t now) const {
  double sum = 0;
  for (size_t i = 0; i < engines_.size(); ++i) {
    if (lost_[i] || engines_[i].side != side) continue;
    const double rate = engines_[i].rates.BytesPerSecond(bytes, now);
    if (rate <= 0) return 0;
    sum += rate * (engines_[i].pipeline ? 1 : engines_[i].lanes);
  }
  return sum;
}

bool Scheduler::Serves(int engine, int64_t now) const {
  if (lost_[static_cast<size_t>(engine)]) return false;
  const Side side = engines_[static_cast<size_t>(engine)].side;
  if (options_.placement.kind == Placement::Kind::kHost) {
    return side == Side::kHost || !Alive(Side::kHost);
  }
  if (options_.placement.kind == Placement::Kind::kAgent) {
    return side == Side::kAgent || !Alive(Side::kAgent);
  }
  if (options_.placement.kind == Placement::Kind::kPaper) {
    const C1 c1 = CheckC1(now);
    if (side == Side::kAgent) return c1 != C1::kFails;
    return c1 != C1::kHolds || sharing_.HostShares() || AgentStalls(now);
  }
  return true;
}

bool Scheduler::AgentStalls(int64_t now) const {
  return std::any_of(flights_.begin(), flights_.end(), [&](const Flight& flight) {
    return engines_[static_cast<size_t>(flight.engine)].side == Side::kAgent &&
           now - flight.start > kStalls * Expected(flight, now);
  });
}

Scheduler::C1 Scheduler::CheckC1(int64_t now) const {
  const double host = RateOf(Side::kHost, options_.chunk_bytes, now);
  const double agent = RateOf(Side::kAgent, options_.chunk_bytes, now);
  // Of both something is to be known before one of them waits.
  if (agent == 0 || host == 0) return C1::kUnknown;
  return agent > host ? C1::kHolds : C1::kFails;
}

int64_t Scheduler::TimeFor(int engine, uint64_t bytes, int64_t now) const {
  const double rate = engines_[static_cast<size_t>(engine)].rates.BytesPerSecond(bytes, now);
  if (rate <= 0) return 0;
  return std::max<int64_t>(1, static_cast<int64_t>(static_cast<double>(bytes) / rate * 1e9));
}

int64_t Scheduler::TimeAtLeast(int engine, uint64_t bytes, int64_t now) const {
  int64_t time = TimeFor(engine, bytes, now);
  if (time > 0) return time;
  for (const Flight& flight : flights_) {
    if (flight.engine != engine || flight.bytes == 0) continue;
    const double share = static_cast<double>(bytes) / static_cast<double>(flight.bytes);
    time = std::max(time, static_cast<int64_t>(static_cast<double>(now - flight.start) * share));
  }
  return time;
}

int64_t Scheduler::Before(int engine, uint64_t bytes) const {
  const auto& before = engines_[static_cast<size_t>(engine)].before;
  return before ? before(bytes) : 0;
}

int64_t Scheduler::Latency(int engine, int64_t now) const {
  const Pipe& pipe = pipes_[static_cast<size_t>(engine)];
  if (pipe.alone_bytes == 0) return 0;
  return std::max<int64_t>(0, pipe.alone_nanos - TimeFor(engine, pipe.alone_bytes, now));
}

int64_t Scheduler::Backlog(int engine, int64_t now) const {
  if (!engines_[static_cast<size_t>(engine)].pipeline) return 0;
  // Flights are in the order in which they were begun.
  int64_t nanos = 0;
  bool first = true;
  for (const Flight& flight : flights_) {
    if (flight.engine != engine) continue;
    const int64_t time = TimeFor(engine, flight.bytes, now);
    nanos += time;
    if (!std::exchange(first, false)) continue;
    const int64_t begun =
        std::max(flight.start + flight.before, pipes_[static_cast<size_t>(engine)].last_done);
    // One that is late will be for as long again: others do not wait for a pipeline that stands.
    nanos += now - begun > time ? now - begun : -std::max<int64_t>(0, now - begun);
  }
  return nanos;
}

bool Scheduler::IsFull(int engine, int64_t now) const {
  if (!engines_[static_cast<size_t>(engine)].pipeline) return false;
  const int64_t each = TimeFor(engine, NextBytes(), now);
  if (each == 0) {
    const auto busy = static_cast<uint64_t>(busy_[static_cast<size_t>(engine)]);
    return busy >= 2 && busy >= ChunksLeft() / kFirstPart;
  }
  return Backlog(engine, now) >= Latency(engine, now) + std::max(kChunksAhead * each, kNanosAhead);
}

int64_t Scheduler::TimeUntilDone(int engine, uint64_t bytes, int64_t now) const {
  const int64_t time = TimeFor(engine, bytes, now);
  return time == 0 ? 0 : Backlog(engine, now) + time + Latency(engine, now);
}

int64_t Scheduler::Expected(const Flight& flight, int64_t now) const {
  return flight.before + TimeFor(flight.engine, flight.ahead + flight.bytes, now) +
         Latency(flight.engine, now);
}

int64_t Scheduler::Remaining(const Flight& flight, int64_t now) const {
  const int64_t elapsed = now - flight.start;
  const int64_t expected = Expected(flight, now);
  // One that is late, or of which nothing is known, takes as long again as it took.
  return elapsed < expected ? expected - elapsed : elapsed;
}

uint64_t Scheduler::NextBytes() const {
  return claimed_ == 0 ? options_.chunk_bytes : std::max<uint64_t>(1, claimed_bytes_ / claimed_);
}

uint64_t Scheduler::ChunksLeft() const {
  uint64_t left = waiting_.size();
  if (ended_) return left;
  if (!total_.has_value()) return kManyChunks;
  const uint64_t bytes = *total_ > claimed_bytes_ ? *total_ - claimed_bytes_ : 0;
  return left + (bytes + NextBytes() - 1) / NextBytes();
}

bool Scheduler::OthersAreFaster(int engine, uint64_t bytes, int64_t now) const {
  const int64_t mine = Before(engine, bytes) + TimeUntilDone(engine, bytes, now);
  if (mine == 0) return false;  // not known: this chunk tells
  const bool set_up = Before(engine, bytes) > 0;
  std::vector<bool> serves(engines_.size());
  for (size_t i = 0; i < engines_.size(); ++i) serves[i] = Serves(static_cast<int>(i), now);
  if (set_up) {
    // Whether that is worth it, the others' first chunks tell.
    for (size_t i = 0; i < engines_.size(); ++i) {
      const int other = static_cast<int>(i);
      if (other == engine || !serves[i] || Before(other, bytes) > 0) continue;
      const int64_t each = TimeAtLeast(other, bytes, now);
      if (each == 0) return true;
      // Caches and memory are cold at first. Where chunks cost little beside the set-up, some more
      // are awaited before it is begun.
      if (finished_[i] < kEnoughChunks && each * kCheapChunk <= Before(engine, bytes)) return true;
    }
  }
  uint64_t left = ChunksLeft();
  if (left == 0)
    return false;  // the source has not yet said that this is the end: asking it is cheap
  // When each of the other lanes would be free, and how long it takes for a chunk.
  struct Lane {
    int64_t done;  // with one chunk more
    int64_t each;
    bool operator>(const Lane& o) const { return done > o.done; }
  };
  std::vector<Lane> lanes;
  std::vector<int> idle(engines_.size());
  for (size_t i = 0; i < engines_.size(); ++i) {
    idle[i] = serves[i] ? engines_[i].lanes - busy_[i] : 0;
  }
  --idle[static_cast<size_t>(engine)];  // the lane that asks
  // What has to be made before is made once for all lanes of an engine.
  idle[static_cast<size_t>(engine)] *= Before(engine, bytes) == 0 ? 1 : 0;
  const auto each_of = [&](int other) {
    const int64_t each = set_up ? TimeAtLeast(other, bytes, now) : TimeFor(other, bytes, now);
    return each == 0 ? mine : each;
  };
  for (size_t i = 0; i < engines_.size(); ++i) {
    const int other = static_cast<int>(i);
    const int64_t before = Before(other, bytes);
    if (engines_[i].pipeline) {
      // One processor, whatever the number of its lanes.
      if (other == engine || !serves[i]) continue;
      const int64_t done = before + std::max(TimeUntilDone(other, bytes, now), each_of(other));
      lanes.push_back({done, each_of(other)});
      continue;
    }
    for (int n = 0; n < idle[i]; ++n) lanes.push_back({before + each_of(other), each_of(other)});
  }
  for (const Flight& flight : flights_) {
    const auto of = static_cast<size_t>(flight.engine);
    if (engines_[of].pipeline || !serves[of]) continue;
    const int64_t each = each_of(flight.engine);
    lanes.push_back({Remaining(flight, now) + each, each});
  }
  if (lanes.empty()) return false;
  // More than the fastest lane alone could do meanwhile, times their number: no need to look
  // closer.
  const int64_t fastest =
      std::min_element(lanes.begin(), lanes.end(), [](const Lane& a, const Lane& b) {
        return a.each < b.each;
      })->each;
  if (left / lanes.size() > static_cast<uint64_t>(mine / fastest) + 1) return false;
  std::priority_queue<Lane, std::vector<Lane>, std::greater<>> free(std::greater<>(),
                                                                    std::move(lanes));
  int64_t last = 0;
  for (; left > 0; --left) {
    Lane lane = free.top();
    free.pop();
    last = std::max(last, lane.done);
    if (last >= mine) return false;
    lane.done += lane.each;
    free.push(lane);
  }
  return last < mine;
}

std::optional<uint64_t> Scheduler::Redo(int engine, bool window_full, bool late, int64_t now) {
  const Flight* best = nullptr;
  int64_t longest = 0;
  for (const Flight& flight : flights_) {
    if (!flight.loaded || flight.redone || flight.beaten) continue;
    // A pipeline does it in any case.
    if (flight.engine == engine && this->engine(engine).pipeline) continue;
    // While the window is full, only the chunk that all wait for is worth it.
    if (window_full && flight.chunk != delivered_) continue;
    if (std::find(flight.refused.begin(), flight.refused.end(), engine) != flight.refused.end()) {
      continue;
    }
    const int64_t known = TimeUntilDone(engine, flight.bytes, now);
    const int64_t mine = known == 0 ? 0 : known + Before(engine, flight.bytes);
    const int64_t theirs = Remaining(flight, now);
    // Nothing known of it: its lane is given the time that it took so far.
    if (mine == 0 || mine >= theirs || theirs <= longest) continue;
    // An estimate is not exact: without this margin equal lanes would redo each other's last chunk.
    // Half of all chunks take longer than the mean: what does not serve waits for twice that.
    const int64_t elapsed = now - flight.start, expected = Expected(flight, now);
    if (late ? elapsed < 2 * expected : elapsed < expected && mine * 5 > theirs * 4) continue;
    best = &flight;
    longest = theirs;
  }
  if (best == nullptr) return std::nullopt;
  return best->chunk;
}

Scheduler::Decision Scheduler::Next(int engine, int64_t now) {
  if (lost_[static_cast<size_t>(engine)]) return {Act::kDone};
  if (ended_ && flights_.empty() && waiting_.empty()) return {Act::kDone};
  if (!Serves(engine, now)) {
    // What those that serve cannot do is for everybody.
    for (auto it = waiting_.begin(); it != waiting_.end(); ++it) {
      if (it->refused.empty() || !IsFor(*it, engine)) continue;
      const uint64_t chunk = it->chunk;
      doing_ = std::move(it->refused);
      waiting_.erase(it);
      return {Act::kDo, chunk};
    }
    if (options_.placement.kind == Placement::Kind::kPaper) {
      if (const auto chunk = Redo(engine, !ended_, true, now)) return {Act::kRedo, *chunk};
    }
    return {Act::kWait};
  }
  const bool split = options_.placement.kind == Placement::Kind::kSplit;
  if (!split && IsFull(engine, now)) return {Act::kWait};
  for (auto it = waiting_.begin(); it != waiting_.end(); ++it) {
    if (!IsFor(*it, engine)) continue;
    // The others get it when they come: they are faster with all that is left. What one of them has
    // refused is not left to it.
    if (!split && it->refused.empty() && OthersAreFaster(engine, it->bytes, now)) {
      return {Act::kWait};
    }
    const uint64_t chunk = it->chunk;
    doing_ = std::move(it->refused);
    waiting_.erase(it);
    return {Act::kDo, chunk};
  }
  const bool window_full = claimed_ >= delivered_ + options_.window;
  if (!ended_ && !window_full) {
    if (!split && OthersAreFaster(engine, NextBytes(), now)) return {Act::kWait};
    return {Act::kTake};
  }
  // Percentages are meant as they are written: nothing is moved.
  if (!split) {
    if (const auto chunk = Redo(engine, !ended_, false, now)) return {Act::kRedo, *chunk};
  }
  return {Act::kWait};
}

bool Scheduler::Claimed(int engine, uint64_t bytes) {
  const uint64_t chunk = claimed_++;
  claimed_bytes_ += bytes;
  if (options_.placement.kind != Placement::Kind::kSplit) return true;
  const Side side = options_.placement.SideOf(chunk);
  if (!Alive(side) || side == engines_[static_cast<size_t>(engine)].side) return true;
  waiting_.push_back({chunk, bytes, side, {}});
  return false;
}

uint64_t Scheduler::Started(int engine, uint64_t chunk, uint64_t bytes, int64_t now) {
  bool redone = false;
  uint64_t ahead = 0;
  for (Flight& flight : flights_) {
    if (flight.chunk == chunk) flight.redone = redone = true;
    if (flight.engine == engine && this->engine(engine).pipeline) ahead += flight.bytes;
  }
  flights_.push_back({attempts_, engine, chunk, bytes, now, redone, redone, false,
                      Before(engine, bytes), ahead, std::exchange(doing_, {})});
  ++busy_[static_cast<size_t>(engine)];
  return attempts_++;
}

std::vector<Scheduler::Flight>::iterator Scheduler::Find(uint64_t attempt) {
  const auto it = std::find_if(flights_.begin(), flights_.end(),
                               [&](const Flight& flight) { return flight.attempt == attempt; });
  PULSE_CHECK(it != flights_.end());
  return it;
}

void Scheduler::Loaded(uint64_t attempt, int64_t now) {
  const auto it = Find(attempt);
  it->loaded = true;
  it->start = now;
}

void Scheduler::Learn(const Flight& flight, int64_t now, int64_t nanos) {
  const auto of = static_cast<size_t>(flight.engine);
  SizedRates& rates = engines_[of].rates;
  Pipe& pipe = pipes_[of];
  const int64_t since_last = now - std::exchange(pipe.last_done, now);
  if (!engines_[of].pipeline) return rates.Add(flight.bytes, nanos, now);
  // Behind others it came out so much later than they did. Alone it shows the latency, too; its
  // rate only if nobody follows who will show it better.
  if (flight.ahead > 0) return rates.Add(flight.bytes, std::min(since_last, nanos), now);
  pipe.alone_bytes = flight.bytes;
  pipe.alone_nanos = nanos;
  if (busy_[of] == 0 && rates.BytesPerSecond(flight.bytes, now) == 0) {
    rates.Add(flight.bytes, nanos, now);
  }
}

bool Scheduler::Finished(uint64_t attempt, int64_t now, int64_t before) {
  const auto it = Find(attempt);
  const Flight flight = *it;
  flights_.erase(it);
  const auto of = static_cast<size_t>(flight.engine);
  --busy_[of];
  ++finished_[of];
  Learn(flight, now, now - flight.start - before);
  if (flight.beaten) return false;
  if (options_.placement.kind == Placement::Kind::kPaper) {
    const C1 c1 = CheckC1(now);
    if (c1 == C1::kHolds) {
      bool host_busy = false;
      for (size_t i = 0; i < engines_.size(); ++i) {
        host_busy |= engines_[i].side == Side::kHost && busy_[i] > 0;
      }
      sharing_.Done(engines_[of].side, flight.bytes, host_busy,
                    RateOf(Side::kHost, options_.chunk_bytes, now), ChunksLeft(), now);
    } else if (c1 == C1::kFails) {
      sharing_.C1Failed();
    }
  }
  for (Flight& other : flights_) {
    if (other.chunk == flight.chunk) other.beaten = true;
  }
  return true;
}

bool Scheduler::IsFor(const Waiting& waiting, int engine) const {
  if (waiting.side.has_value() && *waiting.side != engines_[static_cast<size_t>(engine)].side) {
    return false;
  }
  return std::find(waiting.refused.begin(), waiting.refused.end(), engine) == waiting.refused.end();
}

bool Scheduler::Refused(uint64_t attempt) {
  const auto it = Find(attempt);
  Flight flight = std::move(*it);
  flights_.erase(it);
  --busy_[static_cast<size_t>(flight.engine)];
  flight.refused.push_back(flight.engine);
  if (flight.beaten) return false;
  for (Flight& other : flights_) {
    if (other.chunk != flight.chunk) continue;
    other.redone = false;
    other.refused.insert(other.refused.end(), flight.refused.begin(), flight.refused.end());
    return true;
  }
  if (!AnyBut(flight.refused)) return false;
  waiting_.push_front({flight.chunk, flight.bytes, std::nullopt, std::move(flight.refused)});
  return true;
}

bool Scheduler::AnyBut(const std::vector<int>& refused) const {
  for (size_t i = 0; i < engines_.size(); ++i) {
    const auto engine = static_cast<int>(i);
    if (!lost_[i] && std::find(refused.begin(), refused.end(), engine) == refused.end())
      return true;
  }
  return false;
}

bool Scheduler::any_engine() const {
  return AnyBut({}) &&
         std::all_of(waiting_.begin(), waiting_.end(),
                     [this](const Waiting& waiting) { return AnyBut(waiting.refused); });
}

bool Scheduler::Lost(uint64_t attempt) {
  const auto it = Find(attempt);
  const Flight flight = *it;
  flights_.erase(it);
  --busy_[static_cast<size_t>(flight.engine)];
  lost_[static_cast<size_t>(flight.engine)] = true;
  const Side side = engines_[static_cast<size_t>(flight.engine)].side;
  if (!Alive(side)) {
    // What was kept for it is for everybody.
    for (Waiting& waiting : waiting_) waiting.side.reset();
  }
  if (flight.beaten) return false;
  for (Flight& other : flights_) {
    if (other.chunk != flight.chunk) continue;
    other.redone = false;
    return false;
  }
  waiting_.push_front({flight.chunk, flight.bytes, std::nullopt, flight.refused});
  return true;
}

}  // namespace pulse::ops
