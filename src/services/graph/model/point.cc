#include "services/graph/model/point.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <numbers>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "services/graph/model/text.h"

namespace pulse::cypher {
namespace {

struct System {
  int32_t srid;
  std::string_view name;
  size_t dimensions;
  bool geographic;
  std::string_view fields;  // for messages
};
// By Crs.
constexpr System kSystems[] = {
    {7203, "cartesian", 2, false, "'x' and 'y'"},
    {9157, "cartesian-3d", 3, false, "'x', 'y' and 'z'"},
    {4326, "wgs-84", 2, true, "'latitude' and 'longitude'"},
    {4979, "wgs-84-3d", 3, true, "'latitude', 'longitude' and 'height'"},
};
const System& SystemOf(Crs crs) { return kSystems[static_cast<size_t>(crs)]; }

constexpr double kEarthRadius = 6378140.0;  // metres, as Neo4j has it

std::string CoordinatesText(std::span<const double> coordinates) {
  std::string text = "[";
  for (const double c : coordinates) text += (text.size() > 1 ? ", " : "") + FloatText(c);
  return text + "]";
}

double Wrapped(double longitude) {
  if (longitude >= -180 && longitude <= 180) return longitude;
  const double rest = std::fmod(longitude, 360);
  return rest > 180 ? rest - 360 : rest < -180 ? rest + 360 : rest;
}

// What a map says of a point.
struct Fields {
  std::optional<double> x, y, z, longitude, latitude, height;
  std::optional<Crs> crs;
  bool has_crs = false, has_srid = false, has_null = false;
};

bool ReadField(std::string_view name, const Value& value, Fields* out, std::string* error) {
  const std::pair<std::string_view, std::optional<double>*> numbers[] = {
      {"x", &out->x},
      {"y", &out->y},
      {"z", &out->z},
      {"longitude", &out->longitude},
      {"latitude", &out->latitude},
      {"height", &out->height}};
  const auto is = [name](std::string_view other) {
    return absl::EqualsIgnoreCase(Absl(name), Absl(other));
  };
  const auto wrong = [&] {
    *error = Concat("Cannot assign a ", TypeName(value.type()), " to field ", name);
    return false;
  };
  for (const auto& [field, number] : numbers) {
    if (!is(field)) continue;
    if (value.is_null()) return out->has_null = true;
    if (!value.is_number()) return wrong();
    *number = value.as_number();
    return true;
  }
  const bool srid = is("srid");
  if (!srid && !is("crs")) return true;
  if (value.is_null()) return out->has_null = true;
  if (srid ? !value.is_int() : !value.is_string()) return wrong();
  (srid ? out->has_srid : out->has_crs) = true;
  out->crs = srid ? CrsOfSrid(value.as_int(), error) : CrsOfName(value.as_string(), error);
  return out->crs.has_value();
}

}  // namespace

int32_t SridOf(Crs crs) { return SystemOf(crs).srid; }
std::string_view NameOf(Crs crs) { return SystemOf(crs).name; }
size_t DimensionsOf(Crs crs) { return SystemOf(crs).dimensions; }
bool IsGeographic(Crs crs) { return SystemOf(crs).geographic; }

std::optional<Crs> CrsOfSrid(int64_t srid, std::string* error) {
  for (size_t i = 0; i < std::size(kSystems); ++i) {
    if (kSystems[i].srid == srid) return static_cast<Crs>(i);
  }
  *error = Concat("Unknown coordinate reference system: code=", srid);
  return std::nullopt;
}

std::optional<Crs> CrsOfName(std::string_view name, std::string* error) {
  for (size_t i = 0; i < std::size(kSystems); ++i) {
    if (absl::EqualsIgnoreCase(Absl(name), Absl(kSystems[i].name))) return static_cast<Crs>(i);
  }
  *error = Concat("Unknown coordinate reference system: ", ShortText(name));
  return std::nullopt;
}

bool IsSound(const Point& p) {
  if (!std::isfinite(p.x) || !std::isfinite(p.y) || !std::isfinite(p.z)) return false;
  return !IsGeographic(p.crs) || (p.x >= -180 && p.x <= 180 && p.y >= -90 && p.y <= 90);
}

std::optional<Value> PointOf(Crs crs, std::span<const double> coordinates, std::string* error) {
  if (coordinates.size() != DimensionsOf(crs)) {
    *error =
        Concat("Cannot create point with ", DimensionsOf(crs), "D coordinate reference system and ",
               coordinates.size(), " coordinates. Please consider using equivalent ",
               coordinates.size(), "D coordinate reference system");
    return std::nullopt;
  }
  if (!std::all_of(coordinates.begin(), coordinates.end(),
                   [](double c) { return std::isfinite(c); })) {
    *error = Concat("Cannot create a point with non-finite coordinate values: ",
                    CoordinatesText(coordinates));
    return std::nullopt;
  }
  Point point{crs, coordinates[0], coordinates[1], coordinates.size() > 2 ? coordinates[2] : 0};
  if (IsGeographic(crs)) point.x = Wrapped(point.x);
  if (!IsSound(point)) {
    *error =
        Concat("Cannot create WGS84 point with invalid coordinate: ", CoordinatesText(coordinates),
               ". Valid range for Y coordinate is [-90, 90].");
    return std::nullopt;
  }
  return Value::MakePoint(point);
}

std::optional<Value> PointFromMap(const ValueMap& map, std::string* error) {
  Fields fields;
  for (const auto& [key, value] : map) {
    if (!ReadField(key, value, &fields, error)) return std::nullopt;
  }
  if (fields.has_null) return Value();
  if (fields.has_crs && fields.has_srid) {
    *error = "Cannot specify both CRS and SRID";
    return std::nullopt;
  }
  const bool plain = fields.x && fields.y;
  if (!plain && !(fields.longitude && fields.latitude)) {
    *error = fields.crs ? Concat("A ", NameOf(*fields.crs), " point must contain ",
                                 SystemOf(*fields.crs).fields)
                        : "A point must contain either 'x' and 'y' or 'latitude' and 'longitude'";
    return std::nullopt;
  }
  double coordinates[3] = {plain ? *fields.x : *fields.longitude,
                           plain ? *fields.y : *fields.latitude, 0};
  const std::optional<double> third = plain || fields.z ? fields.z : fields.height;
  if (third) coordinates[2] = *third;
  const Crs usual = plain ? (third ? Crs::kCartesian3d : Crs::kCartesian)
                          : (third ? Crs::kWgs84In3d : Crs::kWgs84);
  const Crs crs = fields.crs.value_or(usual);
  if (!plain && !IsGeographic(crs)) {
    *error =
        Concat("Geographic points does not support coordinate reference system: ", NameOf(crs));
    return std::nullopt;
  }
  return PointOf(crs, {coordinates, third ? size_t{3} : size_t{2}}, error);
}

std::string PointText(const Point& p) {
  const std::string z = DimensionsOf(p.crs) > 2 ? ", z: " + FloatText(p.z) : "";
  return Concat("point({x: ", FloatText(p.x), ", y: ", FloatText(p.y), z, ", crs: '", NameOf(p.crs),
                "'})");
}

std::optional<Value> PointComponent(const Point& p, std::string_view name, std::string* error) {
  const std::string field = absl::AsciiStrToLower(Absl(name));
  if (field == "crs") return Value::String(NameOf(p.crs));
  if (field == "srid") return Value::Int(SridOf(p.crs));
  const bool geographic = field == "longitude" || field == "latitude" || field == "height";
  const bool third = field == "z" || field == "height";
  if (!geographic && !third && field != "x" && field != "y") {
    *error = Concat("No such field: ", name);
    return std::nullopt;
  }
  if ((geographic && !IsGeographic(p.crs)) || (third && DimensionsOf(p.crs) < 3)) {
    const bool cartesian = geographic && !IsGeographic(p.crs);
    *error = Concat("Field: ", name, " is not available on ", cartesian ? "cartesian " : "",
                    "point: ", PointText(p));
    return std::nullopt;
  }
  if (third) return Value::Float(p.z);
  return Value::Float(field == "x" || field == "longitude" ? p.x : p.y);
}

double DistanceOf(const Point& a, const Point& b) {
  if (!IsGeographic(a.crs)) {
    return DimensionsOf(a.crs) > 2 ? std::hypot(a.x - b.x, a.y - b.y, a.z - b.z)
                                   : std::hypot(a.x - b.x, a.y - b.y);
  }
  constexpr double kRadian = std::numbers::pi / 180;
  const double across = std::sin((b.x - a.x) * kRadian / 2);
  const double up = std::sin((b.y - a.y) * kRadian / 2);
  const double haversine =
      std::min(1.0, up * up + std::cos(a.y * kRadian) * std::cos(b.y * kRadian) * across * across);
  const double angle = 2 * std::atan2(std::sqrt(haversine), std::sqrt(1 - haversine));
  if (DimensionsOf(a.crs) < 3) return kEarthRadius * angle;
  // Along a sphere of their mean height.
  return std::hypot((kEarthRadius + (a.z + b.z) / 2) * angle, a.z - b.z);
}

bool IsWithinBox(const Point& point, const Point& lower_left, const Point& upper_right) {
  const auto within = [](double c, double low, double high) { return low <= c && c <= high; };
  // Longitudes alone go around.
  const double low = lower_left.x, high = upper_right.x;
  const bool wraps = IsGeographic(point.crs) && low > high;
  return (wraps ? point.x >= low || point.x <= high : within(point.x, low, high)) &&
         within(point.y, lower_left.y, upper_right.y) &&
         within(point.z, lower_left.z, upper_right.z);
}

}  // namespace pulse::cypher
