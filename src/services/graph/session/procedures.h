// The procedures that a database has by itself: what drivers and browsers ask (db.labels,
// dbms.components, ...), algorithms (algo.*), and what SHOW and TERMINATE stand for (statement.h).
// Constant; any thread.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "services/graph/cypher/plan.h"
#include "services/graph/model/database.h"
#include "services/graph/session/plan_cache.h"
#include "services/graph/session/running.h"

namespace pulse::cypher {

// What dbms.components and drivers are told: clients look at it for what the language can.
inline constexpr std::string_view kServerVersion = "5.26.0";
inline constexpr std::string_view kDatabaseName = "neo4j";
// In any case; also `system`, which drivers and tools ask for what is said of all databases, and
// which has no data.
bool IsDatabaseName(std::string_view name);
bool IsSystemName(std::string_view name);
// OK where the statement is one that `system` answers.
absl::Status CheckForSystem(std::string_view statement);

class ServiceProcedures : public ProcedureCatalog {
 public:
  // All outlive it.
  ServiceProcedures(Database* database, RunningList* running, PlanCache* plans);
  const Procedure* Find(std::string_view name) const override;

 private:
  using Call = decltype(Procedure::call);
  Procedure* Add(std::string_view name, std::vector<Procedure::Field> arguments,
                 std::vector<Procedure::Field> results, std::string_view description, Call call);
  void AddNames(Database* database);
  void AddServer(PlanCache* plans);
  void AddSchema(Database* database);
  void AddTransactions(RunningList* running);
  void AddLists(Database* database);
  void AddAlgorithms();    // algorithm_procedures.cc
  void AddSchemaSurvey();  // schema_procedures.cc

  std::map<std::string, Procedure, std::less<>> procedures_;
  std::map<std::string, std::string, std::less<>> descriptions_;
};

}  // namespace pulse::cypher
