#include "uring/io_scheduler.h"

#include <algorithm>

namespace pulse {
namespace {

constexpr size_t kElevatedIndex = static_cast<size_t>(IoClass::kElevated);
constexpr size_t kCriticalIndex = static_cast<size_t>(IoClass::kCritical);

void Add(std::atomic<uint64_t>* counter, uint64_t n) {  // one writer
  counter->store(counter->load(std::memory_order_relaxed) + n, std::memory_order_relaxed);
}

// Rounds until a balance that is zero or less is above zero.
int64_t RoundsFor(int64_t balance, uint64_t quantum) {
  return -balance / static_cast<int64_t>(quantum) + 1;
}

void Give(int64_t* balance, int64_t rounds, uint64_t quantum) {
  const auto q = static_cast<int64_t>(quantum);
  *balance = std::min(*balance + rounds * q, q);
}

}  // namespace

IoOrigin::IoOrigin(IoScheduler* scheduler) : scheduler_(scheduler) {
  for (IoScheduler::Flow& flow : flows_) flow.origin = this;
}

IoOrigin::~IoOrigin() { scheduler_->Forget(this); }

void IoScheduler::Forget(IoOrigin* origin) {
  for (size_t c = 0; c < kIoClasses; ++c) {
    Flow& flow = origin->flows_[c];
    if (!flow.is_active) continue;
    waiting_ -= flow.waiting;
    classes_[c].waiting -= flow.waiting;
    classes_[c].in_flight_cost -= flow.in_flight_cost;
    in_flight_cost_ -= flow.in_flight_cost;
    Deactivate(c, &flow);
  }
}

void IoScheduler::Activate(size_t c, Flow* flow) {
  flow->is_active = true;
  classes_[c].active.push_back(flow);
}

void IoScheduler::Deactivate(size_t c, Flow* flow) {
  flow->is_active = false;
  flow->held = 0;
  Class& k = classes_[c];
  const auto at = std::find(k.active.begin(), k.active.end(), flow);
  const auto index = static_cast<size_t>(at - k.active.begin());
  k.active.erase(at);
  if (k.turn > index) --k.turn;
}

void IoScheduler::Push(IoItem* item, IoOrigin* origin, IoClass io_class, uint64_t payload) {
  const auto c = static_cast<size_t>(io_class);
  Flow& flow = origin->flows_[c];
  item->next_item = nullptr;
  item->origin = origin;
  item->io_class = io_class;
  item->payload = payload;
  item->cost = CostOf(payload);
  (flow.first == nullptr ? flow.first : flow.last->next_item) = item;
  flow.last = item;
  ++flow.waiting;
  flow.waiting_cost += item->cost;
  ++classes_[c].waiting;
  ++waiting_;
  Add(&origin->counters_[c].waiting, 1);
  if (!flow.is_active) Activate(c, &flow);
}

bool IoScheduler::MayStart(size_t c, const Flow& flow) const {
  return flow.waiting > 0 && in_flight_cost_ < kTotalWindow &&
         classes_[c].in_flight_cost < kWindow[c] && flow.in_flight_cost < FlowWindow(c) &&
         flow.origin->in_flight_cost_ < kOriginWindow;
}

bool IoScheduler::HasStartable(size_t c) const {
  const Class& k = classes_[c];
  return k.waiting > 0 && std::any_of(k.active.begin(), k.active.end(),
                                      [&](const Flow* f) { return MayStart(c, *f); });
}

// Counts for what ends it.
uint32_t IoScheduler::Pressure(size_t c, const Flow& flow) {
  return c == kCriticalIndex || c == kElevatedIndex ? flow.origin->pressure_ : 0;
}

uint64_t IoScheduler::QuantumOf(size_t c) const {
  if (c != kElevatedIndex) return kQuantum[c];
  const auto& active = classes_[c].active;
  const bool pressed = std::any_of(active.begin(), active.end(), [](const Flow* f) {
    return f->waiting > 0 && f->origin->pressure_ > 0;
  });
  return pressed ? kElevatedBoost * kQuantum[c] : kQuantum[c];
}

void IoScheduler::NewRound() {
  int64_t rounds = 0;
  for (size_t c = 0; c < kIoClasses; ++c) {
    if (!HasStartable(c)) continue;
    const int64_t n = RoundsFor(classes_[c].balance, QuantumOf(c));
    rounds = rounds == 0 ? n : std::min(rounds, n);
  }
  for (size_t c = 0; c < kIoClasses; ++c) Give(&classes_[c].balance, rounds, QuantumOf(c));
}

void IoScheduler::NewRoundOf(size_t c) {
  const auto quantum = [&](const Flow* f) {
    return kOriginQuantum * kPressureFactor[Pressure(c, *f)];
  };
  int64_t rounds = 0;
  for (const Flow* f : classes_[c].active) {
    if (!MayStart(c, *f)) continue;
    const int64_t n = RoundsFor(f->balance, quantum(f));
    rounds = rounds == 0 ? n : std::min(rounds, n);
  }
  for (Flow* f : classes_[c].active) Give(&f->balance, rounds, quantum(f));
}

// The origin whose turn it is, among those that have something left; null: nobody may start.
IoScheduler::Flow* IoScheduler::Choose(size_t c) {
  Class& k = classes_[c];
  const size_t n = k.active.size();
  if (n == 1) return MayStart(c, *k.active[0]) ? k.active[0] : nullptr;  // nobody to share with
  for (bool startable = true; startable;) {
    Flow* best = nullptr;
    uint32_t best_rank = 0;
    startable = false;
    for (size_t i = 0; i < n; ++i) {
      Flow* f = k.active[(k.turn + i) % n];
      if (!MayStart(c, *f)) continue;
      startable = true;
      if (f->balance <= 0) continue;
      const uint32_t rank = 1 + 2 * Pressure(c, *f) + (f->origin->urgent_ ? 1 : 0);
      if (rank > best_rank) {
        best = f;
        best_rank = rank;
      }
    }
    if (best != nullptr) return best;
    if (startable) NewRoundOf(c);
  }
  return nullptr;
}

IoItem* IoScheduler::Next() {
  if (waiting_ == 0) return nullptr;
  for (bool startable = true; startable;) {
    startable = false;
    for (size_t c = 0; c < kIoClasses; ++c) {
      if (!HasStartable(c)) continue;
      startable = true;
      if (classes_[c].balance > 0) return Choose(c)->first;
    }
    if (startable) NewRound();
  }
  return nullptr;
}

void IoScheduler::Start(IoItem* item) {
  const auto c = static_cast<size_t>(item->io_class);
  Flow& flow = item->origin->flows_[c];
  Class& k = classes_[c];
  const auto cost = static_cast<int64_t>(item->cost);
  flow.first = item->next_item;
  if (flow.first == nullptr) flow.last = nullptr;
  item->next_item = nullptr;
  --flow.waiting;
  flow.waiting_cost -= item->cost;
  flow.held = std::min(flow.held, flow.waiting);
  --k.waiting;
  --waiting_;
  ++flow.started;
  flow.in_flight_cost += item->cost;
  item->origin->in_flight_cost_ += item->cost;
  k.in_flight_cost += item->cost;
  in_flight_cost_ += item->cost;
  flow.balance -= cost;
  k.balance -= cost;
  // An origin that is alone takes from no other: its balance is not negative when others come.
  if (k.active.size() == 1) flow.balance = std::max<int64_t>(flow.balance, 0);
  // The next origin's turn, once this one has used up what it had.
  if (flow.balance <= 0) {
    const auto at = std::find(k.active.begin(), k.active.end(), &flow);
    k.turn = (static_cast<size_t>(at - k.active.begin()) + 1) % k.active.size();
  }
  IoClassCounters& counters = item->origin->counters_[c];
  Add(&counters.requests, 1);
  Add(&counters.bytes, item->payload);
  counters.waiting.store(flow.waiting, std::memory_order_relaxed);
  counters.in_flight.store(flow.started, std::memory_order_relaxed);
}

void IoScheduler::Done(const IoItem* item) {
  const auto c = static_cast<size_t>(item->io_class);
  Flow& flow = item->origin->flows_[c];
  --flow.started;
  flow.in_flight_cost -= item->cost;
  item->origin->in_flight_cost_ -= item->cost;
  classes_[c].in_flight_cost -= item->cost;
  in_flight_cost_ -= item->cost;
  item->origin->counters_[c].in_flight.store(flow.started, std::memory_order_relaxed);
  if (flow.waiting == 0 && flow.started == 0) Deactivate(c, &flow);
}

void IoScheduler::CountWaits(int64_t now) {
  if (held_since_ == 0) return;
  const int64_t passed = std::max<int64_t>(now - held_since_, 0);
  held_since_ = 0;
  for (size_t c = 0; c < kIoClasses; ++c) {
    for (Flow* f : classes_[c].active) {
      Add(&f->origin->counters_[c].wait_nanos, f->held * static_cast<uint64_t>(passed));
      f->held = 0;
    }
  }
}

void IoScheduler::BeginWaits(int64_t now) {
  held_since_ = now;
  for (Class& k : classes_) {
    for (Flow* f : k.active) f->held = f->waiting;
  }
}

}  // namespace pulse
