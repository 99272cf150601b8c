// The C++ classes of pulse/graph.h.
#include <gtest/gtest.h>

#include <string>

#include "pulse/graph.h"

namespace pulse::graph {
namespace {

TEST(GraphCxxApiTest, Cxx_Classes_DoAsTheFunctions) {
  graphdb::Error error;
  const graphdb::Graph none = graphdb::Graph::Open("/proc/none", nullptr, &error);
  EXPECT_FALSE(none);
  EXPECT_FALSE(error.ok());
  const graphdb::Graph graph = graphdb::Graph::Open("", nullptr, &error);
  ASSERT_TRUE(graph) << error.message();
  graphdb::Transaction transaction = graph.Begin(&error);
  ASSERT_TRUE(transaction);
  EXPECT_TRUE(transaction
                  .Execute("CREATE ({a: $a, b: $b, c: $c, d: $d})",
                           {{"a", 1u}, {"b", true}, {"c", std::string("text")}, {"d", 0.5f}})
                  .ok());
  EXPECT_TRUE(transaction.Commit().ok());
  EXPECT_EQ(transaction.Commit().code(), PULSE_GRAPH_CLOSED);
  graphdb::Result result = graph.Execute("MATCH (n) RETURN n.a, n.b, n.c AS text, n.d, n.e");
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(result.column_name(2), "text");
  ASSERT_TRUE(result.Next());
  EXPECT_EQ(result.At(0).as_int(), 1);
  EXPECT_TRUE(result.At(1).as_bool());
  EXPECT_EQ(result.At(2).as_string(), "text");
  EXPECT_EQ(result.At(3).as_float(), 0.5);
  EXPECT_TRUE(result.At(4).is_null());
  EXPECT_FALSE(result.Next());
  result = graph.Execute("nonsense");
  EXPECT_FALSE(result.ok());
  EXPECT_FALSE(result.Next());
  EXPECT_EQ(result.rows(), 0u);
  EXPECT_EQ(result.error().code(), PULSE_GRAPH_QUERY);
}

}  // namespace
}  // namespace pulse::graph
