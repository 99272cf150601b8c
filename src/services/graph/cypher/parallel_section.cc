// The operator of a section. Its input is cut into morsels, numbered as they are taken: nodes of a
// scan, or batches of rows that come from before it. Threads take them in turn, run the section's
// steps on them, and keep what comes out with the morsel; the calling thread hands that on, the
// lowest morsel first, and works on morsels itself meanwhile. What it makes of the lowest one goes
// on at once, so that with one thread alone nothing is kept.
//
// A thread that has kept kMostKept of a morsel waits until the morsel is the lowest, whose rows the
// caller takes away. Morsels are taken in their order, so the lowest one always has a thread; the
// calling thread does not wait within a morsel, but hands on what others have made.
#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>

#include "services/graph/cypher/operators.h"
#include "services/graph/cypher/parallel.h"
#include "services/graph/cypher/parallel_worker.h"

namespace pulse::cypher {
namespace {

constexpr size_t kMostKept = size_t{1} << 20;        // bytes of a morsel's rows that wait
constexpr size_t kFewestNodes = 128;                 // that morsels grow to, but for tests
constexpr size_t kFirstNodes = 16, kLeastNodes = 4;  // of the first morsel, and of any
constexpr int64_t kMorselNanos = 1'000'000;          // that a morsel is to take
constexpr auto kLookEvery = std::chrono::milliseconds(10);
constexpr uint64_t kLookWork = 4096;  // what makes a context look at the clock

class SectionOperator : public Operator {
 public:
  SectionOperator(std::span<const Step> steps, const ParallelSection& section,
                  const ParallelOptions& options, Runtime* runtime, Operator* next)
      : Operator(&steps[section.begin], runtime, next),
        steps_(steps),
        section_(section),
        options_(options),
        most_morsels_(4 * static_cast<size_t>(options.threads) + 4) {
    for (size_t i = section.begin; i < section.end; ++i) AddOwners(steps[i]);
    if (section.inputs != nullptr) AddOwners(*section.inputs);
  }
  ~SectionOperator() override { StopThreads(); }

  bool Push(Rows& in) override {
    if (caller_ == nullptr) {
      caller_ = MakeWorker(true);
      caller_->Build();
    }
    if (!section_.scans) return PushRows(in);
    // Threads read the row, which may go with the frame that has it.
    try {
      for (size_t i = 0; i < in.size(); ++i) {
        if (Scan(in.Row(i))) continue;
        StopThreads();
        return false;
      }
    } catch (...) {
      StopThreads();
      throw;
    }
    return !ctx_.failed();
  }

  bool Finish() override {
    {
      const std::lock_guard lock(mu_);
      ended_ = true;
    }
    if (!stop_.load(std::memory_order_relaxed)) DeliverAll();
    StopThreads();
    if (runtime_->profile != nullptr) {
      if (caller_ != nullptr) caller_->AddCountsTo(runtime_->profile);
      for (const auto& worker : workers_) worker->AddCountsTo(runtime_->profile);
    }
    return next_->Finish();
  }

  void Reset() override {
    Operator::Reset();
    StopThreads();
    workers_.clear();  // their contexts know that they were stopped
    morsels_.clear();
    kept_bytes_ = input_bytes_ = 0;
    stop_.store(false, std::memory_order_relaxed);
    ended_ = closed_ = false;
    batches_ = 0;
    spent_nanos_ = 0;
  }

 private:
  // Rows that a worker made of its morsel. False: no more are wanted.
  bool Take(SectionWorker* worker, Rows& rows) {
    if (worker->direct) return HandOn(rows);
    Morsel* const morsel = worker->morsel();
    const size_t bytes = BytesOf(rows);
    std::unique_lock lock(mu_);
    if (worker->calls()) {
      while (!HasRoom(*morsel, bytes)) {
        if (!DeliverFront(lock)) return false;
        if (morsels_.front().get() == morsel) {
          lock.unlock();
          worker->direct = true;
          return HandOn(rows);
        }
        if (!HasRoom(*morsel, bytes)) Await(lock);
        if (ctx_.failed()) return false;
      }
    } else {
      space_.wait(lock, [&] { return stop_.load() || HasRoom(*morsel, bytes); });
      if (stop_.load()) return false;
    }
    std::unique_ptr<Rows> kept = EmptyRows();
    std::swap(*kept, rows);
    morsel->kept.push_back({std::move(kept), bytes});
    morsel->kept_bytes += bytes;
    kept_bytes_ += bytes;
    const bool lowest = morsels_.front().get() == morsel;
    lock.unlock();
    if (lowest && !worker->calls()) ready_.notify_one();
    return true;
  }

  std::unique_ptr<SectionWorker> MakeWorker(bool calls) {
    return std::make_unique<SectionWorker>(
        steps_, section_, *runtime_, options_.threads, calls, stop_,
        [this](SectionWorker* worker, Rows& rows) { return Take(worker, rows); });
  }

  // Slots whose values hold memory of their own: texts, lists, relationships.
  void AddOwners(const Step& step) {
    const auto add = [this](Slot slot) {
      if (slot >= 0) owners_.push_back(slot);
    };
    switch (step.kind) {
      case Step::Kind::kProject:
        for (const auto& [expr, slot] : step.items) add(slot);
        return;
      case Step::Kind::kUnwind:
      case Step::Kind::kPath:
        return add(step.slot);
      case Step::Kind::kExpand:
      case Step::Kind::kExpandVar:
        return add(step.edge_number ? -1 : step.edge);
      case Step::Kind::kIntersect:
        for (const Step& hop : step.inner) AddOwners(hop);
        return;
      case Step::Kind::kQuantified:
        for (const QuantifiedGroup& group : step.groups) add(group.slot);
        return;
      default:
        return;
    }
  }

  size_t most_kept() const {
    const size_t limit = ctx_.limits.memory_bytes;
    return limit == 0 ? kMostKept
                      : std::min(kMostKept, std::max<size_t>(limit / (32 * most_morsels_), 1));
  }

  // Of all morsels together; and of batches that wait to be filled again.
  size_t most_waiting() const { return most_morsels_ * most_kept(); }

  // With mu_: whether so many bytes of a morsel may wait, too. The lowest one's are taken away
  // soon.
  bool HasRoom(const Morsel& morsel, size_t bytes) const {
    if (morsel.kept_bytes >= most_kept()) return false;
    return &morsel == morsels_.front().get() || kept_bytes_ + bytes <= most_waiting();
  }

  size_t BytesOf(Rows& rows) const {
    size_t bytes = rows.Held();
    for (size_t i = 0; i < rows.size(); ++i) {
      for (const Slot slot : owners_) bytes += rows.Row(i)[slot].OwnedBytes();
    }
    return bytes;
  }
  // The same with what those before the section have made.
  static size_t BytesOfInput(Rows& rows) {
    size_t bytes = rows.Held();
    for (size_t i = 0; i < rows.size(); ++i) {
      for (size_t slot = 0; slot < rows.width(); ++slot) bytes += rows.Row(i)[slot].OwnedBytes();
    }
    return bytes;
  }

  // By the calling thread: rows go on. False: no more are wanted, and all stop.
  bool HandOn(Rows& rows) {
    if (rows.empty()) return true;
    if (next_->Push(rows) && !ctx_.failed()) return true;
    stop_.store(true);
    return false;
  }

  // All of a scan, from one row.
  bool Scan(Value* base) {
    base_ = base;
    Token label = kNoToken;
    if (step().label >= 0) {
      label = ctx_.Label(step().label);
      if (label == kNoToken) return true;
    }
    if (!caller_->BeginScan(label, base, &source_)) {
      ctx_.Fail(caller_->context().status());
      return Stop();
    }
    // Enough morsels of a small scan for all.
    const uint64_t nodes = source_.size();
    const size_t most =
        std::clamp<size_t>(nodes / (8 * static_cast<size_t>(options_.threads)),
                           std::min(kFewestNodes, options_.morsel_nodes), options_.morsel_nodes);
    morsel_nodes_ = std::min(kFirstNodes, most);
    {
      // From here on threads that an earlier scan has started read what is above.
      const std::lock_guard lock(mu_);
      ended_ = closed_ = false;
    }
    work_.notify_all();
    uint64_t done = 0;  // nodes, by this thread, and its time for them
    int64_t spent = 0;
    while (true) {
      if (!Deliver()) return false;
      if (Morsel* const morsel = TakeMorsel(caller_.get())) {
        const size_t size = morsel->nodes.size();
        const int64_t began = ctx_.monotonic_nanos();
        RunByCaller(morsel);
        const int64_t nanos = ctx_.monotonic_nanos() - began;
        FitMorsels(size, nanos, most);
        done += size;
        spent += nanos;
        // The first nodes tell little, unless they take long.
        const bool tells = done >= most || spent >= options_.from_nanos / 8;
        if (threads_.empty() && tells && done < nodes) {
          const uint64_t rest = nodes - done;
          const double left = static_cast<double>(spent) * static_cast<double>(rest);
          if (left >= static_cast<double>(options_.from_nanos) * static_cast<double>(done)) {
            StartThreads((rest + morsel_nodes_ - 1) / morsel_nodes_);
          }
        }
        continue;
      }
      std::unique_lock lock(mu_);
      if (morsels_.empty()) return true;
      Await(lock);
      if (ctx_.failed()) return Stop();
    }
  }

  // Nodes with many relationships often are beside each other: few of them are as much work as many
  // others, and a thread is not to have them all.
  void FitMorsels(size_t nodes, int64_t nanos, size_t most) {
    const size_t fit = static_cast<int64_t>(nodes) * kMorselNanos / std::max<int64_t>(nanos, 1);
    morsel_nodes_ = std::clamp<size_t>(std::min(fit, 4 * nodes), std::min(kLeastNodes, most), most);
  }

  // A batch of rows.
  bool PushRows(Rows& in) {
    if (stop_.load(std::memory_order_relaxed)) return false;
    const bool alone = threads_.empty();
    const int64_t began = alone ? ctx_.monotonic_nanos() : 0;
    const size_t bytes = alone ? in.Held() : BytesOfInput(in);
    {
      const std::lock_guard lock(mu_);
      auto morsel = std::make_unique<Morsel>();
      morsel->input = {EmptyRows(), bytes};
      std::swap(*morsel->input.rows, in);
      morsel->taken = alone;
      morsels_.push_back(std::move(morsel));
      input_bytes_ += bytes;
    }
    if (!alone) {
      work_.notify_one();
      return DeliverDownTo(most_morsels_);
    }
    RunByCaller(morsels_.front().get());
    if (!Deliver()) return false;
    spent_nanos_ += ctx_.monotonic_nanos() - began;
    if (++batches_ >= 2 && spent_nanos_ >= options_.from_nanos) {
      StartThreads(static_cast<size_t>(options_.threads));
      spent_nanos_ = 0;
    }
    return true;
  }

  void DeliverAll() { DeliverDownTo(0); }

  // Hands on and works until at most so many morsels are there, and not more than may wait.
  bool DeliverDownTo(size_t most) {
    while (true) {
      if (!Deliver()) return false;
      {
        const std::lock_guard lock(mu_);
        if (Within(most)) return true;
      }
      if (Morsel* const morsel = TakeMorsel(caller_.get())) {
        RunByCaller(morsel);
        continue;
      }
      std::unique_lock lock(mu_);
      if (Within(most)) return true;
      Await(lock);
      if (ctx_.failed()) return Stop();
    }
  }

  bool Within(size_t most) const {
    return morsels_.size() <= most && input_bytes_ <= most_waiting();
  }

  bool Stop() {
    stop_.store(true);
    return false;
  }

  // Waits for rows of the lowest morsel, or its end; not for ever, so that limits are looked at.
  void Await(std::unique_lock<std::mutex>& lock) {
    const bool ready = ready_.wait_for(lock, kLookEvery, [this] {
      return morsels_.empty() || morsels_.front()->done || !morsels_.front()->kept.empty();
    });
    if (ready) return;
    lock.unlock();
    ctx_.Tick(kLookWork);
    lock.lock();
  }

  // Hands on all that there is of the lowest morsels. False: no more is wanted, or an error.
  bool Deliver() {
    std::unique_lock lock(mu_);
    return DeliverFront(lock);
  }
  bool DeliverFront(std::unique_lock<std::mutex>& lock) {
    while (!stop_.load(std::memory_order_relaxed) && !morsels_.empty()) {
      Morsel& morsel = *morsels_.front();
      if (!morsel.kept.empty()) {
        std::deque<Morsel::Batch> kept = std::exchange(morsel.kept, {});
        kept_bytes_ -= std::exchange(morsel.kept_bytes, 0);
        lock.unlock();
        space_.notify_all();
        for (const Morsel::Batch& batch : kept) {
          if (!HandOn(*batch.rows)) return false;
        }
        lock.lock();
        for (Morsel::Batch& batch : kept) Recycle(std::move(batch));
        continue;
      }
      if (!morsel.done) return true;
      if (morsel.thrown != nullptr) {
        stop_.store(true);
        std::rethrow_exception(morsel.thrown);
      }
      if (!morsel.status.ok()) {
        ctx_.Fail(morsel.status);
        return Stop();
      }
      if (morsel.input.rows != nullptr) {
        input_bytes_ -= morsel.input.bytes;
        Recycle(std::move(morsel.input));
      }
      morsels_.pop_front();
      work_.notify_all();
      space_.notify_all();  // the next one is the lowest now
    }
    return !stop_.load(std::memory_order_relaxed);
  }

  // With mu_: rows that have memory, if there are some.
  std::unique_ptr<Rows> EmptyRows() {
    if (spare_.empty()) return std::make_unique<Rows>(runtime_->width);
    std::unique_ptr<Rows> rows = std::move(spare_.back().rows);
    spare_bytes_ -= spare_.back().bytes;
    spare_.pop_back();
    return rows;
  }
  // Cleared rows keep what their values hold.
  void Recycle(Morsel::Batch batch) {
    if (spare_bytes_ + batch.bytes > most_waiting()) return;
    batch.rows->clear();
    spare_bytes_ += batch.bytes;
    spare_.push_back(std::move(batch));
  }

  // The next morsel; null: there is none (now, for the calling thread, which does not wait).
  Morsel* TakeMorsel(SectionWorker* worker) {
    std::unique_lock lock(mu_);
    while (true) {
      if (stop_.load() || (closed_ && worker->calls())) return nullptr;
      if (!closed_ && section_.scans && morsels_.size() < most_morsels_) {
        lock.unlock();
        if (Morsel* const morsel = ScanMorsel(worker)) return morsel;
        lock.lock();
        continue;
      }
      if (!closed_ && !section_.scans) {
        const auto free = std::find_if(morsels_.begin(), morsels_.end(),
                                       [](const auto& morsel) { return !morsel->taken; });
        if (free != morsels_.end()) {
          (*free)->taken = true;
          return free->get();
        }
      }
      if (worker->calls() || (ended_ && !section_.scans)) return nullptr;
      work_.wait(lock);
    }
  }

  // Null: the scan is at its end. The morsel is there before its nodes are, so that none are lost
  // where memory is not to be had.
  Morsel* ScanMorsel(SectionWorker* worker) {
    auto made = std::make_unique<Morsel>();
    Morsel* const morsel = made.get();
    morsel->taken = true;
    const std::lock_guard scanning(scan_mu_);
    {
      const std::lock_guard lock(mu_);
      if (closed_) return nullptr;
      morsel->nodes.resize(morsel_nodes_);
      morsels_.push_back(std::move(made));
    }
    absl::StatusOr<size_t> count = 0;
    try {
      count = worker->Scan(&source_, morsel->nodes);
    } catch (...) {
      if (worker->calls()) throw;
      morsel->thrown = std::current_exception();
    }
    const bool more = count.ok() && *count > 0;
    {
      const std::lock_guard lock(mu_);
      if (more) {
        morsel->nodes.resize(*count);
        return morsel;
      }
      closed_ = true;
      morsel->status = count.status();
      morsel->done = true;
    }
    work_.notify_all();
    ready_.notify_one();
    return nullptr;
  }

  void RunByCaller(Morsel* morsel) {
    {
      const std::lock_guard lock(mu_);
      caller_->direct = morsels_.front().get() == morsel;
    }
    Run(caller_.get(), morsel);
  }

  void Run(SectionWorker* worker, Morsel* morsel) {
    absl::Status status;
    std::exception_ptr thrown;
    try {
      worker->Run(morsel, base_);
      status = worker->context().status();
    } catch (...) {
      // Of memory that is not to be had: the calling thread's callers see to it.
      if (worker->calls()) throw;
      thrown = std::current_exception();
    }
    bool lowest;
    {
      const std::lock_guard lock(mu_);
      if (!status.ok() || thrown != nullptr) closed_ = true;
      morsel->status = std::move(status);
      morsel->thrown = thrown;
      morsel->done = true;
      lowest = !morsels_.empty() && morsels_.front().get() == morsel;
    }
    if (lowest && !worker->calls()) ready_.notify_one();
  }

  // Beside the caller: so many that the batches which their operators have take no more than an
  // eighth of the limit of memory. What one thread can run is not to fail with several.
  size_t ThreadsThatFit() const {
    const size_t steps = section_.end - section_.begin + 2;  // with inputs and what they are given
    const size_t batch = 2 * kBatchRows * static_cast<size_t>(runtime_->width) * sizeof(Value);
    const size_t limit = ctx_.limits.memory_bytes;
    const auto all = static_cast<size_t>(options_.threads) - 1;
    return limit == 0 ? all : std::min(all, limit / 8 / (steps * batch));
  }

  void StartThreads(size_t most) {
    size_t wanted = std::min(most, ThreadsThatFit());
    threads_.reserve(wanted);
    workers_.reserve(wanted);
    wanted = TakeSpare(wanted);
    for (size_t i = 0; i < wanted; ++i) {
      try {
        if (workers_.size() == i) workers_.push_back(MakeWorker(false));
        threads_.emplace_back([this, worker = workers_[i].get()] { Help(worker); });
      } catch (const std::exception&) {
        break;  // no more threads, or no memory for them: those that there are do it
      }
    }
    GiveBackSpare(wanted - threads_.size());
  }

  void Help(SectionWorker* worker) {
    try {
      worker->Build();
      while (Morsel* const morsel = TakeMorsel(worker)) Run(worker, morsel);
    } catch (const std::exception&) {
      // No memory for what it needs before it takes a morsel: the others do without it.
    }
  }

  void StopThreads() {
    if (threads_.empty()) return;
    {
      const std::lock_guard lock(mu_);
      stop_.store(true);
    }
    work_.notify_all();
    space_.notify_all();
    for (std::thread& thread : threads_) thread.join();
    GiveBackSpare(threads_.size());
    threads_.clear();
  }

  size_t TakeSpare(size_t wanted) {
    if (options_.spare == nullptr) return wanted;
    int left = options_.spare->load();
    int taken;
    do {
      taken = std::clamp(left, 0, static_cast<int>(wanted));
    } while (!options_.spare->compare_exchange_weak(left, left - taken));
    return static_cast<size_t>(taken);
  }
  void GiveBackSpare(size_t threads) {
    if (options_.spare != nullptr) options_.spare->fetch_add(static_cast<int>(threads));
  }

  const std::span<const Step> steps_;
  const ParallelSection& section_;
  const ParallelOptions& options_;
  const size_t most_morsels_;  // that are there at a time, but for one of each thread
  std::vector<Slot> owners_;
  std::unique_ptr<SectionWorker> caller_;
  std::vector<std::unique_ptr<SectionWorker>> workers_;
  std::vector<std::thread> threads_;
  // Of rows, before threads have begun.
  size_t batches_ = 0;
  int64_t spent_nanos_ = 0;

  std::atomic<bool> stop_{false};  // set by the calling thread: all end
  std::mutex scan_mu_;             // before mu_
  // Of a scan; behind scan_mu_.
  const Value* base_ = nullptr;
  NodeSource source_;
  std::atomic<size_t> morsel_nodes_ = 0;

  std::mutex mu_;
  std::condition_variable work_;   // for threads: there may be a morsel to take
  std::condition_variable space_;  // for threads: rows were taken away
  std::condition_variable ready_;  // for the caller: the lowest morsel has rows, or is done
  std::deque<std::unique_ptr<Morsel>> morsels_;  // by number; the first is the lowest
  size_t kept_bytes_ = 0;                        // of all morsels
  size_t input_bytes_ = 0;                       // the same
  std::vector<Morsel::Batch> spare_;
  size_t spare_bytes_ = 0;
  bool ended_ = false;   // of rows: no more come
  bool closed_ = false;  // no morsel is taken any more: the scan is at its end, or one failed
};

}  // namespace

std::unique_ptr<Operator> MakeSectionOperator(std::span<const Step> steps,
                                              const ParallelSection& section,
                                              const ParallelOptions& options, Runtime* runtime,
                                              Operator* next) {
  return std::make_unique<SectionOperator>(steps, section, options, runtime, next);
}

}  // namespace pulse::cypher
