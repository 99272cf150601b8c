#include "placement/controller.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <utility>

namespace pulse::placement {
namespace {

constexpr double kDecay = 0.95;     // of what is known, with each compaction
constexpr int kEnough = 4;          // compactions, before a strategy is compared
constexpr int kFew = 2;             // ... before it is left for what is much better
constexpr double kMuch = 1.15;      // better
constexpr double kPromising = 1.5;  // by what is expected: tried early
constexpr int kLongTry = 4;         // compactions, beyond those that still share with others
constexpr double kHopeless = 0.7;   // of the current rate, after one compaction: tried no further
constexpr int kHold = 25;           // compactions
constexpr int kNotWhole = 8;        // in a row: there is no whole compaction for now
constexpr int kFull = 4;            // ... that the agent was too full for: it is others'
constexpr double kFar = 0.6;        // of its rate, or its rate of that: not as it was
constexpr double kFarBytes = 0.1;   // of what is remembered, at least
constexpr int kFarEnough = 4;       // ... together, one after the other: it has changed
constexpr int kMostReturns = 3;     // ... that came back: what was known of the agent is void
constexpr double kNear = 0.92;
constexpr double kMaxWait = 32;       // times forget_seconds
constexpr double kFirstBudget = 0.5;  // of the first compaction's time
constexpr double kSplitGain = 1.2;    // against host, as long as nothing is measured
constexpr double kSlowAgent = 0.3;    // of a host's core

// When the host is busy, and what is done about it.
constexpr double kBusy = 0.5;           // of its cores, from where on it counts as busy
constexpr double kNoLongerBusy = 0.35;  // ... until where
constexpr double kSpared = 1.5;         // what a byte is worth that is compacted without it
constexpr double kDemandSeconds = 30;   // over which demand is averaged
constexpr double kKnownDemand = 5;      // seconds, before it is relied on
constexpr double kKeepsUp = 1.05;       // times the demand
constexpr double kNotMuchSlower = 0.6;  // than what is best: else levels fill up in bursts
constexpr double kMuchSlower = 0.25;    // ... however little is owed
constexpr double kSlackAgain = 0.5;     // of what may be owed: below that, more
constexpr int kSpareHold = 8;           // compactions, before it is spared
constexpr int kFirstSpareHold = 100;    // ... and before it is looked whether that is still better
constexpr int kMostSpareHold = 1000;

constexpr std::array<Strategy, kStrategies> kAll = {Strategy::kSplit, Strategy::kHost,
                                                    Strategy::kSplitOverflow,
                                                    Strategy::kHostOverflow, Strategy::kWhole};

// Of a compaction on the host, with an agent of speed `sigma` for half of the work.
double SplitSpeed(double left, double sigma) { return std::min(left * kSplitGain, 2 * sigma); }

size_t Index(Strategy s) { return static_cast<size_t>(s); }

}  // namespace

const char* StrategyName(Strategy strategy) {
  switch (strategy) {
    case Strategy::kHost:
      return "host";
    case Strategy::kSplit:
      return "split";
    case Strategy::kWhole:
      return "whole";
    case Strategy::kHostOverflow:
      return "host, overflow whole";
    case Strategy::kSplitOverflow:
      return "split, overflow whole";
  }
  return "?";
}

Controller::Controller(const ControllerOptions& options) : options_(options) {}

void Controller::SetAgent(int tasks, double speed) {
  if (tasks == options_.agent_tasks && speed == options_.agent_speed) return;
  options_.agent_tasks = tasks;
  // Of several, one is there for the case that another waits for the device.
  options_.agent_cores = std::max(1, tasks - 1);
  options_.agent_speed = speed;
  // Another agent: what was known of the last one says nothing.
  for (Context& c : contexts_) c = Context();
  ForgetDemand();
  ++agent_;
}

void Controller::Returned(uint64_t id, bool full) {
  const auto it = running_.find(id);
  if (it == running_.end() || it->second.place != Place::kWhole) return;
  --at_[static_cast<size_t>(Place::kWhole)];
  it->second.place = Place::kSplit;
  (full ? it->second.overflowed : it->second.returned) = true;
  ++at_[static_cast<size_t>(Place::kSplit)];
}

bool Controller::Allowed(Strategy s, const Load& load) const {
  if (s == Strategy::kHost) return true;
  if (!load.agent) return false;
  return s == Strategy::kSplit || (load.whole && options_.agent_tasks > 0);
}

// In bytes a second: measured, or what is to be expected, given any that is measured.
double Controller::Expected(const Context& c, Strategy s, const Load& load) const {
  const Known& k = c.known[Index(s)];
  if (k.samples > 0) return k.Rate();
  for (const Strategy other : kAll) {
    const Known& o = c.known[Index(other)];
    if (o.samples > 0) return o.Rate() / Relative(other, load) * Relative(s, load);
  }
  return 0;
}

// What other work on the host leaves of the speed that compactions would have without it.
double Controller::LeftOnHost(const Load& load) const {
  const double on_host = at_[0] + at_[1] + 1;
  const double cores = options_.host_cores;
  return std::min(1.0, cores / (load.host_busy + on_host)) / std::min(1.0, cores / on_host);
}

// What is to be expected of each, against the others: nothing is measured in it. The agent is taken
// to do half of the work in split.
double Controller::Relative(Strategy s, const Load& load) const {
  const double left = LeftOnHost(load);
  const double sigma = options_.agent_speed;
  const double slots = static_cast<double>(running_.size()) + 1;
  // Of the compactions, with as many whole as the agent runs.
  const double there = std::min<double>(options_.agent_tasks, slots);
  const double whole =
      options_.agent_cores > 0 ? std::min<double>(there, options_.agent_cores) : there;
  const double split = SplitSpeed(left, sigma);
  switch (s) {
    case Strategy::kHost:
      return left;
    case Strategy::kSplit:
      return split;
    case Strategy::kWhole:
      return sigma * whole + (slots > there ? split : 0);
    case Strategy::kHostOverflow:
      return left + 0.5 * sigma * std::min(whole, slots - 1);
    case Strategy::kSplitOverflow:
      return split + 0.5 * sigma * std::min(whole, slots - 1);
  }
  return 1;
}

// As long as nothing is known.
Strategy Controller::First(const Load& load) const {
  // Which of the two is worse to begin with: split starves behind a very slow agent.
  if (!load.agent || options_.agent_speed < kSlowAgent) return Strategy::kHost;
  if (!busy_ || !load.apart || !Allowed(Strategy::kWhole, load)) return Strategy::kSplit;
  if (slack_) return Strategy::kWhole;
  // One compaction here against the same one there.
  const double sigma = options_.agent_speed;
  const double split = SplitSpeed(LeftOnHost(load), sigma);
  return sigma * kSpared >= split * kPromising ? Strategy::kWhole : Strategy::kSplit;
}

// Expected, as far as tries are concerned.
double Controller::Worth(const Context& c, Strategy s, const Load& load) const {
  const bool spares = s == Strategy::kWhole && busy_ && load.apart && c.overflows < kFull;
  return Expected(c, s, load) * (spares ? kSpared : 1);
}

double Controller::rate(Strategy strategy) const {
  return contexts_[static_cast<size_t>(context_)].known[Index(strategy)].Rate();
}

// Who runs shares the time evenly: the costs of all that ran under one strategy are together the
// time that it took.
void Controller::Account(double now) {
  if (running_.empty() && now - now_ > kDemandSeconds) {
    ForgetDemand();  // what there was before a long pause says nothing of what comes
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

Place Controller::PlaceOf(Strategy s, const Job& job, const Load& load) const {
  const int on_host = at_[0] + at_[1];
  const int kept = options_.keeps_last && !job.urgent && options_.agent_tasks > 1 ? 1 : 0;
  const bool room = load.whole && at_[2] < options_.agent_tasks - kept;
  const bool overflow = room && !job.urgent && on_host >= options_.host_cores;
  switch (s) {
    case Strategy::kHost:
      return Place::kHost;
    case Strategy::kSplit:
      return Place::kSplit;
    case Strategy::kWhole:
      return room ? Place::kWhole : Place::kSplit;
    case Strategy::kHostOverflow:
      return overflow ? Place::kWhole : Place::kHost;
    case Strategy::kSplitOverflow:
      return overflow ? Place::kWhole : Place::kSplit;
  }
  return Place::kHost;
}

void Controller::PickTry(Context* c, const Job& job, const Load& load, double now) {
  const Known& current = c->known[Index(c->current)];
  if (current.samples < kFew || c->tries_left > 0 || c->tries_out > 0) return;
  // While the host is spared whatever is faster, nobody needs to know. But once, what the agent is.
  if (c->current == Strategy::kWhole && !c->owes_split && busy_ && load.apart && MayOwe(*c)) return;
  const double bytes = static_cast<double>(job.bytes);
  const double current_worth = Worth(*c, c->current, load);
  // What promises most, first.
  std::array<Strategy, kStrategies> order = kAll;
  std::stable_sort(order.begin(), order.end(),
                   [&](Strategy a, Strategy b) { return Worth(*c, a, load) > Worth(*c, b, load); });
  for (const Strategy s : order) {
    Known& k = c->known[Index(s)];
    if (s == c->current || !Allowed(s, load)) continue;
    // One compaction at a time exceeds nothing.
    const bool overflows = s == Strategy::kHostOverflow || s == Strategy::kSplitOverflow;
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
    const bool owed = c->owes_split && pilot && s == Strategy::kSplit;
    if (!owed && current.samples < kEnough &&
        expected < current_worth * (pilot ? kPromising : kMuch)) {
      continue;
    }
    // The first ones run beside what the other strategy has begun, and are not counted.
    const int mixed = static_cast<int>(running_.size());
    const int jobs = pilot && !overflows ? 1 : kLongTry + 2 * mixed;
    // What is not known may be half as good as hoped.
    const double feared = expected * (pilot ? 0.5 : 0.9);
    const double loss = jobs * (bytes / feared - bytes / current_worth);
    if (loss > budget_ && !owed) continue;
    if (!owed) budget_ -= std::max(0.0, loss);
    c->tried = s;
    c->tries_left = jobs;
    c->tries_mixed = jobs > 1 ? mixed : 0;
    return;
  }
}

// Whole compactions leave the host to those who keep it busy. Nothing is lost by that if the agent
// gets done what there is to do now. Then those on the host do more, and more is to be compacted:
// the agent may come to its limit, and still be ahead of what there was before. Whether it is shows
// only without it: so that is looked at again, less and less often.
bool Controller::SparesHost(const Context& c, double best_rate, const Load& load) const {
  const Known& whole = c.known[Index(Strategy::kWhole)];
  if (!Allowed(Strategy::kWhole, load) || !busy_ || !load.apart) return false;
  if (c.overflows >= kFull) return false;  // they are done here
  if (MayOwe(c)) return true;
  if (whole.samples < kEnough || whole.Rate() < best_rate * kNotMuchSlower) return false;
  const bool so_far = c.current == Strategy::kWhole;
  if (so_far && c.held < c.spare_hold) return true;
  if (demand_seconds_ < kKnownDemand || demand_jobs_ < kEnough) return so_far;
  return whole.Rate() > demand_bytes_ / demand_seconds_ * kKeepsUp &&
         (so_far || c.held >= kSpareHold);
}

// By what it has shown, against whatever is known of the others; else by what it says.
bool Controller::MayOwe(const Context& c) const {
  if (!slack_ || c.overflows >= kFull) return false;
  const Known& whole = c.known[Index(Strategy::kWhole)];
  double best = 0;
  for (const Known& k : c.known) best = std::max(best, k.Rate());
  if (whole.samples > 0) return whole.Rate() >= best * kMuchSlower;
  return whole.wait == 0 && options_.agent_speed >= kSlowAgent;
}

// Whether one compaction takes longer as a whole. Rates are of all together: those of an agent with
// many slow cores say nothing of that.
bool Controller::IsSlower(const Context& c, const Load& load) const {
  if (options_.agent_cores > 1)
    return options_.agent_speed < SplitSpeed(LeftOnHost(load), options_.agent_speed);
  return Expected(c, Strategy::kSplit, load) > Expected(c, Strategy::kWhole, load);
}

void Controller::NoteDebt(double owed) {
  const bool slack = owed >= 0 && owed < (slack_ ? 1 : kSlackAgain);
  if (std::exchange(slack_, slack) == slack || slack) return;
  // What was begun for that is not held any longer.
  for (Context& c : contexts_) {
    if (c.current == Strategy::kWhole) c.spare_hold = std::min(c.spare_hold, c.held);
  }
}

std::string Controller::Reconsider(Context* c, const Load& load) {
  Strategy best = c->current;
  const auto rate = [&](Strategy s) { return c->known[Index(s)].Rate(); };
  if (!Allowed(best, load)) best = load.agent ? Strategy::kSplit : Strategy::kHost;
  if (best != c->current || c->known[Index(best)].samples >= kFew) {
    for (const Strategy s : kAll) {
      if (!Allowed(s, load) || c->known[Index(s)].samples < kEnough) continue;
      if (rate(s) > rate(best) * (1 + options_.switch_gain)) best = s;
    }
    // Unless it is much better, it waits until the current one has had its time.
    const bool soon = c->held < kHold || c->known[Index(c->current)].samples < kEnough;
    if (soon && Allowed(c->current, load) && rate(best) < rate(c->current) * kMuch)
      best = c->current;
  }
  const bool spares = SparesHost(*c, rate(best), load);
  if (spares) best = Strategy::kWhole;
  if (best == c->current) return "";
  std::string rates;
  for (const Strategy s : kAll) {
    if (c->known[Index(s)].samples == 0) continue;
    char text[96];
    std::snprintf(text, sizeof(text), "%s%s %.0f MB/s", rates.empty() ? "" : "; ", StrategyName(s),
                  rate(s) / 1e6);
    rates += text;
  }
  char text[480];
  std::snprintf(text, sizeof(text), "%s -> %s (%s, %s host, %s: %s)", StrategyName(c->current),
                StrategyName(best),
                !spares  ? "measured"
                : slack_ ? "little is owed, and the host is spared; measured"
                         : "the agent keeps up, and the host is spared; measured",
                busy_ ? "busy" : "idle",
                running_.empty() ? "one compaction" : "several compactions",
                load.agent ? rates.c_str() : "there is no agent");
  if (spares && c->left_whole) {
    // Soon again: the look was not worth it.
    c->spare_hold =
        c->held <= 4 * kSpareHold ? std::min(2 * c->spare_hold, kMostSpareHold) : kFirstSpareHold;
  }
  if (spares) c->spare_hold = std::max(c->spare_hold, kFirstSpareHold);
  c->left_whole =
      c->current == Strategy::kWhole && Allowed(Strategy::kWhole, load) && c->held >= c->spare_hold;
  if (busy_) ForgetDemand();
  Known& left = c->known[Index(c->current)];
  left.far = 0;
  left.far_bytes = left.far_seconds = 0;
  c->current = best;
  c->held = 0;
  c->tries_left = 0;
  return text;
}

Choice Controller::Begin(uint64_t id, const Job& job, const Load& load, double now) {
  Account(now);
  const bool busy = load.host_busy >= (busy_ ? kNoLongerBusy : kBusy) * options_.host_cores;
  if (std::exchange(busy_, busy) != busy) ForgetDemand();
  NoteDebt(load.owed);
  context_ = (busy_ ? 2 : 0) + (running_.empty() ? 0 : 1);
  Context& c = contexts_[static_cast<size_t>(context_)];
  if (!c.begun) {
    c.begun = true;
    c.current = First(load);
    c.owes_split = c.current == Strategy::kWhole;
    // Whether the agent keeps up is not known then.
    c.spare_hold = c.owes_split ? kHold : kFirstSpareHold;
  }
  Choice choice;
  Running r{job, Place::kHost, context_, c.current};
  // One that cannot be done whole says nothing of the others, unless all are like that.
  c.not_whole = load.whole ? 0 : c.not_whole + 1;
  const bool apart =
      c.current == Strategy::kWhole && load.agent && !load.whole && c.not_whole <= kNotWhole;
  if (apart) {
    r.counts = false;
  } else {
    ++c.held;
    LookAtOverdue(&c, now);
    choice.why = Reconsider(&c, load);
    PickTry(&c, job, load, now);
    r.strategy = c.current;
  }
  if (!apart && c.tries_left > 0 && Allowed(c.tried, load)) {
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
  if (r.place == Place::kWhole && r.strategy == Strategy::kWhole && job.pressing && !r.is_try &&
      IsSlower(c, load)) {
    r.place = Place::kSplit;
    r.counts = false;
  }
  if (!r.is_try && r.place != Place::kWhole) local_ = r.place;
  choice.place = r.place;
  ++at_[static_cast<size_t>(r.place)];
  running_[id] = r;
  return choice;
}

void Controller::TryLater(Known* k, double now) const {
  k->at = now;
  k->wait =
      std::min(kMaxWait * options_.forget_seconds, std::max(options_.forget_seconds, k->wait * 2));
}

// How many times kFar it is below the rate: negative, and never enough alone; 1: above.
int Controller::HowFar(const Known& k, const Running& r) {
  const double rate = k.Rate();
  if (k.samples < kEnough || r.cost <= 0 || r.job.bytes == 0) return 0;
  const double times =
      std::log(static_cast<double>(r.job.bytes) / (rate * r.cost)) / -std::log(kFar);
  // One that had little to do says nothing of how fast the others are.
  return static_cast<int>(std::clamp<double>(times, 1 - kFarEnough, 1));
}

// A compaction that runs for so long already that it is far below the rate, whenever it ends. Begun
// after the last that was: those beside it are slow for the same reason, which may be over.
void Controller::LookAtOverdue(Context* c, double now) {
  Known& k = c->known[Index(c->current)];
  if (k.far >= 0) return;
  Running* worst = nullptr;
  int far = 0;
  for (auto& [id, r] : running_) {
    if (!r.counts || r.agent != agent_ || r.returned || r.strategy != c->current) continue;
    if (&contexts_[static_cast<size_t>(r.context)] != c || r.begun < k.far_at) continue;
    if (const int how = HowFar(k, r); how < far) {
      far = how;
      worst = &r;
    }
  }
  if (worst == nullptr || k.far + far > -kFarEnough) return;
  const double bytes = k.far_bytes + static_cast<double>(worst->job.bytes);
  if (bytes < k.bytes * kFarBytes) return;
  worst->counts = false;  // any more
  Change(c, &k, bytes, k.far_seconds + worst->cost, now);
}

// What is known of a strategy is what was seen since it is another than it was; and the others may
// have changed as well, which is not looked at every time.
void Controller::Change(Context* c, Known* k, double bytes, double seconds, double now) {
  k->bytes = bytes;
  k->seconds = seconds;
  k->samples = kEnough;
  k->far = 0;
  k->far_bytes = k->far_seconds = 0;
  k->at = now;
  if (now - c->changed_at < options_.forget_seconds) return;
  c->changed_at = now;
  for (Known& other : c->known) {
    if (&other == k || other.samples == 0 || other.returns > 0) continue;
    other.wait = 0;
    other.at = std::min(other.at, now - options_.forget_seconds);
  }
  budget_ = std::max(budget_, 0.5 * seconds);
}

bool Controller::HasChanged(Context* c, Known* k, const Running& r, double now) {
  const int how = HowFar(*k, r);
  const int side = (how > 0) - (how < 0);
  if (side != 0 && side * k->far > 0 && r.begun < k->far_at) return false;
  if (side == 0 || side * k->far < 0) {
    k->far = 0;
    k->far_bytes = k->far_seconds = 0;
  }
  if (side == 0) return false;
  k->far += how;
  k->far_bytes += static_cast<double>(r.job.bytes);
  k->far_seconds += r.cost;
  k->far_at = now;
  // Small ones say little of what is compacted.
  if (std::abs(k->far) < kFarEnough || k->far_bytes < k->bytes * kFarBytes) return false;
  Change(c, k, k->far_bytes, k->far_seconds, now);
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
  if (r.agent != agent_) return;  // its context is gone
  Context& c = contexts_[static_cast<size_t>(r.context)];
  if (r.is_try) --c.tries_out;
  // Begun by what the agent had said, and it does none: there is nothing to compare, and nothing to
  // stay for.
  if ((r.returned || (!counts && r.place == Place::kWhole)) && !r.is_try &&
      r.strategy == Strategy::kWhole && c.current == Strategy::kWhole &&
      c.known[Index(Strategy::kWhole)].samples == 0) {
    c.current = Strategy::kSplit;
    c.held = 0;
    c.owes_split = false;
    if (!r.returned) TryLater(&c.known[Index(Strategy::kWhole)], now);
  }
  if (r.returned) {
    // It has cost time and said nothing: not again soon.
    Known& k = c.known[Index(r.strategy)];
    // Those that were under way together come back for one reason: an agent that was started anew.
    const bool another = r.begun > k.returned_at;
    if (another) {
      TryLater(&k, now);
      k.returned_at = now;
      ++k.returns;
    }
    if (r.is_try) c.tries_left = 0;
    if (another && k.returns >= kMostReturns) {
      // An agent that was fast once does nothing now.
      k.bytes = k.seconds = 0;
      k.samples = 0;
      if (c.current == r.strategy) {
        c.current = r.strategy == Strategy::kHostOverflow ? Strategy::kHost : Strategy::kSplit;
        c.held = 0;
        c.tries_left = 0;
      }
    }
    budget_ = std::max(-r.cost, budget_ - r.cost);
    return;
  }
  if (r.is_try && !counts) TryLater(&c.known[Index(r.strategy)], now);
  if (counts && r.place == Place::kWhole) {
    c.known[Index(r.strategy)].returns = 0;
    c.overflows = 0;
  }
  if (counts && r.overflowed) ++c.overflows;
  if (!counts || !r.counts || r.job.bytes == 0) return;
  if (budget_ < r.cost && c.known[Index(r.strategy)].samples == 0 && !r.is_try) {
    budget_ += r.cost * kFirstBudget;
  }
  if (r.strategy == Strategy::kSplit) c.owes_split = false;
  Known& k = c.known[Index(r.strategy)];
  if (r.strategy == c.current && HasChanged(&c, &k, r, now)) return;
  const bool stale = k.samples > 0 && now - k.at > options_.forget_seconds;
  const double keep = stale ? 0.3 : kDecay;
  k.bytes = k.bytes * keep + static_cast<double>(r.job.bytes);
  k.seconds = k.seconds * keep + r.cost;
  k.at = now;
  ++k.samples;
  if (r.is_try) {
    // A try that showed nothing better is made again later, and later still.
    // As good as the current one, within noise: it costs nothing to know it better.
    const bool near = k.Rate() > c.known[Index(c.current)].Rate() * kNear;
    if (near) {
      k.wait = 0;
    } else {
      TryLater(&k, now);
    }
  }
}

}  // namespace pulse::placement
