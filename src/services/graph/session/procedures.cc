#include "services/graph/session/procedures.h"

#include <algorithm>
#include <cinttypes>
#include <utility>

#include "absl/strings/ascii.h"
#include "base/clock.h"
#include "services/graph/functions/functions.h"
#include "services/graph/model/temporal.h"
#include "services/graph/model/text.h"
#include "services/graph/syntax/error.h"

namespace pulse::cypher {
namespace {

constexpr uint32_t kString = Bit(Type::kString);
constexpr uint32_t kText = kString | kNullType;
constexpr uint32_t kList = Bit(Type::kList);

Value Text(std::string_view text) { return Value::String(text); }
Value TextOrNull(std::string_view text) { return text.empty() ? Value() : Text(text); }

Value Texts(const std::vector<std::string>& texts) {
  ValueList list;
  for (const std::string& text : texts) list.push_back(Text(text));
  return Value::List(std::move(list));
}

const Caller& CallerOf(const EvalContext& context) {
  static const Caller kOwner;
  return context.caller != nullptr ? *context.caller : kOwner;
}

std::string Quoted(const std::string& name) {
  if (IsPlainName(name)) return name;
  std::string out = "`";
  for (const char c : name) out += c == '`' ? std::string("``") : std::string(1, c);
  return out + "`";
}

// Of an index, which has none but its provider.
Value IndexOptions() {
  return Value::Map({{"indexConfig", Value::Map({})}, {"indexProvider", Text("pulse-1.0")}});
}

std::string CreateStatement(const IndexDefinition& index) {
  std::string keys;
  for (const std::string& key : index.keys) {
    keys += Concat(keys.empty() ? "" : ", ", index.of_edges ? "r." : "n.", Quoted(key));
  }
  const std::string pattern =
      Concat(index.of_edges ? " FOR ()-[r:" : " FOR (n:", Quoted(index.label),
             index.of_edges ? "]-() " : ") ");
  if (!index.constraint) {
    return Concat("CREATE RANGE INDEX ", Quoted(index.name), pattern, "ON (", keys, ")");
  }
  const std::string is = !index.type.empty() ? Concat(":: ", index.type)
                         : !index.unique     ? "NOT NULL"
                         : index.required    ? "NODE KEY"
                                             : "UNIQUE";
  return Concat("CREATE CONSTRAINT ", Quoted(index.name), pattern, "REQUIRE (", keys, ") IS ", is);
}

}  // namespace

bool IsDatabaseName(std::string_view name) {
  const absl::string_view of(name.data(), name.size());
  return absl::AsciiStrToLower(of) == "neo4j" || IsSystemName(name);
}

bool IsSystemName(std::string_view name) {
  return absl::AsciiStrToLower(absl::string_view(name.data(), name.size())) == "system";
}

absl::Status CheckForSystem(std::string_view statement) {
  std::string begin = absl::AsciiStrToUpper(
      absl::StripLeadingAsciiWhitespace(absl::string_view(statement.data(), statement.size()))
          .substr(0, 10));
  for (const std::string_view known : {"SHOW", "TERMINATE", "KILL", "CALL DBMS."}) {
    if (begin.starts_with(known)) return absl::OkStatus();
  }
  return CompileError("Unsupported", "Unsupported",
                      "the database `system` has no data: it answers SHOW …, TERMINATE … and "
                      "CALL dbms.…; use `neo4j`");
}

ServiceProcedures::ServiceProcedures(Database* database, RunningList* running, PlanCache* plans) {
  AddNames(database);
  AddServer(plans);
  AddSchema(database);
  AddTransactions(running);
  AddLists(database);
  AddAlgorithms();
  AddSchemaSurvey();
}

const Procedure* ServiceProcedures::Find(std::string_view name) const {
  const auto it = procedures_.find(name);
  return it == procedures_.end() ? nullptr : &it->second;
}

Procedure* ServiceProcedures::Add(std::string_view name, std::vector<Procedure::Field> arguments,
                                  std::vector<Procedure::Field> results,
                                  std::string_view description, Call call) {
  Procedure& procedure = procedures_[std::string(name)];
  procedure.name = name;
  procedure.arguments = std::move(arguments);
  procedure.results = std::move(results);
  procedure.call = std::move(call);
  descriptions_[std::string(name)] = description;
  return &procedure;
}

void ServiceProcedures::AddNames(Database* database) {
  using Member = std::vector<std::string> DatabaseNames::*;
  const auto add = [&](std::string_view name, std::string_view column, std::string_view description,
                       Member member) {
    Add(name, {}, {{std::string(column), kString}}, description,
        [database, member](EvalContext& context, const ValueList&, ValueList* out) {
          const DatabaseNames names = database->Names();
          // Labels and types that nothing has any more are left out.
          const auto used = [&](const std::string& text) {
            if (member == &DatabaseNames::keys) return true;
            const bool label = member == &DatabaseNames::labels;
            const auto token =
                label ? context.graph->FindLabel(text) : context.graph->FindType(text);
            return token && (label ? context.graph->NodeCount(*token)
                                   : context.graph->EdgeCount(*token)) > 0;
          };
          for (const std::string& text : names.*member) {
            if (used(text)) out->push_back(Text(text));
          }
          return absl::OkStatus();
        });
  };
  add("db.labels", "label", "The labels that nodes have.", &DatabaseNames::labels);
  add("db.relationshipTypes", "relationshipType", "The types that relationships have.",
      &DatabaseNames::types);
  add("db.propertyKeys", "propertyKey", "The keys of properties of the database.",
      &DatabaseNames::keys);
}

void ServiceProcedures::AddServer(PlanCache* plans) {
  Add("dbms.components", {}, {{"name", kString}, {"versions", kList}, {"edition", kString}},
      "What the server is made of, and the version of Neo4j that it is like.",
      [](EvalContext&, const ValueList&, ValueList* out) {
        *out = {Text("Neo4j Kernel"),   Texts({std::string(kServerVersion)}),
                Text("community"),      Text("PulseDB"),
                Texts({PULSE_VERSION}), Text("community")};
        return absl::OkStatus();
      });
  Add("db.ping", {}, {{"success", kBoolType}}, "Answers.",
      [](EvalContext&, const ValueList&, ValueList* out) {
        out->push_back(Value::Bool(true));
        return absl::OkStatus();
      });
  Add("db.info", {}, {{"id", kString}, {"name", kString}, {"creationDate", kText}},
      "The database's name.", [](EvalContext&, const ValueList&, ValueList* out) {
        *out = {Text(kDatabaseName), Text(kDatabaseName), Value()};
        return absl::OkStatus();
      });
  Add("dbms.showCurrentUser", {},
      {{"username", kString}, {"roles", kList | kNullType}, {"flags", kList}}, "Who runs this.",
      [](EvalContext& context, const ValueList&, ValueList* out) {
        *out = {Text(CallerOf(context).user), Value(), Value::List({})};
        return absl::OkStatus();
      });
  Add("pulse.show.currentUser", {},
      {{"user", kString},
       {"roles", kList | kNullType},
       {"passwordChangeRequired", kBoolType},
       {"suspended", kBoolType | kNullType},
       {"home", kText}},
      "SHOW CURRENT USER", [](EvalContext& context, const ValueList&, ValueList* out) {
        *out = {Text(CallerOf(context).user), Value(), Value::Bool(false), Value(), Value()};
        return absl::OkStatus();
      });
  Add("dbms.clientConfig", {},
      {{"name", kString}, {"description", kString}, {"value", kText}, {"dynamic", kBoolType}},
      "Settings for clients: none.",
      [](EvalContext&, const ValueList&, ValueList*) { return absl::OkStatus(); });
  Add("db.clearQueryCaches", {}, {{"value", kString}}, "Forgets all plans.",
      [plans](EvalContext&, const ValueList&, ValueList* out) {
        const size_t count = plans->size();
        plans->Clear();
        out->push_back(Text(Concat("Query caches successfully cleared of ", count, " queries.")));
        return absl::OkStatus();
      });
  // Indexes are there when CREATE INDEX returns.
  const auto nothing = [](EvalContext&, const ValueList&, ValueList*) { return absl::OkStatus(); };
  Add("db.awaitIndexes", {{"timeOutSeconds", kIntType}}, {}, "Waits for indexes.", nothing)
      ->optional = 1;
  Add("db.awaitIndex", {{"indexName", kString}, {"timeOutSeconds", kIntType}}, {},
      "Waits for an index.", nothing)
      ->optional = 1;
}

void ServiceProcedures::AddSchema(Database* database) {
  Add("pulse.show.indexes", {},
      {{"id", kIntType},
       {"name", kString},
       {"state", kString},
       {"populationPercent", Bit(Type::kFloat)},
       {"type", kString},
       {"entityType", kString},
       {"labelsOrTypes", kList},
       {"properties", kList},
       {"indexProvider", kString},
       {"owningConstraint", kText},
       {"createStatement", kString},
       {"lastRead", kAnyType},
       {"readCount", kAnyType},
       {"failureMessage", kString},
       {"options", kMapType}},
      "SHOW INDEXES", [database](EvalContext&, const ValueList&, ValueList* out) {
        int64_t id = 0;
        for (const IndexDefinition& index : database->Indexes()) {
          ++id;
          if (!index.FindsNodes()) continue;
          for (Value& value : ValueList{
                   Value::Int(id), Text(index.name), Text("ONLINE"), Value::Float(100),
                   Text("RANGE"), Text("NODE"), Texts({index.label}), Texts(index.keys),
                   Text("pulse-1.0"), index.constraint ? Text(index.name) : Value(),
                   Text(CreateStatement(index)), Value(), Value(), Text(""), IndexOptions()}) {
            out->push_back(std::move(value));
          }
        }
        return absl::OkStatus();
      });
  Add("pulse.show.constraints", {},
      {{"id", kIntType},
       {"name", kString},
       {"type", kString},
       {"entityType", kString},
       {"labelsOrTypes", kList},
       {"properties", kList},
       {"ownedIndex", kText},
       {"createStatement", kString},
       {"propertyType", kText},
       {"options", kMapType}},
      "SHOW CONSTRAINTS", [database](EvalContext&, const ValueList&, ValueList* out) {
        int64_t id = 0;
        for (const IndexDefinition& index : database->Indexes()) {
          ++id;
          if (!index.constraint) continue;
          const std::string_view entity = index.of_edges ? "RELATIONSHIP" : "NODE";
          const std::string type = !index.type.empty() ? Concat(entity, "_PROPERTY_TYPE")
                                   : !index.unique     ? Concat(entity, "_PROPERTY_EXISTENCE")
                                   : index.required    ? "NODE_KEY"
                                                       : "UNIQUENESS";
          for (Value& value :
               ValueList{Value::Int(id), Text(index.name), Text(type), Text(entity),
                         Texts({index.label}), Texts(index.keys),
                         index.unique ? Text(index.name) : Value(), Text(CreateStatement(index)),
                         index.type.empty() ? Value() : Text(index.type), IndexOptions()}) {
            out->push_back(std::move(value));
          }
        }
        return absl::OkStatus();
      });
}

void ServiceProcedures::AddTransactions(RunningList* running) {
  Add("pulse.show.transactions", {},
      {{"database", kString},
       {"transactionId", kString},
       {"currentQueryId", kText},
       {"connectionId", kText},
       {"clientAddress", kText},
       {"username", kString},
       {"currentQuery", kText},
       {"startTime", kString},
       {"status", kString},
       {"elapsedTime", Bit(Type::kDuration)}},
      "SHOW TRANSACTIONS", [running](EvalContext& context, const ValueList&, ValueList* out) {
        const int64_t now = NowNanos();
        for (const RunningFacts& facts : running->List(CallerOf(context))) {
          const int64_t elapsed = std::max<int64_t>(0, now - facts.began_nanos);
          DateTime began;
          began.seconds = FloorDiv(facts.began_wall_nanos, kNanosPerSecond);
          began.nanos = static_cast<int32_t>(FloorMod(facts.began_wall_nanos, kNanosPerSecond));
          Duration duration;
          duration.seconds = elapsed / kNanosPerSecond;
          duration.nanos = static_cast<int32_t>(elapsed % kNanosPerSecond);
          for (Value& value : ValueList{
                   Text(kDatabaseName), Text(facts.id),
                   facts.query_number == 0 ? Value() : Text(Concat("query-", facts.query_number)),
                   TextOrNull(facts.caller.connection), TextOrNull(facts.caller.client),
                   Text(facts.caller.user), TextOrNull(facts.query),
                   Text(TemporalText(Value::MakeDateTime(began))),
                   Text(facts.terminated ? "Terminated" : "Running"),
                   Value::MakeDuration(duration)}) {
            out->push_back(std::move(value));
          }
        }
        return absl::OkStatus();
      });
  Add("pulse.terminate.transactions", {{"ids", kAnyType}},
      {{"transactionId", kString}, {"username", kText}, {"message", kString}},
      "TERMINATE TRANSACTIONS",
      [running](EvalContext& context, const ValueList& arguments, ValueList* out) {
        if (!arguments[0].is_list()) {
          return RuntimeError("TypeError", "InvalidArgumentType", "ids is a list of strings");
        }
        ValueList ids;
        for (const Value& value : arguments[0].as_list()) {
          if (!value.is_list()) {
            ids.push_back(value);
            continue;
          }
          for (const Value& inner : value.as_list()) ids.push_back(inner);
        }
        const Caller& caller = CallerOf(context);
        for (const Value& id : ids) {
          if (!id.is_string()) {
            return RuntimeError("TypeError", "InvalidArgumentType",
                                "the id of a transaction is a string");
          }
          std::string user;
          for (const RunningFacts& facts : running->List(caller)) {
            if (facts.id == id.as_string()) user = facts.caller.user;
          }
          const auto ended = running->Terminate(id.as_string(), caller);
          const bool done = ended == RunningList::Ended::kDone;
          out->push_back(id);
          out->push_back(TextOrNull(user));
          out->push_back(Text(done ? "Transaction terminated."
                              : ended == RunningList::Ended::kForbidden
                                  ? "Transaction of another user."
                                  : "Transaction not found."));
        }
        return absl::OkStatus();
      });
}

void ServiceProcedures::AddLists(Database* database) {
  Add("pulse.show.procedures", {},
      {{"name", kString},
       {"description", kString},
       {"mode", kString},
       {"worksOnSystem", kBoolType},
       {"signature", kString}},
      "SHOW PROCEDURES", [this](EvalContext&, const ValueList&, ValueList* out) {
        for (const auto& [name, procedure] : procedures_) {
          if (name.starts_with("pulse.show.") || name.starts_with("pulse.terminate.")) continue;
          std::string signature = name + "(";
          for (size_t i = 0; i < procedure.arguments.size(); ++i) {
            const bool optional = i + procedure.optional >= procedure.arguments.size();
            signature += Concat(signature.back() == '(' ? "" : ", ", procedure.arguments[i].name,
                                optional ? " = null" : "");
          }
          signature += ") :: (";
          for (const auto& field : procedure.results) {
            signature += Concat(signature.back() == '(' ? "" : ", ", field.name);
          }
          for (Value& value : ValueList{Text(name), Text(descriptions_.at(name)), Text("READ"),
                                        Value::Bool(false), Text(signature + ")")}) {
            out->push_back(std::move(value));
          }
        }
        return absl::OkStatus();
      });
  Add("pulse.show.functions", {},
      {{"name", kString},
       {"category", kString},
       {"description", kString},
       {"signature", kString},
       {"isBuiltIn", kBoolType},
       {"aggregating", kBoolType}},
      "SHOW FUNCTIONS", [](EvalContext&, const ValueList&, ValueList* out) {
        for (const Function& f : AllFunctions()) {
          if (f.name.find(' ') != std::string_view::npos) continue;  // operators
          const bool aggregates = f.aggregate != Aggregate::kNone;
          std::string signature = Concat(f.name, "(");
          for (int i = 0; i < f.min_args; ++i) signature += i == 0 ? "value" : ", value";
          if (f.max_args > f.min_args) signature += f.min_args == 0 ? "…" : ", …";
          for (Value& value :
               ValueList{Text(f.name), Text(aggregates ? "Aggregating" : "Scalar"), Text(""),
                         Text(signature + ")"), Value::Bool(true), Value::Bool(aggregates)}) {
            out->push_back(std::move(value));
          }
        }
        return absl::OkStatus();
      });
  Add("pulse.show.settings", {},
      {{"name", kString},
       {"value", kString},
       {"isDynamic", kBoolType},
       {"defaultValue", kString},
       {"description", kString}},
      "SHOW SETTINGS: those of Neo4j are not there.",
      [](EvalContext&, const ValueList&, ValueList*) { return absl::OkStatus(); });
  Add("pulse.show.databases", {},
      {{"name", kString},
       {"type", kString},
       {"aliases", kList},
       {"access", kString},
       {"address", kText},
       {"role", kString},
       {"writer", kBoolType},
       {"requestedStatus", kString},
       {"currentStatus", kString},
       {"statusMessage", kString},
       {"default", kBoolType},
       {"home", kBoolType},
       {"constituents", kList}},
      "SHOW DATABASES", [database](EvalContext&, const ValueList&, ValueList* out) {
        const bool writes = database->Begin().ok();
        *out = {Text(kDatabaseName),
                Text("standard"),
                Value::List({}),
                Text(writes ? "read-write" : "read-only"),
                Value(),
                Text("primary"),
                Value::Bool(writes),
                Text("online"),
                Text("online"),
                Text(""),
                Value::Bool(true),
                Value::Bool(true),
                Value::List({})};
        return absl::OkStatus();
      });
}

}  // namespace pulse::cypher
