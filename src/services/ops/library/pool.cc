#include "services/ops/library/pool.h"

#include <signal.h>

#include <algorithm>
#include <chrono>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/clock.h"
#include "base/cpu_list.h"

namespace pulse::ops {
namespace {

// A thread that has left what waits to the other side looks again: rates change meanwhile.
constexpr std::chrono::milliseconds kLookAgainAtItems{5};

// No CPU of the host's was named, and the agent is to do all.
bool AgentOnly(const Processors& processors) {
  return processors.agent != nullptr && processors.host_cpus.empty() &&
         processors.placement.kind == Placement::Kind::kAgent;
}

RateKey KindOf(const pulse_ops_request& raw) {
  return {absl::StrCat(raw.operation, "/", raw.format, "/", raw.flags), raw.level, ""};
}

}  // namespace

Pool::Pool(const Processors& processors, size_t most_under_way, PlacementNumbers* numbers)
    : processors_(processors),
      most_(most_under_way),
      numbers_(numbers),
      lanes_(processors.agent == nullptr
                 ? nullptr
                 : std::make_unique<AgentLanes>(processors.agent, !AgentOnly(processors))) {}

Pool::~Pool() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  work_.notify_all();
  JoinThreads();
  for (pulse_ops_result& result : results_) pulse_ops_release(&result);
}

bool Pool::StartThreads(std::unique_lock<std::mutex>& lock) {
  if (!threads_.empty()) return true;
  const auto add = [&](Side side, const std::vector<int>& cpus) {
    for (const int cpu : cpus) threads_.push_back({side, {cpu}, {}});
  };
  add(Side::kHost, processors_.host_cpus);
  add(Side::kAgent, processors_.agent_cpus);
  if (threads_.empty() && !AgentOnly(processors_)) {
    const int count = std::max(1, AllowedCpus());
    for (int i = 0; i < count; ++i) threads_.push_back({Side::kHost, {}, {}});
  }
  if (lanes_ != nullptr && processors_.placement.kind != Placement::Kind::kHost) {
    for (int i = 0; i <= lanes_->threads(); ++i) {
      threads_.push_back({Side::kAgent, processors_.host_cpus, {}});
    }
  }
  // The program's signals are for its own threads.
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  bool started = true;
  try {
    for (Thread& thread : threads_) thread.thread = std::thread([this, &thread] { Run(thread); });
  } catch (const std::system_error&) {
    started = false;
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (started) return true;
  // Those that were started end, so that the next Submit may try again.
  stop_ = true;
  work_.notify_all();
  lock.unlock();
  JoinThreads();
  lock.lock();
  threads_.clear();
  stop_ = false;
  return false;
}

void Pool::JoinThreads() {
  for (Thread& thread : threads_) {
    if (thread.thread.joinable()) thread.thread.join();
  }
}

int Pool::Submit(Request request) {
  std::unique_lock lock(mutex_);
  if (stop_ || !StartThreads(lock)) return PULSE_OPS_FAILED;
  if (under_way_ >= most_) return PULSE_OPS_BUSY;
  Item item{std::move(request), Side::kHost, true, {}};
  item.kind = KindOf(item.request.raw);
  const Placement& placement = processors_.placement;
  const auto has = [&](Side side) { return ThreadsOf(side) > 0; };
  if (placement.kind == Placement::Kind::kHost || placement.kind == Placement::Kind::kAgent) {
    item.side = placement.kind == Placement::Kind::kHost ? Side::kHost : Side::kAgent;
    item.any_side = !has(item.side);
  } else if (placement.kind == Placement::Kind::kSplit) {
    item.side = placement.SideOf(submitted_);
    item.any_side = !has(item.side);
  }
  ++submitted_;
  ++under_way_;
  if (item.request.raw.done == nullptr) ++for_wait_;
  // Where there are two sides, the one that is woken may leave it to the other.
  const bool any = item.any_side && !(has(Side::kHost) && has(Side::kAgent));
  waiting_bytes_ += item.request.raw.in_size;
  items_.push_back(std::move(item));
  any ? work_.notify_one() : work_.notify_all();
  return PULSE_OPS_OK;
}

size_t Pool::ThreadsOf(Side side) const {
  return static_cast<size_t>(
      std::count_if(threads_.begin(), threads_.end(),
                    [side](const Thread& thread) { return thread.side == side; }));
}

bool Pool::IsWorthwhile(const Item& item, Side side) {
  const auto others =
      static_cast<double>(ThreadsOf(side == Side::kHost ? Side::kAgent : Side::kHost));
  if (others == 0 || stop_) return true;  // whoever is there ends what is left
  const int64_t now = NowNanos();
  const SideRates& rates = rates_[item.kind];
  const double host = rates.host.BytesPerSecond(now);
  const double agent = rates.agent.BytesPerSecond(now);
  const double mine = side == Side::kHost ? host : agent;
  const double other = side == Side::kHost ? agent : host;
  if (mine <= 0 || other <= 0) return true;
  const auto bytes = static_cast<double>(item.request.raw.in_size);
  // The faster side takes it in any case, so that it never waits for nobody.
  const double left = static_cast<double>(waiting_bytes_) / (others * other);
  return bytes / mine <= std::max(left, bytes / other);
}

std::deque<Pool::Item>::iterator Pool::Find(Side side) {
  return std::find_if(items_.begin(), items_.end(), [&](const Item& item) {
    return item.any_side ? IsWorthwhile(item, side) : item.side == side;
  });
}

void Pool::Run(const Thread& thread) {
  // The caller was told before which of these CPUs do not exist.
  SetThreadAffinity(thread.cpus).IgnoreError();
  AgentLanes::OfThread agent(lanes_.get());
  LaneCache lane;
  if (thread.side == Side::kAgent && lanes_ != nullptr) lane.agent = &agent;
  std::unique_lock lock(mutex_);
  while (true) {
    auto it = Find(thread.side);
    if (it == items_.end()) {
      if (stop_) return;
      if (items_.empty()) {
        work_.wait(lock);
      } else {
        work_.wait_for(lock, kLookAgainAtItems);
      }
      continue;
    }
    const Request request = std::move(it->request);
    const RateKey kind = std::move(it->kind);
    items_.erase(it);
    waiting_bytes_ -= request.raw.in_size;
    lock.unlock();
    const int64_t start = NowNanos();
    const uint64_t by_host_before = agent.fallen_back();
    pulse_ops_result result = Execute(request, processors_, nullptr, &lane);
    Done(thread.side, agent.fallen_back() - by_host_before, kind, request.raw,
         result.code == PULSE_OPS_OK, start);
    if (request.raw.done != nullptr) {
      request.raw.done(request.raw.done_arg, &result);
      pulse_ops_release(&result);
      lock.lock();
      --under_way_;
      continue;
    }
    lock.lock();
    results_.push_back(result);
    done_.notify_one();
  }
}

void Pool::Done(Side thread, uint64_t fallen_back, const RateKey& kind,
                const pulse_ops_request& raw, bool succeeded, int64_t start) {
  const int64_t now = NowNanos();
  const Side by = fallen_back > 0 ? Side::kHost : thread;
  PlacementReport report;
  report.placement = processors_.placement.kind;
  report.ended = true;
  report.of(by).chunks = 1;
  report.of(by).bytes = raw.in_size;
  report.of(by).busy_nanos = static_cast<uint64_t>(std::max<int64_t>(0, now - start));
  report.of(Side::kAgent).refused = fallen_back;
  {
    const std::lock_guard lock(mutex_);
    ++(thread == Side::kHost ? done_by_host_ : done_by_agent_);
    if (!succeeded) return;
    const bool lost = lanes_ != nullptr && lanes_->lost();
    if (lost && !std::exchange(loss_reported_, true)) report.of(Side::kAgent).lost = 1;
    SideRates& rates = rates_[kind];
    (by == Side::kHost ? rates.host : rates.agent).Add(raw.in_size, now - start, now);
    const auto of_all = [&](const Rate& rate, Side of) {
      return rate.BytesPerSecond(now) * static_cast<double>(ThreadsOf(of));
    };
    report.of(Side::kHost).rate = of_all(rates.host, Side::kHost);
    report.of(Side::kAgent).rate = of_all(rates.agent, Side::kAgent);
  }
  numbers_->Add(TaskOf(raw), report);
}

Pool::Counts Pool::counts() const {
  const std::lock_guard lock(mutex_);
  Counts counts{submitted_, done_by_host_, done_by_agent_, 0, 0, false};
  if (lanes_ != nullptr) {
    counts.agent_chunks = lanes_->done();
    counts.fallback_chunks = lanes_->fallen_back();
    counts.agent_lost = lanes_->lost();
  }
  return counts;
}

int Pool::Wait(uint32_t timeout_ms, pulse_ops_result* result) {
  std::unique_lock lock(mutex_);
  done_.wait_for(lock, std::chrono::milliseconds(timeout_ms),
                 [&] { return !results_.empty() || for_wait_ == 0; });
  if (results_.empty()) return for_wait_ == 0 ? PULSE_OPS_NOTHING : PULSE_OPS_TIMEOUT;
  *result = results_.front();
  results_.pop_front();
  --under_way_;
  --for_wait_;
  if (for_wait_ == 0) done_.notify_all();
  return PULSE_OPS_OK;
}

size_t Pool::under_way() const {
  const std::lock_guard lock(mutex_);
  return under_way_;
}

}  // namespace pulse::ops
