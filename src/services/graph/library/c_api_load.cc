// pulse/graph.h by EmbeddedGraph: bulk loads, and the store's own.
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/c_struct.h"
#include "base/errors.h"
#include "services/graph/library/arrow.h"
#include "services/graph/library/c_api.h"
#include "services/graph/syntax/error.h"

using pulse::cypher::Concat;
using pulse::graph::About;
using pulse::graph::EmbeddedGraph;
using pulse::graph::Guard;
using pulse::graph::kLeastCsv;
using pulse::graph::kLeastLoaded;
using pulse::graph::kLeastStats;
using pulse::graph::Missing;

namespace {

absl::Status ColumnsOf(const pulse_graph_column* columns, size_t count, uint64_t rows,
                       pulse::graph::NamedColumns* out) {
  if (columns == nullptr && count > 0) return Missing("columns");
  for (size_t i = 0; i < count; ++i) {
    PULSE_ASSIGN_OR_RETURN(auto column, pulse::graph::ColumnFromC(columns[i], rows));
    out->emplace_back(columns[i].name, std::move(column));
  }
  return absl::OkStatus();
}

absl::StatusOr<EmbeddedGraph::EdgeEnds> EndsOf(const pulse_graph_ends* given, uint64_t rows) {
  EmbeddedGraph::EdgeEnds ends;
  if (given == nullptr) return Missing("source or target");
  PULSE_ASSIGN_OR_RETURN(ends.column, pulse::graph::ColumnFromC(given->keys, rows));
  ends.key = given->keys.name;
  if (given->label != nullptr) ends.label = given->label;
  return ends;
}

// Reads a stream as far as `check` allows, calls load(columns, rows) with it, and releases it in
// any case.
template <typename Load>
int LoadArrow(pulse_graph* graph, struct ArrowArrayStream* stream, uint64_t* loaded,
              pulse_graph_error* error, const pulse::graph::ArrowCheck& check, const Load& load) {
  const int code = Guard(About::kStatement, error, [&]() -> absl::Status {
    if (graph == nullptr) return Missing("graph");
    if (stream == nullptr || stream->release == nullptr) return Missing("stream");
    uint64_t rows = 0;
    PULSE_ASSIGN_OR_RETURN(auto columns, pulse::graph::ImportArrow(stream, &rows, nullptr, check));
    PULSE_ASSIGN_OR_RETURN(const uint64_t count, load(std::move(columns), rows));
    if (loaded != nullptr) *loaded = count;
    return absl::OkStatus();
  });
  if (stream != nullptr && stream->release != nullptr) stream->release(stream);
  return code;
}

absl::Status CheckFiles(const char* const* files, size_t count, std::string_view what) {
  if (count > 0 && files == nullptr) return Missing(what);
  for (size_t i = 0; i < count; ++i) {
    if (files[i] == nullptr) return Missing(Concat(what, "[", i, "]"));
  }
  return absl::OkStatus();
}

absl::Status LoadCsv(EmbeddedGraph* graph, const pulse_graph_csv* given,
                     pulse_graph_loaded* loaded) {
  if (given == nullptr) return Missing("csv");
  pulse_graph_csv csv;
  PULSE_RETURN_IF_ERROR(pulse::CopyStruct(given, kLeastCsv, &csv));
  PULSE_RETURN_IF_ERROR(CheckFiles(csv.nodes, csv.node_count, "nodes"));
  PULSE_RETURN_IF_ERROR(CheckFiles(csv.relationships, csv.relationship_count, "relationships"));
  pulse::graph::LoadOptions options;
  for (size_t i = 0; i < csv.node_count; ++i) {
    PULSE_ASSIGN_OR_RETURN(auto file, pulse::graph::ParseNodeFile(csv.nodes[i]));
    options.nodes.push_back(std::move(file));
  }
  for (size_t i = 0; i < csv.relationship_count; ++i) {
    PULSE_ASSIGN_OR_RETURN(auto file, pulse::graph::ParseEdgeFile(csv.relationships[i]));
    options.edges.push_back(std::move(file));
  }
  if (csv.delimiter != 0) options.dialect.delimiter = csv.delimiter;
  if (csv.quote != 0) options.dialect.quote = csv.quote;
  if (csv.escape != 0) options.dialect.escape = csv.escape;
  options.dialect.array_delimiter =
      csv.array_delimiter != 0 ? csv.array_delimiter
                               : pulse::graph::ArrayDelimiterBeside(options.dialect.delimiter);
  if (csv.null_text != nullptr) options.dialect.null_text = csv.null_text;
  if (csv.reject != nullptr) options.reject_path = csv.reject;
  options.threads = csv.threads;
  PULSE_ASSIGN_OR_RETURN(const pulse::graph::LoadReport report, graph->LoadFiles(options));
  if (loaded == nullptr) return absl::OkStatus();
  pulse_graph_loaded said;
  pulse_graph_loaded_init(&said);
  said.nodes = report.nodes;
  said.relationships = report.edges;
  said.bytes = report.bytes;
  said.rejected = report.rejected;
  said.dangling = report.dangling;
  said.duplicates = report.duplicates;
  pulse::StoreStruct(said, loaded);
  return absl::OkStatus();
}

}  // namespace

extern "C" {

int pulse_graph_load_nodes(pulse_graph* graph, const char* label, const pulse_graph_column* columns,
                           size_t column_count, uint64_t rows, const char* key, uint64_t* loaded,
                           pulse_graph_error* error) {
  return Guard(About::kStatement, error, [&]() -> absl::Status {
    if (graph == nullptr) return Missing("graph");
    if (label == nullptr) return Missing("label");
    pulse::graph::NamedColumns taken;
    PULSE_RETURN_IF_ERROR(ColumnsOf(columns, column_count, rows, &taken));
    PULSE_ASSIGN_OR_RETURN(
        const uint64_t count,
        graph->graph->LoadNodes(label, std::move(taken), rows, key == nullptr ? "" : key));
    if (loaded != nullptr) *loaded = count;
    return absl::OkStatus();
  });
}

int pulse_graph_load_relationships(pulse_graph* graph, const char* type,
                                   const pulse_graph_ends* source, const pulse_graph_ends* target,
                                   const pulse_graph_column* columns, size_t column_count,
                                   uint64_t rows, uint64_t* loaded, pulse_graph_error* error) {
  return Guard(About::kStatement, error, [&]() -> absl::Status {
    if (graph == nullptr) return Missing("graph");
    if (type == nullptr) return Missing("type");
    PULSE_ASSIGN_OR_RETURN(auto from, EndsOf(source, rows));
    PULSE_ASSIGN_OR_RETURN(auto to, EndsOf(target, rows));
    pulse::graph::NamedColumns taken;
    PULSE_RETURN_IF_ERROR(ColumnsOf(columns, column_count, rows, &taken));
    PULSE_ASSIGN_OR_RETURN(
        const uint64_t count,
        graph->graph->LoadEdges(type, std::move(from), std::move(to), std::move(taken), rows));
    if (loaded != nullptr) *loaded = count;
    return absl::OkStatus();
  });
}

int pulse_graph_load_nodes_arrow(pulse_graph* graph, const char* label,
                                 struct ArrowArrayStream* stream, const char* key, uint64_t* loaded,
                                 pulse_graph_error* error) {
  return LoadArrow(
      graph, stream, loaded, error,
      [&](const pulse::graph::NamedColumns& columns, bool) {
        if (label == nullptr) return Missing("label");
        return graph->graph->CheckNodes(label, columns, 0, key == nullptr ? "" : key);
      },
      [&](pulse::graph::NamedColumns columns, uint64_t rows) {
        return graph->graph->LoadNodes(label, std::move(columns), rows, key == nullptr ? "" : key);
      });
}

int pulse_graph_load_relationships_arrow(pulse_graph* graph, const char* type,
                                         const char* source_label, const char* source_key,
                                         const char* target_label, const char* target_key,
                                         struct ArrowArrayStream* stream, uint64_t* loaded,
                                         pulse_graph_error* error) {
  EmbeddedGraph::EdgeEnds from, to;
  return LoadArrow(
      graph, stream, loaded, error,
      [&](const pulse::graph::NamedColumns& columns, bool rows) -> absl::Status {
        if (type == nullptr) return Missing("type");
        if (columns.size() < 2) {
          return absl::InvalidArgumentError(
              "the first two columns of the Arrow stream are the keys of source and target");
        }
        if (!source_key || !target_key) return Missing("source_key or target_key");
        from = {source_label != nullptr ? source_label : "", source_key, {}};
        to = {target_label != nullptr ? target_label : "", target_key, {}};
        return graph->graph->CheckEnds(from, to, rows);
      },
      [&](pulse::graph::NamedColumns columns, uint64_t rows) {
        from.column = std::move(columns[0].second);
        to.column = std::move(columns[1].second);
        columns.erase(columns.begin(), columns.begin() + 2);
        return graph->graph->LoadEdges(type, std::move(from), std::move(to), std::move(columns),
                                       rows);
      });
}

int pulse_graph_load_csv(pulse_graph* graph, const pulse_graph_csv* csv, pulse_graph_loaded* loaded,
                         pulse_graph_error* error) {
  return Guard(About::kStatement, error, [&]() -> absl::Status {
    if (graph == nullptr) return Missing("graph");
    if (loaded != nullptr && loaded->struct_size < kLeastLoaded) {
      return absl::InvalidArgumentError("loaded: struct_size is too small: use the init function");
    }
    return LoadCsv(graph->graph.get(), csv, loaded);
  });
}

int pulse_graph_statistics(pulse_graph* graph, pulse_graph_stats* stats, pulse_graph_error* error) {
  return Guard(About::kStore, error, [&]() -> absl::Status {
    pulse_graph_stats said;
    pulse_graph_stats_init(&said);
    if (graph == nullptr) return Missing("graph");
    if (stats == nullptr || stats->struct_size < kLeastStats) {
      return absl::InvalidArgumentError("stats: struct_size is too small: use the init function");
    }
    if (graph->graph->closed()) {
      return pulse::cypher::RuntimeError("Closed", "Closed", "the graph is closed");
    }
    const pulse::graph::StoreStats store = graph->graph->stats();
    said.sequence = store.sequence;
    said.oldest_snapshot = store.oldest_snapshot;
    said.log_bytes = store.log_bytes;
    said.run_bytes = store.run_bytes;
    said.node_bytes = store.node_bytes;
    said.edge_bytes = store.edge_bytes;
    said.chunk_bytes = store.chunk_bytes;
    said.flushes = store.flushes;
    said.checkpoints = store.checkpoints;
    said.merges = store.merges;
    said.damaged = store.damage.empty() ? 0 : 1;
    pulse::StoreStruct(said, stats);
    return absl::OkStatus();
  });
}

int pulse_graph_checkpoint(pulse_graph* graph, pulse_graph_error* error) {
  return Guard(About::kStore, error, [&]() -> absl::Status {
    return graph == nullptr ? Missing("graph") : graph->graph->Checkpoint();
  });
}

}  // extern "C"
