#include "services/graph/syntax/parser.h"

#include <algorithm>
#include <array>

#include "services/graph/model/text.h"
#include "services/graph/syntax/parser_impl.h"

namespace pulse::cypher {
namespace {

// Words that an expression begins with: no variables unless they are quoted. All others, as LIMIT
// and MATCH, stand behind an expression or begin a clause, and are taken for one where a variable
// or an expression must stand.
constexpr std::string_view kReserved[] = {"CASE", "FALSE", "NOT", "NULL", "TRUE"};

}  // namespace

absl::StatusOr<std::unique_ptr<Query>> Parse(std::string_view query, const StopHook* stop) {
  auto tokens = Lex(query, stop);
  if (!tokens.ok()) return tokens.status();
  return Parser(query, *std::move(tokens), stop).Run();
}

absl::StatusOr<std::unique_ptr<Query>> Parser::Run() {
  bool explain = false, profile = false;
  if (IsWord("EXPLAIN") && !IsSymbol("=", 1)) explain = TakeWord("EXPLAIN");
  if (!explain && IsWord("PROFILE")) profile = TakeWord("PROFILE");
  std::unique_ptr<Query> query = ParseQuery(false);
  TakeSymbol(";");
  if (!failed() && Peek().kind != Lexeme::Kind::kEnd) Unexpected("the end of the query");
  if (failed()) return status_;
  query->explain = explain;
  query->profile = profile;
  return query;
}

void Parser::Fail(std::string_view detail, Pos pos, std::string_view message) {
  if (failed()) return;
  status_ = CompileError("SyntaxError", detail, AtPosition(text_, pos, message));
}

void Parser::Unexpected(std::string_view expected) {
  const Lexeme& t = Peek();
  const std::string_view found = text_.substr(t.begin, t.end - t.begin);
  Fail("UnexpectedSyntax", Here(),
       Concat("expected ", expected, ", found ",
              found.empty() ? std::string_view("the end of the query") : found.substr(0, 40)));
}

void Parser::ExpectSymbol(std::string_view symbol) {
  if (!TakeSymbol(symbol)) Unexpected(Concat("\"", symbol, "\""));
}

void Parser::ExpectWord(std::string_view word) {
  if (!TakeWord(word)) Unexpected(word);
}

std::string Parser::Name(std::string_view what) {
  if (!IsName()) {
    Unexpected(what);
    return {};
  }
  std::string name = Peek().text;
  Advance();
  return name;
}

bool Parser::IsVariable(size_t ahead) const {
  const Lexeme& t = Peek(ahead);
  if (t.kind == Lexeme::Kind::kQuotedName) return true;
  return t.kind == Lexeme::Kind::kName &&
         std::find(std::begin(kReserved), std::end(kReserved), t.word) == std::end(kReserved);
}

std::string Parser::Variable() {
  if (!IsVariable() || Peek().text.empty()) {
    Unexpected("a variable");
    return {};
  }
  return Name("a variable");
}

std::string Parser::Alias() {
  if (Peek().text.empty()) Unexpected("a variable");
  return Name("a variable");
}

std::string_view Parser::TextFrom(Pos pos) const {
  const uint32_t end = at_ == 0 ? pos.offset : tokens_[at_ - 1].end;
  return text_.substr(pos.offset, end > pos.offset ? end - pos.offset : 0);
}

std::unique_ptr<Query> Parser::ParseQuery(bool nested) {
  Nesting nesting(this);
  auto query = std::make_unique<Query>();
  query->pos = Here();
  query->parts.push_back(ParseSingleQuery(nested));
  bool first = true;
  while (!failed() && IsWord("UNION")) {
    const Pos pos = Here();
    Advance();
    const bool all = TakeWord("ALL");
    if (!all) TakeWord("DISTINCT");
    if (!first && all != query->union_all) {
      Fail("InvalidClauseComposition", pos, "UNION and UNION ALL cannot be mixed in one query");
    }
    first = false;
    query->union_all = all;
    query->parts.push_back(ParseSingleQuery(nested));
  }
  return query;
}

std::vector<Clause> Parser::ParseSingleQuery(bool nested) {
  std::vector<Clause> clauses;
  while (!failed() && ParseClause(&clauses)) {
  }
  if (failed()) return clauses;
  if (clauses.empty()) Unexpected("a clause");
  const Pos end = Here();
  const bool finished = TakeWord("FINISH");
  if (finished && !clauses.empty()) clauses.back().finished = true;
  const bool ends = Peek().kind == Lexeme::Kind::kEnd || IsSymbol(";") || IsWord("UNION") ||
                    (nested && IsSymbol("}"));
  if (!ends) Unexpected("a clause or the end of the query");
  if (!failed()) CheckComposition(clauses, end, finished);
  return clauses;
}

void Parser::CheckComposition(const std::vector<Clause>& clauses, Pos end, bool finished) {
  for (size_t i = 0; i < clauses.size(); ++i) {
    const Clause& clause = clauses[i];
    if (clause.kind == Clause::Kind::kReturn && i + 1 != clauses.size()) {
      return Fail("InvalidClauseComposition", clauses[i + 1].pos, "nothing may follow RETURN");
    }
    const bool reads = clause.kind == Clause::Kind::kMatch ||
                       clause.kind == Clause::Kind::kUnwind || clause.kind == Clause::Kind::kCall;
    if (reads && i > 0 && IsUpdate(clauses[i - 1])) {
      return Fail("InvalidClauseComposition", clause.pos,
                  "WITH must stand between a clause that updates and one that reads");
    }
  }
  const Clause& last = clauses.back();
  if (finished && last.kind == Clause::Kind::kReturn) {
    return Fail("InvalidClauseComposition", end, "nothing may follow RETURN");
  }
  if (finished || last.kind == Clause::Kind::kReturn || last.kind == Clause::Kind::kCall ||
      last.kind == Clause::Kind::kSubquery || IsUpdate(last)) {
    return;
  }
  Fail("UnexpectedSyntax", end, "the query must end with RETURN, FINISH or a clause that updates");
}

bool Parser::ParseClause(std::vector<Clause>* clauses) {
  Clause clause;
  clause.pos = Here();
  using Kind = Clause::Kind;
  if (IsWord("MATCH") || (IsWord("OPTIONAL") && IsWord("MATCH", 1))) {
    ParseMatch(&clause);
  } else if (TakeWord("UNWIND")) {
    clause.kind = Kind::kUnwind;
    clause.expr = ParseExpr();
    ExpectWord("AS");
    clause.variable = Alias();
  } else if (IsWord("LOAD") && IsWord("CSV", 1)) {
    ParseLoadCsv(&clause);
  } else if (IsWord("WITH") || IsWord("RETURN")) {
    clause.kind = IsWord("WITH") ? Kind::kWith : Kind::kReturn;
    Advance();
    ParseProjection(&clause);
  } else if (IsOrder() || IsWord("FILTER") || IsWord("LET")) {
    clause.kind = Kind::kWith;
    clause.star = clause.implied = true;
    if (TakeWord("LET")) {
      ParseLet(&clause);
    } else if (TakeWord("FILTER")) {
      TakeWord("WHERE");
      clause.where = ParseExpr();
    } else {
      ParseOrder(&clause);
    }
  } else if (TakeWord("CREATE") || TakeWord("INSERT")) {
    clause.kind = Kind::kCreate;
    clause.pattern = ParsePattern();
  } else if (TakeWord("MERGE")) {
    ParseMerge(&clause);
  } else if (TakeWord("SET")) {
    clause.kind = Kind::kSet;
    ParseSetItems(&clause.set);
  } else if (TakeWord("REMOVE")) {
    clause.kind = Kind::kRemove;
    ParseRemoveItems(&clause.set);
  } else if (IsWord("DELETE") ||
             ((IsWord("DETACH") || IsWord("NODETACH")) && IsWord("DELETE", 1))) {
    clause.kind = Kind::kDelete;
    clause.detach = TakeWord("DETACH");
    TakeWord("NODETACH");
    Advance();
    do {
      clause.exprs.push_back(ParseExpr());
    } while (TakeSymbol(","));
  } else if (TakeWord("FOREACH")) {
    ParseForeach(&clause);
  } else if (IsWord("CALL") || (IsWord("OPTIONAL") && IsWord("CALL", 1))) {
    clause.optional = TakeWord("OPTIONAL");
    Advance();
    ParseCall(&clause);
  } else {
    return false;
  }
  const bool selected = std::any_of(clause.pattern.begin(), clause.pattern.end(),
                                    [](const PatternPart& part) { return part.selected; });
  ExprPtr behind = selected ? std::move(clause.where) : nullptr;
  if (behind != nullptr && clause.optional) {
    Fail("UnsupportedPattern", behind->pos,
         "WHERE of an OPTIONAL MATCH with SHORTEST, ANY or ALL is not supported");
  }
  clauses->push_back(std::move(clause));
  if (behind == nullptr) return !failed();
  Clause with;
  with.kind = Kind::kWith;
  with.pos = behind->pos;
  with.star = true;
  with.where = std::move(behind);
  clauses->push_back(std::move(with));
  return !failed();
}

// LOAD CSV [WITH HEADERS] FROM expr AS variable [FIELDTERMINATOR text]
void Parser::ParseLoadCsv(Clause* clause) {
  clause->kind = Clause::Kind::kUnwind;
  clause->load_csv = true;
  Advance();
  Advance();
  if (TakeWord("WITH")) {
    ExpectWord("HEADERS");
    clause->csv_headers = true;
  }
  ExpectWord("FROM");
  clause->expr = ParseExpr();
  ExpectWord("AS");
  clause->variable = Alias();
  if (!TakeWord("FIELDTERMINATOR")) return;
  const std::string text = Peek().text;
  if (Peek().kind != Lexeme::Kind::kString || text.size() != 1 || text == "\"" || text == "\n" ||
      text == "\r" || text == std::string(1, '\0')) {
    return Unexpected("a text of one character, which is no quote and no line's end");
  }
  clause->separator = text[0];
  Advance();
}

void Parser::ParseMatch(Clause* clause) {
  clause->kind = Clause::Kind::kMatch;
  clause->optional = TakeWord("OPTIONAL");
  Advance();
  clause->pattern = ParsePattern();
  while (!failed() && IsWord("USING")) SkipHint();
  if (TakeWord("WHERE")) clause->where = ParseExpr();
}

// USING [RANGE | TEXT | POINT | BTREE] INDEX [SEEK] n:L(a, b), USING SCAN n:L, USING JOIN ON a, b:
// the planner chooses by itself.
void Parser::SkipHint() {
  Advance();
  if (TakeWord("JOIN")) {
    ExpectWord("ON");
    do {
      Variable();
    } while (TakeSymbol(","));
    return;
  }
  const bool scan = TakeWord("SCAN");
  if (!scan) {
    for (const std::string_view kind : {"RANGE", "TEXT", "POINT", "BTREE"}) {
      if (TakeWord(kind)) break;
    }
    ExpectWord("INDEX");
    if (IsWord("SEEK") && !IsSymbol(":", 1)) Advance();
  }
  Variable();
  ExpectSymbol(":");
  Name("a label");
  if (scan) return;
  ExpectSymbol("(");
  do {
    Name("a property key");
  } while (TakeSymbol(","));
  ExpectSymbol(")");
}

void Parser::ParseProjection(Clause* clause) {
  clause->distinct = TakeWord("DISTINCT");
  bool more = true;
  if (TakeSymbol("*")) {
    clause->star = true;
    more = TakeSymbol(",");
  }
  while (more && !failed()) {
    ProjectionItem item;
    item.pos = Here();
    item.expr = ParseExpr();
    item.alias = std::string(TextFrom(item.pos));
    if (item.expr != nullptr && item.expr->kind == Expr::Kind::kVariable) {
      item.alias = item.expr->name;
      item.named = true;
    }
    if (TakeWord("AS")) {
      item.alias = Alias();
      item.named = true;
    }
    clause->items.push_back(std::move(item));
    more = TakeSymbol(",");
  }
  ParseOrder(clause);
  if (clause->kind == Clause::Kind::kWith && TakeWord("WHERE")) clause->where = ParseExpr();
}

// LET name = expr, ...: as WITH *, expr AS name, ...
void Parser::ParseLet(Clause* clause) {
  do {
    ProjectionItem item;
    item.pos = Here();
    item.alias = Alias();
    item.named = true;
    ExpectSymbol("=");
    item.expr = ParseExpr();
    clause->items.push_back(std::move(item));
  } while (TakeSymbol(","));
}

bool Parser::IsOrder() const {
  return (IsWord("ORDER") && IsWord("BY", 1)) || IsWord("SKIP") || IsWord("OFFSET") ||
         IsWord("LIMIT");
}

// Behind a projection, or a clause of its own, which is WITH * with them.
void Parser::ParseOrder(Clause* clause) {
  if (IsWord("ORDER") && IsWord("BY", 1)) {
    Advance();
    Advance();
    do {
      SortItem item;
      item.expr = ParseExpr();
      if (TakeWord("DESC") || TakeWord("DESCENDING")) {
        item.descending = true;
      } else if (!TakeWord("ASC")) {
        TakeWord("ASCENDING");
      }
      clause->order.push_back(std::move(item));
    } while (TakeSymbol(","));
  }
  if (TakeWord("SKIP") || TakeWord("OFFSET")) clause->skip = ParseExpr();
  if (TakeWord("LIMIT")) clause->limit = ParseExpr();
}

void Parser::ParseMerge(Clause* clause) {
  clause->kind = Clause::Kind::kMerge;
  clause->pattern.push_back(ParsePatternPart());
  while (!failed() && IsWord("ON")) {
    Advance();
    const bool on_create = TakeWord("CREATE");
    if (!on_create) ExpectWord("MATCH");
    ExpectWord("SET");
    ParseSetItems(on_create ? &clause->on_create : &clause->on_match);
  }
}

// What SET and REMOVE begin with: labels are all of an item, and else it is the target alone.
SetItem Parser::ParseSetTarget() {
  SetItem item;
  item.pos = Here();
  item.target = ParsePostfix(/*with_labels=*/false);
  if (failed() || !AtLabels()) return item;
  LabelExpr labels = ParseLabels(false);
  if (!labels.ops.empty()) {
    Fail("InvalidLabelExpression", item.pos, "SET and REMOVE take labels, no label expression");
  }
  item.kind = SetItem::Kind::kLabels;
  item.labels = std::move(labels.names);
  item.dynamic = std::move(labels.dynamic);
  return item;
}

void Parser::ParseSetItems(std::vector<SetItem>* items) {
  do {
    SetItem item = ParseSetTarget();
    if (failed()) return;
    const bool labels = item.kind == SetItem::Kind::kLabels;
    if (!labels && TakeSymbol("=")) {
      item.kind = item.target->kind == Expr::Kind::kProperty ? SetItem::Kind::kProperty
                  : item.target->kind == Expr::Kind::kIndex  ? SetItem::Kind::kDynamic
                                                             : SetItem::Kind::kReplace;
      item.value = ParseExpr();
    } else if (!labels && TakeSymbol("+=")) {
      item.kind = SetItem::Kind::kMerge;
      item.value = ParseExpr();
    } else if (!labels) {
      Unexpected("\"=\", \"+=\" or a label");
    }
    items->push_back(std::move(item));
  } while (TakeSymbol(","));
}

void Parser::ParseRemoveItems(std::vector<SetItem>* items) {
  do {
    SetItem item = ParseSetTarget();
    if (failed()) return;
    if (item.kind != SetItem::Kind::kLabels && item.target->kind == Expr::Kind::kIndex) {
      item.kind = SetItem::Kind::kDynamic;
    } else if (item.kind != SetItem::Kind::kLabels && item.target->kind != Expr::Kind::kProperty) {
      Unexpected("a property or a label");
    }
    items->push_back(std::move(item));
  } while (TakeSymbol(","));
}

void Parser::ParseForeach(Clause* clause) {
  Nesting nesting(this);
  clause->kind = Clause::Kind::kForeach;
  const size_t open = at_;
  ExpectSymbol("(");
  clause->variable = Variable();
  ExpectWord("IN");
  MarkBar(open);
  clause->expr = ParseExpr();
  TakeBar();
  while (!failed() && ParseClause(&clause->body)) {
    if (!IsUpdate(clause->body.back())) {
      Fail("InvalidClauseComposition", clause->body.back().pos,
           "FOREACH may only contain clauses that update");
    }
  }
  if (!failed() && clause->body.empty()) Unexpected("a clause that updates");
  ExpectSymbol(")");
}

void Parser::ParseImports(Clause* clause) {
  clause->imports_given = true;
  ExpectSymbol("(");
  clause->imports_star = TakeSymbol("*");
  if (!clause->imports_star && !IsSymbol(")")) {
    do {
      ProjectionItem item;
      item.pos = Here();
      item.alias = Variable();
      clause->imports.push_back(std::move(item));
    } while (TakeSymbol(","));
  }
  ExpectSymbol(")");
}

void Parser::ParseInTransactions(Clause* clause) {
  clause->in_transactions = true;
  // How many at once is up to who runs them: here one after the other.
  const Lexeme::Kind number = Peek().kind;
  if (number == Lexeme::Kind::kInteger || number == Lexeme::Kind::kParameter) {
    Advance();
    ExpectWord("CONCURRENT");
  } else {
    TakeWord("CONCURRENT");
  }
  ExpectWord("TRANSACTIONS");
  bool on_error = false;
  // In any order, each once.
  while (!failed()) {
    if (clause->limit == nullptr && TakeWord("OF")) {
      clause->limit = ParseExpr();
      if (!TakeWord("ROWS")) ExpectWord("ROW");
    } else if (!on_error && TakeWord("ON")) {
      on_error = true;
      ExpectWord("ERROR");
      if (TakeWord("CONTINUE")) {
        clause->on_error = OnError::kContinue;
      } else if (TakeWord("BREAK")) {
        clause->on_error = OnError::kBreak;
      } else if (!TakeWord("FAIL")) {
        return Unexpected("CONTINUE, BREAK or FAIL");
      }
    } else if (clause->status.empty() && TakeWord("REPORT")) {
      ExpectWord("STATUS");
      ExpectWord("AS");
      clause->status_pos = Here();
      clause->status = Alias();
    } else {
      break;
    }
  }
  if (!clause->status.empty() && clause->on_error == OnError::kFail) {
    Fail("InvalidReportStatus", clause->status_pos,
         "REPORT STATUS needs ON ERROR CONTINUE or ON ERROR BREAK: else an error ends the "
         "statement");
  }
}

void Parser::ParseCall(Clause* clause) {
  if (IsSymbol("(")) ParseImports(clause);
  if (clause->imports_given && !IsSymbol("{")) return Unexpected("\"{\"");
  if (TakeSymbol("{")) {
    clause->kind = Clause::Kind::kSubquery;
    clause->subquery = ParseQuery(true);
    ExpectSymbol("}");
    const Pos pos = Here();
    if (!TakeWord("IN")) return;
    ParseInTransactions(clause);
    if (clause->optional) {
      Fail("InvalidClauseComposition", pos, "OPTIONAL CALL may not be IN TRANSACTIONS");
    }
    return;
  }
  clause->kind = Clause::Kind::kCall;
  clause->procedure = Name("the name of a procedure");
  while (TakeSymbol(".")) {
    clause->procedure += "." + Name("the name of a procedure");
  }
  if (TakeSymbol("(")) {
    clause->arguments_given = true;
    if (!IsSymbol(")")) {
      do {
        clause->exprs.push_back(ParseExpr());
      } while (TakeSymbol(","));
    }
    ExpectSymbol(")");
  }
  if (!TakeWord("YIELD")) return;
  clause->yield_given = true;
  if (TakeSymbol("*")) {
    clause->yield_star = true;
    return;
  }
  if (TakeSymbol("-")) return;
  do {
    YieldItem item;
    item.pos = Here();
    item.field = Name("a column of the procedure");
    item.alias = item.field;
    if (TakeWord("AS")) item.alias = Alias();
    clause->yield.push_back(std::move(item));
  } while (TakeSymbol(","));
  if (TakeWord("WHERE")) clause->where = ParseExpr();
}

}  // namespace pulse::cypher
