// A model of a few threads and the C++ memory model, small enough to explore every execution. For
// ring_test.cc, progress_ring_test.cc and response_buffer_test.cc.
//
// Explorer runs fibers on one thread. Every access to a ModelAtomic (and, where asked for, every
// half of a copy of a ModelSlot) is a scheduling point where any fiber may go on. The decisions
// come from a depth-first search over all of them (Explore), over those with a bounded number of
// preemptions, or from a seeded generator (Sample).
//
// Memory: a ModelAtomic keeps every value it ever had. A load may return any that happens-before
// and coherence allow, so an acquire that is missing, or a value that arrives late, shows. Vector
// clocks find accesses to slots that no release/acquire pair orders: data races.
#pragma once

#include <ucontext.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <vector>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/common_interface_defs.h>
#endif
#if defined(__SANITIZE_THREAD__)
#include <sanitizer/tsan_interface.h>
#endif

namespace pulse::model {

inline constexpr int kMaxThreads = 4;
using Clock = std::array<uint64_t, kMaxThreads>;

class Explorer {
 public:
  struct Options {
    // Races show by the clocks, whatever the interleaving of slot accesses; so these need not be
    // scheduling points, which spares most executions. Without clocks only the values reveal what
    // is wrong, and every half of a copy is a scheduling point.
    bool clocks = true;
    int stale_loads = 2;          // loads that may return an old value, in one execution
    int preemptions = 1'000'000;  // fibers that are left while they could go on, in one execution
  };

  explicit Explorer(Options options) : options_(options) {
    current_ = this;
    Prepare(fibers_[0], &Entry<0>);
    Prepare(fibers_[1], &Entry<1>);
    Prepare(fibers_[2], &Entry<2>);
    Prepare(fibers_[3], &Entry<3>);
#if defined(__SANITIZE_THREAD__)
    main_.tsan = __tsan_get_current_fiber();
#endif
  }
  ~Explorer() {
#if defined(__SANITIZE_THREAD__)
    for (Fiber& f : fibers_) __tsan_destroy_fiber(f.tsan);
#endif
    current_ = nullptr;
  }
  Explorer(const Explorer&) = delete;
  Explorer& operator=(const Explorer&) = delete;

  static Explorer& Get() { return *current_; }

  using Body = std::function<void()>;

  // Runs every execution of the bodies, `reset` before each, until one fails or `limit` were run.
  // True when all of them were.
  bool Explore(const Body& reset, const std::vector<Body>& bodies, uint64_t limit) {
    random_ = nullptr;
    path_.clear();
    while (executions_ < limit) {
      Execute(reset, bodies);
      if (!failure_.empty()) return false;
      while (!path_.empty() && path_.back().taken + 1 == path_.back().of) path_.pop_back();
      if (path_.empty()) return true;
      ++path_.back().taken;
    }
    return false;
  }

  // Runs `executions` random ones, until one fails.
  void Sample(const Body& reset, const std::vector<Body>& bodies, uint64_t executions,
              uint64_t seed) {
    std::mt19937_64 random(seed);
    random_ = &random;
    for (uint64_t i = 0; i < executions && failure_.empty(); ++i) Execute(reset, bodies);
    random_ = nullptr;
  }

  uint64_t executions() const { return executions_; }
  const std::string& failure() const { return failure_; }
  const Options& options() const { return options_; }

  // --- For the fibers.

  int self() const { return running_; }
  Clock& clock() { return fibers_[running_].clock; }
  uint64_t Tick() { return ++fibers_[running_].clock[running_]; }

  // A scheduling point.
  void Step() {
    const int next = PickNext();
    if (next != running_) Switch(fibers_[running_], fibers_[next], next);
  }

  // 0 <= result < n; 0 is the plain outcome, of which random runs take more.
  size_t Choose(size_t n) {
    if (n == 1) return 0;
    if (random_ != nullptr) {
      return std::uniform_int_distribution<size_t>(0, n - 1)(*random_);
    }
    if (depth_ == path_.size()) path_.push_back({0, n});
    return path_[depth_++].taken;
  }

  // How many of `n` allowed values a load looks back.
  size_t ChooseStale(size_t n) {
    if (n == 1 || stale_left_ == 0) return 0;
    if (random_ != nullptr && (*random_)() % 4 != 0) return 0;
    const size_t back = Choose(n);
    if (back != 0) {
      --stale_left_;
      fibers_[running_].saw_stale = true;
    }
    return back;
  }

  // The first failure counts and ends everything. Does not return, nor destroy what is on the
  // fiber's stack: nothing there may own anything.
  [[noreturn]] void Fail(const char* what, uint64_t number = 0) {
    failure_ = what;
    failure_.append(" (").append(std::to_string(number)).append(", execution ");
    failure_.append(std::to_string(executions_)).append(")");
    Switch(fibers_[running_], main_, -1);
    __builtin_unreachable();
  }

  // Around an attempt that may find the ring full or empty: after a failed one the fiber waits
  // until another stored something since BeginAttempt, as nothing else can change the outcome.
  void BeginAttempt() {
    fibers_[running_].saw_stale = false;
    fibers_[running_].stores_before = StoresOfOthers(running_);
  }
  void WaitForOther() {
    if (fibers_[running_].saw_stale) return Step();
    fibers_[running_].waiting = true;
    const int next = PickNext();
    if (next != running_) Switch(fibers_[running_], fibers_[next], next);
    fibers_[running_].waiting = false;
  }
  void CountStore() { ++stores_[running_]; }

 private:
  static constexpr size_t kStackBytes = 256 << 10;
  struct Fiber {
    ucontext_t context;
    std::unique_ptr<char[]> stack;
    const void* bottom = nullptr;
    size_t size = 0;
    void* fake_stack = nullptr;
    void* tsan = nullptr;
    Body body;
    Clock clock{};
    bool done = false;
    bool waiting = false;
    bool saw_stale = false;
    uint64_t stores_before = 0;
  };
  struct Decision {
    size_t taken;
    size_t of;
  };

  static void Prepare(Fiber& f, void (*entry)()) {
    f.stack = std::make_unique<char[]>(kStackBytes);
    getcontext(&f.context);
    f.context.uc_stack.ss_sp = f.stack.get();
    f.context.uc_stack.ss_size = kStackBytes;
    f.context.uc_link = nullptr;
    makecontext(&f.context, entry, 0);
    f.bottom = f.stack.get();
    f.size = kStackBytes;
#if defined(__SANITIZE_THREAD__)
    f.tsan = __tsan_create_fiber(0);
#endif
  }

  template <int kIndex>
  static void Entry() {
    Explorer* e = current_;
#if defined(__SANITIZE_ADDRESS__)
    e->AfterSwitch(e->fibers_[kIndex]);
#endif
    while (true) {
      e->fibers_[kIndex].body();
      e->fibers_[kIndex].done = true;
      if (e->AllDone()) {
        e->Switch(e->fibers_[kIndex], e->main_, -1);
      } else {
        const int next = e->PickNext();
        e->Switch(e->fibers_[kIndex], e->fibers_[next], next);
      }
    }
  }

  uint64_t StoresOfOthers(int i) const {
    uint64_t n = 0;
    for (int k = 0; k < threads_; ++k) n += k == i ? 0 : stores_[k];
    return n;
  }
  bool Enabled(int i) const {
    const Fiber& f = fibers_[i];
    return !f.done && (!f.waiting || StoresOfOthers(i) != f.stores_before);
  }
  bool AllDone() const {
    for (int i = 0; i < threads_; ++i) {
      if (!fibers_[i].done) return false;
    }
    return true;
  }

  // The running fiber first, then those after it.
  int PickNext() {
    int enabled[kMaxThreads];
    size_t n = 0;
    for (int k = 0; k < threads_; ++k) {
      const int i = (running_ + k) % threads_;
      if (Enabled(i)) enabled[n++] = i;
    }
    if (n == 0) Fail("all that have not finished wait for each other");
    const bool could_go_on = enabled[0] == running_;
    if (could_go_on && preemptions_left_ == 0) return running_;
    const int next = enabled[Choose(n)];
    if (could_go_on && next != running_) --preemptions_left_;
    return next;
  }

  void Execute(const Body& reset, const std::vector<Body>& bodies) {
    ++executions_;
    depth_ = 0;
    threads_ = static_cast<int>(bodies.size());
    preemptions_left_ = options_.preemptions;
    stale_left_ = options_.stale_loads;
    stores_ = {};
    for (int i = 0; i < threads_; ++i) {
      fibers_[i].body = bodies[static_cast<size_t>(i)];
      fibers_[i].clock = {};
      fibers_[i].done = fibers_[i].waiting = fibers_[i].saw_stale = false;
    }
    reset();
    const int start = static_cast<int>(Choose(static_cast<size_t>(threads_)));
    Switch(main_, fibers_[start], start);
  }

  void Switch(Fiber& from, Fiber& to, int index) {
    running_ = index;
#if defined(__SANITIZE_ADDRESS__)
    __sanitizer_start_switch_fiber(&from.fake_stack, to.bottom, to.size);
#endif
#if defined(__SANITIZE_THREAD__)
    __tsan_switch_to_fiber(to.tsan, 0);
#endif
    swapcontext(&from.context, &to.context);
#if defined(__SANITIZE_ADDRESS__)
    AfterSwitch(from);
#endif
  }

#if defined(__SANITIZE_ADDRESS__)
  void AfterSwitch(Fiber& now) {
    const void* bottom = nullptr;
    size_t size = 0;
    __sanitizer_finish_switch_fiber(now.fake_stack, &bottom, &size);
    if (main_.bottom == nullptr) {  // the first switch comes from the thread's own stack
      main_.bottom = bottom;
      main_.size = size;
    }
  }
#endif

  static inline Explorer* current_ = nullptr;

  const Options options_;
  std::array<Fiber, kMaxThreads> fibers_;
  Fiber main_;
  int running_ = -1;
  int threads_ = 0;
  std::array<uint64_t, kMaxThreads> stores_{};
  int stale_left_ = 0;
  int preemptions_left_ = 0;
  std::vector<Decision> path_;
  size_t depth_ = 0;
  std::mt19937_64* random_ = nullptr;
  uint64_t executions_ = 0;
  std::string failure_;
};

// Stands for std::atomic<T> in the ring.
template <typename T>
class ModelAtomic {
 public:
  ModelAtomic() : ModelAtomic(T{}) {}
  explicit ModelAtomic(T value) { Reset(value); }

  // The value from before both threads began.
  void Reset(T value) {
    history_.clear();
    history_.push_back({value, -1, 0, {}});
    seen_ = {};
  }

  // Of one thread only from here on: its accesses are no scheduling points.
  void MakePrivate() { private_ = true; }

  void store(T value, std::memory_order order) {
    Explorer& e = Explorer::Get();
    if (!private_) e.Step();
    const uint64_t now = e.Tick();
    const bool releases = order == std::memory_order_release || order == std::memory_order_seq_cst;
    history_.push_back({value, e.self(), now, releases ? e.clock() : Clock{}});
    e.CountStore();
  }

  T load(std::memory_order order) const {
    Explorer& e = Explorer::Get();
    if (!private_) e.Step();
    e.Tick();
    // Values older than one that this thread saw, or knows to have been stored, are out of reach.
    size_t oldest = history_.size() - 1;
    while (oldest > seen_[e.self()] && !Known(e, history_[oldest])) --oldest;
    const size_t at = history_.size() - 1 - e.ChooseStale(history_.size() - oldest);
    seen_[e.self()] = at;
    if (order == std::memory_order_acquire || order == std::memory_order_seq_cst) {
      Join(e.clock(), history_[at].released);
    }
    return history_[at].value;
  }

  // Reads and writes the newest value, as read-modify-writes do. A failed exchange sees it too: a
  // stale value would only make it fail once more.
  bool compare_exchange_weak(T& expected, T desired, std::memory_order order,
                             std::memory_order failure) {
    Explorer& e = Explorer::Get();
    e.Step();
    const Store last = history_.back();
    if (last.value != expected) {
      e.Tick();
      seen_[e.self()] = history_.size() - 1;
      if (failure == std::memory_order_acquire) Join(e.clock(), last.released);
      expected = last.value;
      return false;
    }
    Modify(e, desired, order);
    return true;
  }
  T fetch_add(T by, std::memory_order order) {
    Explorer& e = Explorer::Get();
    e.Step();
    const T before = history_.back().value;
    Modify(e, before + by, order);
    return before;
  }

 private:
  struct Store {
    T value;
    int writer;
    uint64_t time;
    Clock released;
  };
  static void Join(Clock& to, const Clock& from) {
    for (int i = 0; i < kMaxThreads; ++i) to[i] = std::max(to[i], from[i]);
  }
  // Continues the release sequence of what it replaces.
  void Modify(Explorer& e, T value, std::memory_order order) {
    const uint64_t now = e.Tick();
    Clock released = history_.back().released;
    if (order == std::memory_order_acquire || order == std::memory_order_acq_rel) {
      Join(e.clock(), released);
    }
    if (order == std::memory_order_release || order == std::memory_order_acq_rel) {
      Join(released, e.clock());
    }
    history_.push_back({value, e.self(), now, released});
    seen_[e.self()] = history_.size() - 1;
    e.CountStore();
  }
  static bool Known(Explorer& e, const Store& s) {
    return s.writer < 0 || s.writer == e.self() || e.clock()[s.writer] >= s.time;
  }

  bool private_ = false;
  std::vector<Store> history_;
  mutable std::array<size_t, kMaxThreads> seen_{};
};

// A ring entry of two words, copied one after the other. Entries with a `cell` are shared memory.
class ModelSlot {
 public:
  struct Cell {
    struct Word {
      int writer = -1;
      uint64_t written = 0;
      Clock read{};
    };
    std::array<Word, 2> words;
  };

  ModelSlot() = default;
  explicit ModelSlot(uint64_t value) : words_{value, ~value} {}
  ModelSlot(const ModelSlot&) = delete;

  void Share(Cell* cell) {
    *cell = Cell{};
    cell_ = cell;
    words_ = {0, ~uint64_t{0}};
  }
  bool torn() const { return words_[1] != ~words_[0]; }
  uint64_t value() const { return words_[0]; }

  ModelSlot& operator=(const ModelSlot& o) {
    Explorer& e = Explorer::Get();
    for (int w = 0; w < 2; ++w) {
      if (cell_ != nullptr || o.cell_ != nullptr) {
        if (!e.options().clocks) e.Step();
        e.Tick();
      }
      if (o.cell_ != nullptr) Read(e, o.cell_->words[w]);
      if (cell_ != nullptr) Write(e, cell_->words[w]);
      words_[w] = o.words_[w];
    }
    return *this;
  }

 private:
  static void Read(Explorer& e, Cell::Word& w) {
    if (e.options().clocks && w.writer >= 0 && w.writer != e.self() &&
        e.clock()[w.writer] < w.written) {
      e.Fail("data race: a slot is read while it may still be written");
    }
    w.read[e.self()] = e.clock()[e.self()];
  }
  static void Write(Explorer& e, Cell::Word& w) {
    for (int other = 0; e.options().clocks && other < kMaxThreads; ++other) {
      if (other == e.self()) continue;
      if (w.read[other] > e.clock()[other] || (w.writer == other && w.written > e.clock()[other])) {
        e.Fail("data race: a slot is overwritten while it may still be read");
      }
    }
    w.writer = e.self();
    w.written = e.clock()[e.self()];
  }

  std::array<uint64_t, 2> words_{};
  Cell* cell_ = nullptr;
};

// Stands for memcpy between memory of a fiber's own and the one shared range, whose words of 8
// bytes are watched for races as a ModelSlot's. Scheduling points only without clocks, as there.
class ModelBytes {
 public:
  static void Share(char* begin, size_t size) {
    begin_ = begin;
    words_.assign(size / 8, {});
  }
  static void Copy(void* to, const void* from, size_t n) {
    if (n == 0) return;
    Explorer& e = Explorer::Get();
    if (!e.options().clocks && (Shared(from) || Shared(to))) e.Step();
    e.Tick();
    Touch(e, static_cast<const char*>(from), n, false);
    Touch(e, static_cast<char*>(to), n, true);
    std::memcpy(to, from, n);
  }
  // For the copy of a mover, which reads what may be in the middle of being written.
  static void CopyUnwatched(void* to, const void* from, size_t n) { std::memcpy(to, from, n); }

 private:
  struct Word {
    int writer = -1;
    uint64_t written = 0;
    Clock read{};
  };
  static bool Shared(const void* at) { return at >= begin_ && at < begin_ + words_.size() * 8; }
  static void Touch(Explorer& e, const char* at, size_t n, bool write) {
    if (!Shared(at)) return;
    const auto first = static_cast<size_t>(at - begin_);
    if (first + n > words_.size() * 8) e.Fail("outside of the ring", first);
    const int self = e.self();
    for (size_t i = first / 8; i <= (first + n - 1) / 8; ++i) {
      Word& w = words_[i];
      if (e.options().clocks && w.writer >= 0 && w.writer != self &&
          e.clock()[w.writer] < w.written) {
        e.Fail("data race: bytes are used while they may still be written", i);
      }
      for (int other = 0; e.options().clocks && write && other < kMaxThreads; ++other) {
        if (other != self && w.read[other] > e.clock()[other]) {
          e.Fail("data race: bytes are overwritten while they may still be read", i);
        }
      }
      if (write) {
        w.writer = self;
        w.written = e.clock()[self];
      } else {
        w.read[self] = e.clock()[self];
      }
    }
  }

  static inline char* begin_ = nullptr;
  static inline std::vector<Word> words_;
};

}  // namespace pulse::model
