// A model of two threads and the C++ memory model, small enough to explore every execution. For
// ring_test.cc.
//
// Explorer runs two fibers on one thread. Every access to a ModelAtomic (and, where asked for,
// every half of a copy of a ModelSlot) is a scheduling point where either fiber may go on. The
// decisions come from a depth-first search over all of them (Explore) or from a seeded generator
// (Sample).
//
// Memory: a ModelAtomic keeps every value it ever had. A load may return any that happens-before
// and coherence allow, so an acquire that is missing, or a value that arrives late, shows. Vector
// clocks find accesses to slots that no release/acquire pair orders: data races.
#pragma once

#include <ucontext.h>

#include <array>
#include <atomic>
#include <cstdint>
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

using Clock = std::array<uint64_t, 2>;

class Explorer {
 public:
  struct Options {
    // Races show by the clocks, whatever the interleaving of slot accesses; so these need not be
    // scheduling points, which spares most executions. Without clocks only the values reveal what
    // is wrong, and every half of a copy is a scheduling point.
    bool clocks = true;
    int stale_loads = 2;  // loads that may return an old value, in one execution
  };

  explicit Explorer(Options options) : options_(options) {
    current_ = this;
    Prepare(fibers_[0], &Entry<0>);
    Prepare(fibers_[1], &Entry<1>);
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

  // Runs every execution of the two bodies, `reset` before each, until one fails or `limit` were
  // run. True when all of them were.
  bool Explore(const Body& reset, Body first, Body second, uint64_t limit) {
    random_ = nullptr;
    path_.clear();
    while (executions_ < limit) {
      Execute(reset, first, second);
      if (!failure_.empty()) return false;
      while (!path_.empty() && path_.back().taken + 1 == path_.back().of) path_.pop_back();
      if (path_.empty()) return true;
      ++path_.back().taken;
    }
    return false;
  }

  // Runs `executions` random ones, until one fails.
  void Sample(const Body& reset, Body first, Body second, uint64_t executions, uint64_t seed) {
    std::mt19937_64 random(seed);
    random_ = &random;
    for (uint64_t i = 0; i < executions && failure_.empty(); ++i) Execute(reset, first, second);
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
  // until the other stored something since BeginAttempt, as nothing else can change the outcome.
  void BeginAttempt() {
    fibers_[running_].saw_stale = false;
    fibers_[running_].stores_before = stores_[1 - running_];
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
      const int other = 1 - kIndex;
      if (!e->fibers_[other].done) {
        if (!e->Enabled(other)) e->Fail("one end waits for ever: the other has finished");
        e->Switch(e->fibers_[kIndex], e->fibers_[other], other);
      } else {
        e->Switch(e->fibers_[kIndex], e->main_, -1);
      }
    }
  }

  bool Enabled(int i) const {
    const Fiber& f = fibers_[i];
    return !f.done && (!f.waiting || stores_[1 - i] != f.stores_before);
  }

  int PickNext() {
    const int other = 1 - running_;
    const bool me = Enabled(running_);
    const bool him = Enabled(other);
    if (!me && !him) Fail("both ends wait for each other");
    if (me && him) return Choose(2) == 0 ? running_ : other;
    return me ? running_ : other;
  }

  void Execute(const Body& reset, Body& first, Body& second) {
    ++executions_;
    depth_ = 0;
    stale_left_ = options_.stale_loads;
    stores_ = {};
    for (int i = 0; i < 2; ++i) {
      fibers_[i].body = i == 0 ? first : second;
      fibers_[i].clock = {};
      fibers_[i].done = fibers_[i].waiting = fibers_[i].saw_stale = false;
    }
    reset();
    const int start = static_cast<int>(Choose(2));
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
  std::array<Fiber, 2> fibers_;
  Fiber main_;
  int running_ = -1;
  std::array<uint64_t, 2> stores_{};
  int stale_left_ = 0;
  std::vector<Decision> path_;
  size_t depth_ = 0;
  std::mt19937_64* random_ = nullptr;
  uint64_t executions_ = 0;
  std::string failure_;
};

// Stands for std::atomic<T> in the ring. Single writer, as a ring's cursors are.
template <typename T>
class ModelAtomic {
 public:
  ModelAtomic() { Reset(T{}); }

  // The value from before both threads began.
  void Reset(T value) {
    history_.clear();
    history_.push_back({value, -1, 0, {}});
    seen_ = {};
  }

  void store(T value, std::memory_order order) {
    Explorer& e = Explorer::Get();
    e.Step();
    const uint64_t now = e.Tick();
    const bool releases = order == std::memory_order_release || order == std::memory_order_seq_cst;
    history_.push_back({value, e.self(), now, releases ? e.clock() : Clock{}});
    e.CountStore();
  }

  T load(std::memory_order order) const {
    Explorer& e = Explorer::Get();
    e.Step();
    e.Tick();
    // Values older than one that this thread saw, or knows to have been stored, are out of reach.
    size_t oldest = history_.size() - 1;
    while (oldest > seen_[e.self()] && !Known(e, history_[oldest])) --oldest;
    const size_t at = history_.size() - 1 - e.ChooseStale(history_.size() - oldest);
    seen_[e.self()] = at;
    if (order == std::memory_order_acquire || order == std::memory_order_seq_cst) {
      for (int i = 0; i < 2; ++i) {
        e.clock()[i] = std::max(e.clock()[i], history_[at].released[i]);
      }
    }
    return history_[at].value;
  }

 private:
  struct Store {
    T value;
    int writer;
    uint64_t time;
    Clock released;
  };
  static bool Known(Explorer& e, const Store& s) {
    return s.writer < 0 || s.writer == e.self() || e.clock()[s.writer] >= s.time;
  }

  std::vector<Store> history_;
  mutable std::array<size_t, 2> seen_{};
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
    const int other = 1 - e.self();
    if (e.options().clocks &&
        (w.read[other] > e.clock()[other] || (w.writer == other && w.written > e.clock()[other]))) {
      e.Fail("data race: a slot is overwritten while it may still be read");
    }
    w.writer = e.self();
    w.written = e.clock()[e.self()];
  }

  std::array<uint64_t, 2> words_{};
  Cell* cell_ = nullptr;
};

}  // namespace pulse::model
