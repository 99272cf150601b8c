#include "services/graph/session/statement.h"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "base/hash.h"
#include "services/graph/model/property_type.h"
#include "services/graph/model/text.h"
#include "services/graph/session/procedures.h"
#include "services/graph/syntax/error.h"
#include "services/graph/syntax/lexer.h"
#include "services/graph/syntax/parser.h"

namespace pulse::cypher {
namespace {

using Kind = Lexeme::Kind;

// What SHOW and TERMINATE list: the procedure, and the columns without and with YIELD *.
struct Listing {
  std::string_view words;  // behind SHOW, or the whole of it
  std::string_view procedure;
  std::string_view columns;
  std::string_view more;  // only by YIELD
};
constexpr Listing kListings[] = {
    {"INDEX", "pulse.show.indexes",
     "id, name, state, populationPercent, type, entityType, labelsOrTypes, properties, "
     "indexProvider, owningConstraint",
     "createStatement, lastRead, readCount, failureMessage, options"},
    {"CONSTRAINT", "pulse.show.constraints",
     "id, name, type, entityType, labelsOrTypes, properties, ownedIndex",
     "createStatement, propertyType, options"},
    {"TRANSACTION", "pulse.show.transactions",
     "database, transactionId, currentQueryId, connectionId, clientAddress, username, "
     "currentQuery, startTime, status, elapsedTime",
     ""},
    {"PROCEDURE", "pulse.show.procedures", "name, description, mode, worksOnSystem", "signature"},
    {"FUNCTION", "pulse.show.functions", "name, category, description",
     "signature, isBuiltIn, aggregating"},
    {"SETTING", "pulse.show.settings", "name, value, isDynamic, defaultValue, description", ""},
    {"DATABASE", "pulse.show.databases",
     "name, type, aliases, access, address, role, writer, requestedStatus, currentStatus, "
     "statusMessage, default, home, constituents",
     ""},
    {"USER", "pulse.show.currentUser", "user, roles, passwordChangeRequired, suspended, home", ""},
};
constexpr Listing kTerminate = {"", "pulse.terminate.transactions",
                                "transactionId, username, message", ""};

class StatementParser {
 public:
  StatementParser(std::string_view text, std::vector<Lexeme> tokens)
      : text_(text), tokens_(std::move(tokens)) {}

  absl::StatusOr<ParsedStatement> Parse() {
    ParsedStatement statement;
    if (auto st = SkipPrefix(); !st.ok()) return st;
    if (IsWord("USE")) {
      if (!IsDatabaseName(Peek(1).text)) {
        return Fail("there is one database here, neo4j: USE names no other one");
      }
      const bool system = IsSystemName(Peek(1).text);
      at_ += 2;
      if (system) {
        if (auto st = CheckForSystem(text_.substr(Peek().begin)); !st.ok()) return st;
      }
    }
    if (IsWord("AT") && IsWord("SNAPSHOT", 1)) {
      at_ += 2;
      if (Peek().kind != Kind::kInteger) return Unexpected("the number of a commit");
      statement.snapshot = Peek().integer;
      ++at_;
    }
    statement.query = text_.substr(Peek().begin);
    const size_t next = IsWord("EXPLAIN") || IsWord("PROFILE") ? 1 : 0;
    const bool create = IsWord("CREATE", next), drop = IsWord("DROP", next);
    // CREATE index = (…) makes a path of that name.
    if ((create || drop) && Peek(next + 1).kind == Kind::kName && !IsSymbol("=", next + 2)) {
      if (next > 0) return Fail("EXPLAIN and PROFILE are for queries");
      if (statement.snapshot) return Fail("AT SNAPSHOT is for queries that read");
      statement.schema.emplace();
      if (auto st = create ? Create(&*statement.schema) : Drop(&*statement.schema); !st.ok()) {
        return st;
      }
      return statement;
    }
    if ((IsWord("EXPORT") || IsWord("IMPORT")) && IsWord("DATABASE", 1)) {
      if (statement.snapshot) return Fail("AT SNAPSHOT is for queries that read");
      if (auto st = Exchange(&statement.schema.emplace()); !st.ok()) return st;
      return statement;
    }
    if (IsWord("SHOW") && next == 0) {
      if (auto st = Show(&statement.query); !st.ok()) return st;
    } else if ((IsWord("TERMINATE") || IsWord("KILL")) && next == 0) {
      if (auto st = Terminate(&statement.query); !st.ok()) return st;
    }
    return statement;
  }

 private:
  const Lexeme& Peek(size_t ahead = 0) const {
    return tokens_[std::min(at_ + ahead, tokens_.size() - 1)];
  }
  bool IsWord(std::string_view word, size_t ahead = 0) const {
    return Peek(ahead).kind == Kind::kName && Peek(ahead).word == word;
  }
  bool IsSymbol(std::string_view symbol, size_t ahead = 0) const {
    return Peek(ahead).kind == Kind::kSymbol && Peek(ahead).text == symbol;
  }
  bool TakeWord(std::string_view word) {
    if (!IsWord(word)) return false;
    ++at_;
    return true;
  }
  bool TakeSymbol(std::string_view symbol) {
    if (!IsSymbol(symbol)) return false;
    ++at_;
    return true;
  }
  bool IsName() const { return Peek().kind == Kind::kName || Peek().kind == Kind::kQuotedName; }
  // CYPHER [5] [planner=cost …]: a version of the language, and what Neo4j's planner is asked for.
  absl::Status SkipPrefix() {
    if (!TakeWord("CYPHER")) return absl::OkStatus();
    if (Peek().kind == Kind::kInteger || Peek().kind == Kind::kFloat) {
      if (Peek().kind == Kind::kFloat || Peek().integer != 5) return Fail("this is Cypher 5");
      ++at_;
    }
    while (IsName() && IsSymbol("=", 1)) {
      at_ += 2;
      if (!IsName() && Peek().kind != Kind::kInteger) return Unexpected("the value of an option");
      ++at_;
    }
    return absl::OkStatus();
  }
  absl::Status Fail(std::string_view message) const {
    return CompileError("SyntaxError", "UnexpectedSyntax",
                        AtPosition(text_, Pos{Peek().begin}, message));
  }
  absl::Status Unexpected(std::string_view expected) const {
    const std::string_view found = text_.substr(Peek().begin, Peek().end - Peek().begin);
    return Fail(
        Concat("expected ", expected, ", found ",
               found.empty() ? std::string_view("the end of the statement") : found.substr(0, 40)));
  }
  absl::Status Unsupported(std::string_view what) const {
    return CompileError("Unsupported", "Unsupported",
                        AtPosition(text_, Pos{Peek().begin}, Concat(what, " are not supported")));
  }
  absl::Status Expect(std::string_view word_or_symbol) {
    if (TakeWord(word_or_symbol) || TakeSymbol(word_or_symbol)) return absl::OkStatus();
    return Unexpected(word_or_symbol);
  }
  absl::Status ExpectAll(std::initializer_list<std::string_view> list) {
    for (const std::string_view one : list) {
      if (auto st = Expect(one); !st.ok()) return st;
    }
    return absl::OkStatus();
  }
  absl::Status Name(std::string_view what, std::string* out) {
    if (!IsName()) return Unexpected(what);
    *out = Peek().text;
    ++at_;
    return absl::OkStatus();
  }
  absl::Status End() {
    TakeSymbol(";");
    return Peek().kind == Kind::kEnd ? absl::OkStatus() : Unexpected("the end of the statement");
  }

  absl::Status Create(SchemaCommand* command) {
    ++at_;
    for (const std::string_view other : {"TEXT", "POINT", "FULLTEXT", "LOOKUP", "VECTOR"}) {
      if (IsWord(other) && IsWord("INDEX", 1)) return Unsupported(Concat(other, " indexes"));
    }
    if (IsWord("RANGE") && IsWord("INDEX", 1)) ++at_;
    command->constraint = IsWord("CONSTRAINT");
    command->index.constraint = command->constraint;
    if (!command->constraint && !IsWord("INDEX")) return Unexpected("INDEX or CONSTRAINT");
    ++at_;
    if (!IsWord("FOR") && !(IsWord("IF") && IsWord("NOT", 1))) {
      if (auto st = Name("a name or FOR", &command->index.name); !st.ok()) return st;
    }
    if (TakeWord("IF")) {
      command->lenient = true;
      if (auto st = ExpectAll({"NOT", "EXISTS"}); !st.ok()) return st;
    }
    std::string variable;
    if (auto st = Pattern(&variable, &command->index); !st.ok()) return st;
    if (auto st = Expect(command->constraint ? "REQUIRE" : "ON"); !st.ok()) return st;
    if (auto st = Keys(variable, !command->constraint, &command->index.keys); !st.ok()) return st;
    if (command->constraint) {
      if (auto st = Requirement(&command->index); !st.ok()) return st;
    }
    if (TakeWord("OPTIONS")) {
      // Those that Neo4j itself writes: there is one provider, which has no settings.
      if (!IsSymbol("{")) return Unexpected("{");
      at_ = Peek().match != 0 ? Peek().match + 1 : at_;
    }
    if (auto st = End(); !st.ok()) return st;
    if (command->index.name.empty()) command->index.name = MadeIndexName(command->index);
    return absl::OkStatus();
  }

  // (n:Label), or ()-[r:TYPE]-() in any direction.
  absl::Status Pattern(std::string* variable, IndexDefinition* index) {
    if (auto st = ExpectAll({"FOR", "("}); !st.ok()) return st;
    index->of_edges = IsSymbol(")");
    if (index->of_edges && !index->constraint) return Unsupported("indexes of relationships");
    bool left = false;
    if (index->of_edges) {
      ++at_;
      left = TakeSymbol("<");
      if (auto st = ExpectAll({"-", "["}); !st.ok()) return st;
    }
    if (auto st = Name("a variable", variable); !st.ok()) return st;
    if (auto st = Expect(":"); !st.ok()) return st;
    if (auto st = Name(index->of_edges ? "a type" : "a label", &index->label); !st.ok()) return st;
    if (!index->of_edges) return Expect(")");
    if (auto st = ExpectAll({"]", "-"}); !st.ok()) return st;
    if (!left) TakeSymbol(">");
    return ExpectAll({"(", ")"});
  }

  absl::Status Keys(const std::string& variable, bool brackets, std::vector<std::string>* keys) {
    const bool open = TakeSymbol("(");
    if (brackets && !open) return Unexpected("(");
    do {
      std::string name;
      if (!IsName() || Peek().text != variable) return Unexpected(Concat(variable, "."));
      ++at_;
      if (auto st = Expect("."); !st.ok()) return st;
      if (auto st = Name("a property", &name); !st.ok()) return st;
      if (std::find(keys->begin(), keys->end(), name) != keys->end()) {
        return Fail(Concat("the property ", name, " comes twice"));
      }
      keys->push_back(std::move(name));
    } while (open && TakeSymbol(","));
    return open ? Expect(")") : absl::OkStatus();
  }

  absl::Status Requirement(IndexDefinition* index) {
    if (auto st = Expect("IS"); !st.ok()) return st;
    if (TakeWord("TYPED")) return TypeOfProperty(index);
    if (IsSymbol(":") && IsSymbol(":", 1)) {
      at_ += 2;
      return TypeOfProperty(index);
    }
    if (TakeWord("NOT")) {
      index->required = true;
      return Expect("NULL");
    }
    const bool finds = IsWord("UNIQUE") || IsWord("KEY");
    if (IsWord("RELATIONSHIP") || IsWord("REL") || (index->of_edges && finds)) {
      return Unsupported(
          "uniqueness and keys of relationships (of these there are IS NOT NULL and IS :: TYPE)");
    }
    if (index->of_edges) return Unexpected("NOT NULL, :: or TYPED");
    TakeWord("NODE");
    index->unique = true;
    if (TakeWord("KEY")) {
      index->required = true;
      return absl::OkStatus();
    }
    return Expect("UNIQUE");
  }

  absl::Status TypeOfProperty(IndexDefinition* index) {
    if (index->keys.size() > 1) return Fail("a constraint of a property's type has one property");
    const size_t begin = at_;
    std::string text;
    for (; Peek().kind == Kind::kName && !IsWord("OPTIONS"); ++at_) {
      text += Concat(text.empty() || text.back() == '<' ? "" : " ", Peek().word);
      if (!IsSymbol("<", 1) && !IsSymbol(">", 1)) continue;
      ++at_;
      text += Peek().text;
    }
    const auto type = ParsePropertyType(text);
    if (type && !IsSymbol("|")) {
      index->type = PropertyTypeText(*type);
      return absl::OkStatus();
    }
    at_ = begin;
    return Unexpected(
        "one type of properties, as INTEGER, ZONED DATETIME or LIST<STRING NOT NULL>");
  }

  absl::Status Exchange(SchemaCommand* command) {
    command->exchange =
        IsWord("EXPORT") ? SchemaCommand::Exchange::kExport : SchemaCommand::Exchange::kImport;
    at_ += 2;
    if (Peek().kind != Kind::kString) return Unexpected("the name of a directory, in quotes");
    command->directory = Peek().text;
    ++at_;
    return End();
  }

  absl::Status Drop(SchemaCommand* command) {
    ++at_;
    command->drop = true;
    command->constraint = IsWord("CONSTRAINT");
    if (!command->constraint && !IsWord("INDEX")) return Unexpected("INDEX or CONSTRAINT");
    ++at_;
    if (auto st = Name("a name", &command->index.name); !st.ok()) return st;
    if (TakeWord("IF")) {
      command->lenient = true;
      if (auto st = Expect("EXISTS"); !st.ok()) return st;
    }
    return End();
  }

  // What may stand between SHOW and INDEXES, CONSTRAINTS or FUNCTIONS, as a filter of the rows.
  std::string KindFilter() {
    if (TakeWord("ALL")) return "";
    for (const std::string_view type : {"RANGE", "FULLTEXT", "LOOKUP", "POINT", "TEXT", "VECTOR"}) {
      if (IsWord(type) && (IsWord("INDEX", 1) || IsWord("INDEXES", 1))) {
        ++at_;
        return Concat("WITH * WHERE type = '", type, "' ");
      }
    }
    const bool built_in = IsWord("BUILT") && IsWord("IN", 1);
    const bool functions = IsWord("FUNCTION", 2) || IsWord("FUNCTIONS", 2);
    if (functions && (built_in || (IsWord("USER") && IsWord("DEFINED", 1)))) {
      at_ += 2;
      return Concat("WITH * WHERE isBuiltIn = ", built_in ? "true " : "false ");
    }
    const size_t begin = at_;
    const std::string_view entity = TakeWord("NODE")                              ? "NODE"
                                    : TakeWord("RELATIONSHIP") || TakeWord("REL") ? "RELATIONSHIP"
                                                                                  : "";
    const bool property = TakeWord("PROPERTY");
    const std::string_view type = TakeWord("EXISTENCE") || TakeWord("EXIST") ? "PROPERTY_EXISTENCE"
                                  : property ? (TakeWord("TYPE") ? "PROPERTY_TYPE" : "")
                                  : TakeWord("UNIQUENESS") || TakeWord("UNIQUE") ? "UNIQUENESS"
                                  : TakeWord("KEY")                              ? "KEY"
                                                                                 : "";
    if (type.empty() || !(IsWord("CONSTRAINT") || IsWord("CONSTRAINTS"))) {
      at_ = begin;
      return "";
    }
    return Concat("WITH * WHERE type ENDS WITH '", type, "' AND entityType CONTAINS '", entity,
                  "' ");
  }

  absl::Status Show(std::string* query) {
    ++at_;
    const std::string filter = KindFilter();
    if ((IsWord("HOME") || IsWord("DEFAULT")) && IsWord("DATABASE", 1)) ++at_;
    const bool current = IsWord("CURRENT") && IsWord("USER", 1);
    if (current) ++at_;
    for (const Listing& listing : kListings) {
      const std::string one(listing.words);
      if (one == "USER" && !current) continue;  // the others are not known here
      const bool match = IsWord(one) || IsWord(one + "S") || IsWord(one + "ES");
      if (!match) continue;
      ++at_;
      // Whoever may run a query may call them all.
      if ((one == "PROCEDURE" || one == "FUNCTION") && TakeWord("EXECUTABLE") && TakeWord("BY")) {
        if (auto st = ExpectAll({"CURRENT", "USER"}); !st.ok()) return st;
      }
      const bool named = one == "DATABASE" && IsName() && !IsWord("YIELD") && !IsWord("WHERE");
      const bool other = named && (!IsDatabaseName(Peek().text) || IsSystemName(Peek().text));
      if (named) ++at_;
      return List(listing, "", query, other ? "WITH * WHERE false " : filter);
    }
    return Unexpected(
        "INDEXES, CONSTRAINTS, TRANSACTIONS, PROCEDURES, FUNCTIONS, SETTINGS, DATABASES or CURRENT "
        "USER");
  }

  absl::Status Terminate(std::string* query) {
    ++at_;
    if (!TakeWord("TRANSACTION") && !TakeWord("TRANSACTIONS")) return Unexpected("TRANSACTIONS");
    const uint32_t begin = Peek().begin;
    while (Peek().kind != Kind::kEnd && !IsSymbol(";") && !IsWord("YIELD")) ++at_;
    const std::string_view ids = text_.substr(begin, Peek().begin - begin);
    if (Peek().begin == begin) return Unexpected("the id of a transaction");
    return List(kTerminate, Concat("[", ids, "]"), query);
  }

  // A query that calls the procedure; WITH understands what stands behind YIELD.
  absl::Status List(const Listing& listing, std::string_view argument, std::string* query,
                    std::string_view filter = "") {
    std::string all(listing.columns);
    if (!listing.more.empty()) all += Concat(", ", listing.more);
    const std::string call =
        Concat("CALL ", listing.procedure, "(", argument, ") YIELD ", all, " ", filter);
    const std::string_view rest = text_.substr(Peek().begin);
    if (IsWord("WHERE")) {
      *query = Concat(call, "WITH * ", rest.substr(0, rest.find(';')), " RETURN ", listing.columns);
      return absl::OkStatus();
    }
    if (!IsWord("YIELD")) {
      if (auto st = End(); !st.ok()) return st;
      *query = Concat(call, "RETURN ", listing.columns);
      return absl::OkStatus();
    }
    ++at_;
    const uint32_t begin = Peek().begin;
    std::string columns;
    bool returns = false;
    size_t last = at_;
    if (auto st = CollectColumns(all, &columns, &returns, &last); !st.ok()) return st;
    *query = Concat(call, "WITH ", text_.substr(begin, tokens_[last].begin - begin));
    if (!returns) *query += Concat(" RETURN ", columns);
    return absl::OkStatus();
  }

  // What YIELD names, in its order; whether RETURN follows; and the end of all.
  absl::Status CollectColumns(const std::string& all, std::string* columns, bool* returns,
                              size_t* last) {
    bool items = true;
    std::string name;
    const auto add = [&] {
      if (name.empty()) return;
      *columns += Concat(columns->empty() ? "" : ", ", "`", name, "`");
      name.clear();
    };
    for (; tokens_[*last].kind != Kind::kEnd; ++*last) {
      const Lexeme& token = tokens_[*last];
      if (token.kind == Kind::kSymbol && token.text == ";") break;
      *returns |= token.kind == Kind::kName && token.word == "RETURN";
      if (token.kind == Kind::kName &&
          (token.word == "WHERE" || token.word == "ORDER" || token.word == "SKIP" ||
           token.word == "OFFSET" || token.word == "LIMIT" || token.word == "RETURN")) {
        items = false;
      }
      if (!items) continue;
      if (token.kind == Kind::kSymbol && token.text == "*") *columns = all;
      if (token.kind == Kind::kSymbol && token.text == ",") add();
      if (token.kind != Kind::kName && token.kind != Kind::kQuotedName) continue;
      if (name.empty() &&
          Concat(", ", all, ",").find(Concat(", ", token.text, ",")) == std::string::npos) {
        at_ = *last;
        return Fail(Concat("there is no column `", token.text, "`; there are ", all));
      }
      name = token.text;
    }
    add();
    return absl::OkStatus();
  }

  const std::string_view text_;
  const std::vector<Lexeme> tokens_;
  size_t at_ = 0;
};

// Whether the text can be anything but a query: by its first word.
bool MayBeStatement(std::string_view text) {
  size_t at = 0;
  while (at < text.size()) {
    if (text[at] == '/' && at + 1 < text.size()) return true;  // a comment
    if (static_cast<unsigned char>(text[at]) > ' ') break;
    ++at;
  }
  std::string word;
  while (at < text.size() && word.size() < 10 && static_cast<unsigned char>(text[at]) > ' ') {
    const char c = text[at++];
    word += c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
  }
  static constexpr std::array<std::string_view, 12> kFirst = {
      "AT",      "CREATE",  "CYPHER", "DROP",   "SHOW", "TERMINATE",
      "EXPLAIN", "PROFILE", "EXPORT", "IMPORT", "USE",  "KILL"};
  return std::find(kFirst.begin(), kFirst.end(), word) != kFirst.end() ||
         (!word.empty() && static_cast<unsigned char>(word[0]) >= 0x80);
}

bool Writes(const Query& query) {
  for (const std::vector<Clause>& part : query.parts) {
    for (const Clause& clause : part) {
      // What commits on the way needs a transaction that may.
      if (IsUpdate(clause) || clause.in_transactions) return true;
      if (clause.subquery != nullptr && Writes(*clause.subquery)) return true;
    }
  }
  return false;
}

}  // namespace

bool StatementWrites(std::string_view text) {
  const auto parsed = ParseStatement(text);
  if (!parsed.ok()) return false;
  if (parsed->schema) return parsed->schema->exchange != SchemaCommand::Exchange::kExport;
  const auto query = Parse(parsed->query);
  return query.ok() && Writes(**query);
}

std::string MadeIndexName(const IndexDefinition& index) {
  std::string all = index.label;
  for (const std::string& key : index.keys) all += '\0' + key;
  all += index.required ? (index.unique ? "k" : "r") : "";
  if (index.IsExtended()) all += Concat(index.of_edges ? "-" : ":", index.type);
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string name = index.constraint ? "constraint_" : "index_";
  const uint64_t hash = XXH3_64bits(all.data(), all.size());
  for (int i = 0; i < 8; ++i) name += kDigits[(hash >> (i * 4)) & 15];
  return name;
}

absl::StatusOr<ParsedStatement> ParseStatement(std::string_view text, const StopHook* stop) {
  ParsedStatement plain;
  plain.query = text;
  if (!MayBeStatement(text)) return plain;
  auto tokens = Lex(text, stop);
  if (!tokens.ok()) return tokens.status();
  return StatementParser(text, *std::move(tokens)).Parse();
}

}  // namespace pulse::cypher
