#include "apps/pulse/top/sample.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "apps/pulse/top/units.h"
#include "base/json.h"

namespace pulse::top {
namespace {

using nlohmann::json;

std::string Text(const json& j) { return CleanText(j.get_ref<const std::string&>()); }

SessionSample ParseSession(const json& j, uint64_t now) {
  SessionSample s;
  s.id = j.at("id");
  s.pid = j.at("pid");
  s.service = Text(j.at("service"));
  s.mover = Text(j.at("mover"));
  for (const json& name : j.at("databases")) s.databases.push_back(Text(name));
  s.requests = j.at("requests").get<std::map<std::string, uint64_t>>();
  s.failed = j.at("requests_failed");
  s.bytes_read = j.at("bytes_read");
  s.bytes_written = j.at("bytes_written");
  s.fetch_busy = j.at("fetch").at("busy_nanos");
  s.fetch_in_flight = j.at("fetch").at("in_flight");
  s.persist_busy = j.at("persist").at("busy_nanos");
  s.persist_in_flight = j.at("persist").at("in_flight");
  s.sync_counts = j.at("syncs").at("below_power_of_two_micros").get<std::vector<uint64_t>>();
  if (s.sync_counts.size() > 64) s.sync_counts.resize(64);
  const json& host = j.at("host");
  s.has_host = !host.is_null();
  if (!s.has_host) return s;
  s.host = host.get<std::map<std::string, uint64_t>>();
  s.host_time = now - std::min(now, s.HostNumber("age_nanos"));
  return s;
}

FrontSample ParseFront(const json& j) {
  FrontSample f;
  f.service = Text(j.at("service"));
  f.connections = j.at("connections");
  f.held_bytes = j.at("held_bytes");
  f.answered = j.at("answered");
  f.requests = j.at("requests");
  f.cpu = j.at("cpu_nanos");
  // An agent of an earlier release has none.
  if (const auto parts = j.find("cpu_components"); parts != j.end()) {
    for (size_t i = 0; i < f.components.size(); ++i) {
      f.components[i] = parts->at(kCpuComponentNames[i]);
    }
  }
  for (const auto& [reason, count] : j.at("to_host").items()) f.to_host += count.get<uint64_t>();
  return f;
}

TaskSample ParseTasks(const json& j) {
  TaskSample t;
  t.most = j.at("most");
  t.running = j.at("running");
  t.done = j.at("done");
  t.failed = j.at("failed");
  t.refused = j.at("refused");
  return t;
}

// What it counts by task, summed: members are named TASK_chunks and so on.
OpsSample ParseOps(const json& j) {
  OpsSample o;
  o.threads = j.at("threads");
  o.running = j.at("running");
  o.waiting = j.at("waiting");
  const auto add = [](const std::string& name, const json& value, const char* end, uint64_t* to) {
    if (absl::EndsWith(name, end)) *to += value.get<uint64_t>();
  };
  for (const auto& [name, value] : j.items()) {
    add(name, value, "_chunks", &o.chunks);
    add(name, value, "_failed", &o.failed);
    add(name, value, "_input_bytes", &o.bytes_in);
    add(name, value, "_busy_nanos", &o.busy);
  }
  return o;
}

MergeSample ParseMerges(const json& j) {
  MergeSample m;
  m.merges = j.at("merges");
  m.failed = j.at("failed");
  m.refused = j.at("refused");
  m.running = j.at("running");
  m.waiting = j.at("waiting");
  m.bytes_in = j.at("bytes_in");
  m.bytes_out = j.at("bytes_out");
  m.cpu = j.at("cpu");  // nanoseconds
  return m;
}

IngestSample ParseIngest(const json& j) {
  IngestSample i;
  i.open = j.at("open");
  i.streams = j.at("streams");
  i.failed = j.at("failed");
  i.bytes_received = j.at("bytes_received");
  i.bytes_filtered = j.at("bytes_filtered");
  i.bytes_sent = j.at("bytes_sent");
  return i;
}

// A host writes its numbers each quarter of a second.
constexpr double kSilent = 3;

// The share of `counts` below which `part` of them lie, in seconds; even within a bucket.
double Percentile(const std::vector<double>& counts, double part) {
  double all = 0;
  for (const double n : counts) all += n;
  double left = all * part;
  for (size_t i = 0; i < counts.size(); ++i) {
    if (counts[i] == 0 || left > counts[i]) {
      left -= counts[i];
      continue;
    }
    const double low = i == 0 ? 0 : static_cast<double>(uint64_t{1} << (i - 1));
    const double high = static_cast<double>(uint64_t{1} << i);
    return (low + (high - low) * left / counts[i]) * 1e-6;
  }
  return 0;
}

HostRates CompareHosts(const SessionSample& before, const SessionSample& now) {
  const double nanos = Grown(before.host_time, now.host_time);
  const auto grown = [&](const char* name) {
    return Grown(before.HostNumber(name), now.HostNumber(name));
  };
  HostRates r;
  r.backpressure = grown("backpressure_nanos") / nanos;
  r.barrier = grown("barrier_nanos") / nanos;
  r.fetch_wait = grown("fetch_wait_nanos") / nanos;
  // Waits are entered at their end: what began in an earlier interval may exceed this one's.
  r.merging = std::max(0.0, grown("output_open_nanos") / nanos - r.backpressure - r.fetch_wait);
  r.fetched = grown("bytes_fetched") / nanos * 1e9;
  r.persisted = grown("bytes_persisted") / nanos * 1e9;
  r.inline_written = grown("bytes_inline") / nanos * 1e9;
  return r;
}

SessionRates CompareSessions(const SessionSample& before, SessionSample now, double nanos,
                             const SessionRates* previous) {
  SessionRates r;
  r.measured = true;
  r.fetch_share = std::min(1.0, Grown(before.fetch_busy, now.fetch_busy) / nanos);
  r.persist_share = std::min(1.0, Grown(before.persist_busy, now.persist_busy) / nanos);
  r.read = Grown(before.bytes_read, now.bytes_read) / nanos * 1e9;
  r.written = Grown(before.bytes_written, now.bytes_written) / nanos * 1e9;
  for (const auto& [kind, count] : now.requests) {
    const auto it = before.requests.find(kind);
    r.requests += Grown(it == before.requests.end() ? 0 : it->second, count) / nanos * 1e9;
  }
  std::vector<double> syncs(now.sync_counts.size());
  double count = 0;
  for (size_t i = 0; i < syncs.size(); ++i) {
    syncs[i] = Grown(i < before.sync_counts.size() ? before.sync_counts[i] : 0, now.sync_counts[i]);
    count += syncs[i];
  }
  r.syncs = count / nanos * 1e9;
  r.sync_p50 = Percentile(syncs, 0.5);
  r.sync_p99 = Percentile(syncs, 0.99);
  const auto age = static_cast<double>(now.HostNumber("age_nanos")) / 1e9;
  if (now.has_host && age > kSilent) {
    r.host_silent = age;  // a host that is stopped, or writes files by itself
  } else if (before.has_host && now.has_host && now.host_time > before.host_time) {
    r.host = CompareHosts(before, now);
  } else if (previous != nullptr) {
    r.host = previous->host;
  }
  r.now = std::move(now);
  return r;
}

FrontRates CompareFronts(const FrontSample& before, const FrontSample& now, double nanos) {
  FrontRates r;
  const double answered = Grown(before.answered, now.answered);
  const double all = answered + Grown(before.to_host, now.to_host);
  r.hands_all_over = now.requests > 0 && now.answered + now.to_host == 0;
  r.requests = (r.hands_all_over ? Grown(before.requests, now.requests) : all) / nanos * 1e9;
  for (size_t i = 0; i < r.components.size(); ++i) {
    r.components[i] = Grown(before.components[i], now.components[i]) / nanos;
  }
  r.offloaded = all == 0 ? 0 : answered / all;
  r.cpu_share = Grown(before.cpu, now.cpu) / nanos;
  return r;
}

}  // namespace

absl::StatusOr<AgentSample> ParseStatus(const std::string& text) {
  try {
    const json j = json::parse(text);
    if (j.at("format") != "pulse-status" || j.at("version") != 1) {
      return absl::FailedPreconditionError(
          "its status is of another format; use the pulse of the agent's release");
    }
    AgentSample s;
    s.kind = Text(j.at("kind"));
    s.engine = Text(j.at("engine"));
    s.pid = j.at("pid");
    s.workers = j.at("workers");
    s.now = j.at("now_nanos");
    s.uptime = j.at("uptime_nanos");
    s.cpu = j.at("cpu_nanos");
    for (const json& session : j.at("sessions")) s.sessions.push_back(ParseSession(session, s.now));
    // An agent of an earlier release says nothing of these.
    if (const auto front = j.find("front"); front != j.end() && !front->is_null()) {
      s.front = ParseFront(*front);
    }
    if (const auto tasks = j.find("tasks"); tasks != j.end() && !tasks->is_null()) {
      s.tasks = ParseTasks(*tasks);
    }
    if (const auto ops = j.find("ops"); ops != j.end() && !ops->is_null()) s.ops = ParseOps(*ops);
    if (const auto graph = j.find("graph"); graph != j.end() && !graph->is_null()) {
      s.merges = ParseMerges(*graph);
    }
    if (const auto ingest = j.find("ingest"); ingest != j.end() && !ingest->is_null()) {
      s.ingest = ParseIngest(*ingest);
    }
    return s;
  } catch (const json::exception& e) {
    return absl::InvalidArgumentError(absl::StrCat("its status cannot be read: ", e.what()));
  }
}

AgentRates Compare(const AgentSample* before, AgentSample now, const AgentRates* previous) {
  AgentRates r;
  const bool same = before != nullptr && before->pid == now.pid && now.now > before->now &&
                    now.uptime >= before->uptime;
  const double nanos = same ? static_cast<double>(now.now - before->now) : 0;
  r.seconds = nanos / 1e9;
  if (same) r.cpu_share = Grown(before->cpu, now.cpu) / nanos;
  if (same && before->front && now.front) {
    r.front = CompareFronts(*before->front, *now.front, nanos);
  }
  if (same && before->ops && now.ops && now.ops->threads > 0) {
    const OpsSample& b = *before->ops;
    r.ops = {Grown(b.chunks, now.ops->chunks) / nanos * 1e9,
             Grown(b.bytes_in, now.ops->bytes_in) / nanos * 1e9,
             Grown(b.busy, now.ops->busy) / nanos / static_cast<double>(now.ops->threads)};
  }
  if (same && before->merges && now.merges) {
    const MergeSample& b = *before->merges;
    r.merges = {Grown(b.merges, now.merges->merges) / nanos * 1e9,
                Grown(b.bytes_in, now.merges->bytes_in) / nanos * 1e9,
                Grown(b.bytes_out, now.merges->bytes_out) / nanos * 1e9,
                Grown(b.cpu, now.merges->cpu) / nanos};
  }
  if (same && before->ingest && now.ingest) {
    const IngestSample& b = *before->ingest;
    r.ingest = {Grown(b.streams, now.ingest->streams) / nanos * 1e9,
                Grown(b.bytes_received, now.ingest->bytes_received) / nanos * 1e9,
                Grown(b.bytes_filtered, now.ingest->bytes_filtered) / nanos * 1e9,
                Grown(b.bytes_sent, now.ingest->bytes_sent) / nanos * 1e9};
  }
  const auto find = [](const auto& list, uint64_t id, auto id_of) {
    const auto it =
        std::find_if(list.begin(), list.end(), [&](const auto& each) { return id_of(each) == id; });
    return it == list.end() ? nullptr : &*it;
  };
  for (SessionSample& s : now.sessions) {
    const SessionSample* old =
        same ? find(before->sessions, s.id, [](const SessionSample& o) { return o.id; }) : nullptr;
    if (old == nullptr) {
      SessionRates fresh;
      fresh.now = std::move(s);
      r.sessions.push_back(std::move(fresh));
      continue;
    }
    const SessionRates* last =
        previous == nullptr
            ? nullptr
            : find(previous->sessions, s.id, [](const SessionRates& o) { return o.now.id; });
    r.sessions.push_back(CompareSessions(*old, std::move(s), nanos, last));
  }
  now.sessions.clear();  // they are in r.sessions
  r.now = std::move(now);
  return r;
}

}  // namespace pulse::top
