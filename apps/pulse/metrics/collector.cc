#include "apps/pulse/metrics/collector.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>

#include "apps/pulse/metrics/families.h"
#include "apps/pulse/metrics/graph_metrics.h"
#include "base/cpu_profile.h"
#include "services/kv/agent/host_server.h"
#include "services/kv/udp/server.h"
#include "services/redis/serve.h"

namespace pulse::metrics {
namespace {

void AddAgent(const AgentStatusCopy& a, Families* out) {
  out->Gauge("pulse_agent_info", "The agent: its socket, engine and process.",
             {{"socket", a.socket}, {"engine", a.engine}, {"pid", std::to_string(a.pid)}}, 1);
  out->Gauge("pulse_agent_uptime_seconds", "Time since the agent began.", {},
             static_cast<double>(a.uptime_nanos) / 1e9);
  out->Counter("pulse_agent_cpu_seconds_total", "CPU time of the agent's process.", {},
               Seconds(a.cpu_nanos));
  out->Gauge("pulse_agent_workers", "Worker threads.", {}, a.workers);
  out->Gauge("pulse_agent_sessions", "Sessions attached.", {}, a.sessions.size());
  out->Counter("pulse_agent_sessions_total", "Sessions that were ever attached.", {},
               a.sessions_total);
}

void AddNumber(const Number& n, const Labels& labels, Families* out) {
  const NumberSpec& spec = *n.spec;
  if (spec.metric == nullptr) return;
  const double value = spec.unit == Unit::kNanos ? Seconds(n.value) : static_cast<double>(n.value);
  Labels all = spec.label == nullptr ? labels : With(labels, spec.label, spec.label_value);
  if (spec.second_label != nullptr) all = With(all, spec.second_label, spec.second_value);
  if (spec.kind == NumberKind::kGauge) {
    out->Gauge(spec.metric, spec.help, all, value);
  } else {
    out->Counter(spec.metric, spec.help, all, value);
  }
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
  const auto count = [&](const char* name, const char* help, uint64_t value) {
    out->Counter(name, help, labels, value);
  };
  const auto gauge = [&](const char* name, const char* help, uint64_t value) {
    out->Gauge(name, help, labels, value);
  };
  const auto& kinds = s.service->request_kinds;
  for (size_t i = 0; i < kinds.size(); ++i) {
    out->Counter("pulse_requests_total", "Requests that the agent has taken, by kind.",
                 With(labels, "kind", kinds[i]), s.requests[i]);
  }
  count("pulse_requests_failed_total", "Requests that were answered with an error.", s.failed);
  count("pulse_read_bytes_total", "Bytes that the agent has read.", s.bytes_read);
  count("pulse_written_bytes_total", "Bytes that the agent has written.", s.bytes_written);
  const auto stage = [&](const char* name, uint64_t busy, uint64_t in_flight) {
    const Labels staged = With(labels, "stage", name);
    out->Counter("pulse_stage_busy_seconds_total",
                 "Time in which the agent's stage had at least one request under way.", staged,
                 Seconds(busy));
    out->Gauge("pulse_stage_requests_in_flight", "Requests under way.", staged, in_flight);
  };
  stage("fetch", s.fetch_busy_nanos, s.fetch_in_flight);
  stage("persist", s.persist_busy_nanos, s.persist_in_flight);
  gauge("pulse_session_memory_bytes", "Queue memory that the session has attached.", s.memory);
  gauge("pulse_session_queues", "Queues that the session has attached.", s.queues);
  gauge("pulse_session_files", "Files that the session has open.", s.files);
  if (s.service->counts_syncs) AddSyncs(s, labels, out);
}

void AddHost(const SessionStatus& s, int64_t now, const Labels& labels, Families* out) {
  const HostNumbersCopy& h = *s.host;
  const auto written = static_cast<double>(h[HostNumbersCopy::kTime]);
  out->Gauge("pulse_host_silence_seconds",
             "Time since the host wrote its numbers, which it does each quarter of a second.",
             labels, std::max(0.0, static_cast<double>(now) - written) / 1e9);
  const auto& specs = s.service->host_numbers;
  for (size_t i = 0; i < specs.size(); ++i) AddNumber({&specs[i], h[i]}, labels, out);
}

void AddFront(const std::optional<FrontStatus>& front, Families* out) {
  if (!front) return;
  const FrontStatus& f = *front;
  const Labels labels = {{"front", f.service}};
  const auto count = [&](const char* name, const char* help, auto value) {
    out->Counter(name, help, labels, value);
  };
  const auto gauge = [&](const char* name, const char* help, uint64_t value) {
    out->Gauge(name, help, labels, value);
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
  count("pulse_front_cpu_seconds_total", "CPU time of the threads that serve connections.",
        Seconds(f.cpu_nanos));
  for (size_t i = 0; i < kCpuComponentNames.size(); ++i) {
    out->Counter("pulse_front_profile_cpu_seconds_total",
                 "That CPU time by component, estimated from a sample of the threads' turns.",
                 With(labels, "component", kCpuComponentNames[i]), Seconds(f.component_nanos[i]));
  }
  count("pulse_offload_answered_total", "Requests that the agent has answered.", f.answered);
  for (const auto& [reason, n] : f.to_host) {
    out->Counter("pulse_offload_to_host_total", "Requests that the host got, by reason.",
                 With(labels, "reason", reason), n);
  }
  for (const Number& n : f.numbers) AddNumber(n, labels, out);
}

void AddServer(const redis::ServerNumbers& s, Families* out) {
  const auto count = [&](const char* name, const char* help, auto value) {
    out->Counter(name, help, {}, value);
  };
  out->Gauge("pulse_server_connections", "Connections, or an agent's for its clients.", {},
             s.connections);
  out->Gauge("pulse_server_held_bytes", "Memory for requests and replies on their way.", {},
             s.held_bytes);
  count("pulse_server_connections_total", "Connections that were ever accepted.",
        s.connections_total);
  count("pulse_server_commands_total", "Commands carried out.", s.commands);
  count("pulse_server_hits_total", "Keys that reads have found.", s.hits);
  count("pulse_server_misses_total", "Keys that were not there.", s.misses);
  count("pulse_server_errors_total", "Commands answered with an error.", s.errors);
  count("pulse_server_waited_total",
        "Times that a connection's commands needed a thread that may wait.", s.waited);
  count("pulse_server_rejected_passwords_total", "Passwords that were wrong.", s.rejected);
  count("pulse_server_loop_cpu_seconds_total", "CPU time of the threads that serve connections.",
        Seconds(static_cast<uint64_t>(s.loop_cpu_nanos)));
  count("pulse_server_process_cpu_seconds_total",
        "CPU time of the process: an agent in it and RocksDB's threads, too.",
        Seconds(ProcessCpuNanos()));
  const CpuProfileNumbers profile = ReadCpuProfile();
  for (size_t side = 0; side < profile.nanos.size(); ++side) {
    for (size_t i = 0; i < profile.nanos[side].size(); ++i) {
      out->Counter("pulse_server_profile_cpu_seconds_total",
                   "CPU time of the threads that serve requests, by component; estimated from a "
                   "sample of their turns.",
                   {{"side", kCpuSideNames[side]}, {"component", kCpuComponentNames[i]}},
                   Seconds(profile.nanos[side][i]));
    }
  }
}

void AddUdp(const kv::UdpNumbers& n, Families* out) {
  const auto count = [&](const char* name, const char* help, kv::UdpStats::Counter counter) {
    out->Counter(name, help, {}, n.Get(counter));
  };
  out->Gauge("pulse_udp_clients", "Clients that have introduced themselves to a partition's port.",
             {}, n.Get(kv::UdpStats::kSessions));
  count("pulse_udp_datagrams_total",
        "Datagrams of requests that were carried out or answered again.", kv::UdpStats::kDatagrams);
  count("pulse_udp_requests_total", "Requests in them.", kv::UdpStats::kRequests);
  count("pulse_udp_batches_total", "Batches of the engine that they were carried out in.",
        kv::UdpStats::kBatches);
  count("pulse_udp_repeated_datagrams_total",
        "Datagrams that came again: their writes were not carried out again.",
        kv::UdpStats::kRepeats);
  count("pulse_udp_stale_datagrams_total", "Datagrams that nobody waited for any more.",
        kv::UdpStats::kStale);
  count("pulse_udp_refused_datagrams_total", "Datagrams without a session, or malformed.",
        kv::UdpStats::kRefused);
  count("pulse_udp_ignored_datagrams_total", "Datagrams of no protocol of ours, not answered.",
        kv::UdpStats::kIgnored);
  count("pulse_udp_lost_answers_total", "Answers that the socket did not take.",
        kv::UdpStats::kLost);
}

void AddKvAgents(const kv::AgentServerNumbers& n, Families* out) {
  out->Gauge("pulse_kv_agent_loops", "Loops of agents in processes of their own.", {}, n.loops);
  out->Gauge("pulse_kv_agent_clients", "Clients of these agents.", {}, n.clients);
  out->Counter("pulse_kv_agent_requests_total", "Requests that agents have given to the store.", {},
               n.requests);
  out->Counter("pulse_kv_agent_transfers_total", "Transfers that these requests came in.", {},
               n.transfers);
  out->Counter("pulse_kv_agent_cpu_seconds_total",
               "CPU time of the store's threads that serve agents.", {},
               Seconds(static_cast<uint64_t>(n.cpu_nanos)));
}

}  // namespace

std::vector<MetricFamily> Collector::Collect() const {
  Families out;
  if (sources_.agent != nullptr) AddSessions(&out);
  if (sources_.front != nullptr) AddFront(sources_.front->Take(), &out);
  if (sources_.server != nullptr) AddServer(sources_.server(), &out);
  if (sources_.udp != nullptr) AddUdp(sources_.udp(), &out);
  if (sources_.kv_agents != nullptr) AddKvAgents(sources_.kv_agents(), &out);
  if (sources_.graph != nullptr) AddGraph(sources_.graph(), &out);
  return out.Take();
}

void Collector::AddSessions(Families* families) const {
  Families& out = *families;
  const AgentStatusCopy status = sources_.agent->Take();
  AddAgent(status, &out);
  for (const NumberGroup& group : status.groups) {
    for (const Number& n : group.numbers) AddNumber(n, {}, &out);
  }
  AddFront(status.front, &out);
  std::lock_guard lock(mu_);
  std::map<uint64_t, std::string> databases;  // without the sessions that ended
  for (const SessionStatus& s : status.sessions) {
    std::string& first = databases[s.id];
    if (const auto it = databases_.find(s.id); it != databases_.end()) first = it->second;
    if (first.empty() && s.host && !s.host->names.empty()) first = s.host->names[0];
    const Labels who = {{"session", std::to_string(s.id)}, {"pid", std::to_string(s.pid)}};
    const Labels labels = With(who, "database", first);
    out.Gauge("pulse_session_info", "A session: its service and mover.",
              With(With(labels, "service", s.service->name), "mover", s.mover), 1);
    AddSession(s, labels, &out);
    if (!s.host) continue;
    AddHost(s, status.now_nanos, labels, &out);
    std::map<std::string, bool> named;  // two names may have been cut to the same
    for (const std::string& name : s.host->names) {
      if (!named.emplace(name, true).second) continue;
      out.Gauge("pulse_database_info", "A database that is open on the session.",
                With(who, "database", name), 1);
    }
  }
  databases_ = std::move(databases);
}

}  // namespace pulse::metrics
