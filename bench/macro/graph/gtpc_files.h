// GTPC's tables as CSV files, for our bulk loader and for other databases, with a description of
// both: names, columns and types. Main thread only; writing blocks.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "bench/macro/graph/gtpc_data.h"
#include "nlohmann/json.hpp"
#include "services/graph/load/load.h"

namespace pulse::bench {

// The text of rows: fields, and the end of each row.
class CsvText {
 public:
  CsvText& Int(int64_t value);
  CsvText& Text(std::string_view text);  // without commas and quotes
  CsvText& Money(int64_t hundredths) { return Text(MoneyText(hundredths)); }
  CsvText& Time(int64_t seconds) { return Text(TimeText(seconds)); }
  void End();
  std::string& bytes() { return bytes_; }

 private:
  void Separate() {
    if (!first_) bytes_ += ',';
    first_ = false;
  }
  std::string bytes_;
  bool first_ = true;
};

struct GtpcColumn {
  std::string name;
  std::string type;  // as the loader names it: int, float, string, localdatetime
};

struct GtpcTable {
  std::string name;            // a label, or a type of relationships
  std::string source, target;  // labels; of relationships only
  std::vector<GtpcColumn> columns;
  // Rows come in units, from 1 on: a row each, or all lines of an order.
  int64_t units = 0;
  std::function<void(int64_t unit, CsvText* out)> write;
  bool is_edge() const { return !source.empty(); }
  // "OrderLine.csv"; "OrderLine_hasStock_Stock.csv".
  std::string FileName() const;
};

// All tables, those of nodes first. Of orders beyond `last_order` (0: none are) the lines have no
// relationships. `data` outlives what is returned.
std::vector<GtpcTable> GtpcTables(const GtpcData& data, int64_t last_order = 0);

// `written`, if there is one, is told now and then how many bytes there are.
using WriteProgress = std::function<void(uint64_t written)>;
absl::StatusOr<uint64_t> WriteGtpcCsv(const std::vector<GtpcTable>& tables,
                                      const std::string& directory,
                                      const WriteProgress& written = nullptr);

// What loads these files. In the published variant relationships dangle: they are rejected.
graph::LoadOptions GtpcLoad(const std::vector<GtpcTable>& tables, const std::string& directory,
                            bool repaired);

// For programs of others: files, columns and types.
nlohmann::json GtpcSchema(const std::vector<GtpcTable>& tables);

}  // namespace pulse::bench
