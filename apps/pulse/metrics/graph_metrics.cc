#include "apps/pulse/metrics/graph_metrics.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "apps/pulse/metrics/families.h"
#include "base/resident_memory.h"

namespace pulse::metrics {
namespace {

void AddStatements(const cypher::StatementNumbers& n, Families* out) {
  for (size_t i = 0; i < n.ended.size(); ++i) {
    out->Counter("pulse_graph_statements_total", "Statements that have ended, by kind.",
                 {{"kind", cypher::kStatementKindNames[i]}}, n.ended[i]);
  }
  for (size_t i = 0; i < n.failed.size(); ++i) {
    out->Counter("pulse_graph_statements_failed_total", "Statements that failed, by reason.",
                 {{"reason", cypher::kFailureReasonNames[i]}}, n.failed[i]);
  }
  ClientMetric m;
  uint64_t below = 0;
  for (size_t i = 0; i < n.buckets.size(); ++i) {
    below += n.buckets[i];
    const bool last = i + 1 == n.buckets.size();
    const auto nanos = static_cast<uint64_t>(cypher::StatementNumbers::kFirstNanos) << (2 * i);
    m.histogram.bucket.push_back(
        {below, last ? std::numeric_limits<double>::infinity() : Seconds(nanos)});
  }
  m.histogram.sample_count = below;
  m.histogram.sample_sum = Seconds(n.nanos);
  out->Add("pulse_graph_statement_duration_seconds",
           "How long statements ran, with the time in which their clients took the rows.",
           MetricType::Histogram, std::move(m));
  const auto count = [&](const char* name, const char* help, uint64_t value) {
    out->Counter(name, help, {}, value);
  };
  count("pulse_graph_rows_total", "Rows of results.", n.rows);
  count("pulse_graph_conflicts_total", "Times that a transaction lost against another.",
        n.conflicts);
  count("pulse_graph_retries_total",
        "Times that a statement in a transaction of its own was run again because of that.",
        n.retries);
  count("pulse_graph_plans_found_total", "Statements whose plan was kept from before.",
        n.plans_found);
  count("pulse_graph_plans_made_total", "Statements that were parsed, and planned.", n.plans_made);
  count("pulse_graph_spills_total", "Executions of queries that wrote to temporary files.",
        n.spills);
  count("pulse_graph_spilled_bytes_total", "Bytes that they wrote there.", n.spilled_bytes);
}

void AddStore(const graph::StoreStats& s, Families* out) {
  const auto count = [&](const char* name, const char* help, auto value) {
    out->Counter(name, help, {}, value);
  };
  const auto gauge = [&](const char* name, const char* help, uint64_t value) {
    out->Gauge(name, help, {}, value);
  };
  const std::pair<const char*, uint64_t> memory[] = {
      {"nodes", s.node_bytes}, {"versions", s.edge_bytes}, {"chunks", s.chunk_bytes}};
  for (const auto& [of, bytes] : memory) {
    out->Gauge("pulse_graph_memory_bytes", "Memory of the store.", {{"of", of}}, bytes);
  }
  gauge("pulse_graph_process_memory_bytes", "Resident memory of the process.", ResidentBytes());
  count("pulse_graph_process_cpu_seconds_total", "CPU time of the process.",
        Seconds(ProcessCpuNanos()));
  gauge("pulse_graph_sequence", "The number of the last commit.", s.sequence);
  gauge("pulse_graph_snapshot_lag", "Commits since the oldest state that is kept.",
        s.sequence - std::min(s.sequence, s.oldest_snapshot));
  gauge("pulse_graph_log_bytes", "The log, since the last checkpoint.", s.log_bytes);
  gauge("pulse_graph_runs", "Sorted runs of relationships, of both directions.",
        s.out_runs + s.in_runs);
  gauge("pulse_graph_run_bytes", "Their bytes on disk.", s.run_bytes);
  gauge("pulse_graph_run_records", "Their records, those of deletions among them.", s.run_records);
  gauge("pulse_graph_relationships", "Relationships.", s.relationships);
  count("pulse_graph_logged_bytes_total", "Bytes written to the log.", s.bytes_logged);
  count("pulse_graph_flushes_total", "Flushes of relationships to runs.", s.flushes);
  count("pulse_graph_flushed_bytes_total", "Bytes of the runs that they made.", s.bytes_flushed);
  count("pulse_graph_checkpoints_total", "Checkpoints.", s.checkpoints);
  count("pulse_graph_checkpointed_bytes_total", "Bytes that they wrote: nodes and names.",
        s.bytes_checkpointed);
  count("pulse_graph_compactions_total", "Merges of runs.", s.merges);
  count("pulse_graph_compacted_bytes_total", "Bytes of the runs that they made.", s.bytes_merged);
  count("pulse_graph_compaction_copied_bytes_total", "Of these, copied as they were, by plan.",
        s.merge_bytes_copied);
  count("pulse_graph_compaction_encoded_bytes_total",
        "Of these, encoded anew: nodes that several runs have.", s.merge_bytes_encoded);
  count("pulse_graph_compactions_on_agent_total", "Those of them that an agent did.",
        s.merges_elsewhere);
  count("pulse_graph_compactions_fallen_back_total",
        "Those that an agent did not do, or not to the end, so that this process did.",
        s.merges_fallen_back);
  gauge("pulse_graph_maintenance_failed",
        "1: the last flush, checkpoint or compaction had an error.", s.maintenance.ok() ? 0 : 1);
}

}  // namespace

GraphNumbers TakeGraphNumbers(cypher::GraphService* service, const bolt::BoltServer& server,
                              const graph::GraphStore& store) {
  GraphNumbers numbers;
  numbers.statements = service->numbers();
  numbers.transactions = service->running()->open();
  numbers.plans = service->plans()->size();
  numbers.query_memory = static_cast<uint64_t>(service->query_memory().taken());
  numbers.bolt = server.numbers();
  numbers.store = store.stats();
  return numbers;
}

void AddGraph(const GraphNumbers& n, Families* out) {
  out->Gauge("pulse_graph_connections", "Connections of Bolt clients.", {}, n.bolt.connections);
  out->Counter("pulse_graph_connections_total", "Connections that were ever accepted.", {},
               n.bolt.connections_total);
  out->Counter("pulse_graph_messages_total", "Messages of Bolt clients.", {}, n.bolt.messages);
  out->Counter("pulse_graph_failures_total", "Messages that were answered with a failure.", {},
               n.bolt.failures);
  AddStatements(n.statements, out);
  out->Gauge("pulse_graph_plans", "Plans that are kept.", {}, n.plans);
  out->Gauge("pulse_graph_query_memory_bytes",
             "What queries that run have taken of --total-query-memory.", {}, n.query_memory);
  out->Gauge("pulse_graph_transactions_open", "Transactions, and statements that run, now.", {},
             n.transactions.count);
  out->Gauge("pulse_graph_oldest_transaction_seconds", "Since the oldest of them began; 0: none.",
             {}, Seconds(static_cast<uint64_t>(n.transactions.oldest_nanos)));
  AddStore(n.store, out);
}

}  // namespace pulse::metrics
