// algo.*: the algorithms of graph/algorithms as procedures. Each takes a map of options at its end;
// a key that none knows is an error, so that nothing is left out in silence.
#include <cmath>
#include <optional>
#include <utility>

#include "services/graph/algorithms/algorithms.h"
#include "services/graph/functions/functions.h"
#include "services/graph/model/text.h"
#include "services/graph/session/procedures.h"
#include "services/graph/syntax/error.h"

namespace pulse::cypher {
namespace {

namespace algorithms = graph::algorithms;
using algorithms::Index;
using algorithms::Memory;
using algorithms::Scope;

constexpr uint32_t kNode = Bit(Type::kNode);
constexpr uint32_t kFloat = Bit(Type::kFloat);
// Of the engine: about as many steps as it takes between two looks at the clock.
constexpr uint64_t kTick = 4096;
constexpr int64_t kMostThreads = 256;

class QueryBudget : public algorithms::Budget {
 public:
  explicit QueryBudget(EvalContext* context) : context_(*context) {}
  bool Charge(int64_t bytes) override { return context_.Charge(bytes); }
  bool Continue() override { return context_.Tick(kTick); }
  absl::Status status() const override { return context_.status(); }

 private:
  EvalContext& context_;
};

absl::Status Wrong(std::string_view message) {
  return RuntimeError("ArgumentError", "InvalidArgumentValue", message);
}

// The options of one call, each taken once.
class Options {
 public:
  explicit Options(const ValueList& arguments, size_t at) {
    if (at < arguments.size() && arguments[at].is_map()) map_ = arguments[at].as_map();
  }

  // nullopt: it is not given.
  std::optional<std::vector<std::string>> Texts(std::string_view key) {
    const Value value = Take(key);
    if (value.is_null()) return std::nullopt;
    std::vector<std::string> texts;
    if (value.is_string()) {
      texts.push_back(value.as_string());
    } else if (value.is_list()) {
      for (const Value& item : value.as_list()) {
        if (!item.is_string()) {
          Fail(Concat(key, " is a string, or a list of these"));
          break;
        }
        texts.push_back(item.as_string());
      }
    } else {
      Fail(Concat(key, " is a string, or a list of these"));
    }
    return texts;
  }
  std::string Text(std::string_view key) {
    const Value value = Take(key);
    if (value.is_string()) return value.as_string();
    if (!value.is_null()) Fail(Concat(key, " is a string"));
    return {};
  }
  int64_t Int(std::string_view key, int64_t usual, int64_t least, int64_t most) {
    const Value value = Take(key);
    if (value.is_null()) return usual;
    if (value.is_int() && value.as_int() >= least && value.as_int() <= most) return value.as_int();
    Fail(Concat(key, " is an integer from ", least, " to ", most));
    return usual;
  }
  double Float(std::string_view key, double usual, double least, double most) {
    const Value value = Take(key);
    if (value.is_null()) return usual;
    if (value.is_number() && value.as_number() >= least && value.as_number() <= most) {
      return value.as_number();
    }
    Fail(Concat(key, " is a number from ", FloatText(least), " to ", FloatText(most)));
    return usual;
  }
  Direction DirectionOf() {
    const std::string text = Text("direction");
    if (text.empty() || text == "out") return Direction::kOut;
    if (text == "in") return Direction::kIn;
    if (text != "both") Fail("direction is 'out', 'in' or 'both'");
    return Direction::kBoth;
  }
  // After all were taken.
  absl::Status status() {
    if (status_.ok() && !map_.empty()) {
      return Wrong(Concat("there is no option `", map_[0].first, "`"));
    }
    return status_;
  }

 private:
  Value Take(std::string_view key) {
    for (auto it = map_.begin(); it != map_.end(); ++it) {
      if (it->first != key) continue;
      Value value = std::move(it->second);
      map_.erase(it);
      return value;
    }
    return {};
  }
  void Fail(std::string_view message) { status_.Update(Wrong(message)); }

  ValueMap map_;
  absl::Status status_;
};

// One call: its budget, its scope, and its rows.
class Run {
 public:
  Run(EvalContext* context, const ValueList& arguments, size_t options_at, ValueList* out)
      : context_(*context),
        budget_(context),
        memory(&budget_),
        options(arguments, options_at),
        out_(*out) {}

  absl::Status Begin(bool directed) {
    algorithms::ScopeOptions scope;
    scope.labels = options.Texts("labels");
    scope.types = options.Texts("types");
    if (directed) scope.direction = options.DirectionOf();
    scope.threads = static_cast<int>(options.Int("threads", 0, 0, kMostThreads));
    // A transaction is for one thread.
    if (context_.transaction != nullptr) scope.threads = 1;
    if (auto st = options.status(); !st.ok()) return st;
    auto made = Scope::Make(*context_.graph, scope, &budget_, &memory);
    if (!made.ok()) return made.status();
    scope_.emplace(*std::move(made));
    return absl::OkStatus();
  }
  const Scope& scope() const { return *scope_; }

  // The index of a node that was given. *index kNone: null, of which there are no rows.
  absl::Status IndexOf(const Value& node, std::string_view what, Index* index) const {
    *index = algorithms::kNone;
    if (node.is_null()) return absl::OkStatus();
    *index = scope_->IndexOf(node.as_node());
    if (*index != algorithms::kNone) return absl::OkStatus();
    return Wrong(Concat("the ", what, " has none of the labels, or is not in the graph"));
  }

  Value NodeOf(Index index) const {
    return index == algorithms::kNone ? Value() : Value::Node(scope_->node(index));
  }
  // A row for each node: `row(index)` appends it to *out.
  template <typename Row>
  absl::Status Rows(size_t width, const Row& row) {
    // Twice: a list that grows. The operator that takes it charges it from then on.
    if (auto st = memory.Take(scope_->size(), 2 * width * sizeof(Value)); !st.ok()) return st;
    for (Index i = 0; i < scope_->size(); ++i) {
      if (i % kTick == 0 && !budget_.Continue()) return budget_.status();
      row(i);
    }
    return absl::OkStatus();
  }
  void Append(Value value) { out_.push_back(std::move(value)); }

 private:
  EvalContext& context_;
  QueryBudget budget_;

 public:
  Memory memory;
  Options options;

 private:
  ValueList& out_;
  std::optional<Scope> scope_;
};

absl::Status CallBfs(EvalContext& context, const ValueList& arguments, ValueList* out) {
  Run run(&context, arguments, 1, out);
  const auto depth =
      static_cast<Index>(run.options.Int("depth", algorithms::kNone - 1, 0, algorithms::kNone - 1));
  if (auto st = run.Begin(true); !st.ok()) return st;
  Index source;
  if (auto st = run.IndexOf(arguments[0], "source", &source); !st.ok()) return st;
  if (source == algorithms::kNone) return absl::OkStatus();
  const auto result = algorithms::Bfs(run.scope(), source, depth, &run.memory);
  if (!result.ok()) return result.status();
  return run.Rows(3, [&](Index i) {
    if (result->distance[i] == algorithms::kNone) return;
    run.Append(run.NodeOf(i));
    run.Append(Value::Int(result->distance[i]));
    run.Append(run.NodeOf(result->parent[i]));
  });
}

absl::Status CallShortestPaths(EvalContext& context, const ValueList& arguments, ValueList* out) {
  Run run(&context, arguments, 1, out);
  const std::string weight = run.options.Text("weight");
  if (auto st = run.Begin(true); !st.ok()) return st;
  Index source;
  if (auto st = run.IndexOf(arguments[0], "source", &source); !st.ok()) return st;
  if (source == algorithms::kNone) return absl::OkStatus();
  const auto result = algorithms::Distances(run.scope(), source, weight, &run.memory);
  if (!result.ok()) return result.status();
  return run.Rows(3, [&](Index i) {
    if (std::isinf(result->distance[i])) return;
    run.Append(run.NodeOf(i));
    run.Append(Value::Float(result->distance[i]));
    run.Append(run.NodeOf(result->parent[i]));
  });
}

absl::Status CallShortestPath(EvalContext& context, const ValueList& arguments, ValueList* out) {
  Run run(&context, arguments, 2, out);
  const std::string weight = run.options.Text("weight");
  if (auto st = run.Begin(true); !st.ok()) return st;
  Index source, target;
  if (auto st = run.IndexOf(arguments[0], "source", &source); !st.ok()) return st;
  if (auto st = run.IndexOf(arguments[1], "target", &target); !st.ok()) return st;
  if (source == algorithms::kNone || target == algorithms::kNone) return absl::OkStatus();
  auto result = algorithms::ShortestPath(run.scope(), source, target, weight, &run.memory);
  if (!result.ok()) return result.status();
  if (!result->found) return absl::OkStatus();
  run.Append(Value::Float(result->distance));
  run.Append(Value::MakePath(std::move(result->path)));
  return absl::OkStatus();
}

absl::Status CallPageRank(EvalContext& context, const ValueList& arguments, ValueList* out) {
  Run run(&context, arguments, 0, out);
  algorithms::PageRankOptions options;
  options.damping = run.options.Float("damping", options.damping, 0, 1);
  options.most_iterations =
      static_cast<uint32_t>(run.options.Int("iterations", options.most_iterations, 1, 1'000'000));
  options.tolerance = run.options.Float("tolerance", options.tolerance, 0, 1);
  options.weight = run.options.Text("weight");
  if (auto st = run.Begin(true); !st.ok()) return st;
  const auto result = algorithms::PageRank(run.scope(), options, &run.memory);
  if (!result.ok()) return result.status();
  return run.Rows(3, [&](Index i) {
    run.Append(run.NodeOf(i));
    run.Append(Value::Float(result->score[i]));
    run.Append(Value::Bool(result->converged));
  });
}

absl::Status CallComponents(EvalContext& context, const ValueList& arguments, ValueList* out) {
  Run run(&context, arguments, 0, out);
  if (auto st = run.Begin(false); !st.ok()) return st;
  const auto result = algorithms::Components(run.scope(), &run.memory);
  if (!result.ok()) return result.status();
  return run.Rows(2, [&](Index i) {
    run.Append(run.NodeOf(i));
    run.Append(Value::Int(static_cast<int64_t>(run.scope().node((*result)[i]))));
  });
}

absl::Status CallTriangles(EvalContext& context, const ValueList& arguments, ValueList* out) {
  Run run(&context, arguments, 0, out);
  if (auto st = run.Begin(false); !st.ok()) return st;
  const auto result = algorithms::Triangles(run.scope(), &run.memory);
  if (!result.ok()) return result.status();
  return run.Rows(3, [&](Index i) {
    run.Append(run.NodeOf(i));
    run.Append(Value::Int(static_cast<int64_t>(result->triangles[i])));
    run.Append(Value::Float(result->coefficient[i]));
  });
}

absl::Status CallLabelPropagation(EvalContext& context, const ValueList& arguments,
                                  ValueList* out) {
  Run run(&context, arguments, 0, out);
  const auto iterations = static_cast<uint32_t>(run.options.Int("iterations", 100, 1, 1'000'000));
  if (auto st = run.Begin(false); !st.ok()) return st;
  const auto result = algorithms::PropagateLabels(run.scope(), iterations, &run.memory);
  if (!result.ok()) return result.status();
  return run.Rows(3, [&](Index i) {
    run.Append(run.NodeOf(i));
    run.Append(Value::Int(static_cast<int64_t>(run.scope().node(result->label[i]))));
    run.Append(Value::Bool(result->converged));
  });
}

}  // namespace

void ServiceProcedures::AddAlgorithms() {
  const Procedure::Field source = {"source", kNode}, target = {"target", kNode};
  const Procedure::Field node = {"node", kNode}, parent = {"parent", kNode | kNullType};
  const struct {
    std::string_view name;
    std::vector<Procedure::Field> arguments, results;
    std::string_view description;
    Call call;
  } table[] = {{"algo.bfs",
                {source},
                {node, {"distance", kIntType}, parent},
                "The nodes that can be reached, and in how many steps.",
                CallBfs},
               {"algo.shortestPaths",
                {source},
                {node, {"distance", kFloat}, parent},
                "The least sum of weights from a node to all that can be reached.",
                CallShortestPaths},
               {"algo.shortestPath",
                {source, target},
                {{"distance", kFloat}, {"path", Bit(Type::kPath)}},
                "A path of the least sum of weights; no row where there is none.",
                CallShortestPath},
               {"algo.pageRank",
                {},
                {node, {"score", kFloat}, {"converged", kBoolType}},
                "Each node's PageRank; their sum is 1.",
                CallPageRank},
               {"algo.components",
                {},
                {node, {"component", kIntType}},
                "Weakly connected components: the least id of each node's.",
                CallComponents},
               {"algo.triangles",
                {},
                {node, {"triangles", kIntType}, {"coefficient", kFloat}},
                "The triangles that each node is a corner of, and its clustering coefficient.",
                CallTriangles},
               {"algo.labelPropagation",
                {},
                {node, {"community", kIntType}, {"converged", kBoolType}},
                "Communities by semi-synchronous label propagation.",
                CallLabelPropagation}};
  for (const auto& row : table) {
    std::vector<Procedure::Field> arguments = row.arguments;
    arguments.push_back({"options", Bit(Type::kMap)});
    Add(row.name, std::move(arguments), row.results, row.description, row.call)->optional = 1;
  }
}

}  // namespace pulse::cypher
