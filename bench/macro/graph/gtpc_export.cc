#include "bench/macro/graph/gtpc_export.h"

#include <fstream>
#include <utility>

#include "absl/strings/str_cat.h"
#include "apps/pulse/util/disk.h"
#include "apps/pulse/util/progress.h"
#include "base/errors.h"
#include "bench/macro/graph/graph_bench.h"
#include "bench/macro/graph/gtpc_files.h"
#include "bench/macro/graph/gtpc_queries.h"
#include "fmt/format.h"

namespace pulse::bench {
namespace {

absl::Status WriteText(const std::string& text, const std::string& path) {
  std::ofstream out(path);
  out << text;
  out.close();
  if (out) return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat("writing ", path, " failed"));
}

nlohmann::json QueriesOf(CypherDialect dialect, bool repaired) {
  nlohmann::json all = nlohmann::json::array();
  for (const GtpcQuery& query : GtpcOlap(dialect, repaired)) {
    all.push_back({{"name", query.name}, {"text", query.text}});
  }
  return all;
}

}  // namespace

absl::Status WriteJson(const nlohmann::json& value, const std::string& path) {
  return WriteText(value.dump(1) + "\n", path);
}

absl::Status WriteGtpcForOthers(const GtpcOptions& options, const std::string& directory) {
  PULSE_RETURN_IF_ERROR(MakeDirectory(directory));
  const GtpcData data(options);
  const std::vector<GtpcTable> tables = GtpcTables(data);
  uint64_t bytes = 0;
  {
    Progress progress(0);
    PULSE_ASSIGN_OR_RETURN(bytes, WriteGtpcCsv(tables, directory, [&](uint64_t written) {
                             progress.Bytes("writing CSV", written, 0);
                           }));
  }
  fmt::print("{} tables, {}, in {}\n", tables.size(), FormatBytes(bytes), directory);
  return WriteJson({{"warehouses", options.warehouses},
                    {"variant", options.repaired ? "repaired" : "published"},
                    {"tiny", options.tiny},
                    {"seed", options.seed},
                    {"tables", GtpcSchema(tables)},
                    {"queries",
                     {{"pulse", QueriesOf(CypherDialect::kOurs, options.repaired)},
                      {"ladybug", QueriesOf(CypherDialect::kLadybug, options.repaired)}}}},
                   directory + "/gtpc.json");
}

absl::Status WriteGtpcQueries(bool repaired, const std::string& directory) {
  for (const auto& [dialect, name] :
       {std::pair(CypherDialect::kOurs, "pulse"), std::pair(CypherDialect::kLadybug, "ladybug")}) {
    const std::string folder = absl::StrCat(directory, "/", name);
    PULSE_RETURN_IF_ERROR(MakeDirectory(folder));
    for (const GtpcQuery& query : GtpcOlap(dialect, repaired)) {
      PULSE_RETURN_IF_ERROR(
          WriteText(query.text + "\n", absl::StrCat(folder, "/", query.name, ".cypher")));
    }
  }
  std::string text;
  for (const GtpcTransaction& transaction : GtpcOltp()) {
    absl::StrAppend(&text, "// ", std::string(transaction.name), "\n");
    for (const std::string_view statement : transaction.statements) {
      absl::StrAppend(&text, std::string(statement), ";\n");
    }
  }
  fmt::print("queries in {0}/pulse and {0}/ladybug\n", directory);
  return WriteText(text, directory + "/pulse/oltp.cypher");
}

}  // namespace pulse::bench
