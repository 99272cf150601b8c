#include "bench/macro/graph/gtpc_clients.h"

#include <algorithm>
#include <utility>

#include "base/errors.h"

namespace pulse::bench {
namespace {

using cypher::Value;

class NoRows : public cypher::RowSink {
 public:
  bool OnRows(const cypher::GraphView&, const Value*, size_t, size_t count,
              std::span<const cypher::Slot>) override {
    rows_ += count;
    return true;
  }
  bool Restart() override { return true; }
  uint64_t rows() const { return rows_; }

 private:
  uint64_t rows_ = 0;
};

}  // namespace

cypher::ValueMap GtpcClients::Next() {
  const int64_t district = Number(1, data_.districts());
  const int64_t each = data_.customers() / data_.districts();
  const int64_t warehouse = data_.WarehouseOfDistrict(district);
  cypher::ValueList lines;
  for (int64_t n = Number(5, 15), number = 1; number <= n; ++number) {
    lines.push_back(Value::Map(
        {{"id", Value::Int(++line_)},
         {"number", Value::Int(number)},
         {"quantity", Value::Int(Number(1, 10))},
         {"stock", Value::Int((warehouse - 1) * data_.items() + Number(1, data_.items()))}}));
  }
  const int64_t last = district * each;
  cypher::ValueMap all = {{"w", Value::Int(warehouse)},
                          {"d", Value::Int(district)},
                          {"c", Value::Int((district - 1) * each + Number(1, each))},
                          {"o", Value::Int(Number(1, data_.orders()))},
                          {"new_o", Value::Int(++order_)},
                          {"first", Value::Int(last - std::min<int64_t>(19, each - 1))},
                          {"last", Value::Int(last)},
                          {"carrier", Value::Int(Number(1, 10))},
                          {"threshold", Value::Int(Number(10, 20))},
                          {"amount", Value::Float(static_cast<double>(Number(1, 5000)))},
                          {"now", Value::String("2013-01-01T00:00:00")},
                          {"lines", Value::List(std::move(lines))}};
  std::sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  return all;
}

absl::Status RunGtpcTransaction(const GtpcTransaction& transaction,
                                const cypher::ValueMap& parameters, cypher::GraphService* service) {
  PULSE_ASSIGN_OR_RETURN(const auto running, service->Begin({}, {}));
  NoRows rows;
  for (const std::string_view text : transaction.statements) {
    PULSE_ASSIGN_OR_RETURN(const auto statement, service->Prepare(text));
    cypher::Outcome outcome;
    PULSE_RETURN_IF_ERROR(running->Run(*statement, &parameters, &rows, &outcome));
  }
  uint64_t sequence = 0;
  return running->Commit(&sequence);
}

double Percentile(std::vector<double> seconds, double p) {
  std::sort(seconds.begin(), seconds.end());
  return seconds.empty()
             ? 0
             : seconds[static_cast<size_t>(p * static_cast<double>(seconds.size() - 1))];
}

}  // namespace pulse::bench
