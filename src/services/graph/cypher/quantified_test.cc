// Quantified paths against trails that the test finds by itself, and what is none.
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "services/graph/cypher/test_random_graph.h"
#include "services/graph/model/text.h"
#include "services/graph/syntax/error.h"

namespace pulse::cypher {
namespace {

class QuantifiedPathTest : public RandomGraphTest {
 protected:
  // A relationship of the brackets, and the node behind it.
  struct Hop {
    int direction = 0;  // 1: out, -1: in, 0: both
    std::string type;   // empty: any
    std::string label;  // of the node
  };
  struct Sample {
    std::vector<Hop> hops;
    std::string label;      // of the first node
    bool rising = false;    // WHERE the last node's number is more than the first one's
    size_t least_edge = 0;  // [r1 WHERE r1.n >= least_edge]
    size_t min = 0, max = 0;
    std::string how_often;

    std::string Text() const {
      std::string text = "((x0" + (label.empty() ? "" : ":" + label) + ")";
      for (size_t i = 0; i < hops.size(); ++i) {
        const std::string number = std::to_string(i + 1);
        text += hops[i].direction < 0 ? "<-[r" : "-[r";
        text += number + (hops[i].type.empty() ? "" : ":" + hops[i].type);
        if (i == 0 && least_edge > 0) text += " WHERE r1.n >= " + std::to_string(least_edge);
        text += hops[i].direction > 0 ? "]->(x" : "]-(x";
        text += number + (hops[i].label.empty() ? "" : ":" + hops[i].label) + ")";
      }
      if (rising) text += " WHERE x0.n < x" + std::to_string(hops.size()) + ".n";
      return text + ")" + how_often;
    }
    // "[x0, r1, x1]" as lists of numbers.
    std::string Groups() const {
      std::string text = "[v IN x0 | v.n]";
      for (size_t i = 1; i <= hops.size(); ++i) {
        const std::string number = std::to_string(i);
        text += ", [v IN r" + number + " | v.n], [v IN x" + number + " | v.n]";
      }
      return text;
    }
  };

  Sample Make() {
    Sample sample;
    const auto name = [this](const char* names, size_t n) {
      return random_() % 3 != 0 ? std::string() : std::string(1, names[random_() % n]);
    };
    sample.label = name("AB", 2);
    for (size_t i = 1 + random_() % 3; i > 0; --i) {
      sample.hops.push_back({static_cast<int>(random_() % 3) - 1, name("RST", 3), name("AB", 2)});
    }
    sample.rising = random_() % 4 == 0;
    sample.least_edge = random_() % 3 == 0 ? random_() % 4 : 0;
    const size_t all = edges_.size();
    switch (random_() % 6) {
      case 0:
        sample.min = 1, sample.max = all, sample.how_often = "+";
        break;
      case 1:
        sample.min = 0, sample.max = all, sample.how_often = "*";
        break;
      case 2:
        sample.min = sample.max = 1 + random_() % 3;
        sample.how_often = Concat("{", sample.min, "}");
        break;
      case 3:
        sample.min = random_() % 3, sample.max = all,
        sample.how_often = Concat("{", sample.min, ",}");
        break;
      case 4:
        sample.max = 1 + random_() % 3, sample.how_often = Concat("{,", sample.max, "}");
        break;
      default:
        sample.min = random_() % 3, sample.max = 1 + sample.min + random_() % 2;
        sample.how_often = Concat("{", sample.min, ", ", sample.max, "}");
    }
    return sample;
  }

  // A trail as it is found: nodes, one more than relationships.
  struct Trail {
    std::vector<size_t> nodes, edges;
  };
  // All trails from a node, without the relationships in `used`.
  void Walk(const Sample& sample, Trail* trail, const std::vector<size_t>& used,
            const std::function<void()>& found) {
    const size_t hops = sample.hops.size(), length = trail->edges.size();
    const auto has = [this](size_t node, const std::string& label) {
      return label.empty() || nodes_[node].contains(label);
    };
    if (length % hops == 0) {
      const size_t begin = length - std::min(length, hops);
      if (length > 0 && sample.rising && trail->nodes[begin] >= trail->nodes[length]) return;
      const size_t times = length / hops;
      if (times >= sample.min) found();
      if (times >= sample.max || !has(trail->nodes.back(), sample.label)) return;
    }
    const Hop& hop = sample.hops[length % hops];
    const size_t node = trail->nodes.back();
    for (size_t e = 0; e < edges_.size(); ++e) {
      const auto is = [e](const std::vector<size_t>& list) {
        return std::find(list.begin(), list.end(), e) != list.end();
      };
      const Edge& edge = edges_[e];
      if (is(trail->edges) || is(used) || (!hop.type.empty() && edge.type != hop.type)) continue;
      if (length % hops == 0 && e < sample.least_edge) continue;
      for (const int direction : {1, -1}) {
        if (hop.direction == -direction) continue;
        if ((direction > 0 ? edge.from : edge.to) != node) continue;
        if (direction < 0 && hop.direction == 0 && edge.from == edge.to) continue;  // a loop, once
        const size_t next = direction > 0 ? edge.to : edge.from;
        if (!has(next, hop.label)) continue;
        trail->edges.push_back(e);
        trail->nodes.push_back(next);
        Walk(sample, trail, used, found);
        trail->edges.pop_back();
        trail->nodes.pop_back();
      }
    }
  }

  static std::string ListOf(const std::vector<size_t>& numbers) {
    std::string text = "[";
    for (const size_t number : numbers) text += Concat(text.size() > 1 ? ", " : "", number);
    return text + "]";
  }
  // As Groups() has them.
  static std::string GroupsOf(const Sample& sample, const Trail& trail) {
    const size_t hops = sample.hops.size();
    std::string text;
    for (size_t i = 0; i <= hops; ++i) {
      std::vector<size_t> nodes, edges;
      for (size_t at = 0; at < trail.edges.size(); at += hops) {
        nodes.push_back(trail.nodes[at + i]);
        if (i > 0) edges.push_back(trail.edges[at + i - 1]);
      }
      if (i > 0) text += ", " + ListOf(edges) + ", ";
      text += ListOf(nodes);
    }
    return text;
  }
};

TEST_F(QuantifiedPathTest, RandomPaths_FromEitherEndAndBetween_AreAllTrails) {
  size_t all = 0;
  for (int round = 0; round < 12 && !HasFailure(); ++round) {
    graph_ = MemoryGraph();
    ids_.clear();
    nodes_.clear();
    edges_.clear();
    MakeGraph(6, 8);
    for (int i = 0; i < 25 && !HasFailure(); ++i) {
      const Sample sample = Make();
      SCOPED_TRACE(sample.Text());
      std::vector<std::string> rows, even, before, paths;
      for (size_t node = 0; node < nodes_.size(); ++node) {
        Trail trail{{node}, {}};
        Walk(sample, &trail, {}, [&] {
          const std::string text =
              Concat("[", node, ", ", GroupsOf(sample, trail), ", ", trail.nodes.back(), "]");
          rows.push_back(text);
          if (trail.nodes.back() % 2 == 0) even.push_back(text);
          paths.push_back(Concat("[", ListOf(trail.nodes), ", ", ListOf(trail.edges), "]"));
        });
        // Behind a relationship that it may not walk again.
        for (size_t e = 0; e < edges_.size(); ++e) {
          if (edges_[e].to != node || edges_[e].type == "S") continue;
          Walk(sample, &trail, {e},
               [&] { before.push_back(Concat("[", e, ", ", GroupsOf(sample, trail), "]")); });
        }
      }
      all += rows.size();
      for (auto* list : {&rows, &even, &before, &paths}) std::sort(list->begin(), list->end());
      const std::string path = sample.Text();
      const std::string wanted = "RETURN [s.n, " + sample.Groups() + ", e.n]";
      EXPECT_EQ(Run("MATCH (s)" + path + "(e) " + wanted), rows);
      EXPECT_EQ(Run("MATCH (e) WHERE e.n % 2 = 0 MATCH (s) " + path + " (e) " + wanted), even);
      EXPECT_EQ(Run("MATCH (e) WHERE e.n % 2 = 0 MATCH (s) MATCH (s)" + path + "(e) " + wanted),
                even);
      EXPECT_EQ(Run("MATCH ()-[q:R|T]->()" + path + " RETURN [q.n, " + sample.Groups() + "]"),
                before);
      EXPECT_EQ(Run("MATCH p = " + path +
                    " RETURN [[v IN nodes(p) | v.n], [v IN relationships(p) | v.n]]"),
                paths);
      EXPECT_EQ(Run("MATCH " + path + " RETURN count(*)"),
                std::vector<std::string>{std::to_string(rows.size())});
    }
  }
  EXPECT_TRUE(all > 1000 || HasFailure()) << all;
}

TEST_F(QuantifiedPathTest, Neighbours_InOnePattern_ShareNoRelationship) {
  MakeGraph(7, 11);
  const auto count = [this](const std::string& pattern) {
    return Run("MATCH " + pattern + " RETURN count(*)");
  };
  // One, two and three relationships in a row, however they are written.
  EXPECT_EQ(count("((a)-->(b)){2} ((c)-->(d)){1}"), count("()-->()-->()-->()"));
  EXPECT_EQ(count("((a)-->(b)){3}"), count("()-->()-->()-->()"));
  EXPECT_EQ(count("(s)-->() ((a)-->(b)-->(c)){1} (e)"), count("()-->()-->()-->()"));
  EXPECT_EQ(count("((a)-->(b)){1}, ()-->()"), count("()-->(), ()-->()"));
  EXPECT_EQ(count("(s) ((a)-[:R|S]->(b))+ (e)"), count("(s)-[:R|S]->+(e)"));
  EXPECT_EQ(count("(s) ((a)-[:R]-(b))* (s)"), count("(s)-[:R*0..]-(s)"));
  EXPECT_EQ(count("((a)-->(b)-->(a)){1}"), count("(a)-->(b)-->(a)"));
  EXPECT_EQ(Run("MATCH (s) WHERE EXISTS { (s) ((a)-->(b)){2} (:A) } RETURN s.n"),
            Run("MATCH (s)-->()-->(:A) RETURN DISTINCT s.n"));
  EXPECT_EQ(Run("MATCH (s) RETURN COUNT { (s) ((a)-->(b)){2} () }"),
            Run("MATCH (s) RETURN COUNT { (s)-->()-->() }"));
  // The lists are variables as others.
  EXPECT_EQ(Run("MATCH (s) ((a)-[r]->(b)){2} WHERE a[1].n = 3 AND size(r) = 2 RETURN b[1].n"),
            Run("MATCH ()-->({n: 3})-->(b) RETURN b.n"));
  EXPECT_EQ(Run("MATCH (z {n: 3}) MATCH ((a)-->(b) WHERE b.n > z.n){1} RETURN [a[0].n, b[0].n]"),
            Run("MATCH (a)-->(b) WHERE b.n > 3 RETURN [a.n, b.n]"));
  EXPECT_EQ(Run("MATCH (s {n: 0}) OPTIONAL MATCH (s) ((a:Never)-->(b)){2} RETURN [a, b]"),
            std::vector<std::string>{"[null, null]"});
  EXPECT_EQ(Run("MATCH (s {n: 0}) ((a:Never)-->(b))* (e) RETURN [a, b, e.n]"),
            std::vector<std::string>{"[[], [], 0]"});
  EXPECT_EQ(Run("MATCH ((a)-->(b) WHERE EXISTS { (b)-->() }){1} RETURN [a[0].n, b[0].n]"),
            Run("MATCH (a)-->(b) WHERE EXISTS { (b)-->() } RETURN [a.n, b.n]"));
}

// Whatever comes first, each relationship is asked by all nodes of the pattern.
TEST_F(QuantifiedPathTest, VariableLength_AskedByNodesOfItsPattern_IsThatOfWhere) {
  MakeGraph(24, 60);
  struct Asked {
    std::string in, where;
  };
  size_t found = 0;
  for (const auto& [in, where] :
       {Asked{" {n: b.n}", "r.n = b.n"}, Asked{" {n: a.n}", "r.n = a.n"},
        Asked{" WHERE r.n > a.n + b.n AND r.n % 3 > 0", "r.n > a.n + b.n AND r.n % 3 > 0"},
        Asked{" WHERE r.n % 2 = 0 AND r.n > c.n OR r.n < d.n",
              "r.n % 2 = 0 AND r.n > c.n OR r.n < d.n"},
        Asked{" WHERE EXISTS { (b)--({n: r.n % 24}) }", "EXISTS { (b)--({n: r.n % 24}) }"},
        Asked{" WHERE COUNT { (c)--() } < r.n", "COUNT { (c)--() } < r.n"}}) {
    for (const std::string rest : {"(d)-[:R]->(c)", "(b)-->(c), (c)-->(d)", "(c {n: 3})--(d)"}) {
      for (const std::string length : {"*1..3", "*0..2", "*2"}) {
        for (const std::string first : {"a", "b", "c"}) {
          const std::string ends =
              "]->(b), " + rest + " WHERE " + first + ".n % 6 = 1 AND (" + first + ".n < 16) ";
          const std::string result = " RETURN [a.n, b.n, c.n, d.n] + [x IN rs | x.n]";
          const auto within = Run("MATCH (a)-[r" + length + in + ends + "WITH *, r AS rs" + result);
          EXPECT_EQ(within, Run("MATCH (a)-[rs" + length + ends + "AND all(r IN rs WHERE " + where +
                                ")" + result))
              << length << in << ends;
          found += within.size();
        }
      }
    }
  }
  EXPECT_GT(found, 1000u);
}

// A subquery waits for what it names, and for nothing else: the walk ends at what it refuses.
TEST_F(QuantifiedPathTest, VariableLength_AskedBySubqueries_IsAskedOnTheWay) {
  MakeGraph(40, 0);
  const Token r = *graph_.AddTypeName("R");
  const Token n = *graph_.AddKeyName("n");
  // Each node has relationships to all others: more trails than could be listed.
  for (size_t i = 0; i < 40; ++i) {
    for (size_t k = 0; k < 40; ++k) {
      ASSERT_TRUE(graph_.CreateEdge(ids_[i], ids_[k], r, {{n, Value::Int(i == 0 ? 1 : 100)}}).ok());
    }
  }
  using Strings = std::vector<std::string>;
  EXPECT_EQ(Run("MATCH (a {n: 0})-[r:R* WHERE EXISTS { (x {n: r.n}) }]->(b) RETURN count(*)"),
            Strings{"79"});
  EXPECT_EQ(Run("MATCH (a {n: 0})-[r:R* WHERE EXISTS { (x {n: r.n}) WHERE x.n > a.n }]->() "
                "RETURN count(*)"),
            Strings{"79"});
  // Two of them, each with its own ends.
  EXPECT_EQ(
      Run("MATCH p = shortestPath((a {n: 0})-[r*..3 WHERE EXISTS { (x {n: r.n}) }]->(b {n: 7})), "
          "q = shortestPath((c {n: 3})-[*..3]->(d {n: 4})) RETURN length(p) + length(q)"),
      Strings{"2"});
}

// The lists that rows get: nobody reads the others.
TEST_F(QuantifiedPathTest, Plan_KeepsTheListsThatAreRead) {
  MakeGraph(6, 8);
  const auto lists = [this](const std::string& query) {
    const auto plan = MakePlan(query, graph_, nullptr);
    EXPECT_TRUE(plan.ok()) << plan.status();
    std::string text;
    for (const Step& step : plan.ok() ? (*plan)->branches[0].steps : Steps()) {
      if (step.kind != Step::Kind::kQuantified) continue;
      text += Concat(step.edge >= 0 ? "edges " : "", step.groups.size(), ";");
    }
    return text;
  };
  EXPECT_EQ(lists("MATCH (s) ((a)-[r]->(b)){1,3} (e) RETURN count(*)"), "0;");
  EXPECT_EQ(lists("MATCH (s) ((a)-[r]->(b)){1,3} (e) RETURN e.n"), "0;");
  EXPECT_EQ(lists("MATCH (s) ((a)-[r]->(b)){1,3} (e) WITH r, e ORDER BY e.n RETURN r"), "1;");
  EXPECT_EQ(lists("MATCH (s) ((a)-[r]->(b)){1,3} (e) WHERE size(a) > 1 RETURN b"), "2;");
  EXPECT_EQ(lists("MATCH (s) ((a)-->(b)){1} ((c)-->(d)){1} (e) RETURN count(*)"), "edges 0;0;");
  EXPECT_EQ(lists("MATCH p = (s) ((a)-[r]->(b)){1,3} (e) RETURN p"), "edges 3;");
  // And rows are the same with all of them.
  for (const char* rest : {"e.n", "size(r)", "count(*)", "sum(size(a))"}) {
    const std::string match = "MATCH (s:A) ((a)-[r]->(b) WHERE b.n > 0){1,3} (e) ";
    EXPECT_EQ(Run(match + "RETURN " + rest),
              Run(match + "WITH *, COUNT { (s)-->() } AS all RETURN " + rest))
        << rest;
  }
}

TEST_F(QuantifiedPathTest, ManyHops_AreRefusedAndPlanningCanBeEnded) {
  MakeGraph(2, 2);
  const auto path = [](const char* name, size_t hops) {
    std::string text = Concat("((", name, "0)");
    for (size_t i = 1; i <= hops; ++i) text += Concat("-->(", name, i, " {n: ", i, "})");
    return text + "){1,2}";
  };
  const auto why = [this](const std::string& query, const PlanOptions& options) {
    const absl::Status status = MakePlan(query, graph_, nullptr, options).status();
    return std::string(status.message());
  };
  EXPECT_NE(why("MATCH " + path("a", 4001) + " RETURN 1", {}).find("at most 4000 relationships"),
            std::string::npos);
  EXPECT_NE(why("MATCH " + path("a", 2100) + " " + path("b", 2100) + " RETURN 1", {})
                .find("more than 4000 steps"),
            std::string::npos);
  EXPECT_EQ(why("MATCH " + path("a", 3900) + " RETURN 1", {}), "");
  // So often is it asked, at least, that it can end within the brackets.
  const auto asked = [&](size_t hops) {
    size_t times = 0;
    const StopHook count = [&times] { return ++times, false; };
    PlanOptions options;
    options.stop = &count;
    EXPECT_EQ(why("MATCH " + path("a", hops) + " RETURN 1", options), "");
    return times;
  };
  const size_t all = asked(3900);
  for (const size_t at : {all / 2, all}) {
    size_t times = 0;
    const StopHook stop = [&] { return ++times >= at; };
    PlanOptions options;
    options.stop = &stop;
    EXPECT_EQ(MakePlan("MATCH " + path("a", 3900) + " RETURN 1", graph_, nullptr, options)
                  .status()
                  .code(),
              absl::StatusCode::kCancelled);
    EXPECT_EQ(times, at);
  }
}

TEST_F(QuantifiedPathTest, Plan_ShowsTheBrackets) {
  MakeGraph(6, 8);
  EXPECT_NE(PlanOf("MATCH (s:A) ((a)-[:R]->(b)<-[:S|T]-(c)){1,3} (e) RETURN e")
                .find("QuantifiedPath -[:R]-> <-[:S|T]- *1..3"),
            std::string::npos)
      << PlanOf("MATCH (s:A) ((a)-[:R]->(b)<-[:S|T]-(c)){1,3} (e) RETURN e");
}

TEST_F(QuantifiedPathTest, Mistakes_HaveAPlaceAndSayWhat) {
  MakeGraph(3, 2);
  const std::pair<const char*, const char*> wrong[] = {
      {"MATCH ((a)){2} RETURN a", "a quantified path has at least one relationship"},
      {"MATCH (((a)-->(b)){2}-->(c)){2} RETURN a", "cannot stand within another one"},
      {"MATCH (((a)-->(b)){2}(c)-->(d)){2} RETURN a", "cannot stand within another one"},
      {"MATCH ((x)-->(y) ((a)-->(b)){2}){2} RETURN a", "cannot stand within another one"},
      {"MATCH ((a)-[*]->(b)){2} RETURN a", "of variable length cannot stand within"},
      {"MATCH ((a)-->+(b)){2} RETURN a", "of variable length cannot stand within"},
      {"MATCH ((a)-->(b))+-->(c) RETURN a", "a node stands between a quantified path and"},
      {"MATCH (a)-->((b)-->(c))+ RETURN a", "a node stands between a relationship and"},
      {"MATCH (a)(b) RETURN a", "between two nodes there is a relationship"},
      {"MATCH (a)((b)-->(c))(d) RETURN a", "says how often it comes"},
      {"MATCH (((a)-->(b))){2} RETURN a", "says how often it comes"},
      {"MATCH (p = (a)-->(b)){2} RETURN a", "cannot have a name"},
      {"MATCH ((a)-->(b)){0} RETURN a", "is at least 1"},
      {"MATCH ((a)-->(b)){3,2} RETURN a", "less than the least"},
      {"MATCH ((a)-->(b)){} RETURN a", "how often"},
      {"MATCH (a) ((a)-->(b)){2} RETURN a", "`a` is already defined"},
      {"MATCH (z) MATCH ((a)-[z]->(b)){2} RETURN a", "`z` is already defined"},
      {"MATCH ((a)-->(b)){2} ((b)-->(c)){2} RETURN a", "`b` is already defined"},
      {"MATCH ((a)-[r]->(b)-[r]->(c)){2} RETURN a", "`r` is already defined"},
      {"MATCH ((a)-->(b)){2} (a) RETURN a", "`a` is no node"},
      {"MATCH ((a)-->(b)){2}-[a]->() RETURN a", "a node stands between"},
      {"MATCH (s) ((a)-->(b) WHERE a.n = s.n){2} RETURN a", "`s`"},
      {"MATCH ((a)-->(b)){2} RETURN a.n", "LIST"},
      {"MATCH p = shortestPath(((a)-->(b))+) RETURN p", "shortest path of a quantified path"},
      {"CREATE ((a)-[:R]->(b)){2}", "variable length cannot be created"},
      {"MERGE ((a)-[:R]->(b)){2}", "variable length cannot be created"},
      {"MATCH (s) WHERE (s)-->() ((a)-->(b))+ RETURN s", "EXISTS { }"},
  };
  for (const auto& [query, why] : wrong) {
    const auto plan = MakePlan(query, graph_, nullptr);
    ASSERT_FALSE(plan.ok()) << query;
    const std::string message(plan.status().message());
    EXPECT_NE(message.find(why), std::string::npos) << query << ": " << message;
    EXPECT_NE(message.find("(line 1, column "), std::string::npos) << query << ": " << message;
  }
}

}  // namespace
}  // namespace pulse::cypher
