#include "placement/controller.h"

#include <algorithm>
#include <cstdio>

namespace pulse::placement {
namespace {

constexpr double kDecay = 0.95;    // of what is known, with each compaction
constexpr int kEnough = 4;         // compactions, before a strategy is compared
constexpr int kLongTry = 4;        // compactions, beyond those that still share with others
constexpr double kHopeless = 0.7;  // of the current rate, after one compaction: tried no further
constexpr int kHold = 25;          // compactions
constexpr double kNear = 0.92;
constexpr double kMaxWait = 32;       // times forget_seconds
constexpr double kFirstBudget = 0.5;  // of the first compaction's time
constexpr double kBusy = 0.5;         // of the host's cores, from where on it counts as busy

constexpr std::array<Strategy, kStrategies> kAll = {Strategy::kSplit, Strategy::kHost,
                                                    Strategy::kSplitOverflow,
                                                    Strategy::kHostOverflow, Strategy::kWhole};

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
  options_.agent_speed = speed;
  // Another agent: what was known of the last one says nothing.
  for (Context& c : contexts_) c = Context();
  ++agent_;
}

void Controller::Returned(uint64_t id) {
  const auto it = running_.find(id);
  if (it == running_.end() || it->second.place != Place::kWhole) return;
  --at_[static_cast<size_t>(Place::kWhole)];
  it->second.place = Place::kSplit;
  it->second.returned = true;
  ++at_[static_cast<size_t>(Place::kSplit)];
}

bool Controller::Allowed(Strategy s, const Load& load) const {
  if (s == Strategy::kHost) return true;
  if (!load.agent) return false;
  return s == Strategy::kSplit || (load.whole && options_.agent_tasks > 0);
}

// In bytes a second: measured, or what is to be expected, given any that is measured. The agent is
// taken to do half of the work in split.
double Controller::Expected(const Context& c, Strategy s) const {
  const Known& k = c.known[Index(s)];
  if (k.samples > 0) return k.Rate();
  const double sigma = options_.agent_speed;
  const double slots = static_cast<double>(running_.size()) + 1;
  // Of the compactions, with as many whole as the agent runs.
  const double whole = std::min<double>(options_.agent_tasks, slots);
  const double split = std::min(1.0, 2 * sigma);
  const auto relative = [&](Strategy x) {
    switch (x) {
      case Strategy::kHost:
        return 1.0;
      case Strategy::kSplit:
        return split;
      case Strategy::kWhole:
        return sigma * whole + (slots > whole ? split : 0);
      case Strategy::kHostOverflow:
        return 1.0 + 0.5 * sigma * std::min(whole, slots - 1);
      case Strategy::kSplitOverflow:
        return split + 0.5 * sigma * std::min(whole, slots - 1);
    }
    return 1.0;
  };
  for (const Strategy other : kAll) {
    const Known& o = c.known[Index(other)];
    if (o.samples > 0) return o.Rate() / relative(other) * relative(s);
  }
  return 0;
}

double Controller::rate(Strategy strategy) const {
  return contexts_[static_cast<size_t>(context_)].known[Index(strategy)].Rate();
}

// Who runs shares the time evenly: the costs of all that ran under one strategy are together the
// time that it took.
void Controller::Account(double now) {
  if (!running_.empty()) {
    const double share = (now - now_) / static_cast<double>(running_.size());
    for (auto& [id, r] : running_) r.cost += share;
    budget_ += (now - now_) * options_.try_share;
  }
  now_ = std::max(now_, now);
}

Place Controller::PlaceOf(Strategy s, const Job& job, const Load& load) const {
  const int on_host = at_[0] + at_[1];
  const bool room = load.whole && at_[2] < options_.agent_tasks;
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
  if (current.samples < kEnough || c->tries_left > 0 || c->tries_out > 0) return;
  const double bytes = static_cast<double>(job.bytes);
  // What promises most, first.
  std::array<Strategy, kStrategies> order = kAll;
  std::stable_sort(order.begin(), order.end(),
                   [&](Strategy a, Strategy b) { return Expected(*c, a) > Expected(*c, b); });
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
    if (promising && k.Rate() < current.Rate() * kHopeless &&
        now - k.at < std::max(options_.forget_seconds, k.wait)) {
      continue;
    }
    const double expected = Expected(*c, s);
    if (expected <= 0) continue;
    // The first ones run beside what the other strategy has begun, and are not counted.
    const int mixed = static_cast<int>(running_.size());
    const int jobs = pilot && !overflows ? 1 : kLongTry + 2 * mixed;
    // What is not known may be half as good as hoped.
    const double feared = expected * (pilot ? 0.5 : 0.9);
    const double loss = jobs * (bytes / feared - bytes / current.Rate());
    if (loss > budget_) continue;
    budget_ -= std::max(0.0, loss);
    c->tried = s;
    c->tries_left = jobs;
    c->tries_mixed = jobs > 1 ? mixed : 0;
    return;
  }
}

std::string Controller::Reconsider(Context* c, const Load& load) {
  Strategy best = c->current;
  const auto rate = [&](Strategy s) { return c->known[Index(s)].Rate(); };
  if (!Allowed(best, load)) best = load.agent ? Strategy::kSplit : Strategy::kHost;
  if (best != c->current || c->known[Index(best)].samples >= kEnough) {
    for (const Strategy s : kAll) {
      if (!Allowed(s, load) || c->known[Index(s)].samples < kEnough) continue;
      if (rate(s) > rate(best) * (1 + options_.switch_gain)) best = s;
    }
    // Unless it is much better, it waits until the current one has had its time.
    if (c->held < kHold && rate(best) < rate(c->current) * 1.15) best = c->current;
  }
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
  std::snprintf(text, sizeof(text), "%s -> %s (measured, %s host, %s: %s)",
                StrategyName(c->current), StrategyName(best),
                load.host_busy >= kBusy * options_.host_cores ? "busy" : "idle",
                running_.empty() ? "one compaction" : "several compactions",
                load.agent ? rates.c_str() : "there is no agent");
  c->current = best;
  c->held = 0;
  c->tries_left = 0;
  return text;
}

Choice Controller::Begin(uint64_t id, const Job& job, const Load& load, double now) {
  Account(now);
  context_ = (load.host_busy >= kBusy * options_.host_cores ? 2 : 0) + (running_.empty() ? 0 : 1);
  Context& c = contexts_[static_cast<size_t>(context_)];
  if (!c.begun) {
    c.begun = true;
    // Which of the two is worse to begin with: split starves behind a very slow agent.
    c.current = load.agent && options_.agent_speed >= 0.3 ? Strategy::kSplit : Strategy::kHost;
  }
  ++c.held;
  Choice choice;
  choice.why = Reconsider(&c, load);
  PickTry(&c, job, load, now);
  Running r{job, Place::kHost, context_, c.current};
  if (c.tries_left > 0 && Allowed(c.tried, load)) {
    --c.tries_left;
    ++c.tries_out;
    r.strategy = c.tried;
    r.is_try = true;
    r.counts = c.tries_mixed == 0;
    if (c.tries_mixed > 0) --c.tries_mixed;
  }
  r.agent = agent_;
  r.place = PlaceOf(r.strategy, job, load);
  if (!r.is_try && r.place != Place::kWhole) local_ = r.place;
  choice.place = r.place;
  ++at_[static_cast<size_t>(r.place)];
  running_[id] = r;
  return choice;
}

void Controller::End(uint64_t id, double now, bool counts) {
  Account(now);
  const auto it = running_.find(id);
  if (it == running_.end()) return;
  const Running r = it->second;
  running_.erase(it);
  --at_[static_cast<size_t>(r.place)];
  if (r.agent != agent_) return;  // its context is gone
  Context& c = contexts_[static_cast<size_t>(r.context)];
  if (r.is_try) --c.tries_out;
  if (r.returned) {
    // It has cost time and said nothing: not again soon.
    Known& k = c.known[Index(r.strategy)];
    k.at = now;
    k.wait =
        std::min(kMaxWait * options_.forget_seconds, std::max(options_.forget_seconds, k.wait * 2));
    budget_ = std::max(-r.cost, budget_ - r.cost);
    return;
  }
  if (!counts || !r.counts || r.job.bytes == 0) return;
  if (budget_ < r.cost && c.known[Index(r.strategy)].samples == 0 && !r.is_try) {
    budget_ += r.cost * kFirstBudget;
  }
  Known& k = c.known[Index(r.strategy)];
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
    k.wait = near ? 0
                  : std::min(kMaxWait * options_.forget_seconds,
                             std::max(options_.forget_seconds, k.wait * 2));
  }
}

}  // namespace pulse::placement
