// Points: their coordinate reference systems, their text, and distances. As Neo4j has them. Pure;
// any thread.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "services/graph/model/value.h"

namespace pulse::cypher {

int32_t SridOf(Crs crs);
std::string_view NameOf(Crs crs);
size_t DimensionsOf(Crs crs);
bool IsGeographic(Crs crs);  // x is a longitude and y a latitude, in degrees; z a height in metres
// Nullopt, and why in *error: there is none such. Names in any case.
std::optional<Crs> CrsOfSrid(int64_t srid, std::string* error);
std::optional<Crs> CrsOfName(std::string_view name, std::string* error);

// Longitudes are wrapped to -180 to 180. Nullopt, and why in *error: the system has another number
// of dimensions, a coordinate is not finite, or a latitude is beyond a pole.
std::optional<Value> PointOf(Crs crs, std::span<const double> coordinates, std::string* error);
// Of x, y and z, or longitude, latitude and height (or z), with crs or srid; keys in any case,
// others are ignored. Null where one of these is null.
std::optional<Value> PointFromMap(const ValueMap& map, std::string* error);
// Whether PointOf leaves it as it is.
bool IsSound(const Point& point);

// As Cypher makes it: point({x: 1.0, y: 2.0, crs: 'cartesian'}).
std::string PointText(const Point& point);
// What is read as p.x, p.latitude or p.srid; nullopt, and why in *error: it has no such field.
std::optional<Value> PointComponent(const Point& point, std::string_view name, std::string* error);
// In metres where they are geographic. Both are of one system.
double DistanceOf(const Point& a, const Point& b);
// Whether it is in the box of two corners, which may go across the longitude of 180 degrees. All
// are of one system.
bool IsWithinBox(const Point& point, const Point& lower_left, const Point& upper_right);

}  // namespace pulse::cypher
