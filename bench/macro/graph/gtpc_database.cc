#include "bench/macro/graph/gtpc_database.h"

#include <span>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/errors.h"
#include "bench/macro/graph/graph_bench.h"
#include "bench/macro/graph/gtpc_queries.h"
#include "services/graph/core/bulk_load.h"
#include "services/graph/load/transaction_sink.h"

namespace pulse::bench {
namespace {

class Rows : public cypher::RowSink {
 public:
  Rows(QueryRun* run, bool keep) : run_(run), keep_(keep) {}
  bool OnRows(const cypher::GraphView&, const cypher::Value* rows, size_t stride, size_t count,
              std::span<const cypher::Slot> columns) override {
    run_->row_count += count;
    if (!keep_) return true;
    for (size_t i = 0; i < count; ++i) {
      auto& row = run_->rows.emplace_back();
      for (const cypher::Slot slot : columns) row.push_back(rows[i * stride + slot]);
    }
    return true;
  }
  bool Restart() override {
    run_->row_count = 0;
    run_->rows.clear();
    return true;
  }

 private:
  QueryRun* const run_;
  const bool keep_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<GtpcDatabase>> GtpcDatabase::Make(const GtpcData& data,
                                                                 const std::string& csv_dir,
                                                                 const std::string& path,
                                                                 const MakeOptions& options,
                                                                 const Report& report) {
  auto database = std::unique_ptr<GtpcDatabase>(new GtpcDatabase());
  const std::vector<GtpcTable> tables = GtpcTables(data, options.last_order);
  WriteProgress written;
  if (report) written = [&](uint64_t bytes) { report("writing CSV", bytes, 0); };
  PULSE_ASSIGN_OR_RETURN(database->loaded_.csv_bytes, WriteGtpcCsv(tables, csv_dir, written));
  PULSE_ASSIGN_OR_RETURN(database->store_, graph::GraphStore::Open(path, options.store));
  graph::LoadOptions load = GtpcLoad(tables, csv_dir, data.options().repaired);
  if (report) {
    load.progress = [&](const graph::LoadProgress& now) { report(now.what, now.done, now.total); };
  }
  const Stretch stretch;
  if (options.by_transaction) {
    PULSE_ASSIGN_OR_RETURN(const auto transaction, database->store_->Begin());
    graph::TransactionSink sink(transaction.get());
    PULSE_ASSIGN_OR_RETURN(database->loaded_.report, graph::LoadCsv(load, &sink));
    PULSE_RETURN_IF_ERROR(transaction->Commit());
  } else {
    PULSE_ASSIGN_OR_RETURN(const auto bulk, graph::BulkLoad::Begin(database->store_.get()));
    PULSE_ASSIGN_OR_RETURN(database->loaded_.report, graph::LoadCsv(load, bulk.get()));
    PULSE_RETURN_IF_ERROR(bulk->Commit());
  }
  database->loaded_.seconds = stretch.seconds();
  cypher::ServiceOptions service;
  service.query_memory_bytes = size_t{4} << 30;
  service.query_threads = options.query_threads;
  database->service_ = std::make_unique<cypher::GraphService>(database->store_.get(), service);
  return database;
}

absl::StatusOr<std::vector<cypher::NodeId>> GtpcDatabase::NodesById(
    const std::string& label) const {
  PULSE_ASSIGN_OR_RETURN(const auto view, store_->Snapshot());
  const auto token = view->FindLabel(label), key = view->FindKey("id");
  if (!token || !key) return absl::InternalError(absl::StrCat("no node is a ", label));
  std::vector<cypher::NodeId> all, some(1024);
  cypher::Column ids;
  for (uint64_t position = 0;;) {
    PULSE_ASSIGN_OR_RETURN(const size_t n, view->ScanNodes(*token, &position, some));
    if (n == 0) return all;
    PULSE_RETURN_IF_ERROR(view->ReadNodeProperty(*key, {some.data(), n}, &ids));
    for (size_t i = 0; i < n; ++i) {
      const auto at = static_cast<size_t>(ids.ints.at(i));
      if (all.size() <= at) all.resize(at + 1);
      all[at] = some[i];
    }
  }
}

absl::Status GtpcDatabase::AddLineEdges(const GtpcData& data, int64_t first_order) {
  PULSE_ASSIGN_OR_RETURN(const auto orders, NodesById("Order"));
  PULSE_ASSIGN_OR_RETURN(const auto lines, NodesById("OrderLine"));
  PULSE_ASSIGN_OR_RETURN(const auto stocks, NodesById("Stock"));
  PULSE_ASSIGN_OR_RETURN(const auto transaction, store_->Begin());
  PULSE_ASSIGN_OR_RETURN(const auto contains, transaction->AddTypeName("contains"));
  PULSE_ASSIGN_OR_RETURN(const auto has_stock, transaction->AddTypeName("hasStock"));
  for (int64_t order = first_order; order <= data.orders(); ++order) {
    for (int64_t id = data.first_line(order); id < data.first_line(order + 1); ++id) {
      const cypher::NodeId line = lines.at(static_cast<size_t>(id));
      const auto stock = static_cast<size_t>(data.LineRow(order, id).stock);
      PULSE_RETURN_IF_ERROR(
          transaction->CreateEdge(orders.at(static_cast<size_t>(order)), line, contains, {})
              .status());
      PULSE_RETURN_IF_ERROR(
          transaction->CreateEdge(line, stocks.at(stock), has_stock, {}).status());
    }
  }
  return transaction->Commit();
}

absl::Status GtpcDatabase::CreateIndexes() {
  for (const std::string_view label : GtpcKeys()) {
    const std::string name(label);
    PULSE_RETURN_IF_ERROR(store_->CreateIndex({absl::StrCat(name, "_id"), name, {"id"}}));
  }
  return absl::OkStatus();
}

absl::StatusOr<QueryRun> GtpcDatabase::Run(const std::string& text, double seconds, bool keep_rows,
                                           const cypher::ValueMap* parameters) {
  QueryRun run;
  const Stretch stretch;
  PULSE_ASSIGN_OR_RETURN(const auto statement, service_->Prepare(text));
  run.columns = statement->columns();
  Rows rows(&run, keep_rows);
  cypher::Outcome outcome;
  cypher::RunOptions options;
  options.parameters = parameters;
  options.timeout_nanos = static_cast<int64_t>(seconds * 1e9);
  PULSE_RETURN_IF_ERROR(service_->Run(*statement, {}, options, &rows, &outcome));
  run.seconds = stretch.seconds();
  run.cpu_seconds = stretch.cpu_seconds();
  return run;
}

bool IsTimeout(const absl::Status& status) { return absl::IsDeadlineExceeded(status); }

}  // namespace pulse::bench
