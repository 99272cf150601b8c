#include "services/graph/exchange/import.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <utility>

#include "base/errors.h"
#include "base/file_calls.h"
#include "services/graph/exchange/schema_file.h"
#include "services/graph/load/transaction_sink.h"
#include "services/graph/model/text.h"

namespace pulse::graph {
namespace {

using cypher::Concat;

constexpr uint64_t kMostSchemaBytes = uint64_t{64} << 20;
// Of both limits.
constexpr std::string_view kInstead = ": `pulse graph import` needs less, and has no limit";

// Ends where it is asked to, also in the middle of a file.
class StoppableSink : public TransactionSink {
 public:
  StoppableSink(cypher::GraphTransaction* transaction, const ImportOptions& options)
      : TransactionSink(transaction, transaction->ChangeLimit(),
                        Concat(" (--transaction-memory)", kInstead)),
        stopped_(options.stopped) {}

  absl::Status AddNodes(const NodeBatch& batch, std::vector<NodeId>* ids) override {
    PULSE_RETURN_IF_ERROR(Check());
    return TransactionSink::AddNodes(batch, ids);
  }
  absl::Status AddEdges(const EdgeBatch& batch) override {
    PULSE_RETURN_IF_ERROR(Check());
    return TransactionSink::AddEdges(batch);
  }

 private:
  absl::Status Check() const {
    if (stopped_ && stopped_()) return absl::CancelledError("the import was ended");
    return absl::OkStatus();
  }
  const std::function<bool()>& stopped_;
};

bool Has(const std::vector<cypher::IndexDefinition>& all, const cypher::IndexDefinition& one) {
  return std::find(all.begin(), all.end(), one) != all.end();
}

absl::StatusOr<bool> HasNoNodes(cypher::Database* database) {
  PULSE_ASSIGN_OR_RETURN(const auto view, database->Snapshot());
  std::array<cypher::NodeId, 1> one;
  uint64_t position = 0;
  PULSE_ASSIGN_OR_RETURN(const size_t count, view->ScanNodes(cypher::kNoToken, &position, one));
  return count == 0;
}

// But for indexes that the import makes: one that was killed leaves them.
absl::StatusOr<bool> IsEmpty(const OpenedExport& from,
                             const std::vector<cypher::IndexDefinition>& indexes,
                             cypher::Database* database) {
  for (const cypher::IndexDefinition& index : indexes) {
    if (!Has(from.indexes, index)) return false;
  }
  return HasNoNodes(database);
}

}  // namespace

absl::Status OpenedExport::CheckCounts(const LoadReport& report) const {
  if (report.nodes == nodes && report.edges == edges) return absl::OkStatus();
  return absl::DataLossError(Concat("the files have ", report.nodes, " nodes and ", report.edges,
                                    " relationships; ", kSchemaFile, " says ", nodes, " and ",
                                    edges));
}

absl::StatusOr<OpenedExport> OpenExport(const AllowedDirectory& allowed, std::string_view where,
                                        std::string_view option) {
  PULSE_ASSIGN_OR_RETURN(const UniqueFd directory, OpenDirectory(allowed, where, option));
  const std::string shown = Concat(where, "/", kSchemaFile);
  auto file = OpenFileIn(directory.get(), kSchemaFile, shown);
  if (absl::IsNotFound(file.status())) {
    return absl::NotFoundError(Concat(shown, " is missing: ", where, " is no export of a graph"));
  }
  PULSE_RETURN_IF_ERROR(file.status());
  struct stat info;
  if (fstat(file->get(), &info) != 0) return ErrnoError(errno, "looking at", shown);
  if (static_cast<uint64_t>(info.st_size) > kMostSchemaBytes) {
    return absl::InvalidArgumentError(Concat(shown, ": larger than a schema is"));
  }
  std::string text(static_cast<size_t>(info.st_size), '\0');
  PULSE_ASSIGN_OR_RETURN(const size_t n,
                         ReadAt(file->get(), text.data(), text.size(), 0, "reading", shown));
  text.resize(n);
  PULSE_ASSIGN_OR_RETURN(const ExportSchema schema, ExportSchema::Decode(text, shown));
  OpenedExport opened;
  opened.indexes = schema.indexes;
  opened.nodes = schema.node_count;
  opened.edges = schema.edge_count;
  opened.load.dialect.array_delimiter = schema.array_delimiter;
  const auto open = [&](const std::string& name, std::string* path,
                        int* descriptor) -> absl::Status {
    *path = Concat(where, "/", name);
    PULSE_ASSIGN_OR_RETURN(UniqueFd fd, OpenFileIn(directory.get(), name, *path));
    if (fstat(fd.get(), &info) != 0) return ErrnoError(errno, "looking at", *path);
    opened.bytes += static_cast<uint64_t>(info.st_size);
    *descriptor = fd.get();
    opened.files.push_back(std::move(fd));
    return absl::OkStatus();
  };
  for (const ExportedFile& one : schema.nodes) {
    NodeFile& node = opened.load.nodes.emplace_back();
    node.label = one.name;
    PULSE_RETURN_IF_ERROR(open(one.file, &node.path, &node.descriptor));
  }
  for (const ExportedFile& one : schema.edges) {
    EdgeFile& edge = opened.load.edges.emplace_back();
    edge.type = one.name;
    PULSE_RETURN_IF_ERROR(open(one.file, &edge.path, &edge.descriptor));
  }
  return opened;
}

absl::StatusOr<ExchangeReport> ImportDatabase(const OpenedExport& from,
                                              const ImportOptions& options,
                                              cypher::Database* database) {
  const std::vector<cypher::IndexDefinition> there = database->Indexes();
  PULSE_ASSIGN_OR_RETURN(const bool empty, IsEmpty(from, there, database));
  if (!empty) {
    return absl::FailedPreconditionError(
        "an import needs an empty database, without nodes, indexes and constraints");
  }
  ExchangeReport report;
  std::vector<std::string> made;
  const auto import = [&]() -> absl::Status {
    for (const cypher::IndexDefinition& index : from.indexes) {
      if (!Has(there, index)) {
        PULSE_RETURN_IF_ERROR(database->CreateIndex(index));
        made.push_back(index.name);
      }
      ++(index.constraint ? report.constraints : report.indexes);
    }
    PULSE_ASSIGN_OR_RETURN(const auto transaction, database->Begin());
    StoppableSink sink(transaction.get(), options);
    sink.CheckConstraints(from.indexes);
    LoadOptions load = from.load;
    load.memory_bytes = options.memory_bytes;
    load.memory_hint = Concat(" (--query-memory)", kInstead);
    PULSE_ASSIGN_OR_RETURN(const LoadReport loaded, LoadCsv(load, &sink));
    PULSE_RETURN_IF_ERROR(from.CheckCounts(loaded));
    // Reading may have taken minutes, in which others write.
    PULSE_ASSIGN_OR_RETURN(const bool still, HasNoNodes(database));
    if (!still) {
      return absl::FailedPreconditionError(
          "another transaction has made nodes while the import read its files; an import needs an "
          "empty database");
    }
    PULSE_RETURN_IF_ERROR(transaction->Commit());
    report.nodes = loaded.nodes;
    report.edges = loaded.edges;
    report.bytes = loaded.bytes;
    report.files = from.files.size();
    return absl::OkStatus();
  };
  const absl::Status status = import();
  if (status.ok()) return report;
  for (const std::string& name : made) {
    // The first error tells more.
    database->DropIndex(name).IgnoreError();
  }
  return status;
}

}  // namespace pulse::graph
