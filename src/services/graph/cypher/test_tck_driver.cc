// cypher_tck_driver [--store]: runs queries for tests/cypher/tck.py on a graph in memory, or on the
// store: each query is a transaction, and what was committed is flushed and merged now and then, so
// that the next one reads it from runs, and expressions are evaluated by columns from the first row
// on. It reads one JSON object a line from standard input and
// answers with one a line:
//   {"op":"reset"}
//   {"op":"procedure","name":…,"arguments":[[name,type]…],"results":[[name,type]…],"rows":[[text…]…]}
//   {"op":"run","query":…,"parameters":{name:text…}}
// Values are texts of Cypher. An answer to "run" has columns, rows and effects, or an error.
#include <cstdlib>
#include <iostream>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "services/graph/core/store.h"
#include "services/graph/core/test_sim_files.h"
#include "services/graph/cypher/engine.h"
#include "services/graph/functions/functions.h"
#include "services/graph/model/test_memory_graph.h"
#include "services/graph/model/text.h"
#include "services/graph/planner/make_plan.h"
#include "services/graph/syntax/error.h"

namespace pulse::cypher {
namespace {

using nlohmann::json;

class Collector : public ResultSink {
 public:
  bool OnRows(const Value* rows, size_t stride, size_t count,
              std::span<const Slot> columns) override {
    for (size_t i = 0; i < count; ++i) {
      std::vector<Value> row;
      for (const Slot column : columns)
        row.push_back(rows[i * stride + static_cast<size_t>(column)]);
      rows_.push_back(std::move(row));
    }
    return true;
  }
  const std::vector<std::vector<Value>>& rows() const { return rows_; }

 private:
  std::vector<std::vector<Value>> rows_;
};

uint32_t TypesOf(std::string name) {
  if (!name.empty() && name.back() == '?') name.pop_back();
  if (name == "STRING") return Bit(Type::kString);
  if (name == "INTEGER") return Bit(Type::kInt);
  if (name == "FLOAT") return Bit(Type::kFloat);
  if (name == "NUMBER") return kNumberTypes;
  if (name == "BOOLEAN") return Bit(Type::kBool);
  return kAnyType;
}

// What a query runs on.
class Target {
 public:
  virtual ~Target() = default;
  virtual GraphTransaction* Begin() = 0;
  virtual absl::Status Commit() = 0;
  virtual void Rollback() = 0;
  // Of what was committed.
  virtual MemoryGraph::State State() = 0;
};

class MemoryTarget : public Target {
 public:
  GraphTransaction* Begin() override {
    before_ = graph_;
    return &graph_;
  }
  absl::Status Commit() override { return absl::OkStatus(); }
  void Rollback() override { graph_ = before_; }
  MemoryGraph::State State() override { return graph_.GetState(); }

 private:
  MemoryGraph graph_, before_;
};

MemoryGraph::State StateOf(const GraphView& view) {
  MemoryGraph::State state;
  const auto properties = [&](std::string_view owner, uint64_t id, const Properties& list) {
    for (const auto& [key, value] : list) {
      state.properties.insert(
          Concat(owner, " ", id, " ", view.KeyName(key), " ", ValueText(value, view)));
    }
  };
  Properties list;
  std::vector<NodeId> nodes(1000);
  uint64_t position = 0;
  while (const size_t count = view.ScanNodes(kNoToken, &position, nodes).value_or(0)) {
    for (size_t i = 0; i < count; ++i) {
      state.nodes.insert(nodes[i]);
      std::vector<Token> labels;
      if (view.ReadLabels(nodes[i], &labels).ok()) {
        for (const Token label : labels) state.labels.insert(view.LabelName(label));
      }
      if (view.ReadNodeProperties(nodes[i], &list).ok()) properties("node", nodes[i], list);
    }
  }
  std::vector<EdgeRef> edges(1000);
  position = 0;
  while (const size_t count = view.ScanEdges({}, &position, edges).value_or(0)) {
    for (size_t i = 0; i < count; ++i) {
      state.edges.insert(edges[i].id);
      if (view.ReadEdgeProperties(edges[i], &list).ok()) properties("edge", edges[i].id, list);
    }
  }
  return state;
}

class StoreTarget : public Target {
 public:
  StoreTarget() {
    graph::StoreOptions options;
    options.files = &files_;
    options.background = false;
    auto store = graph::GraphStore::Open("db", options);
    if (!store.ok()) Fail(store.status());
    store_ = *std::move(store);
  }
  GraphTransaction* Begin() override {
    auto begun = store_->Begin();
    if (!begun.ok()) Fail(begun.status());
    transaction_ = *std::move(begun);
    return transaction_.get();
  }
  absl::Status Commit() override {
    const absl::Status status = transaction_->Commit();
    transaction_.reset();
    absl::Status kept;
    if (++commits_ % 3 == 0) kept = store_->Flush();
    if (commits_ % 7 == 0) kept.Update(store_->Compact());
    if (!kept.ok()) Fail(kept);
    return status;
  }
  void Rollback() override { transaction_.reset(); }
  MemoryGraph::State State() override { return StateOf(**store_->Snapshot()); }

 private:
  [[noreturn]] static void Fail(const absl::Status& status) {
    std::cerr << "cypher_tck_driver: " << status << "\n";
    std::exit(2);
  }
  graph::SimFiles files_;
  std::unique_ptr<graph::GraphStore> store_;
  std::unique_ptr<DatabaseTransaction> transaction_;
  int commits_ = 0;
};

class Driver : public ProcedureCatalog {
 public:
  explicit Driver(bool store) : store_(store) { Reset(); }

  const Procedure* Find(std::string_view name) const override {
    const auto it = procedures_.find(std::string(name));
    return it == procedures_.end() ? nullptr : &it->second;
  }

  json Answer(const json& request) {
    const std::string op = request.at("op");
    if (op == "reset") {
      Reset();
      return {{"ok", true}};
    }
    if (op == "procedure") return AddProcedure(request);
    return Run(request);
  }

 private:
  void Reset() {
    procedures_.clear();
    if (store_) {
      target_ = std::make_unique<StoreTarget>();
    } else {
      target_ = std::make_unique<MemoryTarget>();
    }
  }

  // A value that is written in Cypher.
  Value Parse(const std::string& text) {
    MemoryGraph empty;
    Collector collector;
    const auto plan = MakePlan("RETURN " + text, empty, nullptr);
    if (!plan.ok()) return {};
    ExecuteOptions options;
    options.view = &empty;
    if (!Execute(**plan, options, &collector, nullptr).ok()) return {};
    return collector.rows()[0][0];
  }

  json AddProcedure(const json& request) {
    Procedure procedure;
    procedure.name = request.at("name");
    for (const auto& field : request.at("arguments"))
      procedure.arguments.push_back({field[0], TypesOf(field[1])});
    for (const auto& field : request.at("results"))
      procedure.results.push_back({field[0], TypesOf(field[1])});
    std::vector<ValueList> rows;
    for (const auto& row : request.at("rows")) {
      rows.emplace_back();
      for (const auto& text : row) rows.back().push_back(Parse(text));
    }
    const size_t arguments = procedure.arguments.size();
    procedure.call = [rows, arguments](EvalContext&, const ValueList& given, ValueList* out) {
      for (const ValueList& row : rows) {
        bool same = true;
        for (size_t i = 0; i < arguments; ++i) same = same && Order(row[i], given[i]) == 0;
        if (same) out->insert(out->end(), row.begin() + static_cast<long>(arguments), row.end());
      }
      return absl::OkStatus();
    };
    procedures_[procedure.name] = std::move(procedure);
    return {{"ok", true}};
  }

  static json ErrorOf(const absl::Status& status) {
    const ErrorInfo info = InfoOf(status);
    return {{"error",
             {{"kind", info.kind},
              {"phase", info.phase},
              {"detail", info.detail},
              {"message", std::string(status.message())}}}};
  }

  json Run(const json& request) {
    ValueMap parameters;
    if (request.contains("parameters")) {
      for (const auto& [name, text] : request.at("parameters").items())
        parameters.emplace_back(name, Parse(text));
    }
    std::sort(parameters.begin(), parameters.end(),
              [](const auto& a, const auto& b) { return a.first < b.first; });
    const MemoryGraph::State old = target_->State();
    GraphTransaction* const graph = target_->Begin();
    const auto plan = MakePlan(request.at("query").get<std::string>(), *graph, this);
    Collector collector;
    absl::Status status = plan.status();
    if (status.ok()) {
      ExecuteOptions options;
      options.transaction = graph;
      options.parameters = &parameters;
      options.limits.nanos = 20'000'000'000;
      if (store_) options.columns_from = 1;
      status = Execute(**plan, options, &collector, nullptr);
    }
    json rows = json::array();
    for (const auto& row : collector.rows()) {
      json values = json::array();
      for (const Value& v : row) values.push_back(ValueText(v, *graph));
      rows.push_back(std::move(values));
    }
    if (status.ok()) {
      status = target_->Commit();
    } else {
      target_->Rollback();
    }
    if (!status.ok()) return ErrorOf(status);
    return {
        {"columns", (*plan)->columns}, {"rows", rows}, {"effects", Effects(old, target_->State())}};
  }

  template <typename Set>
  static void Differ(const Set& before, const Set& after, const std::string& name, json* out) {
    int64_t added = 0, removed = 0;
    for (const auto& item : after) added += before.contains(item) ? 0 : 1;
    for (const auto& item : before) removed += after.contains(item) ? 0 : 1;
    if (added != 0) (*out)["+" + name] = added;
    if (removed != 0) (*out)["-" + name] = removed;
  }
  static json Effects(const MemoryGraph::State& before, const MemoryGraph::State& after) {
    json out = json::object();
    Differ(before.nodes, after.nodes, "nodes", &out);
    Differ(before.edges, after.edges, "relationships", &out);
    Differ(before.labels, after.labels, "labels", &out);
    Differ(before.properties, after.properties, "properties", &out);
    return out;
  }

  const bool store_;
  std::unique_ptr<Target> target_;
  std::map<std::string, Procedure> procedures_;
};

}  // namespace
}  // namespace pulse::cypher

int main(int argc, char** argv) {
  const bool store = argc == 2 && std::string_view(argv[1]) == "--store";
  if (argc > 1 && !store) {
    std::cerr << "usage: cypher_tck_driver [--store]\n";
    return 2;
  }
  pulse::cypher::Driver driver(store);
  std::string line;
  while (std::getline(std::cin, line)) {
    const auto request = nlohmann::json::parse(line, nullptr, false);
    if (request.is_discarded()) return 2;
    std::cout << driver.Answer(request).dump(-1, ' ', false,
                                             nlohmann::json::error_handler_t::replace)
              << "\n"
              << std::flush;
  }
  return 0;
}
