// A graph database that was written for a while, so that what is salvaged of it can be compared
// with every state that was ever committed. For tests only.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/testing.h"
#include "services/graph/core/store.h"
#include "services/graph/core/test_sim_files.h"
#include "services/graph/model/text.h"
#include "services/graph/salvage/salvage.h"

namespace pulse::graph {

using cypher::Concat;
using cypher::EdgeId;
using cypher::EdgeRef;
using cypher::GraphView;
using cypher::NodeId;
using cypher::Properties;
using cypher::Token;
using cypher::Value;
using testing_util::TestSeed;

// A node's or a relationship's texts: "label A", "w=3", "1 -T-> 2".
using Facts = std::set<std::string>;

struct Shown {
  std::map<NodeId, Facts> nodes;
  std::map<EdgeId, Facts> edges;
  bool operator==(const Shown&) const = default;
};

inline Facts PropertyFacts(const GraphView& view, const Properties& properties) {
  Facts out;
  for (const auto& [key, value] : properties)
    out.insert(Concat(view.KeyName(key), "=", cypher::ValueText(value, view)));
  return out;
}

inline std::string EndsText(const GraphView& view, const EdgeRef& edge) {
  return Concat(edge.source, " -", view.TypeName(edge.type), "-> ", edge.target);
}

// All of a view, with both directions compared.
inline Shown Read(const GraphView& view) {
  Shown out;
  std::vector<NodeId> ids(256);
  Properties properties;
  std::vector<Token> labels;
  std::set<std::pair<EdgeId, std::string>> incoming, outgoing;
  uint64_t position = 0;
  while (const size_t n = *view.ScanNodes(cypher::kNoToken, &position, ids)) {
    for (size_t i = 0; i < n; ++i) {
      EXPECT_TRUE(view.ReadNodeProperties(ids[i], &properties).ok());
      Facts facts = PropertyFacts(view, properties);
      EXPECT_TRUE(view.ReadLabels(ids[i], &labels).ok());
      for (const Token label : labels) facts.insert("label " + view.LabelName(label));
      out.nodes[ids[i]] = facts;
      cypher::NeighbourBatch batch;
      cypher::ExpandPosition at;
      while (at.node < 1) {
        batch.clear();
        EXPECT_TRUE(view.Expand({&ids[i], 1}, cypher::Direction::kIn, {}, 4096, &at, &batch).ok());
        for (size_t k = 0; k < batch.node.size(); ++k) {
          const EdgeRef edge{batch.edge[k], batch.node[k], ids[i], batch.type[k]};
          incoming.emplace(edge.id, EndsText(view, edge));
        }
      }
    }
  }
  std::vector<EdgeRef> edges(256);
  position = 0;
  while (const size_t n = *view.ScanEdges({}, &position, edges)) {
    for (size_t i = 0; i < n; ++i) {
      EXPECT_TRUE(view.ReadEdgeProperties(edges[i], &properties).ok());
      Facts facts = PropertyFacts(view, properties);
      const std::string ends = EndsText(view, edges[i]);
      facts.insert(ends);
      EXPECT_TRUE(out.edges.emplace(edges[i].id, facts).second) << "twice: " << edges[i].id;
      outgoing.emplace(edges[i].id, ends);
      EXPECT_TRUE(out.nodes.contains(edges[i].source) && out.nodes.contains(edges[i].target))
          << ends << " has no node";
    }
  }
  EXPECT_EQ(outgoing, incoming);
  return out;
}

// A database that was written for a while, and every fact of it that was ever committed.
class History {
 public:
  explicit History(uint64_t seed) : random_(seed) {
    options_.files = &files_;
    options_.background = false;
    options_.log_segment_bytes = 2000;
    store_ = *GraphStore::Open("db", options_);
  }

  void Grow(int commits) {
    for (int i = 0; i < commits; ++i) {
      Commit();
      const uint64_t dice = random_() % 100;
      if (dice < 6) {
        ASSERT_TRUE(store_->Flush().ok());
      } else if (dice == 50) {
        ASSERT_TRUE(store_->Compact().ok());
      } else if (dice == 60 || dice == 61) {
        ASSERT_TRUE(store_->Checkpoint().ok());
      }
    }
  }
  GraphStore* store() { return store_.get(); }
  SimFiles& files() { return files_; }
  std::mt19937_64& random() { return random_; }
  const Shown& now() const { return now_; }
  // Whether all that is shown was so at some commit.
  void ExpectSubset(const Shown& shown) const {
    for (const auto& [id, facts] : shown.nodes) {
      const auto it = ever_.nodes.find(id);
      ASSERT_NE(it, ever_.nodes.end()) << "node " << id;
      for (const std::string& fact : facts)
        EXPECT_TRUE(Known(fact, it->second)) << "node " << id << ": " << fact;
    }
    for (const auto& [id, facts] : shown.edges) {
      const auto it = ever_.edges.find(id);
      ASSERT_NE(it, ever_.edges.end()) << "relationship " << id;
      for (const std::string& fact : facts)
        EXPECT_TRUE(Known(fact, it->second)) << "relationship " << id << ": " << fact;
    }
  }

 private:
  static bool Known(const std::string& fact, const Facts& facts) {
    // Names that were lost: their facts have another text.
    return facts.contains(fact) || fact.find("lost_") != std::string::npos;
  }

  void Commit() {
    const auto tx = *store_->Begin();
    const size_t steps = 1 + random_() % 4;
    for (size_t i = 0; i < steps; ++i) Step(tx.get());
    ASSERT_TRUE(tx->Commit().ok());
    nodes_.clear();
    edges_.clear();
    const auto view = *store_->Snapshot();
    now_ = Read(*view);
    for (const auto& [id, facts] : now_.nodes) {
      ever_.nodes[id].insert(facts.begin(), facts.end());
      nodes_.push_back(id);
    }
    for (const auto& [id, facts] : now_.edges) ever_.edges[id].insert(facts.begin(), facts.end());
    std::vector<EdgeRef> refs(1024);
    uint64_t position = 0;
    while (const size_t n = *view->ScanEdges({}, &position, refs))
      edges_.insert(edges_.end(), refs.begin(), refs.begin() + static_cast<long>(n));
  }

  void Step(cypher::DatabaseTransaction* tx) {
    const uint64_t dice = random_() % 20;
    const Token key = *tx->AddKeyName(random_() % 2 == 0 ? "w" : "text");
    const Value value = random_() % 2 == 0 ? Value::Int(static_cast<int64_t>(random_() % 100))
                                           : Value::String(std::string(random_() % 40, 'x'));
    const Token label = *tx->AddLabelName(random_() % 2 == 0 ? "A" : "B");
    if (nodes_.size() < 4 || dice < 4) {
      // Now and then in another group of 64.
      for (uint64_t i = 0; i < 1 + random_() % 30; ++i)
        ASSERT_TRUE(tx->CreateNode({&label, 1}, {{key, value}}).ok());
      return;
    }
    const NodeId node = nodes_[random_() % nodes_.size()];
    if (dice < 12) {
      const NodeId to = nodes_[random_() % nodes_.size()];
      if (!*tx->NodeExists(node) || !*tx->NodeExists(to)) return;
      ASSERT_TRUE(
          tx->CreateEdge(node, to, *tx->AddTypeName(random_() % 2 == 0 ? "T" : "U"), {{key, value}})
              .ok());
    } else if (dice < 14) {
      if (!*tx->NodeExists(node)) return;
      ASSERT_TRUE(tx->SetNodeProperty(node, key, value).ok());
    } else if (dice == 14) {
      if (!*tx->NodeExists(node)) return;
      ASSERT_TRUE(tx->AddLabel(node, label).ok());
    } else if (dice == 15) {
      (void)tx->DeleteNode(node).ok();  // one without relationships
    } else if (!edges_.empty()) {
      const EdgeRef edge = edges_[random_() % edges_.size()];
      if (!*tx->EdgeExists(edge)) return;
      if (dice < 18) {
        ASSERT_TRUE(tx->SetEdgeProperty(edge, key, value).ok());
      } else {
        ASSERT_TRUE(tx->DeleteEdge(edge).ok());
      }
    }
  }

  std::mt19937_64 random_;
  SimFiles files_;
  StoreOptions options_;
  std::unique_ptr<GraphStore> store_;
  Shown now_, ever_;
  std::vector<NodeId> nodes_;
  std::vector<EdgeRef> edges_;
};

inline std::vector<std::string> FilesOf(SimFiles& files, const std::string& suffix) {
  std::vector<std::string> out;
  for (const auto& [name, node] : files.names())
    if (name.starts_with("db/") && name.ends_with(suffix)) out.push_back(name);
  return out;
}

struct SalvageResult {
  SalvageReport report;
  Shown shown;
};

inline absl::StatusOr<std::unique_ptr<GraphStore>> OpenToRead(SimFiles* files,
                                                              const std::string& path) {
  StoreOptions options;
  options.files = files;
  options.read_only = true;
  return GraphStore::Open(path, options);
}

inline absl::StatusOr<SalvageReport> TrySalvage(SimFiles* files) {
  SalvageOptions options;
  options.files = files;
  return SalvageGraph("db", "new", options);
}

// Of a directory whose writer was killed.
inline SalvageResult SalvageOf(SimFiles* files) {
  SalvageResult out;
  const auto report = TrySalvage(files);
  EXPECT_TRUE(report.ok()) << report.status();
  if (!report.ok()) return out;
  out.report = *report;
  const auto store = OpenToRead(files, "new");
  EXPECT_TRUE(store.ok()) << store.status();
  if (!store.ok()) return out;
  out.shown = Read(**(*store)->Snapshot());
  EXPECT_EQ(out.report.nodes, out.shown.nodes.size());
  EXPECT_EQ(out.report.edges, out.shown.edges.size());
  for (const std::string& name : FilesOf(*files, ".run")) {
    if (!name.starts_with("new/")) continue;
    const auto run = RunReader::Open(*files->Map(name));
    EXPECT_TRUE(run.ok() && (*run)->Verify().ok());
  }
  return out;
}

inline std::string Named(const SalvageReport& report) {
  std::string out;
  for (const std::string& one : report.damages) out += one + "\n";
  return out;
}

class SalvageTest : public ::testing::Test {
 protected:
  // What is salvaged where a kill, and then `damage`, have left the database in files_.
  SalvageResult SalvageAfter(const std::function<void(SimFiles&)>& damage) {
    files_ = history_.files().AfterKill();
    damage(*files_);
    return SalvageOf(files_.get());
  }
  // So many commits of a node with a number each, so that what is lost can be counted.
  void CommitNumbers(int commits) {
    for (int i = 0; i < commits; ++i) {
      const auto tx = *history_.store()->Begin();
      ASSERT_TRUE(tx->CreateNode({}, {{*tx->AddKeyName("w"), Value::Int(i)}}).ok());
      ASSERT_TRUE(tx->Commit().ok());
    }
  }

  const uint64_t seed_ = testing_util::TestSeed();
  const testing::ScopedTrace trace_{__FILE__, __LINE__, Concat("seed ", seed_)};
  History history_{seed_};
  std::unique_ptr<SimFiles> files_;
};

}  // namespace pulse::graph
