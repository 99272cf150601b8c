// Patterns of nodes and relationships.
#include <algorithm>

#include "services/graph/syntax/parser_impl.h"

namespace pulse::cypher {

Pattern Parser::ParsePattern() {
  Pattern pattern;
  do {
    pattern.push_back(ParsePatternPart());
  } while (TakeSymbol(","));
  return pattern;
}

PatternPart Parser::ParsePatternPart() {
  Nesting nesting(this);
  PatternPart part;
  part.pos = Here();
  if (failed()) return part;
  if (IsVariable() && IsSymbol("=", 1)) {
    part.path = Variable();
    Advance();
  }
  const bool all = IsWord("ALLSHORTESTPATHS");
  if ((all || IsWord("SHORTESTPATH")) && IsSymbol("(", 1)) {
    const Pos pos = Here();
    part.kind = all ? PatternPart::Kind::kAllShortest : PatternPart::Kind::kShortest;
    Advance();
    Advance();
    ParseChain(&part);
    ExpectSymbol(")");
    if (!failed() && part.edges.size() != 1) {
      Fail("UnexpectedSyntax", pos, "a shortest path is between two nodes: (a)-[*]-(b)");
    }
    if (failed()) return part;
    EdgePattern& edge = part.edges[0];
    if (!edge.variable_length) edge.max = 1;
    edge.variable_length = true;
    if (edge.min > 1) Fail("UnexpectedSyntax", pos, "a shortest path has a least length of 0 or 1");
    return part;
  }
  int brackets = 0;
  while (IsSymbol("(") && IsSymbol("(", 1) && !failed()) {
    Advance();
    if (++brackets > kMaxParseDepth) Fail("UnexpectedSyntax", Here(), "the query nests too deeply");
  }
  ParseChain(&part);
  for (; brackets > 0; --brackets) ExpectSymbol(")");
  return part;
}

void Parser::ParseChain(PatternPart* part) {
  part->nodes.push_back(ParseNode());
  while (!failed() && (IsSymbol("-") || IsSymbol("<"))) {
    part->edges.push_back(ParseEdge());
    part->nodes.push_back(ParseNode());
  }
}

NodePattern Parser::ParseNode() {
  NodePattern node;
  node.pos = Here();
  ExpectSymbol("(");
  if (IsVariable()) node.variable = Variable();
  node.labels = ParseLabels();
  node.properties = ParsePatternProperties();
  if (TakeWord("WHERE")) node.where = ParseExpr();
  ExpectSymbol(")");
  return node;
}

std::vector<std::string> Parser::ParseLabels() {
  std::vector<std::string> labels;
  while (TakeSymbol(":")) {
    do {
      labels.push_back(Name("a label"));
    } while (TakeSymbol("&"));
  }
  return labels;
}

ExprPtr Parser::ParsePatternProperties() {
  if (failed()) return nullptr;
  if (IsSymbol("{")) return ParseMapLiteral();
  if (Peek().kind != Lexeme::Kind::kParameter) return nullptr;
  ExprPtr parameter = New(Expr::Kind::kParameter, Here());
  parameter->name = Peek().text;
  Advance();
  return Done(std::move(parameter));
}

EdgePattern Parser::ParseEdge() {
  EdgePattern edge;
  edge.pos = Here();
  const bool left = TakeSymbol("<");
  ExpectSymbol("-");
  if (TakeSymbol("[")) {
    if (IsVariable()) edge.variable = Variable();
    if (TakeSymbol(":")) {
      do {
        TakeSymbol(":");
        edge.types.push_back(Name("a relationship type"));
      } while (TakeSymbol("|"));
    }
    if (TakeSymbol("*")) ParseRange(&edge);
    edge.properties = ParsePatternProperties();
    if (TakeWord("WHERE")) edge.where = ParseExpr();
    if (!failed() && !IsSymbol("]")) {
      Fail("InvalidRelationshipPattern", Here(), "this is no pattern of a relationship");
    }
    ExpectSymbol("]");
  }
  ExpectSymbol("-");
  const bool right = TakeSymbol(">");
  edge.direction = left == right ? Direction::kBoth : left ? Direction::kIn : Direction::kOut;
  return edge;
}

void Parser::ParseRange(EdgePattern* edge) {
  edge->variable_length = true;
  const auto bound = [&](int64_t* out) {
    if (Peek().kind != Lexeme::Kind::kInteger) return false;
    if (Peek().integer > uint64_t{1} << 62) {
      Fail("IntegerOverflow", Here(), "this bound is too large");
    }
    *out = static_cast<int64_t>(Peek().integer);
    Advance();
    return true;
  };
  const bool has_min = bound(&edge->min);
  if (TakeSymbol("..")) {
    bound(&edge->max);
  } else if (has_min) {
    edge->max = edge->min;
  }
}

// Looks past the brackets of one node, at what follows; it reads each token at most once.
bool Parser::AtPattern(size_t ahead) const {
  if (!IsSymbol("(", ahead)) return false;
  size_t i = ahead + 1;
  if (IsName(i)) ++i;
  while ((IsSymbol(":", i) || IsSymbol("&", i)) && IsName(i + 1)) i += 2;
  if (Peek(i).kind == Lexeme::Kind::kParameter) ++i;
  if (IsSymbol("{", i)) {
    if (Peek(i).match == 0) return false;
    i = Peek(i).match - at_ + 1;
  }
  if (IsWord("WHERE", i)) {
    if (Peek(ahead).match == 0) return false;
    i = Peek(ahead).match - at_;
  }
  if (!IsSymbol(")", i)) return false;
  ++i;
  if (IsSymbol("<", i)) ++i;
  if (!IsSymbol("-", i)) return false;
  ++i;
  if (IsSymbol("[", i)) {
    if (Peek(i).match == 0) return false;
    return IsSymbol("-", Peek(i).match - at_ + 1);
  }
  if (!IsSymbol("-", i)) return false;
  ++i;
  if (IsSymbol(">", i)) ++i;
  return IsSymbol("(", i);
}

bool Parser::AtPatternComprehension() const {
  size_t i = 0;
  const auto skip_bracket = [&] {
    if (Peek(i).match == 0) return false;
    i = Peek(i).match - at_ + 1;
    return true;
  };
  while (IsSymbol("(", i) && skip_bracket()) {
    if (IsSymbol("<", i)) ++i;
    if (!IsSymbol("-", i)) break;
    ++i;
    if (IsSymbol("[", i) && !skip_bracket()) return false;
    if (!IsSymbol("-", i)) return false;
    ++i;
    if (IsSymbol(">", i)) ++i;
  }
  return IsSymbol("|", i) || IsWord("WHERE", i);
}

}  // namespace pulse::cypher
