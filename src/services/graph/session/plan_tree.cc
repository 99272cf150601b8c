#include "services/graph/session/plan_tree.h"

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace pulse::cypher {
namespace {

struct Line {
  size_t indent = 0;
  std::string name, details;
  int64_t rows = -1;  // not counted
};

Value Node(const Line& line, ValueList children, Value text) {
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
Value Chain(const std::vector<Line>& lines, size_t* at, size_t indent, const Value& text) {
  Value below;
  // Values nest no deeper than this; what is further away from the result is not shown as a tree.
  constexpr int kDeepest = kMaxValueDepth - 8;
  while (*at < lines.size() && lines[*at].indent >= indent) {
    const Line& line = lines[(*at)++];
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
  std::vector<Line> lines;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = text.find('\n', begin);
    std::string_view whole = std::string_view(text).substr(begin, end - begin);
    Line line;
    line.indent = whole.find_first_not_of(' ');
    whole.remove_prefix(line.indent);
    const size_t space = whole.find(' ');
    line.name = whole.substr(0, space);
    if (space != std::string_view::npos) line.details = whole.substr(space + 1);
    constexpr std::string_view kRows = "rows=";
    const size_t counted = rows == nullptr ? std::string::npos : line.details.rfind(kRows);
    if (counted != std::string::npos) {
      line.rows = std::stoll(line.details.substr(counted + kRows.size()));
      line.details.resize(counted == 0 ? 0 : counted - 1);
    }
    lines.push_back(std::move(line));
    begin = end + 1;
  }
  size_t at = 0;
  Value tree = Chain(lines, &at, 0, Value::String(text));
  return tree.is_null() ? Node({0, "EmptyResult", "", -1}, {}, Value::String(text)) : tree;
}

}  // namespace pulse::cypher
