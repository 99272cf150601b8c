// point(), point.distance() and point.withinBBox().
#include <algorithm>

#include "services/graph/functions/functions.h"
#include "services/graph/model/point.h"
#include "services/graph/model/text.h"

namespace pulse::cypher {
namespace {

Value MakePointValue(EvalContext& ctx, std::span<Value> a) {
  const bool stored = a[0].is_node() || a[0].is_edge();
  if (!stored && !a[0].is_map()) {
    return ctx.TypeError(Concat("point() does not take a ", TypeName(a[0].type())));
  }
  const Value map = stored ? ctx.PropertyMap(a[0]) : a[0];
  if (ctx.failed()) return {};
  std::string error;
  auto point = PointFromMap(map.as_map(), &error);
  return point ? *std::move(point) : ctx.ArgumentError("InvalidArgumentValue", error);
}

// Others, also points of different systems, are neither near nor far.
bool AreComparable(std::span<const Value> values) {
  return std::all_of(values.begin(), values.end(), [&](const Value& v) {
    return v.is_point() && v.as_point().crs == values[0].as_point().crs;
  });
}

Value PointDistance(EvalContext&, std::span<Value> a) {
  if (!AreComparable(a)) return {};
  return Value::Float(DistanceOf(a[0].as_point(), a[1].as_point()));
}

Value PointWithinBBox(EvalContext&, std::span<Value> a) {
  if (!AreComparable(a)) return {};
  return Value::Bool(IsWithinBox(a[0].as_point(), a[1].as_point(), a[2].as_point()));
}

}  // namespace

void AddSpatialFunctions(std::vector<Function>* out) {
  constexpr uint32_t kNull = Bit(Type::kNull), kPoint = Bit(Type::kPoint) | kNull;
  out->push_back(
      {"point", 1, 1, MakePointValue, kPoint, {kMapType | kNodeType | kEdgeType | kNull}});
  out->push_back(
      {"point.distance", 2, 2, PointDistance, Bit(Type::kFloat) | kNull, {kPoint, kPoint}});
  out->push_back({"point.withinBBox",
                  3,
                  3,
                  PointWithinBBox,
                  Bit(Type::kBool) | kNull,
                  {kPoint, kPoint, kPoint}});
}

}  // namespace pulse::cypher
