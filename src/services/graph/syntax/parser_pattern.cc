// Patterns of nodes and relationships.
#include <algorithm>

#include "services/graph/model/text.h"
#include "services/graph/syntax/parser_impl.h"

namespace pulse::cypher {
namespace {

// Of relationships in one path: planning one takes time by their square.
constexpr size_t kMostLinks = 4000;

}  // namespace

Pattern Parser::ParsePattern() {
  Pattern pattern;
  do {
    pattern.push_back(ParsePatternPart());
  } while (TakeSymbol(","));
  return pattern;
}

// SHORTEST 1, ANY [SHORTEST], ALL SHORTEST and SHORTEST 1 GROUP, of GQL.
bool Parser::ParseSelector(PatternPart* part) {
  using Kind = PatternPart::Kind;
  const Pos pos = Here();
  if (TakeWord("ALL")) {
    ExpectWord("SHORTEST");
    part->kind = Kind::kAllShortest;
  } else if (TakeWord("ANY")) {
    TakeWord("SHORTEST");
    part->kind = Kind::kShortest;
  } else if (TakeWord("SHORTEST")) {
    part->kind = Kind::kShortest;
    uint64_t count = 1;
    if (Peek().kind == Lexeme::Kind::kInteger) {
      count = Peek().integer;
      Advance();
    }
    if (TakeWord("GROUP") || TakeWord("GROUPS")) part->kind = Kind::kAllShortest;
    if (count != 1) {
      Fail("UnsupportedPattern", pos, "SHORTEST k is supported for one path, or one group: k = 1");
    }
  } else {
    return false;
  }
  if (!TakeWord("PATH")) TakeWord("PATHS");
  return true;
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
  const Pos pos = Here();
  const bool all = IsWord("ALLSHORTESTPATHS");
  const bool function = (all || IsWord("SHORTESTPATH")) && IsSymbol("(", 1);
  if (function) {
    part.kind = all ? PatternPart::Kind::kAllShortest : PatternPart::Kind::kShortest;
    Advance();
    Advance();
  } else {
    part.selected = ParseSelector(&part);
  }
  if (function || part.selected) {
    ParseChain(&part);
    if (function) ExpectSymbol(")");
    if (!failed() && part.edges.size() != 1) {
      Fail("UnexpectedSyntax", pos, "a shortest path is between two nodes: (a)-[*]-(b)");
    }
    if (failed()) return part;
    EdgePattern& edge = part.edges[0];
    if (edge.path != nullptr) {
      Fail("UnsupportedPattern", edge.pos,
           "a shortest path of a quantified path is not supported; of one relationship it is: "
           "shortestPath((a)-[:R*]->(b))");
      return part;
    }
    if (!edge.variable_length) edge.max = 1;
    edge.variable_length = true;
    if (edge.min > 1) Fail("UnexpectedSyntax", pos, "a shortest path has a least length of 0 or 1");
    return part;
  }
  int brackets = 0;
  while (IsSymbol("(") && IsSymbol("(", 1) && !AtQuantifiedPath() && !failed()) {
    Advance();
    if (++brackets > kMaxParseDepth) Fail("UnexpectedSyntax", Here(), "the query nests too deeply");
  }
  ParseChain(&part);
  for (; brackets > 0; --brackets) ExpectSymbol(")");
  return part;
}

// Two brackets may stand around a whole pattern without meaning anything.
bool Parser::AtQuantifiedPath() const {
  if (!IsSymbol("(") || Peek().match == 0) return false;
  if (!IsSymbol("(", 1) && !(IsName(1) && IsSymbol("=", 2))) return false;
  const size_t behind = Peek().match - at_ + 1;
  return IsSymbol("+", behind) || IsSymbol("*", behind) || IsSymbol("{", behind);
}

// Nodes between relationships and quantified paths; beside these none need be written.
void Parser::ParseChain(PatternPart* part) {
  const auto unwritten = [this] {
    NodePattern node;
    node.pos = Here();
    return node;
  };
  const auto at_bracket = [this] {
    if (failed() || !IsSymbol("(") || !IsSymbol("(", 1) || AtQuantifiedPath()) return false;
    Fail("UnexpectedSyntax", Here(),
         "a path in brackets says how often it comes: +, *, {n}, {n,m}, {n,} or {,m}");
    return true;
  };
  bool written = !AtQuantifiedPath();
  if (at_bracket()) return;
  part->nodes.push_back(written ? ParseNode() : unwritten());
  while (!failed()) {
    if (part->edges.size() == kMostLinks &&
        (AtQuantifiedPath() || IsSymbol("-") || IsSymbol("<"))) {
      return Fail("UnexpectedSyntax", Here(),
                  Concat("a path has at most ", kMostLinks, " relationships"));
    }
    if (AtQuantifiedPath()) {
      part->edges.push_back(ParseQuantifiedPath());
      if (at_bracket()) return;
      written = IsSymbol("(") && !AtQuantifiedPath();
      part->nodes.push_back(written ? ParseNode() : unwritten());
    } else if (IsSymbol("-") || IsSymbol("<")) {
      if (!written) {
        return Fail("UnexpectedSyntax", Here(),
                    "a node stands between a quantified path and a relationship: "
                    "((a)-->(b))+ (c)-->(d)");
      }
      part->edges.push_back(ParseEdge());
      if (AtQuantifiedPath()) {
        return Fail("UnexpectedSyntax", Here(),
                    "a node stands between a relationship and a quantified path: "
                    "(a)-->(b) ((c)-->(d))+");
      }
      part->nodes.push_back(ParseNode());
    } else {
      break;
    }
  }
  if (failed() || !IsSymbol("(") || at_bracket()) return;
  Fail("UnexpectedSyntax", Here(),
       "between two nodes there is a relationship or a quantified path");
}

EdgePattern Parser::ParseQuantifiedPath() {
  Nesting nesting(this);
  EdgePattern edge;
  edge.pos = Here();
  edge.path = std::make_unique<PatternPart>();
  edge.path->pos = Here();
  ExpectSymbol("(");
  if (failed()) return edge;
  if (!IsSymbol("(")) {
    Fail("UnsupportedPattern", Here(), "a path within a quantified path cannot have a name");
  }
  if (AtQuantifiedPath()) {
    Fail("UnexpectedSyntax", Here(), "a quantified path cannot stand within another one");
  }
  ParseChain(edge.path.get());
  if (failed()) return edge;
  for (const EdgePattern& inner : edge.path->edges) {
    if (inner.path != nullptr) {
      Fail("UnexpectedSyntax", inner.pos, "a quantified path cannot stand within another one");
    } else if (inner.variable_length) {
      Fail("UnexpectedSyntax", inner.pos,
           "a relationship of variable length cannot stand within a quantified path");
    }
  }
  if (edge.path->edges.empty()) {
    Fail("UnexpectedSyntax", edge.pos, "a quantified path has at least one relationship");
  }
  if (TakeWord("WHERE")) edge.path->where = ParseExpr();
  ExpectSymbol(")");
  if (!failed()) ParseRepetition(&edge);
  return edge;
}

// (IS A) and (WHERE x.y) have none, (is:A) and (where) have one.
bool Parser::AtElementVariable() const {
  if (!IsVariable() || AtLabels()) return false;
  return !IsWord("WHERE") || IsSymbol(":", 1) || IsSymbol(")", 1) || IsSymbol("]", 1);
}

NodePattern Parser::ParseNode() {
  NodePattern node;
  node.pos = Here();
  ExpectSymbol("(");
  if (AtElementVariable()) node.variable = Variable();
  if (AtLabels()) {
    LabelExpr labels = ParseLabels(false);
    (labels.ops.empty() ? node.labels : node.test.names) = std::move(labels.names);
    node.test.ops = std::move(labels.ops);
    node.test.pos = labels.pos;
    node.test.dynamic = std::move(labels.dynamic);
  }
  node.properties = ParsePatternProperties();
  if (TakeWord("WHERE")) node.where = ParseExpr();
  ExpectSymbol(")");
  return node;
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
    if (AtElementVariable()) edge.variable = Variable();
    if (AtLabels()) {
      LabelExpr types = ParseLabels(true);
      (types.ops.empty() ? edge.types : edge.test.names) = std::move(types.names);
      edge.test.ops = std::move(types.ops);
      edge.test.pos = types.pos;
      edge.test.dynamic = std::move(types.dynamic);
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
  if (IsSymbol("+") || IsSymbol("*") || IsSymbol("{")) ParseRepetition(&edge);
  return edge;
}

// GQL's quantifiers of one relationship: + is {1,}, * is {0,}; also {n}, {n,m}, {,m}.
void Parser::ParseRepetition(EdgePattern* edge) {
  const Pos pos = Here();
  if (edge->variable_length) {
    Fail("InvalidRelationshipPattern", pos, "this relationship has a length already");
  }
  edge->variable_length = true;
  if (IsSymbol("+") || IsSymbol("*")) {
    edge->min = IsSymbol("+") ? 1 : 0;
    return Advance();
  }
  Advance();
  const auto bound = [&](int64_t* out) {
    if (failed() || Peek().kind != Lexeme::Kind::kInteger) return false;
    if (Peek().integer > uint64_t{1} << 62) {
      Fail("IntegerOverflow", Here(), "this bound is too large");
    }
    *out = static_cast<int64_t>(Peek().integer);
    Advance();
    return true;
  };
  edge->min = 0;
  const bool has_min = bound(&edge->min);
  if (TakeSymbol(",")) {
    bound(&edge->max);
  } else if (has_min) {
    edge->max = edge->min;
  } else {
    Unexpected("how often: {n}, {n,m}, {n,} or {,m}");
  }
  ExpectSymbol("}");
  if (!failed() && edge->max >= 0 && (edge->max < edge->min || edge->max == 0)) {
    Fail("InvalidRelationshipPattern", pos,
         edge->max == 0 ? "the most of a repetition is at least 1"
                        : "the most of a repetition is less than the least");
  }
}

size_t Parser::AfterRepetition(size_t i) const {
  if (IsSymbol("+", i) || IsSymbol("*", i)) return i + 1;
  return IsSymbol("{", i) && Peek(i).match != 0 ? Peek(i).match - at_ + 1 : i;
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
  if (IsName(i) && !AtLabels(i)) ++i;
  if (AtLabels(i)) i = AfterLabels(i);
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
  // A plus behind dashes alone may be one of arithmetic.
  if (IsSymbol(">", i)) {
    i = AfterRepetition(i + 1);
  } else if (IsSymbol("{", i) || IsSymbol("*", i)) {
    i = AfterRepetition(i);
  }
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
    i = AfterRepetition(i);
  }
  return IsSymbol("|", i) || IsWord("WHERE", i);
}

}  // namespace pulse::cypher
