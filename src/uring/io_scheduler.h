// IoScheduler: which request goes to the device next, by its class (io_class.h): each class has a
// share, so that none starves; and within a class all origins (sessions) count alike.
//
// Pure: no I/O, no clock, no thread, and no allocation but when more origins are active than ever.
// It knows requests only as IoItems with a cost: their bytes, and something for the request itself.
//
// Shares. Every class has a balance, and so has every origin within it. What is started is taken
// off the balance; the first in order whose balance is above zero goes next. When nobody that could
// start has any left, a new round gives each class its quantum, whatever it has not used before
// being lost. So a class that others wait for gets its quantum in a round and no more than one
// request beyond; one that is alone gets everything, since rounds take no time.
//
// Windows. What is in flight cannot be recalled, and a device serves it in its own order. So there
// is a bound for all that is in flight together, for a class, for an origin, and for an origin in a
// class (three quarters of the class's). The bounds that several share are the smaller ones: whose
// request ends does not matter then, and the balances say who goes next. No single origin can use
// up what others need: one whose device is stuck does not stop them. Each window is several times
// what a local device needs to be busy.
//
// Urgency and pressure order origins within a class. An urgent one (somebody waits for it) goes
// first with what it has left. One under pressure (its own callers are held back, or stand) also
// has a larger part of the critical and the elevated class, and the latter a larger quantum while
// such a one waits: see kPressureFactor and kElevatedBoost, which bound what a host that
// always claims to be under pressure can gain.
//
// Owned and called by one worker thread; counters may be read by any. Origins and items belong to
// the caller. An origin may be made on another thread, and go there if it had no request. An origin
// goes before its scheduler, and an item is in one place at a time.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "uring/io_class.h"

namespace pulse {

// What an origin has asked for in one class. Written by the worker, read by anyone.
struct IoClassCounters {
  std::atomic<uint64_t> requests{0};    // handed to the device
  std::atomic<uint64_t> bytes{0};       // of payload; their parts, when they go in several
  std::atomic<uint64_t> wait_nanos{0};  // sum over the requests that the scheduler held back
  std::atomic<uint64_t> waiting{0};     // of the moment: requests
  std::atomic<uint64_t> in_flight{0};   // of the moment: requests
};

class IoOrigin;

// A request. The scheduler's, until it was started.
struct IoItem {
  IoItem* next_item = nullptr;
  IoOrigin* origin = nullptr;
  IoClass io_class = IoClass::kUnknown;
  uint64_t payload = 0;
  uint64_t cost = 0;
};

class IoScheduler {
 public:
  static constexpr uint64_t kKiB = 1024;
  static constexpr uint64_t kMiB = uint64_t{1} << 20;
  // Added to the bytes of each request: at 4 KiB a device is bound by requests as much as by bytes.
  static constexpr uint64_t kRequestCost = 4 * kKiB;
  // What a request without payload costs: a flush of the device, mostly.
  static constexpr uint64_t kSyncCost = 256 * kKiB;
  // By class. Shares where all classes wait: 8:4:4:2:1.
  static constexpr std::array<uint64_t, kIoClasses> kQuantum = {4 * kMiB, 2 * kMiB, 2 * kMiB,
                                                                1 * kMiB, 512 * kKiB};
  static constexpr std::array<uint64_t, kIoClasses> kWindow = {32 * kMiB, 32 * kMiB, 24 * kMiB,
                                                               20 * kMiB, 16 * kMiB};
  static constexpr uint64_t kTotalWindow = 32 * kMiB;
  static constexpr uint64_t kOriginWindow = 20 * kMiB;
  // Of one origin in a class.
  static constexpr uint64_t FlowWindow(size_t c) { return kWindow[c] / 4 * 3; }
  static constexpr uint64_t kOriginQuantum = 1 * kMiB;
  // By level of pressure: none, delayed, stopped.
  static constexpr std::array<uint64_t, 3> kPressureFactor = {1, 2, 4};
  static constexpr uint64_t kElevatedBoost = 2;
  // An origin that has so much waiting in a class is given time (IoOrigin::Full).
  static constexpr uint64_t kMostWaitingCost = 16 * kMiB;
  static constexpr size_t kMostWaiting = 256;

  static constexpr uint64_t CostOf(uint64_t payload) {
    return payload == 0 ? kSyncCost : payload + kRequestCost;
  }

  IoScheduler() = default;
  IoScheduler(const IoScheduler&) = delete;
  IoScheduler& operator=(const IoScheduler&) = delete;

  // `item` waits behind what its origin has waiting in its class. `cost` and `payload` are set
  // here.
  void Push(IoItem* item, IoOrigin* origin, IoClass io_class, uint64_t payload);
  // The item to start next; null when nothing waits or all that waits has its window full. The same
  // until something changes.
  IoItem* Next();
  // `item`, which Next gave, is in flight from here on.
  void Start(IoItem* item);
  // It is no longer.
  void Done(const IoItem* item);
  size_t waiting() const { return waiting_; }

  // Counts the time that requests wait: what waited when this was last called has waited since.
  // Needs a call before and after requests are started.
  bool holds() const { return held_since_ != 0; }
  void CountWaits(int64_t now);
  void BeginWaits(int64_t now);

 private:
  friend class IoOrigin;
  struct Flow;
  struct Class {
    int64_t balance = 0;
    size_t waiting = 0;
    uint64_t in_flight_cost = 0;
    std::vector<Flow*> active;  // have something waiting or in flight
    size_t turn = 0;            // whose it is, in `active`
  };
  struct Flow {
    IoOrigin* origin = nullptr;
    IoItem* first = nullptr;
    IoItem* last = nullptr;
    size_t waiting = 0;
    uint64_t waiting_cost = 0;
    size_t started = 0;
    uint64_t in_flight_cost = 0;
    int64_t balance = 0;
    size_t held = 0;  // waiting when the clock was last looked at
    bool is_active = false;
  };

  void Forget(IoOrigin* origin);
  void Activate(size_t c, Flow* flow);
  void Deactivate(size_t c, Flow* flow);
  bool MayStart(size_t c, const Flow& flow) const;
  static uint32_t Pressure(size_t c, const Flow& flow);
  Flow* Choose(size_t c);
  bool HasStartable(size_t c) const;
  uint64_t QuantumOf(size_t c) const;
  void NewRound();
  void NewRoundOf(size_t c);

  std::array<Class, kIoClasses> classes_;
  size_t waiting_ = 0;
  uint64_t in_flight_cost_ = 0;
  int64_t held_since_ = 0;  // 0: nothing waited
};

// Somebody whose requests count together: a session.
class IoOrigin {
 public:
  explicit IoOrigin(IoScheduler* scheduler);
  // Forgets what is waiting.
  ~IoOrigin();
  IoOrigin(const IoOrigin&) = delete;
  IoOrigin& operator=(const IoOrigin&) = delete;

  void set_urgent(bool urgent) { urgent_ = urgent; }
  // 0 none, 1 delayed, 2 stopped; anything else is none.
  void set_pressure(uint32_t level) {
    pressure_ = level < IoScheduler::kPressureFactor.size() ? level : 0;
  }
  uint32_t pressure() const { return pressure_; }
  // So much waits in this class that it had better not take more.
  bool Full(IoClass io_class) const {
    const IoScheduler::Flow& f = flows_[static_cast<size_t>(io_class)];
    return f.waiting_cost >= IoScheduler::kMostWaitingCost ||
           f.waiting >= IoScheduler::kMostWaiting;
  }
  const std::array<IoClassCounters, kIoClasses>& counters() const { return counters_; }

 private:
  friend class IoScheduler;

  IoScheduler* const scheduler_;
  bool urgent_ = false;
  uint32_t pressure_ = 0;
  uint64_t in_flight_cost_ = 0;
  std::array<IoScheduler::Flow, kIoClasses> flows_;
  std::array<IoClassCounters, kIoClasses> counters_;
};

}  // namespace pulse
