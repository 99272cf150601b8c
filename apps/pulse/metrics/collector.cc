#include "apps/pulse/metrics/collector.h"

#include <sys/resource.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>

#include "services/redis/serve.h"

namespace pulse::metrics {
namespace {

using prometheus::ClientMetric;
using prometheus::MetricFamily;
using prometheus::MetricType;
using wire::HostNumber;
using Labels = std::vector<ClientMetric::Label>;

double Seconds(uint64_t nanos) { return static_cast<double>(nanos) / 1e9; }

}  // namespace

// Families by name, each with its samples.
class Families {
 public:
  void Counter(const char* name, const char* help, const Labels& labels, double value) {
    ClientMetric m;
    m.label = labels;
    m.counter.value = value;
    Add(name, help, MetricType::Counter, std::move(m));
  }
  void Gauge(const char* name, const char* help, const Labels& labels, double value) {
    ClientMetric m;
    m.label = labels;
    m.gauge.value = value;
    Add(name, help, MetricType::Gauge, std::move(m));
  }
  void Add(const char* name, const char* help, MetricType type, ClientMetric metric) {
    const auto [it, fresh] = index_.emplace(name, families_.size());
    if (fresh) families_.push_back({name, help, type, {}});
    families_[it->second].metric.push_back(std::move(metric));
  }
  std::vector<MetricFamily> Take() { return std::move(families_); }

 private:
  std::vector<MetricFamily> families_;
  std::map<std::string, size_t> index_;
};

namespace {

Labels With(Labels labels, const char* name, std::string value) {
  labels.push_back({name, std::move(value)});
  return labels;
}

void AddAgent(const AgentStatusCopy& a, Families* out) {
  out->Gauge("pulse_agent_info", "The agent: its socket, engine and process.",
             {{"socket", a.socket}, {"engine", a.engine}, {"pid", std::to_string(a.pid)}}, 1);
  out->Gauge("pulse_agent_uptime_seconds", "Time since the agent began.", {},
             static_cast<double>(a.uptime_nanos) / 1e9);
  out->Counter("pulse_agent_cpu_seconds_total", "CPU time of the agent's process.", {},
               Seconds(a.cpu_nanos));
  out->Gauge("pulse_agent_workers", "Worker threads.", {}, static_cast<double>(a.workers));
  out->Gauge("pulse_agent_sessions", "Sessions attached.", {},
             static_cast<double>(a.sessions.size()));
  out->Counter("pulse_agent_sessions_total", "Sessions that were ever attached.", {},
               static_cast<double>(a.sessions_total));
}

void AddTasks(const std::optional<TaskStatus>& tasks, Families* out) {
  if (!tasks) return;
  out->Gauge("pulse_agent_task_slots", "Whole compactions that the agent may run at a time.", {},
             static_cast<double>(tasks->most));
  out->Gauge("pulse_agent_tasks_running", "Whole compactions that the agent runs.", {},
             static_cast<double>(tasks->running));
  const auto count = [out](const char* outcome, uint64_t n) {
    out->Counter("pulse_agent_tasks_total", "Whole compactions, by what became of them.",
                 With(Labels(), "outcome", outcome), static_cast<double>(n));
  };
  count("done", tasks->done);
  count("failed", tasks->failed);
  count("refused", tasks->refused);
}

void AddSyncs(const SessionStatus& s, const Labels& labels, Families* out) {
  ClientMetric m;
  m.label = labels;
  uint64_t below = 0;
  // From 128 us to 8 s in factors of four: of the agent's buckets every other one.
  for (size_t i = 0; i < LatencyCounts::kBuckets; ++i) {
    below += s.sync_counts[i];
    const bool shown = i >= 7 && i <= 23 && i % 2 == 1;
    if (!shown) continue;
    m.histogram.bucket.push_back({below, static_cast<double>(uint64_t{1} << i) * 1e-6});
  }
  m.histogram.bucket.push_back({below, std::numeric_limits<double>::infinity()});
  m.histogram.sample_count = below;
  m.histogram.sample_sum = Seconds(s.sync_nanos);
  out->Add("pulse_sync_duration_seconds",
           "How long outputs took to be synced, from the agent's taking the request.",
           MetricType::Histogram, std::move(m));
}

void AddSession(const SessionStatus& s, const Labels& labels, Families* out) {
  for (size_t i = 0; i < kRequestKinds; ++i) {
    out->Counter("pulse_requests_total", "Requests that the agent has taken, by kind.",
                 With(labels, "kind", kRequestKindNames[i]), static_cast<double>(s.requests[i]));
  }
  out->Counter("pulse_requests_failed_total", "Requests that were answered with an error.", labels,
               static_cast<double>(s.failed));
  out->Counter("pulse_read_bytes_total", "Bytes that the agent has read.", labels,
               static_cast<double>(s.bytes_read));
  out->Counter("pulse_written_bytes_total", "Bytes that the agent has written.", labels,
               static_cast<double>(s.bytes_written));
  const auto stage = [&](const char* name, uint64_t busy, uint64_t in_flight) {
    const Labels staged = With(labels, "stage", name);
    out->Counter("pulse_stage_busy_seconds_total",
                 "Time in which the agent's stage had at least one request under way.", staged,
                 Seconds(busy));
    out->Gauge("pulse_stage_requests_in_flight", "Requests under way.", staged,
               static_cast<double>(in_flight));
  };
  stage("fetch", s.fetch_busy_nanos, s.fetch_in_flight);
  stage("persist", s.persist_busy_nanos, s.persist_in_flight);
  out->Gauge("pulse_session_memory_bytes", "Queue memory that the session has attached.", labels,
             static_cast<double>(s.memory));
  out->Gauge("pulse_session_queues", "Queues that the session has attached.", labels,
             static_cast<double>(s.queues));
  out->Gauge("pulse_session_files", "Files that the session has open.", labels,
             static_cast<double>(s.files));
  if (s.service == "lsm") AddSyncs(s, labels, out);
}

void AddHost(const HostNumbersCopy& h, int64_t now, const Labels& labels, Families* out) {
  const auto written = static_cast<double>(h[HostNumber::kTime]);
  out->Gauge("pulse_host_silence_seconds",
             "Time since the host wrote its numbers, which it does each quarter of a second.",
             labels, std::max(0.0, static_cast<double>(now) - written) / 1e9);
  const auto count = [&](const char* name, const char* help, HostNumber n) {
    out->Counter(name, help, labels, static_cast<double>(h[n]));
  };
  const auto seconds = [&](const char* name, const char* help, HostNumber n) {
    out->Counter(name, help, labels, Seconds(h[n]));
  };
  const auto gauge = [&](const char* name, const char* help, HostNumber n) {
    out->Gauge(name, help, labels, static_cast<double>(h[n]));
  };
  count("pulse_host_persisted_files_total", "Outputs that the agent wrote.",
        HostNumber::kFilesPersisted);
  count("pulse_host_persisted_bytes_total", "Bytes of outputs handed to the agent.",
        HostNumber::kBytesPersisted);
  count("pulse_host_inline_bytes_total",
        "Bytes of outputs that the host wrote by itself, for want of an agent or a queue.",
        HostNumber::kBytesInline);
  count("pulse_host_fetched_bytes_total", "Compaction input served from the agent's read-ahead.",
        HostNumber::kBytesFetched);
  count("pulse_host_fetch_misses_total", "Compaction reads that went to the file directly.",
        HostNumber::kFetchMisses);
  count("pulse_host_backpressure_waits_total", "Waits of appends for queue space.",
        HostNumber::kBackpressureWaits);
  seconds("pulse_host_backpressure_seconds_total", "Time that appends waited for queue space.",
          HostNumber::kBackpressureNanos);
  count("pulse_host_barrier_waits_total", "Waits of metadata for outputs to be durable.",
        HostNumber::kBarrierWaits);
  seconds("pulse_host_barrier_seconds_total",
          "Time that metadata waited for outputs to be durable.", HostNumber::kBarrierNanos);
  count("pulse_host_fetch_waits_total", "Waits of compaction reads for the agent.",
        HostNumber::kFetchWaits);
  seconds("pulse_host_fetch_wait_seconds_total", "Time that compaction reads waited for the agent.",
          HostNumber::kFetchWaitNanos);
  count("pulse_host_failovers_total", "Agents that the host has lost.", HostNumber::kFailovers);
  count("pulse_host_reconnects_total", "Agents that the host has found again.",
        HostNumber::kReconnects);
  seconds("pulse_host_agentless_seconds_total", "Time that the host was without an agent.",
          HostNumber::kAgentlessNanos);
  count("pulse_host_syncs_total", "Outputs synced and closed by the agent, as the host saw it.",
        HostNumber::kSyncs);
  seconds("pulse_host_sync_seconds_total", "How long that took altogether, as the host saw it.",
          HostNumber::kSyncNanos);
  seconds("pulse_host_output_open_seconds_total",
          "For how long outputs were open for writing, summed over them.",
          HostNumber::kOutputOpenNanos);
  gauge("pulse_host_outputs_open", "Outputs open for writing.", HostNumber::kOutputsOpen);
  gauge("pulse_host_streams", "Outputs that have a queue of their own.", HostNumber::kStreams);
  gauge("pulse_host_queued_bytes", "Payload that the agent has not given back.",
        HostNumber::kQueuedBytes);
  gauge("pulse_host_queued_requests", "Requests that the agent has not taken.",
        HostNumber::kQueuedRequests);
  gauge("pulse_host_queue_memory_bytes", "Memory of the host's queues.", HostNumber::kQueueMemory);
  gauge("pulse_host_databases", "Databases that are open.", HostNumber::kDatabases);
}

void AddEngine(const FrontStatus::Engine& e, const Labels& labels, Families* out) {
  out->Counter("pulse_offload_read_bytes_total", "Bytes in answers from files.", labels,
               static_cast<double>(e.bytes));
  out->Gauge("pulse_offload_off",
             "1: a function of the offload program has failed, and the host answers everything.",
             labels, e.off ? 1 : 0);
  out->Gauge("pulse_offload_cache_items", "Items in the cache table.", labels,
             static_cast<double>(e.table_items));
  out->Gauge("pulse_offload_cache_bytes", "Memory of the cache table.", labels,
             static_cast<double>(e.table_bytes));
  out->Counter("pulse_offload_cache_inserts_total", "Items with new keys.", labels,
               static_cast<double>(e.table_inserts));
  out->Counter("pulse_offload_cache_evictions_total", "Items that made way for others.", labels,
               static_cast<double>(e.table_evictions));
}

void AddView(const FrontStatus::View& v, const Labels& labels, Families* out) {
  out->Counter("pulse_offload_known_total",
               "Answers from what the agent knew already, of reads and writes before.", labels,
               static_cast<double>(v.known));
  out->Gauge("pulse_offload_known_bytes", "Memory for that.", labels,
             static_cast<double>(v.known_bytes));
  out->Counter("pulse_offload_from_page_cache_total",
               "Answers from blocks in the kernel's page cache.", labels,
               static_cast<double>(v.from_page_cache));
  out->Counter("pulse_offload_from_device_total", "Answers that had to wait for the device.",
               labels, static_cast<double>(v.from_device));
  out->Gauge("pulse_offload_writes_in_flight",
             "Keys whose writes the agent cannot read yet, or that are under way.", labels,
             static_cast<double>(v.writes_in_flight));
  out->Counter("pulse_offload_unknown_writes_total",
               "Writes whose outcome was not known when the host was lost.", labels,
               static_cast<double>(v.unknown_writes));
  out->Counter("pulse_offload_fences_total", "Fences that the host has answered.", labels,
               static_cast<double>(v.fences));
  out->Counter("pulse_offload_catch_ups_total", "Catch-ups of the secondary that counted.", labels,
               static_cast<double>(v.catch_ups));
  out->Counter("pulse_offload_catch_ups_repeated_total",
               "Catch-ups that the primary's flushes and compactions made void.", labels,
               static_cast<double>(v.catch_ups_repeated));
  out->Counter("pulse_offload_catch_up_seconds_total", "Time spent on catch-ups.", labels,
               Seconds(v.catch_up_nanos));
  out->Gauge("pulse_offload_lag_seconds",
             "From the last write's answer until the agent could read it.", labels,
             Seconds(v.lag_nanos));
  out->Gauge("pulse_offload_max_lag_seconds", "The longest of them.", labels,
             Seconds(v.max_lag_nanos));
  out->Gauge("pulse_offload_view_valid",
             "0: the secondary cannot be read, and the host answers everything.", labels,
             v.valid ? 1 : 0);
}

void AddFront(const std::optional<FrontStatus>& front, Families* out) {
  if (!front) return;
  const FrontStatus& f = *front;
  const Labels labels = {{"front", f.service}};
  const auto count = [&](const char* name, const char* help, uint64_t value) {
    out->Counter(name, help, labels, static_cast<double>(value));
  };
  const auto gauge = [&](const char* name, const char* help, uint64_t value) {
    out->Gauge(name, help, labels, static_cast<double>(value));
  };
  gauge("pulse_front_connections", "Connections of clients.", f.connections);
  gauge("pulse_front_spliced_connections", "Those of them that are passed through untouched.",
        f.spliced_connections);
  count("pulse_front_connections_total", "Connections that were ever accepted.", f.accepted);
  count("pulse_front_refused_total", "Connections refused, beyond a limit or by the application.",
        f.refused);
  count("pulse_front_cut_total",
        "Connections ended by a limit, by an error of the client's, or by its reset.", f.cut);
  count("pulse_front_requests_total", "Requests of clients.", f.requests);
  count("pulse_front_forwarded_total", "Messages to the host.", f.forwarded);
  count("pulse_front_lost_total", "Those of them that were not answered: the host was lost.",
        f.lost);
  count("pulse_front_host_connections_total", "Connections made to the host.", f.host_connections);
  count("pulse_front_host_failures_total", "Failures to make one.", f.host_failures);
  count("pulse_front_spliced_bytes_total", "Bytes passed through untouched.", f.spliced_bytes);
  gauge("pulse_front_held_bytes", "Memory for bytes and requests on their way.", f.held_bytes);
  count("pulse_front_pauses_total", "Times that a side was not read for want of room.", f.pauses);
  out->Counter("pulse_front_cpu_seconds_total", "CPU time of the threads that serve connections.",
               labels, Seconds(f.cpu_nanos));
  count("pulse_offload_answered_total", "Requests that the agent has answered.", f.answered);
  for (const auto& [reason, n] : f.to_host) {
    out->Counter("pulse_offload_to_host_total", "Requests that the host got, by reason.",
                 With(labels, "reason", reason), static_cast<double>(n));
  }
  if (f.engine) AddEngine(*f.engine, labels, out);
  if (f.view) AddView(*f.view, labels, out);
}

void AddServer(const redis::ServerNumbers& s, Families* out) {
  const auto count = [&](const char* name, const char* help, double value) {
    out->Counter(name, help, {}, value);
  };
  out->Gauge("pulse_server_connections", "Connections, or an agent's for its clients.", {},
             static_cast<double>(s.connections));
  out->Gauge("pulse_server_held_bytes", "Memory for requests and replies on their way.", {},
             static_cast<double>(s.held_bytes));
  count("pulse_server_connections_total", "Connections that were ever accepted.",
        static_cast<double>(s.connections_total));
  count("pulse_server_commands_total", "Commands carried out.", static_cast<double>(s.commands));
  count("pulse_server_hits_total", "Keys that reads have found.", static_cast<double>(s.hits));
  count("pulse_server_misses_total", "Keys that were not there.", static_cast<double>(s.misses));
  count("pulse_server_errors_total", "Commands answered with an error.",
        static_cast<double>(s.errors));
  count("pulse_server_waited_total",
        "Times that a connection's commands needed a thread that may wait.",
        static_cast<double>(s.waited));
  count("pulse_server_rejected_passwords_total", "Passwords that were wrong.",
        static_cast<double>(s.rejected));
  count("pulse_server_loop_cpu_seconds_total", "CPU time of the threads that serve connections.",
        Seconds(static_cast<uint64_t>(s.loop_cpu_nanos)));
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) / 1e6;
  };
  count("pulse_server_process_cpu_seconds_total",
        "CPU time of the process: an agent in it and RocksDB's threads, too.",
        seconds(usage.ru_utime) + seconds(usage.ru_stime));
}

}  // namespace

std::vector<MetricFamily> Collector::Collect() const {
  Families out;
  if (sources_.agent != nullptr) AddSessions(&out);
  if (sources_.front != nullptr) AddFront(sources_.front->Take(), &out);
  if (sources_.server != nullptr) AddServer(sources_.server(), &out);
  return out.Take();
}

void Collector::AddSessions(Families* families) const {
  Families& out = *families;
  const AgentStatusCopy status = sources_.agent->Take();
  AddAgent(status, &out);
  AddTasks(status.tasks, &out);
  AddFront(status.front, &out);
  std::lock_guard lock(mu_);
  std::map<uint64_t, std::string> databases;  // without the sessions that ended
  for (const SessionStatus& s : status.sessions) {
    std::string& first = databases[s.id];
    if (const auto it = databases_.find(s.id); it != databases_.end()) first = it->second;
    if (first.empty() && s.host && !s.host->databases.empty()) first = s.host->databases[0];
    const Labels who = {{"session", std::to_string(s.id)}, {"pid", std::to_string(s.pid)}};
    const Labels labels = With(who, "database", first);
    out.Gauge("pulse_session_info", "A session: its service and mover.",
              With(With(labels, "service", s.service), "mover", s.mover), 1);
    AddSession(s, labels, &out);
    if (!s.host) continue;
    AddHost(*s.host, status.now_nanos, labels, &out);
    std::map<std::string, bool> named;  // two names may have been cut to the same
    for (const std::string& name : s.host->databases) {
      if (!named.emplace(name, true).second) continue;
      out.Gauge("pulse_database_info", "A database that is open on the session.",
                With(who, "database", name), 1);
    }
  }
  databases_ = std::move(databases);
}

}  // namespace pulse::metrics
