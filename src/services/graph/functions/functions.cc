#include "services/graph/functions/functions.h"

#include <map>
#include <string>

#include "absl/strings/ascii.h"
#include "services/graph/model/text.h"

namespace pulse::cypher {
namespace {

void AddAggregates(std::vector<Function>* out) {
  const auto add = [out](std::string_view name, Aggregate aggregate, uint32_t arg, uint32_t result,
                         int args = 1) {
    Function f;
    f.name = name;
    f.min_args = f.max_args = args;
    f.aggregate = aggregate;
    f.args[0] = arg;
    if (args == 2) f.args[1] = kNumberTypes | Bit(Type::kNull);
    f.result = result;
    out->push_back(f);
  };
  const uint32_t sums = kNumberTypes | Bit(Type::kDuration) | Bit(Type::kNull);
  const uint32_t numbers = kNumberTypes | Bit(Type::kNull);
  add("count", Aggregate::kCount, kAnyType, Bit(Type::kInt));
  add("sum", Aggregate::kSum, sums, sums);
  add("avg", Aggregate::kAvg, sums, sums);
  add("min", Aggregate::kMin, kAnyType, kAnyType);
  add("max", Aggregate::kMax, kAnyType, kAnyType);
  add("collect", Aggregate::kCollect, kAnyType, Bit(Type::kList));
  add("stDev", Aggregate::kStDev, numbers, Bit(Type::kFloat));
  add("stDevP", Aggregate::kStDevP, numbers, Bit(Type::kFloat));
  add("percentileCont", Aggregate::kPercentileCont, numbers, numbers, 2);
  add("percentileDisc", Aggregate::kPercentileDisc, numbers, numbers, 2);
}

std::string Lower(std::string_view name) { return absl::AsciiStrToLower(Absl(name)); }

}  // namespace

const std::vector<Function>& AllFunctions() {
  static const std::vector<Function> functions = [] {
    std::vector<Function> all;
    AddAggregates(&all);
    AddScalarFunctions(&all);
    AddStringFunctions(&all);
    AddListFunctions(&all);
    AddMathFunctions(&all);
    AddTemporalFunctions(&all);
    AddSpatialFunctions(&all);
    return all;
  }();
  return functions;
}

const Function* FindFunction(std::string_view name) {
  static const std::map<std::string, const Function*, std::less<>> table = [] {
    std::map<std::string, const Function*, std::less<>> map;
    for (const Function& f : AllFunctions()) map[Lower(f.name)] = &f;
    return map;
  }();
  const auto it = table.find(Lower(name));
  return it == table.end() ? nullptr : it->second;
}

}  // namespace pulse::cypher
