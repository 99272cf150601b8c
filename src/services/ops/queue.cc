#include "services/ops/queue.h"

#include <algorithm>
#include <cmath>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/cpu_list.h"
#include "base/shortage.h"

namespace pulse::ops {
namespace {

// How long a lane waits before it looks again whether another one is late.
constexpr std::chrono::milliseconds kLookAgain{5};
constexpr int64_t kReportEvery = 1'000'000'000;
// Memory of a larger chunk or result, as of a line of many MiB, is given back.
constexpr size_t kMostRecycled = size_t{16} << 20;

QueueOptions WithDefaults(QueueOptions options, const std::vector<Engine*>& engines) {
  if (!options.clock) options.clock = [] { return NowNanos(); };
  if (options.window == 0) {
    size_t lanes = 0;
    for (const Engine* engine : engines) lanes += static_cast<size_t>(engine->traits().lanes);
    options.window = std::max<size_t>(8, 4 * lanes);
  }
  return options;
}

RateKey KeyOf(const QueueOptions& options, const Engine& engine) {
  return {options.operation, options.level, engine.traits().name};
}

// C2 is about all engines.
RateKey VerdictKeyOf(const QueueOptions& options) { return {options.operation, options.level, ""}; }

std::vector<Scheduler::EngineState> StatesOf(const QueueOptions& options,
                                             const std::vector<Engine*>& engines) {
  std::vector<Scheduler::EngineState> states;
  for (const Engine* engine : engines) {
    states.push_back(
        {engine->traits().side, engine->traits().lanes,
         options.rates != nullptr ? options.rates->Get(KeyOf(options, *engine)) : SizedRates(),
         [engine](uint64_t bytes) { return engine->NanosBefore(bytes); },
         engine->traits().pipeline});
  }
  return states;
}

}  // namespace

double QueueStats::RateOf(Side side) const {
  double sum = 0;
  for (const EngineStats& engine : engines) {
    if (engine.side == side && !engine.lost) sum += engine.bytes_per_second * engine.lanes;
  }
  return sum;
}

PlacementReport QueueStats::Report() const {
  PlacementReport report;
  for (const EngineStats& engine : engines) {
    PlacementReport::OfSide& side = report.of(engine.side);
    side.chunks += engine.chunks;
    side.bytes += engine.bytes;
    side.redone += engine.redone;
    side.refused += engine.refused;
    side.discarded += engine.discarded;
    side.lost += engine.losses;
    side.busy_nanos += static_cast<uint64_t>(std::max<int64_t>(0, engine.busy_nanos));
    if (engine.side == Side::kAgent) {
      report.most_before_nanos = std::max(report.most_before_nanos, engine.most_before_nanos);
    }
  }
  report.of(Side::kHost).rate = RateOf(Side::kHost);
  report.of(Side::kAgent).rate = RateOf(Side::kAgent);
  report.whole = seconds > 0 ? static_cast<double>(input_bytes) / seconds : 0;
  return report;
}

void QueueStats::Add(const QueueStats& next) {
  if (!total_bytes.has_value()) total_bytes = next.total_bytes;
  chunks += next.chunks;
  input_bytes += next.input_bytes;
  output_bytes += next.output_bytes;
  mark_bytes += next.mark_bytes;
  seconds += next.seconds;
  run_seconds += next.run_seconds;
  for (const EngineStats& more : next.engines) {
    const auto it = std::find_if(engines.begin(), engines.end(), [&](const EngineStats& engine) {
      return engine.name == more.name && engine.side == more.side;
    });
    if (it == engines.end()) {
      engines.push_back(more);
      continue;
    }
    it->chunks += more.chunks;
    it->bytes += more.bytes;
    it->redone += more.redone;
    it->discarded += more.discarded;
    it->refused += more.refused;
    it->busy_nanos += more.busy_nanos;
    it->before_nanos += more.before_nanos;
    it->most_before_nanos = std::max(it->most_before_nanos, more.most_before_nanos);
    it->counts.pieces += more.counts.pieces;
    it->counts.retries += more.counts.retries;
    if (more.bytes_per_second > 0) it->bytes_per_second = more.bytes_per_second;
    if (more.lost && !it->lost) it->error = more.error;
    it->lost = it->lost || more.lost;
    it->losses += more.losses;
  }
}

std::string QueueStats::Explain() const {
  const auto rounded = [](double value, double unit) { return std::round(value * unit) / unit; };
  const auto megabytes = [](double rate) { return std::llround(rate / 1e6); };
  std::string text =
      absl::StrCat(chunks, " chunks, ", input_bytes, " bytes in, ", output_bytes, " out");
  for (const EngineStats& engine : engines) {
    absl::StrAppend(&text, "; ", engine.name, " (", engine.side == Side::kHost ? "host" : "agent",
                    ", ", engine.lanes, engine.lanes == 1 ? " lane): " : " lanes): ", engine.chunks,
                    " chunks in ", rounded(static_cast<double>(engine.busy_nanos) * 1e-9, 1000),
                    " s");
    if (engine.bytes_per_second > 0) {
      absl::StrAppend(&text, " at ", megabytes(engine.bytes_per_second * engine.lanes), " MB/s");
    }
    if (engine.redone > 0) absl::StrAppend(&text, ", ", engine.redone, " done again");
    if (engine.refused > 0) absl::StrAppend(&text, ", ", engine.refused, " refused");
    if (engine.discarded > 0) absl::StrAppend(&text, ", ", engine.discarded, " came second");
    if (engine.counts.pieces > 0) {
      absl::StrAppend(&text, ", ", engine.counts.pieces, " pieces, ", engine.counts.retries,
                      " tried again with more room");
    }
    if (engine.lost) absl::StrAppend(&text, ", lost: ", engine.error.message());
  }
  if (mark_bytes > 0) {
    const double share = static_cast<double>(mark_bytes) / static_cast<double>(output_bytes);
    absl::StrAppend(&text, "; of the output ", mark_bytes, " bytes (", rounded(share * 100, 1000),
                    " %) are marks that --primed leaves out; it also lets chunks use the data "
                    "before them, which saves more");
  }
  const PlacementReport report = Report();
  if (report.BothAreKnown()) {
    absl::StrAppend(&text, "; TT of the host ", megabytes(report.of(Side::kHost).rate),
                    " MB/s, of the agent ", megabytes(report.of(Side::kAgent).rate), "; OT ",
                    megabytes(report.whole), "; C1 (agent faster) ", report.C1() ? "yes" : "no",
                    ", C2 (both faster than either) ", report.C2() ? "yes" : "no");
    const auto before = static_cast<double>(report.most_before_nanos);
    if (before > 0) {
      absl::StrAppend(&text, "; set-up of ", rounded(before * 1e-6, 10), " ms, break-even at ",
                      rounded(report.BreakEvenBytes() * 1e-6, 10), " MB");
    }
  }
  return text;
}

Queue::Queue(QueueOptions options, std::vector<Engine*> engines)
    : options_(WithDefaults(std::move(options), engines)),
      engines_(std::move(engines)),
      looking_(engines_.size()),
      scheduler_({options_.placement, options_.window, options_.chunk_bytes,
                  options_.rates != nullptr ? options_.rates->GetVerdict(VerdictKeyOf(options_))
                                            : std::nullopt},
                 StatesOf(options_, engines_)),
      slots_(options_.window) {
  PULSE_CHECK(!engines_.empty());
  if (options_.total_bytes.has_value()) scheduler_.SetTotal(*options_.total_bytes);
  stats_.total_bytes = options_.total_bytes;
  for (const Engine* engine : engines_) {
    EngineStats stats;
    stats.name = engine->traits().name;
    stats.side = engine->traits().side;
    stats.lanes = engine->traits().lanes;
    stats_.engines.push_back(std::move(stats));
  }
}

Queue::~Queue() = default;

absl::Status Queue::Run(Source& source, Sink& sink) {
  source_ = &source;
  sink_ = &sink;
  last_report_ = started_ = options_.clock();
  for (Engine* engine : engines_) engine->Begin();
  std::vector<std::thread> threads;
  {
    const Lock lock(mutex_);
    for (const Engine* engine : engines_) lanes_running_ += engine->traits().lanes;
  }
  if (options_.in_calling_thread) {
    PULSE_CHECK(lanes_running_ == 1);
    RunLane(0, 0);
  }
  if (!options_.in_calling_thread) StartLanes(threads);
  Lock lock(mutex_);
  bool interrupted = false;
  while (lanes_running_ > 0) {
    const bool over = stopped_ || (scheduler_.ended() && delivered_ == scheduler_.claimed());
    if (over && !interrupted) {
      // What lanes still do is for nothing.
      interrupted = true;
      const bool failed = stopped_;
      lock.unlock();
      for (Engine* engine : engines_) engine->Interrupt();
      if (failed) source_->Stop();
      lock.lock();
      continue;
    }
    lane_ended_.wait_for(lock, options_.tick_every);
    if (options_.tick) {
      lock.unlock();
      options_.tick();
      lock.lock();
    }
    if (options_.clock() - last_report_ >= kReportEvery) Report(lock, false);
  }
  lock.unlock();
  for (std::thread& thread : threads) thread.join();
  FinishStats();
  if (!status_.ok()) return status_;
  return source_status_;
}

void Queue::StartLanes(std::vector<std::thread>& threads) {
  int most = 0;
  int wanted = 0;
  for (const Engine* engine : engines_) {
    most = std::max(most, engine->traits().lanes);
    wanted += engine->traits().lanes;
  }
  threads.reserve(static_cast<size_t>(wanted));
  // The first lane of each engine before any second one: engines with fewer lanes than they could
  // have do the work, one without any would keep it waiting.
  try {
    for (int lane = 0; lane < most; ++lane) {
      for (size_t engine = 0; engine < engines_.size(); ++engine) {
        if (lane >= engines_[engine]->traits().lanes) continue;
        threads.emplace_back([this, engine, lane] { RunLane(static_cast<int>(engine), lane); });
      }
    }
  } catch (const std::system_error&) {
    Lock lock(mutex_);
    lanes_running_ -= wanted - static_cast<int>(threads.size());
    if (threads.size() < engines_.size()) Fail(lock, NoThreadError(options_.operation));
  }
}

void Queue::Cancel() {
  Lock lock(mutex_);
  Fail(lock, absl::CancelledError("cancelled"));
}

void Queue::Fail(Lock& lock, absl::Status status) {
  if (!stopped_) {
    stopped_ = true;
    status_ = std::move(status);
    scheduler_.End();
  }
  changed_.notify_all();
  lane_ended_.notify_all();
}

void Queue::RunLane(int engine, int lane) {
  // The caller was told before which of these CPUs do not exist.
  SetThreadAffinity(engines_[static_cast<size_t>(engine)]->traits().cpus).IgnoreError();
  Lock lock(mutex_);
  Looking& looking = looking_[static_cast<size_t>(engine)];
  while (!stopped_ && !looking.over) {
    if (looking.lane) {
      looking.free.wait(lock);
      continue;
    }
    // While a lane reads the next chunk, what is left is not known.
    const Scheduler::Decision decision =
        reading_ ? Scheduler::Decision() : scheduler_.Next(engine, options_.clock());
    if (decision.act == Scheduler::Act::kDone) {
      looking.over = true;
      break;
    }
    if (decision.act == Scheduler::Act::kWait) {
      looking.lane = true;
      changed_.wait_for(lock, kLookAgain);
      looking.lane = false;
      continue;
    }
    looking.free.notify_one();
    switch (decision.act) {
      case Scheduler::Act::kTake:
        if (auto chunk = Take(lock, engine)) DoChunk(lock, engine, lane, std::move(chunk), false);
        break;
      case Scheduler::Act::kDo: {
        auto chunk = SlotOf(decision.chunk).chunk;
        // One that a lost engine had may be loaded; loading again does no harm.
        DoChunk(lock, engine, lane, std::move(chunk), false);
        break;
      }
      default:
        ++stats_.engines[static_cast<size_t>(engine)].redone;
        DoChunk(lock, engine, lane, SlotOf(decision.chunk).chunk, true);
    }
  }
  looking.free.notify_all();
  --lanes_running_;
  changed_.notify_all();
  lane_ended_.notify_all();
}

std::shared_ptr<Chunk> Queue::Take(Lock& lock, int engine) {
  std::shared_ptr<Chunk> chunk = NewChunk();
  chunk->number = scheduler_.claimed();
  reading_ = true;
  lock.unlock();
  absl::StatusOr<bool> got =
      CatchNoMemory([&]() -> absl::StatusOr<bool> { return source_->Next(*chunk); });
  lock.lock();
  reading_ = false;
  changed_.notify_all();
  if (!got.ok() || !*got) {
    if (!got.ok()) source_status_ = std::move(got).status();
    scheduler_.End();
    Recycle(std::move(chunk));
    lane_ended_.notify_all();
    return nullptr;
  }
  if (stopped_) return nullptr;
  Slot& slot = SlotOf(chunk->number);
  PULSE_CHECK(slot.chunk == nullptr);
  slot.chunk = chunk;
  slot.done = false;
  const bool mine = scheduler_.Claimed(engine, source_->SizeOf(*chunk));
  return mine ? chunk : nullptr;
}

void Queue::DoChunk(Lock& lock, int engine, int lane, std::shared_ptr<Chunk> chunk, bool loaded) {
  EngineStats& stats = stats_.engines[static_cast<size_t>(engine)];
  const uint64_t attempt =
      scheduler_.Started(engine, chunk->number, source_->SizeOf(*chunk), options_.clock());
  std::unique_ptr<Result> result;
  if (free_results_.empty()) {
    result = std::make_unique<Result>();
  } else {
    result = std::move(free_results_.back());
    free_results_.pop_back();
  }
  absl::Status status;
  bool of_engine = false;
  if (!loaded) {
    lock.unlock();
    status = CatchNoMemory([&] { return source_->Load(*chunk); });
    lock.lock();
    if (status.ok()) scheduler_.Loaded(attempt, options_.clock());
  }
  if (status.ok()) {
    lock.unlock();
    result->Clear();
    const int64_t start = options_.clock();
    status = CatchNoMemory(
        [&] { return engines_[static_cast<size_t>(engine)]->Process(lane, *chunk, *result); });
    const int64_t end = options_.clock();
    lock.lock();
    stats.busy_nanos += end - start;
    stats.before_nanos += result->before_nanos;
    stats.most_before_nanos = std::max(stats.most_before_nanos, result->before_nanos);
    of_engine = absl::IsUnavailable(status);
  }
  if (of_engine) {
    scheduler_.Lost(attempt);
    if (!stats.lost) {
      stats.error = status;
      stats.losses = engines_[static_cast<size_t>(engine)]->ReportLoss() ? 1 : 0;
    }
    stats.lost = true;
    if (!scheduler_.any_engine()) {
      Fail(lock, absl::UnavailableError(absl::StrCat("no engine is left; the last one, ",
                                                     stats.name, ", failed: ", status.message())));
    }
    changed_.notify_all();
    return;
  }
  if (absl::IsUnimplemented(status)) {
    ++stats.refused;
    Recycle(std::move(result));
    const bool others = scheduler_.Refused(attempt);
    const Slot& slot = SlotOf(chunk->number);
    const bool there = slot.chunk != chunk || slot.done;
    if (!others && !there) Fail(lock, std::move(status));
    changed_.notify_all();
    return;
  }
  if (!scheduler_.Finished(attempt, options_.clock(), result->before_nanos)) {
    ++stats.discarded;
    Recycle(std::move(result));
    Recycle(std::move(chunk));
    changed_.notify_all();
    return;
  }
  ++stats.chunks;
  stats.bytes += chunk->size();
  Slot& slot = SlotOf(chunk->number);
  slot.result = std::move(result);
  slot.status = std::move(status);
  slot.done = true;
  chunk.reset();
  Deliver(lock);
  changed_.notify_all();
}

void Queue::Deliver(Lock& lock) {
  if (delivering_) return;
  delivering_ = true;
  while (!stopped_) {
    Slot& slot = SlotOf(delivered_);
    if (slot.chunk == nullptr || slot.chunk->number != delivered_ || !slot.done) break;
    if (!slot.status.ok()) {
      Fail(lock, slot.status);
      break;
    }
    // The slot is this chunk's until delivered_ grows.
    lock.unlock();
    const uint64_t bytes = slot.result->payload().size();
    absl::Status status = CatchNoMemory([&] { return sink_->Take(*slot.chunk, *slot.result); });
    lock.lock();
    if (!status.ok()) {
      Fail(lock, std::move(status));
      break;
    }
    ++stats_.chunks;
    input_bytes_.fetch_add(slot.chunk->size(), std::memory_order_relaxed);
    output_bytes_.fetch_add(bytes, std::memory_order_relaxed);
    Recycle(std::move(slot.result));
    Recycle(std::move(slot.chunk));
    slot.chunk = nullptr;
    slot.done = false;
    scheduler_.Delivered(++delivered_);
    last_delivery_ = options_.clock();
    changed_.notify_all();
  }
  delivering_ = false;
  if (scheduler_.ended() && delivered_ == scheduler_.claimed()) lane_ended_.notify_all();
}

std::shared_ptr<Chunk> Queue::NewChunk() {
  if (free_chunks_.empty()) return std::make_shared<Chunk>();
  std::shared_ptr<Chunk> chunk = std::move(free_chunks_.back());
  free_chunks_.pop_back();
  return chunk;
}

void Queue::Recycle(std::shared_ptr<Chunk> chunk) {
  // Another lane may still be at it; the last one brings it back.
  if (chunk.use_count() != 1) return;
  if (chunk->input.capacity() <= kMostRecycled) free_chunks_.push_back(std::move(chunk));
}

void Queue::Recycle(std::unique_ptr<Result> result) {
  if (result->bytes.capacity() <= kMostRecycled) free_results_.push_back(std::move(result));
}

void Queue::Report(Lock& lock, bool ended) {
  if (options_.in_calling_thread) return;
  const int64_t now = options_.clock();
  last_report_ = now;
  if (!ended) UpdateStats(now);
  PlacementReport report = stats_.Report();
  report.SubtractCountsOf(std::exchange(reported_, report));
  report.placement = options_.placement.kind;
  report.ended = ended;
  lock.unlock();
  for (Engine* engine : engines_) engine->Explain(report);
  if (options_.report) options_.report(report);
  lock.lock();
}

void Queue::FinishStats() {
  Lock lock(mutex_);
  UpdateStats(options_.clock());
  for (size_t i = 0; i < engines_.size() && options_.rates != nullptr; ++i) {
    options_.rates->Put(KeyOf(options_, *engines_[i]),
                        scheduler_.engine(static_cast<int>(i)).rates);
  }
  if (const auto verdict = scheduler_.verdict(); verdict.has_value() && options_.rates != nullptr) {
    options_.rates->PutVerdict(VerdictKeyOf(options_), *verdict);
  }
  Report(lock, !options_.continues);
}

void Queue::UpdateStats(int64_t now) {
  stats_.seconds = static_cast<double>(std::max(last_delivery_, started_) - started_) * 1e-9;
  stats_.run_seconds = static_cast<double>(now - started_) * 1e-9;
  stats_.input_bytes = input_bytes();
  stats_.output_bytes = output_bytes();
  for (size_t i = 0; i < engines_.size(); ++i) {
    const SizedRates& rates = scheduler_.engine(static_cast<int>(i)).rates;
    const EngineTraits& traits = engines_[i]->traits();
    stats_.engines[i].bytes_per_second =
        rates.BytesPerSecond(options_.chunk_bytes, now) / (traits.pipeline ? traits.lanes : 1);
    stats_.engines[i].counts = engines_[i]->Counts();
  }
}

}  // namespace pulse::ops
