#include <algorithm>
#include <iterator>
#include <utility>

#include "services/ops/filter/syntax.h"

namespace pulse::filter {
namespace {

using Kind = Node::Kind;

Node SimplifyConcat(Node node) {
  std::vector<Node> kept;
  for (Node& child : node.children) {
    if (child.kind == Kind::kNever) return std::move(child);
    if (child.kind == Kind::kEmpty) continue;
    if (child.kind == Kind::kConcat) {
      std::move(child.children.begin(), child.children.end(), std::back_inserter(kept));
    } else {
      kept.push_back(std::move(child));
    }
  }
  if (kept.empty()) return Node::Make(Kind::kEmpty);
  if (kept.size() == 1) return std::move(kept.front());
  node.children = std::move(kept);
  return node;
}

Node SimplifyAlternate(Node node) {
  std::vector<Node> kept;
  for (Node& child : node.children) {
    if (child.kind == Kind::kNever) continue;
    if (child.kind == Kind::kAlternate) {
      std::move(child.children.begin(), child.children.end(), std::back_inserter(kept));
    } else {
      kept.push_back(std::move(child));
    }
  }
  if (kept.empty()) return Node::Make(Kind::kNever);
  if (kept.size() == 1) return std::move(kept.front());
  node.children = std::move(kept);
  return node;
}

Node SimplifyRepeat(Node node) {
  Node& child = node.children.front();
  if (child.kind == Kind::kEmpty || node.most == 0) return Node::Make(Kind::kEmpty);
  if (child.kind == Kind::kNever || child.IsAssertion()) {
    return node.least == 0 ? Node::Make(Kind::kEmpty) : Node(std::move(child));
  }
  if (node.least == 1 && node.most == 1) return Node(std::move(child));
  return node;
}

Node Rebuild(Node node, bool lines) {
  for (Node& child : node.children) child = Rebuild(std::move(child), lines);
  switch (node.kind) {
    case Kind::kSet:
      if (lines) node.set.ascii['\n'] = false;
      return node.set.empty() ? Node::Make(Kind::kNever) : node;
    case Kind::kLineStart:
      return lines ? Node::Make(Kind::kTextStart) : node;
    case Kind::kLineEnd:
      return lines ? Node::Make(Kind::kTextEnd) : node;
    case Kind::kConcat:
      return SimplifyConcat(std::move(node));
    case Kind::kAlternate:
      return SimplifyAlternate(std::move(node));
    case Kind::kRepeat:
      return SimplifyRepeat(std::move(node));
    default:
      return node;
  }
}

// Of a node at the end of a rule, or at its beginning: there a search needs the least only.
Node Trim(Node node, bool at_end) {
  switch (node.kind) {
    case Kind::kConcat: {
      std::vector<Node>& parts = node.children;
      while (!parts.empty()) {
        const size_t edge = at_end ? parts.size() - 1 : 0;
        parts[edge] = Trim(std::move(parts[edge]), at_end);
        if (parts[edge].kind != Kind::kEmpty) break;
        parts.erase(parts.begin() + static_cast<std::ptrdiff_t>(edge));
      }
      return SimplifyConcat(std::move(node));
    }
    case Kind::kAlternate:
      for (Node& child : node.children) {
        child = Trim(std::move(child), at_end);
        if (child.kind == Kind::kEmpty) return Node::Make(Kind::kEmpty);
      }
      return SimplifyAlternate(std::move(node));
    case Kind::kRepeat:
      if (node.least == 0) return Node::Make(Kind::kEmpty);
      node.most = node.least;
      if (node.least == 1) return Trim(std::move(node.children.front()), at_end);
      return node;
    default:
      return node;
  }
}

}  // namespace

Node Simplify(Node node, bool lines) {
  return Trim(Trim(Rebuild(std::move(node), lines), true), false);
}

bool AcceptsAll(const Node& node) { return node.kind == Kind::kEmpty; }

}  // namespace pulse::filter
