// cypher_tck_driver: runs queries for tests/cypher/tck.py on a graph in memory. It reads one JSON
// object a line from standard input and answers with one a line:
//   {"op":"reset"}
//   {"op":"procedure","name":…,"arguments":[[name,type]…],"results":[[name,type]…],"rows":[[text…]…]}
//   {"op":"run","query":…,"parameters":{name:text…}}
// Values are texts of Cypher. An answer to "run" has columns, rows and effects, or an error.
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "services/graph/cypher/engine.h"
#include "services/graph/cypher/error.h"
#include "services/graph/cypher/functions.h"
#include "services/graph/model/test_memory_graph.h"

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

class Driver : public ProcedureCatalog {
 public:
  const Procedure* Find(std::string_view name) const override {
    const auto it = procedures_.find(std::string(name));
    return it == procedures_.end() ? nullptr : &it->second;
  }

  json Answer(const json& request) {
    const std::string op = request.at("op");
    if (op == "reset") {
      graph_ = MemoryGraph();
      procedures_.clear();
      return {{"ok", true}};
    }
    if (op == "procedure") return AddProcedure(request);
    return Run(request);
  }

 private:
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
    const auto plan = MakePlan(request.at("query").get<std::string>(), graph_, this);
    if (!plan.ok()) return ErrorOf(plan.status());
    const MemoryGraph before = graph_;
    const MemoryGraph::State old = graph_.GetState();
    ExecuteOptions options;
    options.transaction = &graph_;
    options.parameters = &parameters;
    options.limits.nanos = 20'000'000'000;
    Collector collector;
    ExecuteSummary summary;
    const absl::Status status = Execute(**plan, options, &collector, &summary);
    if (!status.ok()) {
      graph_ = before;
      return ErrorOf(status);
    }
    json rows = json::array();
    for (const auto& row : collector.rows()) {
      json values = json::array();
      for (const Value& v : row) values.push_back(ValueText(v, graph_));
      rows.push_back(std::move(values));
    }
    return {{"columns", (*plan)->columns},
            {"rows", rows},
            {"effects", Effects(old, graph_.GetState())}};
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

  MemoryGraph graph_;
  std::map<std::string, Procedure> procedures_;
};

}  // namespace
}  // namespace pulse::cypher

int main() {
  pulse::cypher::Driver driver;
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
