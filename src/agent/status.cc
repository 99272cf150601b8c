#include "agent/status.h"

#include <unistd.h>

#include <algorithm>
#include <ctime>
#include <utility>

#include "base/clock.h"
#include "base/json.h"

namespace pulse {
namespace {

uint64_t CpuNanos(clockid_t clock) {
  // A clock that cannot be read is a thread's that has just ended.
  return static_cast<uint64_t>(std::max<int64_t>(0, ClockNanos(clock)));
}

void CopyCounters(const SessionCounters& from, SessionStatus* to) {
  for (size_t i = 0; i < kMaxRequestKinds; ++i) to->requests[i] = from.requests[i].Get();
  to->failed = from.failed.Get();
  to->bytes_read = from.bytes_read.Get();
  to->bytes_written = from.bytes_written.Get();
  to->fetch_busy_nanos = from.fetch.Nanos();
  to->fetch_in_flight = from.fetch.in_flight();
  to->persist_busy_nanos = from.persist.Nanos();
  to->persist_in_flight = from.persist.in_flight();
  for (size_t i = 0; i < LatencyCounts::kBuckets; ++i) to->sync_counts[i] = from.syncs.bucket(i);
  to->sync_nanos = from.syncs.nanos();
  to->queues = from.queues.Get();
  to->memory = from.memory.Get();
  to->files = from.files.Get();
}

void WriteSession(const SessionStatus& s, int64_t now, JsonWriter* w) {
  w->Open('{').Add("id", s.id).Add("pid", static_cast<uint64_t>(s.pid));
  w->Add("service", s.service->name).Add("mover", s.mover);
  w->Add("attached_nanos", static_cast<uint64_t>(s.attached_nanos));
  w->Add("queues", s.queues).Add("memory_bytes", s.memory).Add("files", s.files);
  w->Key("requests").Open('{');
  for (size_t i = 0; i < s.service->request_kinds.size(); ++i) {
    w->Add(s.service->request_kinds[i], s.requests[i]);
  }
  w->Close('}').Add("requests_failed", s.failed);
  w->Add("bytes_read", s.bytes_read).Add("bytes_written", s.bytes_written);
  w->Key("fetch").Open('{').Add("busy_nanos", s.fetch_busy_nanos);
  w->Add("in_flight", s.fetch_in_flight).Close('}');
  w->Key("persist").Open('{').Add("busy_nanos", s.persist_busy_nanos);
  w->Add("in_flight", s.persist_in_flight).Close('}');
  uint64_t syncs = 0;
  for (const uint64_t n : s.sync_counts) syncs += n;
  w->Key("syncs").Open('{').Add("count", syncs).Add("nanos", s.sync_nanos);
  w->Key("below_power_of_two_micros").Open('[');
  for (const uint64_t n : s.sync_counts) w->Value(n);
  w->Close(']').Close('}');
  w->Key("databases").Open('[');
  if (s.host) {
    for (const std::string& name : s.host->names) w->Value(name);
  }
  w->Close(']').Key("host");
  if (!s.host) {
    w->Null().Close('}');
    return;
  }
  const uint64_t written = (*s.host)[HostNumbersCopy::kTime];
  const auto time = static_cast<uint64_t>(now);
  w->Open('{').Add("age_nanos", time > written ? time - written : 0);
  const auto& specs = s.service->host_numbers;
  for (size_t i = HostNumbersCopy::kTime + 1; i < specs.size(); ++i) {
    w->Add(specs[i].name, (*s.host)[i]);
  }
  w->Close('}').Close('}');
}

// What pulse top shows; Prometheus has the rest.
void WriteFront(const std::optional<FrontStatus>& front, JsonWriter* w) {
  if (!front) {
    w->Null();
    return;
  }
  w->Open('{').Add("service", front->service);
  w->Add("connections", front->connections).Add("connections_total", front->accepted);
  w->Add("requests", front->requests).Add("answered", front->answered);
  w->Add("forwarded", front->forwarded).Add("lost", front->lost);
  w->Add("held_bytes", front->held_bytes).Add("cpu_nanos", front->cpu_nanos);
  w->Key("cpu_components").Open('{');
  for (size_t i = 0; i < kCpuComponentNames.size(); ++i) {
    w->Add(kCpuComponentNames[i], front->component_nanos[i]);
  }
  w->Close('}').Key("to_host").Open('{');
  for (const auto& [reason, count] : front->to_host) w->Add(reason, count);
  w->Close('}').Close('}');
}

void WriteGroup(const NumberGroup& group, JsonWriter* w) {
  w->Key(group.name).Open('{');
  for (const Number& n : group.numbers) w->Add(n.spec->name, n.value);
  w->Close('}');
}

}  // namespace

AgentStatus::AgentStatus(std::string kind, std::string socket,
                         std::shared_ptr<const FrontRegistry> front, TakeGroups groups)
    : kind_(std::move(kind)),
      socket_(std::move(socket)),
      front_(std::move(front)),
      groups_(std::move(groups)),
      started_(NowNanos()) {}

uint64_t AgentStatus::Enter(const SessionEntry& entry) {
  std::lock_guard lock(mu_);
  ++sessions_total_;
  sessions_[next_id_] = {entry, NowNanos()};
  return next_id_++;
}

void AgentStatus::Leave(uint64_t id) {
  std::lock_guard lock(mu_);
  sessions_.erase(id);
}

uint64_t AgentStatus::EnterWorker(clockid_t cpu_clock, std::string engine) {
  std::lock_guard lock(mu_);
  workers_[next_id_] = {cpu_clock, std::move(engine)};
  return next_id_++;
}

void AgentStatus::LeaveWorker(uint64_t id) {
  std::lock_guard lock(mu_);
  const auto it = workers_.find(id);
  if (it == workers_.end()) return;
  ended_cpu_nanos_ += CpuNanos(it->second.clock);
  workers_.erase(it);
}

AgentStatusCopy AgentStatus::Take() const {
  AgentStatusCopy out;
  if (front_ != nullptr) out.front = front_->Take();
  if (groups_) out.groups = groups_();
  std::lock_guard lock(mu_);
  out.kind = kind_;
  out.socket = socket_;
  out.pid = getpid();
  out.now_nanos = NowNanos();
  out.uptime_nanos = out.now_nanos - started_;
  out.workers = workers_.size();
  out.sessions_total = sessions_total_;
  out.cpu_nanos = kind_ == "agent" ? CpuNanos(CLOCK_PROCESS_CPUTIME_ID) : ended_cpu_nanos_;
  for (const auto& [id, worker] : workers_) {
    out.engine = worker.engine;
    if (kind_ != "agent") out.cpu_nanos += CpuNanos(worker.clock);
  }
  for (auto& [id, session] : sessions_) {
    SessionStatus s;
    s.id = id;
    s.pid = session.entry.pid;
    s.service = session.entry.service;
    s.mover = session.entry.mover;
    s.attached_nanos = out.now_nanos - session.since;
    CopyCounters(*session.entry.counters, &s);
    s.fetch_busy_nanos = session.fetch_busy_nanos =
        std::max(session.fetch_busy_nanos, s.fetch_busy_nanos);
    s.persist_busy_nanos = session.persist_busy_nanos =
        std::max(session.persist_busy_nanos, s.persist_busy_nanos);
    if (HostNumbersCopy host;
        !s.service->host_numbers.empty() && ReadHostNumbers(session.entry.control, &host)) {
      session.host = host;
    }
    s.host = session.host;
    out.sessions.push_back(std::move(s));
  }
  return out;
}

std::string ToJson(const AgentStatusCopy& status) {
  JsonWriter w;
  w.Open('{').Add("format", "pulse-status").Add("version", 1);
  w.Add("protocol", wire::kProtocolVersion).Add("kind", status.kind);
  w.Add("socket", status.socket).Add("pid", static_cast<uint64_t>(status.pid));
  w.Add("engine", status.engine).Add("workers", status.workers);
  w.Add("now_nanos", static_cast<uint64_t>(status.now_nanos));
  w.Add("uptime_nanos", static_cast<uint64_t>(status.uptime_nanos));
  w.Add("cpu_nanos", status.cpu_nanos).Add("sessions_total", status.sessions_total);
  w.Key("sessions").Open('[');
  for (const SessionStatus& s : status.sessions) WriteSession(s, status.now_nanos, &w);
  w.Close(']').Key("front");
  WriteFront(status.front, &w);
  for (const NumberGroup& group : status.groups) WriteGroup(group, &w);
  w.Close('}');
  return w.text();
}

}  // namespace pulse
