#include "services/graph/model/point.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numbers>
#include <random>

#include "base/testing.h"
#include "services/graph/model/text.h"

namespace pulse::cypher {
namespace {

Value Number(double number) { return Value::Float(number); }

// The point's text, or the error.
std::string FromMap(const ValueMap& map) {
  std::string error;
  const auto point = PointFromMap(map, &error);
  if (!point) return error;
  return point->is_null() ? "null" : PointText(point->as_point());
}

TEST(Point, FromMap_WithoutASystem_HasTheOneOfItsKeys) {
  const Value one = Value::Int(1), two = Number(2), three = Number(3);
  EXPECT_EQ(FromMap({{"x", one}, {"y", two}}), "point({x: 1.0, y: 2.0, crs: 'cartesian'})");
  EXPECT_EQ(FromMap({{"X", one}, {"Y", two}, {"z", three}}),
            "point({x: 1.0, y: 2.0, z: 3.0, crs: 'cartesian-3d'})");
  EXPECT_EQ(FromMap({{"latitude", two}, {"longitude", one}}),
            "point({x: 1.0, y: 2.0, crs: 'wgs-84'})");
  for (const char* height : {"height", "z"}) {
    EXPECT_EQ(FromMap({{"latitude", two}, {"longitude", one}, {height, three}}),
              "point({x: 1.0, y: 2.0, z: 3.0, crs: 'wgs-84-3d'})");
  }
  EXPECT_EQ(FromMap({{"x", one}, {"y", two}, {"name", Value::String("a")}, {"other", Value()}}),
            "point({x: 1.0, y: 2.0, crs: 'cartesian'})");
}

TEST(Point, FromMap_WithASystem_HasThat) {
  const Value one = Value::Int(1), two = Number(2);
  for (const auto& [key, value] :
       ValueMap{{"crs", Value::String("WGS-84")}, {"srid", Value::Int(4326)}}) {
    EXPECT_EQ(FromMap({{"x", one}, {"y", two}, {key, value}}),
              "point({x: 1.0, y: 2.0, crs: 'wgs-84'})");
  }
  EXPECT_EQ(FromMap({{"x", one}, {"y", two}, {"z", two}, {"srid", Value::Int(9157)}}),
            "point({x: 1.0, y: 2.0, z: 2.0, crs: 'cartesian-3d'})");
}

TEST(Point, FromMap_WhatIsNone_SaysWhy) {
  const Value one = Value::Int(1);
  const auto crs = [](std::string_view name) { return std::pair("crs", Value::String(name)); };
  const std::pair<ValueMap, std::string> cases[] = {
      {{{"x", one}, {"y", Value()}}, "null"},
      {{{"x", one}, {"y", one}, {"crs", Value()}}, "null"},
      {{}, "A point must contain either 'x' and 'y' or 'latitude' and 'longitude'"},
      {{{"x", one}}, "A point must contain either 'x' and 'y' or 'latitude' and 'longitude'"},
      {{{"x", one}, crs("cartesian")}, "A cartesian point must contain 'x' and 'y'"},
      {{crs("wgs-84-3d")}, "A wgs-84-3d point must contain 'latitude', 'longitude' and 'height'"},
      {{{"x", Value::String("a")}, {"y", one}}, "Cannot assign a STRING to field x"},
      {{{"x", one}, {"y", one}, crs("nope")}, "Unknown coordinate reference system: nope"},
      {{{"x", one}, {"y", one}, {"srid", one}}, "Unknown coordinate reference system: code=1"},
      {{{"x", one}, {"y", one}, crs("cartesian"), {"srid", Value::Int(7203)}},
       "Cannot specify both CRS and SRID"},
      {{{"longitude", one}, {"latitude", one}, crs("cartesian")},
       "Geographic points does not support coordinate reference system: cartesian"},
      {{{"x", one}, {"y", one}, crs("wgs-84-3d")},
       "Cannot create point with 3D coordinate reference system and 2 coordinates. Please consider "
       "using equivalent 2D coordinate reference system"},
      {{{"x", one}, {"y", Number(HUGE_VAL)}},
       "Cannot create a point with non-finite coordinate values: [1.0, Infinity]"},
      {{{"longitude", one}, {"latitude", Number(91)}},
       "Cannot create WGS84 point with invalid coordinate: [1.0, 91.0]. Valid range for Y "
       "coordinate is [-90, 90]."}};
  for (const auto& [map, text] : cases) EXPECT_EQ(FromMap(map), text);
}

TEST(Point, Longitudes_BeyondHalfACircle_AreWrapped) {
  for (const auto& [given, kept] : std::vector<std::pair<double, double>>{{180, 180},
                                                                          {-180, -180},
                                                                          {190, -170},
                                                                          {-190, 170},
                                                                          {540, 180},
                                                                          {-540, -180},
                                                                          {725, 5}}) {
    std::string error;
    const double coordinates[] = {given, 0};
    const auto point = PointOf(Crs::kWgs84, coordinates, &error);
    ASSERT_TRUE(point) << error;
    EXPECT_EQ(point->as_point().x, kept) << given;
  }
}

TEST(Point, Random_OfAnyNumbers_IsSoundOrRefused) {
  std::mt19937_64 random(testing_util::TestSeed());
  for (int i = 0; i < 20000; ++i) {
    double coordinates[3];
    for (double& c : coordinates) {
      c = std::ldexp(static_cast<double>(static_cast<int64_t>(random())),
                     static_cast<int>(random() % 200) - 150);
    }
    const auto crs = static_cast<Crs>(random() % 4);
    std::string error;
    const auto point = PointOf(crs, {coordinates, 2 + random() % 2}, &error);
    EXPECT_EQ(point.has_value(), error.empty());
    if (!point) continue;
    EXPECT_TRUE(IsSound(point->as_point())) << PointText(point->as_point());
  }
}

TEST(Point, Components_AreThoseOfTheSystem) {
  const Point flat{Crs::kCartesian, 1, 2, 0}, earth{Crs::kWgs84In3d, 1, 2, 3};
  std::string error;
  const auto number = [&](const Point& point, std::string_view name) {
    const auto value = PointComponent(point, name, &error);
    return value ? value->as_number() : -1;
  };
  EXPECT_EQ(number(flat, "X"), 1);
  EXPECT_EQ(number(flat, "y"), 2);
  EXPECT_EQ(number(flat, "srid"), 7203);
  EXPECT_EQ(number(earth, "longitude"), 1);
  EXPECT_EQ(number(earth, "Latitude"), 2);
  EXPECT_EQ(number(earth, "height"), 3);
  EXPECT_EQ(number(earth, "z"), 3);
  EXPECT_EQ(PointComponent(earth, "crs", &error)->as_string(), "wgs-84-3d");
  EXPECT_TRUE(error.empty()) << error;
  EXPECT_EQ(number(flat, "z"), -1);
  EXPECT_EQ(error, "Field: z is not available on point: point({x: 1.0, y: 2.0, crs: 'cartesian'})");
  EXPECT_EQ(number(flat, "latitude"), -1);
  EXPECT_TRUE(error.starts_with("Field: latitude is not available on cartesian point: ")) << error;
  EXPECT_EQ(number(flat, "foo"), -1);
  EXPECT_EQ(error, "No such field: foo");
}

TEST(Point, Distance_OnThePlaneAndOnEarth) {
  EXPECT_EQ(DistanceOf({Crs::kCartesian, 0, 0, 0}, {Crs::kCartesian, 3, 4, 0}), 5);
  EXPECT_EQ(DistanceOf({Crs::kCartesian3d, 1, 1, 1}, {Crs::kCartesian3d, 2, 3, 3}), 3);
  // A quarter of a great circle, and half of one.
  constexpr double kRadius = 6378140;
  const Point here{Crs::kWgs84, 0, 0, 0};
  EXPECT_NEAR(DistanceOf(here, {Crs::kWgs84, 90, 0, 0}), std::numbers::pi / 2 * kRadius, 1e-6);
  EXPECT_NEAR(DistanceOf(here, {Crs::kWgs84, 0, 90, 0}), std::numbers::pi / 2 * kRadius, 1e-6);
  EXPECT_NEAR(DistanceOf(here, {Crs::kWgs84, 180, 0, 0}), std::numbers::pi * kRadius, 1e-6);
  EXPECT_EQ(DistanceOf(here, here), 0);
  // As Neo4j's manual has it: Malmö and Copenhagen.
  EXPECT_NEAR(
      DistanceOf({Crs::kWgs84, 12.994341, 55.611784, 0}, {Crs::kWgs84, 12.564590, 55.672874, 0}),
      27841.9, 0.1);
  // Straight up, and along the sphere of the mean height.
  EXPECT_EQ(DistanceOf({Crs::kWgs84In3d, 5, 5, 10}, {Crs::kWgs84In3d, 5, 5, 40}), 30);
  EXPECT_NEAR(DistanceOf({Crs::kWgs84In3d, 0, 0, 1000}, {Crs::kWgs84In3d, 90, 0, 1000}),
              std::numbers::pi / 2 * (kRadius + 1000), 1e-6);
}

TEST(Point, Box_AcrossTheDateLine_HasBothSides) {
  const auto within = [](double x, double low, double high, Crs crs) {
    return IsWithinBox({crs, x, 0, 0}, {crs, low, -1, 0}, {crs, high, 1, 0});
  };
  EXPECT_TRUE(within(5, 0, 10, Crs::kCartesian));
  EXPECT_TRUE(within(0, 0, 10, Crs::kCartesian));
  EXPECT_FALSE(within(11, 0, 10, Crs::kCartesian));
  EXPECT_FALSE(within(5, 10, 0, Crs::kCartesian));
  EXPECT_TRUE(within(-179, 170, -170, Crs::kWgs84));
  EXPECT_TRUE(within(175, 170, -170, Crs::kWgs84));
  EXPECT_FALSE(within(0, 170, -170, Crs::kWgs84));
  // There is no way around over a pole.
  for (const double latitude : {-20.0, 0.0, 20.0}) {
    EXPECT_FALSE(IsWithinBox({Crs::kWgs84, 0, latitude, 0}, {Crs::kWgs84, -1, 10, 0},
                             {Crs::kWgs84, 1, -10, 0}));
  }
  EXPECT_FALSE(IsWithinBox({Crs::kCartesian3d, 0, 0, 5}, {Crs::kCartesian3d, -1, -1, 0},
                           {Crs::kCartesian3d, 1, 1, 4}));
}

TEST(Point, Zeros_OfBothSigns_AreEqual) {
  const Value plus = Value::MakePoint({Crs::kCartesian, 0, 1, 0});
  const Value minus = Value::MakePoint({Crs::kCartesian, -0.0, 1, 0});
  EXPECT_EQ(Equals(plus, minus), 1);
  EXPECT_EQ(Hash(plus), Hash(minus));
  EXPECT_EQ(Compare(plus, minus), kIncomparable);
  EXPECT_EQ(Equals(plus, Value::MakePoint({Crs::kWgs84, 0, 1, 0})), 0);
}

}  // namespace
}  // namespace pulse::cypher
