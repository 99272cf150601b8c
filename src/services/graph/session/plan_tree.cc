#include "services/graph/session/plan_tree.h"

#include <string>
#include <utility>
#include <vector>

namespace pulse::cypher {
namespace {

Value Node(const PlanLine& line, ValueList children, Value text) {
  ValueMap args;
  if (!line.details.empty()) args.emplace_back("Details", Value::String(line.details));
  if (!text.is_null()) args.emplace_back("string-representation", std::move(text));
  ValueMap map = {{"operatorType", Value::String(line.name)},
                  {"args", Value::Map(std::move(args))},
                  {"identifiers", Value::List({})},
                  {"children", Value::List(std::move(children))}};
  if (line.rows >= 0) map.emplace_back("rows", Value::Int(line.rows));
  return Value::Map(std::move(map));
}

// The lines from `begin` on that are indented by `indent`: each has the one before it as a child,
// and what is indented deeper below it. The last is the root.
Value Chain(const std::vector<PlanLine>& lines, size_t* at, int indent, const Value& text) {
  Value below;
  // Values nest no deeper than this; what is further away from the result is not shown as a tree.
  constexpr int kDeepest = kMaxValueDepth - 8;
  while (*at < lines.size() && lines[*at].indent >= indent) {
    const PlanLine& line = lines[(*at)++];
    ValueList children;
    if (!below.is_null() && below.depth() < kDeepest) children.push_back(std::move(below));
    if (*at < lines.size() && lines[*at].indent > indent) {
      Value inner = Chain(lines, at, lines[*at].indent, Value());
      if (inner.depth() < kDeepest) children.push_back(std::move(inner));
    }
    const bool root = *at >= lines.size() || lines[*at].indent < indent;
    below = Node(line, std::move(children), root ? text : Value());
  }
  return below;
}

}  // namespace

Value PlanTree(const Plan& plan, const StepRows* rows) {
  const std::string text = PlanText(plan, rows);
  const std::vector<PlanLine> lines = PlanLines(plan, rows);
  size_t at = 0;
  Value tree = Chain(lines, &at, 0, Value::String(text));
  return tree.is_null() ? Node({0, "EmptyResult", "", -1}, {}, Value::String(text)) : tree;
}

}  // namespace pulse::cypher
