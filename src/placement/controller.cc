#include "placement/controller.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <utility>

namespace pulse::placement {
namespace {

constexpr double kDecay = 0.95;     // of what was measured, with each compaction
constexpr int kEnough = 4;          // compactions, before a strategy is compared
constexpr int kFew = 2;             // ... before it is left for one that is much better
constexpr double kMuch = 1.15;      // times a rate: much better
constexpr double kPromising = 1.5;  // times a rate, as expected: tried early
constexpr int kLongTry = 4;         // compactions, beyond those that run beside another strategy's
constexpr double kHopeless = 0.7;   // of the current rate, after one compaction: tried no further
constexpr int kHold = 25;           // compactions, before a change to what is not much better
constexpr int kNotOffloadable = 8;  // in a row: the agent can do none for now
constexpr int kFull = 4;            // ... that the agent was full for: other processes have it
constexpr double kDeviation = 0.6;  // of the rate, or its inverse: one deviation
constexpr double kDeviationBytes = 0.1;  // of what was measured, before deviations count
constexpr int kChangeDeviation = 4;      // in sum: the rate has changed
constexpr int kMostReturns = 3;          // in a row: measurements of the strategy are void
constexpr double kNear = 0.92;           // of the current rate: as good, within noise
constexpr double kMaxWait = 32;          // times forget_seconds
constexpr double kFirstBudget = 0.5;     // of the first compaction's time
constexpr double kOffloadIoGain = 1.2;   // against Host, as long as nothing is measured
constexpr double kSlowAgent = 0.3;       // of a host's core

// Sparing a busy host.
constexpr double kBusy = 0.5;           // of its cores: from here on it counts as busy
constexpr double kNoLongerBusy = 0.35;  // ... and below this no longer
constexpr double kSpared = 1.5;         // what a byte is worth that is compacted without it
constexpr double kDemandSeconds = 30;   // over which demand is averaged
constexpr double kKnownDemand = 5;      // seconds, before demand is relied on
constexpr double kKeepsUp = 1.05;       // times the demand
constexpr double kNotMuchSlower = 0.6;  // than the best rate: else levels fill up in bursts
constexpr double kMuchSlower = 0.25;    // than the best rate: too slow even if it may be deferred
constexpr double kDeferAgain = 0.5;     // of the pending-compaction limit, once it was reached
constexpr int kSpareHold = 8;           // compactions, before a busy host is spared
constexpr int kFirstSpareHold = 100;    // ... before it is checked whether that is still better
constexpr int kMostSpareHold = 1000;

constexpr std::array<Strategy, kStrategies> kAll = {Strategy::kOffloadIo, Strategy::kHost,
                                                    Strategy::kOffloadIoOverflow,
                                                    Strategy::kHostOverflow, Strategy::kOffloadAll};

// The speed of OffloadIo: the host, of whose speed `left` is left, and an agent of speed `sigma` do
// half of the work each.
double OffloadIoSpeed(double left, double sigma) {
  return std::min(left * kOffloadIoGain, 2 * sigma);
}

size_t Index(Strategy s) { return static_cast<size_t>(s); }

}  // namespace

const char* StrategyName(Strategy strategy) {
  switch (strategy) {
    case Strategy::kHost:
      return "host";
    case Strategy::kOffloadIo:
      return "split";
    case Strategy::kOffloadAll:
      return "whole";
    case Strategy::kHostOverflow:
      return "host, overflow whole";
    case Strategy::kOffloadIoOverflow:
      return "split, overflow whole";
  }
  return "?";
}

Controller::Controller(const ControllerOptions& options) : options_(options) {}

void Controller::SetAgent(int tasks, double speed) {
  if (tasks == options_.agent_tasks && speed == options_.agent_speed) return;
  options_.agent_tasks = tasks;
  // Of several tasks, one is there for the case that another waits for the device.
  options_.agent_cores = std::max(1, tasks - 1);
  options_.agent_speed = speed;
  // Another agent: measurements of the last one are void.
  for (Context& c : contexts_) c = Context();
  ForgetDemand();
  ++agent_;
}

void Controller::Returned(uint64_t id, bool full) {
  const auto it = running_.find(id);
  if (it == running_.end() || it->second.place != Place::kOffloadAll) return;
  --at_[static_cast<size_t>(Place::kOffloadAll)];
  it->second.place = Place::kOffloadIo;
  it->second.returned = full ? Return::kAgentFull : Return::kFailed;
  ++at_[static_cast<size_t>(Place::kOffloadIo)];
}

bool Controller::Allowed(Strategy s, const Load& load) const {
  if (s == Strategy::kHost) return true;
  if (!load.agent) return false;
  return s == Strategy::kOffloadIo || (load.can_offload_all && options_.agent_tasks > 0);
}

// In bytes per second: measured, or estimated from any strategy that is measured.
double Controller::Expected(const Context& c, Strategy s, const Load& load) const {
  const Measured& k = c.measured[Index(s)];
  if (k.samples > 0) return k.Rate();
  for (const Strategy other : kAll) {
    const Measured& o = c.measured[Index(other)];
    if (o.samples > 0) return o.Rate() / Relative(other, load) * Relative(s, load);
  }
  return 0;
}

// The part of its speed that a compaction on the host keeps beside other work.
double Controller::HostSpeedLeft(const Load& load) const {
  const double on_host = at_[0] + at_[1] + 1;
  const double cores = options_.host_cores;
  return std::min(1.0, cores / (load.host_busy + on_host)) / std::min(1.0, cores / on_host);
}

// An estimate of a strategy's rate against the others', from speeds and loads alone. In OffloadIo
// the agent is assumed to do half of the work.
double Controller::Relative(Strategy s, const Load& load) const {
  const double left = HostSpeedLeft(load);
  const double sigma = options_.agent_speed;
  const double slots = static_cast<double>(running_.size()) + 1;
  // Compactions on the agent: as many as it runs.
  const double there = std::min<double>(options_.agent_tasks, slots);
  const double whole =
      options_.agent_cores > 0 ? std::min<double>(there, options_.agent_cores) : there;
  const double split = OffloadIoSpeed(left, sigma);
  switch (s) {
    case Strategy::kHost:
      return left;
    case Strategy::kOffloadIo:
      return split;
    case Strategy::kOffloadAll:
      return sigma * whole + (slots > there ? split : 0);
    case Strategy::kHostOverflow:
      return left + 0.5 * sigma * std::min(whole, slots - 1);
    case Strategy::kOffloadIoOverflow:
      return split + 0.5 * sigma * std::min(whole, slots - 1);
  }
  return 1;
}

// While nothing is measured.
Strategy Controller::First(const Load& load) const {
  // Behind a very slow agent OffloadIo would starve.
  if (!load.agent || options_.agent_speed < kSlowAgent) return Strategy::kHost;
  if (!busy_ || !load.separate_cpus || !Allowed(Strategy::kOffloadAll, load))
    return Strategy::kOffloadIo;
  if (may_defer_) return Strategy::kOffloadAll;
  // One compaction on the host against the same one on the agent.
  const double sigma = options_.agent_speed;
  const double split = OffloadIoSpeed(HostSpeedLeft(load), sigma);
  return sigma * kSpared >= split * kPromising ? Strategy::kOffloadAll : Strategy::kOffloadIo;
}

// Expected, for the choice of tries: what spares a busy host counts more.
double Controller::Worth(const Context& c, Strategy s, const Load& load) const {
  const bool spares =
      s == Strategy::kOffloadAll && busy_ && load.separate_cpus && c.overflows < kFull;
  return Expected(c, s, load) * (spares ? kSpared : 1);
}

double Controller::rate(Strategy strategy) const {
  return contexts_[static_cast<size_t>(context_)].measured[Index(strategy)].Rate();
}

// Running compactions share the passing time evenly, so the costs of all compactions of a strategy
// add up to the time that it took.
void Controller::Account(double now) {
  if (running_.empty() && now - now_ > kDemandSeconds) {
    ForgetDemand();  // after a long pause the demand may be another
  } else if (now > now_) {
    const double keep = std::exp((now_ - now) / kDemandSeconds);
    demand_bytes_ *= keep;
    demand_seconds_ = demand_seconds_ * keep + (now - now_);
  }
  if (!running_.empty()) {
    const double share = (now - now_) / static_cast<double>(running_.size());
    for (auto& [id, r] : running_) r.cost += share;
    budget_ += (now - now_) * options_.try_share;
  }
  now_ = std::max(now_, now);
}

Place Controller::PlaceOf(Strategy s, const Compaction& job, const Load& load) const {
  const int on_host = at_[0] + at_[1];
  const int kept = options_.keeps_last && !job.urgent && options_.agent_tasks > 1 ? 1 : 0;
  const bool room = load.can_offload_all && at_[2] < options_.agent_tasks - kept;
  const bool overflow = room && !job.urgent && on_host >= options_.host_cores;
  switch (s) {
    case Strategy::kHost:
      return Place::kHost;
    case Strategy::kOffloadIo:
      return Place::kOffloadIo;
    case Strategy::kOffloadAll:
      return room ? Place::kOffloadAll : Place::kOffloadIo;
    case Strategy::kHostOverflow:
      return overflow ? Place::kOffloadAll : Place::kHost;
    case Strategy::kOffloadIoOverflow:
      return overflow ? Place::kOffloadAll : Place::kOffloadIo;
  }
  return Place::kHost;
}

void Controller::PickTry(Context* c, const Compaction& job, const Load& load, double now) {
  const Measured& current = c->measured[Index(c->current)];
  if (current.samples < kFew || c->tries_left > 0 || c->tries_out > 0) return;
  // While the host is spared in any case, only the one try that checks the agent is of use.
  if (c->current == Strategy::kOffloadAll && !c->must_try_offload_io && busy_ &&
      load.separate_cpus && MayDefer(*c))
    return;
  const double bytes = static_cast<double>(job.bytes);
  const double current_worth = Worth(*c, c->current, load);
  // The most promising first.
  std::array<Strategy, kStrategies> order = kAll;
  std::stable_sort(order.begin(), order.end(),
                   [&](Strategy a, Strategy b) { return Worth(*c, a, load) > Worth(*c, b, load); });
  for (const Strategy s : order) {
    Measured& k = c->measured[Index(s)];
    if (s == c->current || !Allowed(s, load)) continue;
    // With one compaction at a time there is no overflow.
    const bool overflows = s == Strategy::kHostOverflow || s == Strategy::kOffloadIoOverflow;
    if (overflows && running_.empty()) continue;
    const bool pilot = k.samples == 0;
    const bool promising = k.samples > 0 && k.samples < kEnough;
    if (pilot && k.wait > 0 && now - k.at < k.wait) continue;
    if (!pilot && !promising && now - k.at < std::max(options_.forget_seconds, k.wait)) continue;
    const double expected = Worth(*c, s, load);
    if (expected <= 0) continue;
    if (promising && expected < current_worth * kHopeless &&
        now - k.at < std::max(options_.forget_seconds, k.wait)) {
      continue;
    }
    const bool must_try = c->must_try_offload_io && pilot && s == Strategy::kOffloadIo;
    if (!must_try && current.samples < kEnough &&
        expected < current_worth * (pilot ? kPromising : kMuch)) {
      continue;
    }
    // The first ones run beside compactions of the other strategy, and are not counted.
    const int mixed = static_cast<int>(running_.size());
    const int jobs = pilot && !overflows ? 1 : kLongTry + 2 * mixed;
    // A strategy that is not measured may be half as good as estimated.
    const double feared = expected * (pilot ? 0.5 : 0.9);
    const double loss = jobs * (bytes / feared - bytes / current_worth);
    if (loss > budget_ && !must_try) continue;
    if (!must_try) budget_ -= std::max(0.0, loss);
    c->tried = s;
    c->tries_left = jobs;
    c->tries_mixed = jobs > 1 ? mixed : 0;
    return;
  }
}

// OffloadAll leaves a busy host to its other work. Nothing is lost by that if the agent keeps up
// with the demand. The other work then gets more done, and makes more to compact: the agent may
// come to its limit, and still be ahead of the demand before. Whether it is ahead shows only under
// another strategy, which is checked again and again, less and less often.
bool Controller::SparesHost(const Context& c, double best_rate, const Load& load) const {
  const Measured& whole = c.measured[Index(Strategy::kOffloadAll)];
  if (!Allowed(Strategy::kOffloadAll, load) || !busy_ || !load.separate_cpus) return false;
  if (c.overflows >= kFull) return false;  // the host does them after all
  if (MayDefer(c)) return true;
  if (whole.samples < kEnough || whole.Rate() < best_rate * kNotMuchSlower) return false;
  const bool is_current = c.current == Strategy::kOffloadAll;
  if (is_current && c.held < c.spare_hold) return true;
  if (demand_seconds_ < kKnownDemand || demand_jobs_ < kEnough) return is_current;
  return whole.Rate() > demand_bytes_ / demand_seconds_ * kKeepsUp &&
         (is_current || c.held >= kSpareHold);
}

// By its measured rate against the best one; without one, by the speed that the agent tells.
bool Controller::MayDefer(const Context& c) const {
  if (!may_defer_ || c.overflows >= kFull) return false;
  const Measured& whole = c.measured[Index(Strategy::kOffloadAll)];
  double best = 0;
  for (const Measured& k : c.measured) best = std::max(best, k.Rate());
  if (whole.samples > 0) return whole.Rate() >= best * kMuchSlower;
  return whole.wait == 0 && options_.agent_speed >= kSlowAgent;
}

// Whether one compaction takes longer with OffloadAll. Rates are of all compactions together: for
// an agent with many slow cores they do not tell the time of one.
bool Controller::IsOffloadAllSlower(const Context& c, const Load& load) const {
  if (options_.agent_cores > 1)
    return options_.agent_speed < OffloadIoSpeed(HostSpeedLeft(load), options_.agent_speed);
  return Expected(c, Strategy::kOffloadIo, load) > Expected(c, Strategy::kOffloadAll, load);
}

void Controller::UpdateMayDefer(double pending_ratio) {
  const bool may_defer = pending_ratio >= 0 && pending_ratio < (may_defer_ ? 1 : kDeferAgain);
  if (std::exchange(may_defer_, may_defer) == may_defer || may_defer) return;
  // A strategy that was chosen for that is held no longer.
  for (Context& c : contexts_) {
    if (c.current == Strategy::kOffloadAll) c.spare_hold = std::min(c.spare_hold, c.held);
  }
}

std::string Controller::Reconsider(Context* c, const Load& load) {
  Strategy best = c->current;
  const auto rate = [&](Strategy s) { return c->measured[Index(s)].Rate(); };
  if (!Allowed(best, load)) best = load.agent ? Strategy::kOffloadIo : Strategy::kHost;
  if (best != c->current || c->measured[Index(best)].samples >= kFew) {
    for (const Strategy s : kAll) {
      if (!Allowed(s, load) || c->measured[Index(s)].samples < kEnough) continue;
      if (rate(s) > rate(best) * (1 + options_.switch_gain)) best = s;
    }
    // Unless it is much better, the current one is held for some compactions first.
    const bool soon = c->held < kHold || c->measured[Index(c->current)].samples < kEnough;
    if (soon && Allowed(c->current, load) && rate(best) < rate(c->current) * kMuch)
      best = c->current;
  }
  const bool spares = SparesHost(*c, rate(best), load);
  if (spares) best = Strategy::kOffloadAll;
  if (best == c->current) return "";
  std::string rates;
  for (const Strategy s : kAll) {
    if (c->measured[Index(s)].samples == 0) continue;
    char text[96];
    std::snprintf(text, sizeof(text), "%s%s %.0f MB/s", rates.empty() ? "" : "; ", StrategyName(s),
                  rate(s) / 1e6);
    rates += text;
  }
  char text[480];
  std::snprintf(text, sizeof(text), "%s -> %s (%s, %s host, %s: %s)", StrategyName(c->current),
                StrategyName(best),
                !spares      ? "measured"
                : may_defer_ ? "little compaction is pending, and the host is spared; measured"
                             : "the agent keeps up, and the host is spared; measured",
                busy_ ? "busy" : "idle",
                running_.empty() ? "one compaction" : "several compactions",
                load.agent ? rates.c_str() : "there is no agent");
  if (spares && c->left_offload_all) {
    // Chosen again soon: the check was not worth it, so the next one comes later.
    c->spare_hold =
        c->held <= 4 * kSpareHold ? std::min(2 * c->spare_hold, kMostSpareHold) : kFirstSpareHold;
  }
  if (spares) c->spare_hold = std::max(c->spare_hold, kFirstSpareHold);
  c->left_offload_all = c->current == Strategy::kOffloadAll &&
                        Allowed(Strategy::kOffloadAll, load) && c->held >= c->spare_hold;
  if (busy_) ForgetDemand();
  Measured& left = c->measured[Index(c->current)];
  left.deviation = 0;
  left.deviation_bytes = left.deviation_seconds = 0;
  c->current = best;
  c->held = 0;
  c->tries_left = 0;
  return text;
}

Choice Controller::Begin(uint64_t id, const Compaction& job, const Load& load, double now) {
  Account(now);
  const bool busy = load.host_busy >= (busy_ ? kNoLongerBusy : kBusy) * options_.host_cores;
  if (std::exchange(busy_, busy) != busy) ForgetDemand();
  UpdateMayDefer(load.pending_ratio);
  context_ = (busy_ ? 2 : 0) + (running_.empty() ? 0 : 1);
  Context& c = contexts_[static_cast<size_t>(context_)];
  if (!c.begun) {
    c.begun = true;
    c.current = First(load);
    c.must_try_offload_io = c.current == Strategy::kOffloadAll;
    // It is not measured yet whether the agent keeps up.
    c.spare_hold = c.must_try_offload_io ? kHold : kFirstSpareHold;
  }
  Choice choice;
  Running r{job, Place::kHost, context_, c.current};
  // A compaction that the agent cannot do is left out of account, unless there are only such.
  c.not_offloadable = load.can_offload_all ? 0 : c.not_offloadable + 1;
  const bool left_out = c.current == Strategy::kOffloadAll && load.agent && !load.can_offload_all &&
                        c.not_offloadable <= kNotOffloadable;
  if (left_out) {
    r.counts = false;
  } else {
    ++c.held;
    CheckOverdue(&c, now);
    choice.why = Reconsider(&c, load);
    PickTry(&c, job, load, now);
    r.strategy = c.current;
  }
  if (!left_out && c.tries_left > 0 && Allowed(c.tried, load)) {
    --c.tries_left;
    ++c.tries_out;
    r.strategy = c.tried;
    r.is_try = true;
    r.counts = c.tries_mixed == 0;
    if (c.tries_mixed > 0) --c.tries_mixed;
  }
  r.begun = now;
  r.agent = agent_;
  r.place = PlaceOf(r.strategy, job, load);
  if (r.place == Place::kOffloadAll && r.strategy == Strategy::kOffloadAll && job.about_to_stall &&
      !r.is_try && IsOffloadAllSlower(c, load)) {
    r.place = Place::kOffloadIo;
    r.counts = false;
  }
  if (!r.is_try && r.place != Place::kOffloadAll) local_ = r.place;
  choice.place = r.place;
  ++at_[static_cast<size_t>(r.place)];
  running_[id] = r;
  return choice;
}

void Controller::TryLater(Measured* k, double now) const {
  k->at = now;
  k->wait =
      std::min(kMaxWait * options_.forget_seconds, std::max(options_.forget_seconds, k->wait * 2));
}

// By how many deviations a compaction is below the rate, as a negative number, which alone is never
// enough for a change; 1: above the rate by one deviation or more; 0: near it.
int Controller::Deviation(const Measured& k, const Running& r) {
  const double rate = k.Rate();
  if (k.samples < kEnough || r.cost <= 0 || r.job.bytes == 0) return 0;
  const double times =
      std::log(static_cast<double>(r.job.bytes) / (rate * r.cost)) / -std::log(kDeviation);
  // Clamped, as a small compaction does not tell how fast the others are.
  return static_cast<int>(std::clamp<double>(times, 1 - kChangeDeviation, 1));
}

// Looks for a running compaction that takes so long already that it is far below the rate, whenever
// it ends. It must have begun after the last slow one: those beside that one were slow for the same
// reason, which may be over.
void Controller::CheckOverdue(Context* c, double now) {
  Measured& k = c->measured[Index(c->current)];
  if (k.deviation >= 0) return;
  Running* worst = nullptr;
  int deviation = 0;
  for (auto& [id, r] : running_) {
    if (!r.counts || r.agent != agent_ || r.returned == Return::kFailed || r.strategy != c->current)
      continue;
    if (&contexts_[static_cast<size_t>(r.context)] != c || r.begun < k.deviation_at) continue;
    if (const int how = Deviation(k, r); how < deviation) {
      deviation = how;
      worst = &r;
    }
  }
  if (worst == nullptr || k.deviation + deviation > -kChangeDeviation) return;
  const double bytes = k.deviation_bytes + static_cast<double>(worst->job.bytes);
  if (bytes < k.bytes * kDeviationBytes) return;
  worst->counts = false;  // it is counted now
  Change(c, &k, bytes, k.deviation_seconds + worst->cost, now);
}

// Sets a strategy's rate to that of the compactions since it has changed. The others may have
// changed as well, so they may be tried again, once in forget_seconds.
void Controller::Change(Context* c, Measured* k, double bytes, double seconds, double now) {
  k->bytes = bytes;
  k->seconds = seconds;
  k->samples = kEnough;
  k->deviation = 0;
  k->deviation_bytes = k->deviation_seconds = 0;
  k->at = now;
  if (now - c->changed_at < options_.forget_seconds) return;
  c->changed_at = now;
  for (Measured& other : c->measured) {
    if (&other == k || other.samples == 0 || other.returns > 0) continue;
    other.wait = 0;
    other.at = std::min(other.at, now - options_.forget_seconds);
  }
  budget_ = std::max(budget_, 0.5 * seconds);
}

bool Controller::HasChanged(Context* c, Measured* k, const Running& r, double now) {
  const int how = Deviation(*k, r);
  const int side = (how > 0) - (how < 0);
  if (side != 0 && side * k->deviation > 0 && r.begun < k->deviation_at) return false;
  if (side == 0 || side * k->deviation < 0) {
    k->deviation = 0;
    k->deviation_bytes = k->deviation_seconds = 0;
  }
  if (side == 0) return false;
  k->deviation += how;
  k->deviation_bytes += static_cast<double>(r.job.bytes);
  k->deviation_seconds += r.cost;
  k->deviation_at = now;
  // A few small compactions do not show a change.
  if (std::abs(k->deviation) < kChangeDeviation || k->deviation_bytes < k->bytes * kDeviationBytes)
    return false;
  Change(c, k, k->deviation_bytes, k->deviation_seconds, now);
  return true;
}

void Controller::ForgetDemand() {
  demand_bytes_ = demand_seconds_ = 0;
  demand_jobs_ = 0;
}

void Controller::End(uint64_t id, double now, bool counts) {
  Account(now);
  const auto it = running_.find(id);
  if (it == running_.end()) return;
  const Running r = it->second;
  running_.erase(it);
  --at_[static_cast<size_t>(r.place)];
  if (counts) {
    demand_bytes_ += static_cast<double>(r.job.bytes);
    ++demand_jobs_;
  }
  if (r.agent != agent_) return;  // its context was reset
  Context& c = contexts_[static_cast<size_t>(r.context)];
  if (r.is_try) --c.tries_out;
  const bool failed = r.returned == Return::kFailed;
  // OffloadAll was the first strategy, by what the agent tells, and the agent does none.
  if ((failed || (!counts && r.place == Place::kOffloadAll)) && !r.is_try &&
      r.strategy == Strategy::kOffloadAll && c.current == Strategy::kOffloadAll &&
      c.measured[Index(Strategy::kOffloadAll)].samples == 0) {
    c.current = Strategy::kOffloadIo;
    c.held = 0;
    c.must_try_offload_io = false;
    if (!failed) TryLater(&c.measured[Index(Strategy::kOffloadAll)], now);
  }
  if (failed) {
    // It has cost time and measured nothing: not again soon.
    Measured& k = c.measured[Index(r.strategy)];
    // Compactions that ran together return for one reason, such as an agent that was restarted.
    const bool another = r.begun > k.returned_at;
    if (another) {
      TryLater(&k, now);
      k.returned_at = now;
      ++k.returns;
    }
    if (r.is_try) c.tries_left = 0;
    if (another && k.returns >= kMostReturns) {
      // The agent was fast once, and does nothing now.
      k.bytes = k.seconds = 0;
      k.samples = 0;
      if (c.current == r.strategy) {
        c.current = r.strategy == Strategy::kHostOverflow ? Strategy::kHost : Strategy::kOffloadIo;
        c.held = 0;
        c.tries_left = 0;
      }
    }
    budget_ = std::max(-r.cost, budget_ - r.cost);
    return;
  }
  if (r.is_try && !counts) TryLater(&c.measured[Index(r.strategy)], now);
  if (counts && r.place == Place::kOffloadAll) {
    c.measured[Index(r.strategy)].returns = 0;
    c.overflows = 0;
  }
  if (counts && r.returned == Return::kAgentFull) ++c.overflows;
  if (!counts || !r.counts || r.job.bytes == 0) return;
  if (budget_ < r.cost && c.measured[Index(r.strategy)].samples == 0 && !r.is_try) {
    budget_ += r.cost * kFirstBudget;
  }
  if (r.strategy == Strategy::kOffloadIo) c.must_try_offload_io = false;
  Measured& k = c.measured[Index(r.strategy)];
  if (r.strategy == c.current && HasChanged(&c, &k, r, now)) return;
  const bool stale = k.samples > 0 && now - k.at > options_.forget_seconds;
  const double keep = stale ? 0.3 : kDecay;
  k.bytes = k.bytes * keep + static_cast<double>(r.job.bytes);
  k.seconds = k.seconds * keep + r.cost;
  k.at = now;
  ++k.samples;
  if (r.is_try) {
    // A try that gained nothing is repeated later and later; one that was as good as the current
    // strategy costs nothing, and is repeated soon.
    const bool near = k.Rate() > c.measured[Index(c.current)].Rate() * kNear;
    if (near) {
      k.wait = 0;
    } else {
      TryLater(&k, now);
    }
  }
}

}  // namespace pulse::placement
