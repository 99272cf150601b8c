#include "services/graph/session/plan_tree.h"

#include <string>
#include <utility>
#include <vector>

namespace pulse::cypher {
namespace {

Value Int(uint64_t number) { return Value::Int(static_cast<int64_t>(number)); }

Value Node(const PlanLine& line, ValueList children, ValueMap args) {
  if (!line.details.empty()) args.emplace_back("Details", Value::String(line.details));
  if (line.rows >= 0) {
    for (const auto& [name, count] : NamedCounts(line.reads)) args.emplace_back(name, Int(count));
  }
  ValueMap map = {{"operatorType", Value::String(line.name)},
                  {"args", Value::Map(std::move(args))},
                  {"identifiers", Value::List({})},
                  {"children", Value::List(std::move(children))}};
  if (line.rows >= 0) {
    map.emplace_back("rows", Value::Int(line.rows));
    map.emplace_back("dbHits", Int(line.reads.hits()));
  }
  return Value::Map(std::move(map));
}

// The lines from `begin` on that are indented by `indent`: each has the one before it as a child,
// and what is indented deeper below it. The last is the root.
Value Chain(const std::vector<PlanLine>& lines, size_t* at, int indent, const ValueMap& of_root) {
  Value below;
  // Values nest no deeper than this; what is further away from the result is not shown as a tree.
  constexpr int kDeepest = kMaxValueDepth - 8;
  while (*at < lines.size() && lines[*at].indent >= indent) {
    const PlanLine& line = lines[(*at)++];
    ValueList children;
    if (!below.is_null() && below.depth() < kDeepest) children.push_back(std::move(below));
    if (*at < lines.size() && lines[*at].indent > indent) {
      Value inner = Chain(lines, at, lines[*at].indent, {});
      if (inner.depth() < kDeepest) children.push_back(std::move(inner));
    }
    const bool root = *at >= lines.size() || lines[*at].indent < indent;
    below = Node(line, std::move(children), root ? of_root : ValueMap());
  }
  return below;
}

}  // namespace

Value PlanTree(const Plan& plan, const Profile* profile) {
  const std::vector<PlanLine> lines = PlanLines(plan, profile);
  ValueMap of_root = {{"string-representation", Value::String(PlanText(plan, profile))}};
  if (profile != nullptr) {
    ValueMap total, copied;
    for (const auto& [name, count] : NamedCounts(profile->Total())) {
      total.emplace_back(name, Int(count));
    }
    for (const EngineCopies& copies : profile->copied) {
      copied.emplace_back(copies.engine, Int(copies.bytes));
    }
    of_root.emplace_back("Total", Value::Map(std::move(total)));
    of_root.emplace_back("CopiedMeanwhile", Value::Map(std::move(copied)));
  }
  size_t at = 0;
  Value tree = Chain(lines, &at, 0, of_root);
  return tree.is_null() ? Node({0, "EmptyResult", "", -1, {}}, {}, std::move(of_root)) : tree;
}

}  // namespace pulse::cypher
