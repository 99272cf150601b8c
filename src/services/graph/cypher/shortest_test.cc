// Shortest paths against the shortest of all trails.
#include "services/graph/cypher/test_random_graph.h"

namespace pulse::cypher {
namespace {

class ShortestTest : public RandomGraphTest {};

TEST_F(ShortestTest, AllShortestPaths_OfRandomGraphs_AreTheShortestTrails) {
  MakeGraph(40, 80);
  size_t found = 0;
  for (const std::string edge :
       {"-[%:R|S*..4]-", "-[%*..3]->", "<-[%:R*..5]-", "-[%*1..2]-", "-[%*..4 WHERE r.n % 3 > 0]-",
        "-[%*0..3 WHERE r.n > 10]->", "-[%:Never*..4]-", "-[%:T*]->"}) {
    for (const std::string function : {"allShortestPaths", "shortestPath"}) {
      std::string with = edge;
      with.replace(with.find('%'), 1, edge.find("WHERE") == std::string::npos ? "" : "r");
      const std::string match = "MATCH (a), (b) WHERE a.n % 5 = 0 AND b.n % 4 = 1 AND a <> b ";
      // The numbers of the relationships, in the path's order; of one of several paths, how many.
      const std::string text =
          "reduce(s = toString(a.n) + ' ' + toString(b.n), r IN "
          "relationships(p) | s + ' ' + toString(r.n))";
      const bool all = function[0] == 'a';
      const std::string result =
          all ? " RETURN " + text : " RETURN a.n * 10000 + b.n * 100 + length(p)";
      const auto paths = Run(match + "MATCH p = " + function + "((a)" + with + "(b))" + result);
      const auto trails = Run(match + "MATCH p = (a)" + with +
                              "(b) WITH a, b, collect(p) AS ps, min(length(p)) AS least "
                              "UNWIND [p IN ps WHERE length(p) = least] AS p WITH " +
                              (all ? "a, b, p" : "a, b, head(collect(p)) AS p") + result);
      EXPECT_EQ(paths, trails) << function << with;
      found += paths.size();
    }
  }
  EXPECT_GT(found, 100u);
}

// WHERE chooses among all paths, not among the shortest alone.
TEST_F(ShortestTest, Where_ChoosesTheShortestOfThoseForWhichItHolds) {
  MakeGraph(40, 90);
  size_t found = 0;
  for (const std::string where :
       {"length(p) > 2", "none(n IN nodes(p) WHERE n.n % 7 = 3)",
        "all(x IN nodes(p) WHERE x.n <> 6)", "all(x IN relationships(p) WHERE x.n % 3 > 0)",
        "none(x IN r WHERE x.n % 4 = 0)", "any(x IN nodes(p) WHERE x.n = 8)",
        "size(r) % 2 = 1 AND length(p) > 1",
        "all(x IN nodes(p) WHERE x.n + a.n <> 12) AND single(x IN nodes(p) WHERE x.n = 9)",
        "reduce(s = 0, x IN r | s + x.n) % 2 = 0", "length(p) <= 1",
        "3 > size(r) AND length(p) > 1", "length(p) = 2"}) {
    for (const std::string edge : {"-[r*..4]-", "-[r:R|S*..4]->", "<-[r*..3]-"}) {
      const std::string match = "MATCH (a), (b) WHERE a.n % 8 = 0 AND b.n % 5 = 1 AND a <> b ";
      const std::string text =
          " RETURN reduce(s = toString(a.n) + ' ' + toString(b.n), r IN relationships(p) | s + ' ' "
          "+ toString(r.n))";
      const auto all =
          Run(match + "MATCH p = allShortestPaths((a)" + edge + "(b)) WHERE " + where + text);
      const std::string trails = match + "MATCH p = (a)" + edge + "(b) WHERE " + where +
                                 " WITH a, b, collect(p) AS ps, min(length(p)) AS least ";
      EXPECT_EQ(all,
                Run(trails + "UNWIND [p IN ps WHERE length(p) = least] AS p WITH a, b, p" + text))
          << where << edge;
      EXPECT_EQ(Run(match + "MATCH p = shortestPath((a)" + edge + "(b)) WHERE " + where +
                    " RETURN a.n, b.n, length(p)"),
                Run(trails + "RETURN a.n, b.n, least"))
          << where << edge;
      found += all.size();
    }
  }
  EXPECT_GT(found, 100u);
}

// There are more trails than anybody could look at: those beyond a bound of the length, and other
// shortest ones than the first, are not asked for.
TEST_F(ShortestTest, Where_OnManyPaths_LooksAtNoMoreThanItHasTo) {
  MakeGraph(144, 0);
  const Token r = *graph_.AddTypeName("R");
  for (size_t i = 0; i < 144; ++i) {
    if (i % 12 < 11) {
      ASSERT_TRUE(graph_.CreateEdge(ids_[i], ids_[i + 1], r, {}).ok());
    }
    if (i < 132) {
      ASSERT_TRUE(graph_.CreateEdge(ids_[i], ids_[i + 12], r, {}).ok());
    }
  }
  using Strings = std::vector<std::string>;
  const auto lengths = [this](const std::string& where) {
    return Run("MATCH (a {n: 0}), (b {n: 143}) MATCH p = shortestPath((a)-[:R*]-(b)) WHERE " +
               where + " RETURN length(p)");
  };
  EXPECT_EQ(lengths("length(p) >= 1"), Strings{"22"});
  EXPECT_EQ(lengths("length(p) < 22"), Strings{});
  EXPECT_EQ(lengths("length(p) <= 22"), Strings{"22"});
  EXPECT_EQ(lengths("21 >= length(p)"), Strings{});
  EXPECT_EQ(Run("MATCH (a), (b {n: 3}) WHERE a.n < 5 MATCH p = shortestPath((a)-[:R*0..]-(b)) "
                "WHERE length(p) >= 0 RETURN a.n, length(p)")
                .size(),
            5u);
}

// Long ways of which one end is in the middle of many, and the other at the end of a chain.
TEST_F(ShortestTest, HubAndChain_PathGoesAlong) {
  MakeGraph(400, 0);
  const Token r = *graph_.AddTypeName("R");
  for (size_t i = 1; i < 300; ++i) {
    ASSERT_TRUE(graph_.CreateEdge(ids_[0], ids_[i], r, {}).ok());
    ASSERT_TRUE(graph_.CreateEdge(ids_[i], ids_[1 + i % 299], r, {}).ok());
  }
  for (size_t i = 300; i < 400; ++i) {
    ASSERT_TRUE(graph_.CreateEdge(ids_[i - 1], ids_[i], r, {}).ok());
  }
  const auto length = [this](const std::string& pattern) {
    return Run("MATCH (a {n: 0}), (b {n: 399}) MATCH p = shortestPath(" + pattern +
               ") RETURN length(p)");
  };
  using Strings = std::vector<std::string>;
  EXPECT_EQ(length("(a)-[:R*]->(b)"), Strings{"101"});
  EXPECT_EQ(length("(b)<-[:R*]-(a)"), Strings{"101"});
  EXPECT_EQ(length("(b)-[:R*]-(a)"), Strings{"101"});
  EXPECT_EQ(length("(a)-[:R*..101]-(b)"), Strings{"101"});
  EXPECT_EQ(length("(a)-[:R*..100]-(b)"), Strings{});
  EXPECT_EQ(length("(b)-[:R*]->(a)"), Strings{});
  EXPECT_EQ(length("(a)-[:R*0..]-(a)"), Strings{"0"});
}

// A selector chooses for each pair of ends, and a node and itself are one.
TEST_F(ShortestTest, AnyShortest_FromANodeToItself_IsItsShortestCycle) {
  MakeGraph(12, 40);
  const auto paths =
      Run("MATCH p = ANY SHORTEST (a)-[:R|S]->{1,4}(b) RETURN a.n * 1000 + b.n * 10 + length(p)");
  const auto trails =
      Run("MATCH p = (a)-[:R|S]->{1,4}(b) WITH a, b, min(length(p)) AS length "
          "RETURN a.n * 1000 + b.n * 10 + length");
  EXPECT_EQ(paths, trails);
  EXPECT_EQ(Run("MATCH p = ANY SHORTEST (a)-[:R|S]->{1,4}(a) RETURN a.n * 10 + length(p)"),
            Run("MATCH p = (a)-[:R|S]->{1,4}(a) WITH a, min(length(p)) AS length "
                "RETURN a.n * 10 + length"));
}

}  // namespace
}  // namespace pulse::cypher
