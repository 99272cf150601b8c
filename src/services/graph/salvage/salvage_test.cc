#include "services/graph/salvage/salvage.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
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
#include "services/graph/core/wal_records.h"
#include "services/graph/model/text.h"

namespace pulse::graph {
namespace {

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

Facts PropertyFacts(const GraphView& view, const Properties& properties) {
  Facts out;
  for (const auto& [key, value] : properties)
    out.insert(Concat(view.KeyName(key), "=", cypher::ValueText(value, view)));
  return out;
}

std::string EndsText(const GraphView& view, const EdgeRef& edge) {
  return Concat(edge.source, " -", view.TypeName(edge.type), "-> ", edge.target);
}

// All of a view, with both directions compared.
Shown Read(const GraphView& view) {
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

std::vector<std::string> FilesOf(SimFiles& files, const std::string& suffix) {
  std::vector<std::string> out;
  for (const auto& [name, node] : files.names())
    if (name.starts_with("db/") && name.ends_with(suffix)) out.push_back(name);
  return out;
}

struct Result {
  SalvageReport report;
  Shown shown;
};

// Of a directory whose writer was killed.
Result SalvageOf(SimFiles* files) {
  Result out;
  SalvageOptions options;
  options.files = files;
  const auto report = SalvageGraph("db", "new", options);
  EXPECT_TRUE(report.ok()) << report.status();
  if (!report.ok()) return out;
  out.report = *report;
  StoreOptions reading;
  reading.files = files;
  reading.read_only = true;
  const auto store = GraphStore::Open("new", reading);
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

std::string Named(const SalvageReport& report) {
  std::string out;
  for (const std::string& one : report.damages) out += one + "\n";
  return out;
}

TEST(SalvageTest, NothingDamaged_IsTheSameGraph) {
  const uint64_t seed = TestSeed();
  for (uint64_t i = 0; i < 10; ++i) {
    SCOPED_TRACE(Concat("seed ", seed + i));
    History history(seed + i);
    history.Grow(60);
    const auto files = history.files().AfterKill();
    const Result result = SalvageOf(files.get());
    EXPECT_EQ(result.shown, history.now());
    EXPECT_TRUE(result.report.damages.empty()) << Named(result.report);
  }
}

TEST(SalvageTest, EachRunLost_StructureComesFromTheOtherDirection) {
  const uint64_t seed = TestSeed();
  History history(seed);
  SCOPED_TRACE(Concat("seed ", seed));
  history.Grow(60);
  ASSERT_TRUE(history.store()->Checkpoint().ok());
  const auto runs = FilesOf(history.files(), ".run");
  ASSERT_GE(runs.size(), 2u);
  for (const std::string& run : runs) {
    const auto files = history.files().AfterKill();
    files->names().erase(run);
    const Result result = SalvageOf(files.get());
    EXPECT_EQ(result.report.files_lost, 1u);
    EXPECT_NE(Named(result.report).find(run), std::string::npos);
    EXPECT_EQ(result.shown.nodes, history.now().nodes);
    ASSERT_EQ(result.shown.edges.size(), history.now().edges.size());
    history.ExpectSubset(result.shown);
  }
}

TEST(SalvageTest, EachByteOfARun_LosesNoRelationship) {
  const uint64_t seed = TestSeed();
  SCOPED_TRACE(Concat("seed ", seed));
  History history(seed);
  history.Grow(40);
  ASSERT_TRUE(history.store()->Compact().ok());
  ASSERT_TRUE(history.store()->Checkpoint().ok());
  uint64_t lost_values = 0, lost_records = 0, tried = 0;
  for (const std::string& run : FilesOf(history.files(), ".run")) {
    const size_t size = history.files().Content(run).size();
    for (size_t at = history.random()() % 7; at < size; at += 7, ++tried) {
      const auto files = history.files().AfterKill();
      files->Content(run)[at] ^= static_cast<char>(1 + history.random()() % 255);
      const Result result = SalvageOf(files.get());
      ASSERT_FALSE(result.report.damages.empty()) << run << " at " << at;
      ASSERT_EQ(result.shown.nodes, history.now().nodes) << run << " at " << at;
      ASSERT_EQ(result.shown.edges.size(), history.now().edges.size()) << run << " at " << at;
      history.ExpectSubset(result.shown);
      lost_values += result.report.values_lost;
      lost_records += result.report.records_lost;
    }
  }
  EXPECT_GT(tried, 100u);
  EXPECT_GT(lost_values, 0u);
  EXPECT_GT(lost_records, 0u);
}

TEST(SalvageTest, ByteOfTheLog_LosesOneCommit) {
  const uint64_t seed = TestSeed();
  SCOPED_TRACE(Concat("seed ", seed));
  History history(seed);
  history.Grow(1);
  // Without the zeros that the next records find.
  const auto size_of = [&](const std::string& segment) {
    return history.files().Content(segment).find_last_not_of('\0') + 1;
  };
  std::map<std::string, size_t> grown;  // what it has written of each segment
  for (const std::string& segment : FilesOf(history.files(), ".wal")) {
    grown[segment] = size_of(segment);
  }
  // Each commit has a node and nothing else, so that what is lost can be counted.
  for (int i = 0; i < 60; ++i) {
    const auto tx = *history.store()->Begin();
    ASSERT_TRUE(tx->CreateNode({}, {{*tx->AddKeyName("w"), Value::Int(i)}}).ok());
    ASSERT_TRUE(tx->Commit().ok());
  }
  const Shown all = Read(**history.store()->Snapshot());
  for (const std::string& segment : FilesOf(history.files(), ".wal")) {
    const bool last = segment == FilesOf(history.files(), ".wal").back();
    for (size_t at = 0; at < size_of(segment); at += 3) {
      const auto files = history.files().AfterKill();
      files->Content(segment)[at] ^= 1;
      const Result result = SalvageOf(files.get());
      if (at < 32) {
        ASSERT_EQ(result.shown.nodes.size(), all.nodes.size()) << "the segment's head, " << at;
        continue;
      }
      // The first commits made more: its names and nodes are those of Grow().
      if (at < grown[segment]) continue;
      ASSERT_EQ(result.shown.nodes.size() + 1, all.nodes.size()) << segment << " at " << at;
      // At the very end it may be what a kill leaves.
      if (!last) {
        ASSERT_EQ(result.report.commits_lost, 1u) << Named(result.report);
      }
    }
  }
}

// The log that a close leaves has no record.
TEST(SalvageTest, ClosedDatabaseWithoutManifest_HasLostNoCommit) {
  SimFiles writing;
  {
    StoreOptions options;
    options.files = &writing;
    options.background = false;
    const auto store = *GraphStore::Open("db", options);
    const auto tx = *store->Begin();
    ASSERT_TRUE(tx->CreateNode({}, {}).ok());
    ASSERT_TRUE(tx->Commit().ok());
    ASSERT_TRUE(store->Close().ok());
  }
  const auto files = writing.AfterKill();
  files->names().erase("db/MANIFEST");
  const Result result = SalvageOf(files.get());
  EXPECT_EQ(result.report.commits_lost, 0u) << Named(result.report);
  EXPECT_EQ(result.shown.nodes.size(), 1u);
}

// The runs have the relationships of all commits, which does not make up for the log.
TEST(SalvageTest, LogThatLostItsEndBehindAFlush_IsNamed) {
  SimFiles writing;
  StoreOptions options;
  options.files = &writing;
  options.background = false;
  auto store = *GraphStore::Open("db", options);
  std::string* log = nullptr;
  for (auto& [name, node] : writing.names()) {
    if (name.ends_with(".wal")) log = &node->written;
  }
  ASSERT_NE(log, nullptr);
  size_t cut = 0;
  for (int i = 0; i < 3; ++i) {
    const auto tx = *store->Begin();
    const NodeId node = *tx->CreateNode({}, {});
    ASSERT_TRUE(tx->CreateEdge(node, node, *tx->AddTypeName("T"), {}).ok());
    cut = log->size();
    ASSERT_TRUE(tx->Commit().ok());
  }
  ASSERT_TRUE(store->Flush().ok());
  log->resize(cut);
  const auto files = writing.AfterKill();
  options.files = files.get();
  options.read_only = true;
  const auto reading = GraphStore::Open("db", options);
  ASSERT_TRUE(reading.ok()) << reading.status();
  EXPECT_NE((*reading)->stats().damage.find("the log has lost its end"), std::string::npos);
  EXPECT_EQ(SalvageOf(files.get()).report.commits_lost, 1u);
}

// No record is damaged; the next segment says up to where the one before had come.
TEST(SalvageTest, SegmentThatLacksItsLastCommit_IsNamedAndCounted) {
  History history(TestSeed());
  for (int i = 0; i < 100; ++i) {
    const auto tx = *history.store()->Begin();
    ASSERT_TRUE(tx->CreateNode({}, {{*tx->AddKeyName("w"), Value::Int(i)}}).ok());
    ASSERT_TRUE(tx->Commit().ok());
  }
  const auto files = history.files().AfterKill();
  const std::string segment = FilesOf(*files, ".wal").front();
  WalSegmentReader reader(files.get(), "db", 1);
  WalRecord record;
  uint64_t last = 0;
  for (uint64_t at = kWalSegmentHeader; *reader.ReadAt(at, &record); at = record.end) last = at;
  files->Content(segment).resize(last);
  const Result result = SalvageOf(files.get());
  EXPECT_EQ(result.report.commits_lost, 1u) << Named(result.report);
  EXPECT_NE(Named(result.report).find("lacks what was written before"), std::string::npos)
      << Named(result.report);
  EXPECT_EQ(result.shown.nodes.size(), 99u);
}

TEST(SalvageTest, AnythingDamaged_IsASoundSubset) {
  const uint64_t seed = TestSeed();
  const int rounds = testing_util::LongTests() ? 2000 : testing_util::Rounds(150);
  int lost_something = 0;
  for (int i = 0; i < rounds; ++i) {
    SCOPED_TRACE(Concat("seed ", seed + static_cast<uint64_t>(i)));
    History history(seed + static_cast<uint64_t>(i));
    auto& random = history.random();
    history.Grow(20 + static_cast<int>(random() % 40));
    const auto files = history.files().AfterKill();
    std::vector<std::string> names = FilesOf(*files, "");
    std::erase(names, "db/LOCK");
    bool log_end = false;
    std::string did;
    const uint64_t damages = 1 + random() % 3;
    for (uint64_t k = 0; k < damages; ++k) {
      const std::string name = names[random() % names.size()];
      if (!files->names().contains(name)) continue;
      std::string& content = files->Content(name);
      log_end |= name.ends_with(".wal");
      switch (random() % 4) {
        case 0:
          did += " removed " + name;
          files->names().erase(name);
          break;
        case 1:
          content.resize(random() % (content.size() + 1));
          did += Concat(" cut ", name, " to ", content.size());
          break;
        default:
          if (content.empty()) break;
          const size_t at = random() % content.size();
          content[at] ^= static_cast<char>(1 + random() % 255);
          did += Concat(" changed ", name, " at ", at);
      }
    }
    SCOPED_TRACE(did);
    const bool nothing = FilesOf(*files, ".run").empty() && FilesOf(*files, ".ckpt").empty() &&
                         FilesOf(*files, ".wal").empty();
    if (nothing) {
      // Without a manifest, too, there is no database; with one all of it is lost.
      SalvageOptions options;
      options.files = files.get();
      const auto report = SalvageGraph("db", "new", options);
      EXPECT_TRUE(absl::IsNotFound(report.status()) || (report.ok() && report->nodes == 0));
      continue;
    }
    const Result result = SalvageOf(files.get());
    history.ExpectSubset(result.shown);
    if (result.shown == history.now()) continue;
    ++lost_something;
    // A cut of the log's end is what a kill leaves.
    EXPECT_TRUE(!result.report.damages.empty() || log_end);
    if (testing::Test::HasFailure()) return;
  }
  EXPECT_GT(lost_something, rounds / 4);
}

TEST(SalvageTest, ConstraintOfRelationships_IsKeptUnlessAnythingIsDamaged) {
  History history(1);
  ASSERT_TRUE(history.store()
                  ->CreateIndex({.name = "typed",
                                 .label = "NONE",
                                 .keys = {"w"},
                                 .constraint = true,
                                 .of_edges = true,
                                 .type = "INTEGER"})
                  .ok());
  history.Grow(20);
  ASSERT_TRUE(history.store()->Checkpoint().ok());
  const auto whole = history.files().AfterKill();
  EXPECT_TRUE(SalvageOf(whole.get()).report.damages.empty());
  StoreOptions options;
  options.files = whole.get();
  options.read_only = true;
  EXPECT_EQ((*GraphStore::Open("new", options))->Indexes(), history.store()->Indexes());
  EXPECT_EQ(whole->Content("new/MANIFEST")[8], 3);

  const auto files = history.files().AfterKill();
  files->names().erase(FilesOf(*files, ".run").front());
  const Result result = SalvageOf(files.get());
  EXPECT_NE(Named(result.report).find("constraint typed is left out"), std::string::npos)
      << Named(result.report);
  options.files = files.get();
  EXPECT_TRUE((*GraphStore::Open("new", options))->Indexes().empty());
}

TEST(SalvageTest, ConstraintWithNodesLost_IsLeftOutAndNamed) {
  History history(1);
  ASSERT_TRUE(
      history.store()
          ->CreateIndex(
              {.name = "people", .label = "A", .keys = {"w"}, .constraint = true, .unique = true})
          .ok());
  ASSERT_TRUE(history.store()->CreateIndex({.name = "plain", .label = "A", .keys = {"text"}}).ok());
  auto tx = *history.store()->Begin();
  const Token label = *tx->AddLabelName("A");
  ASSERT_TRUE(tx->CreateNode({&label, 1}, {{*tx->AddKeyName("w"), Value::Int(1)}}).ok());
  ASSERT_TRUE(tx->Commit().ok());
  ASSERT_TRUE(history.store()->Checkpoint().ok());
  const auto whole = history.files().AfterKill();
  EXPECT_TRUE(SalvageOf(whole.get()).report.damages.empty());
  StoreOptions options;
  options.files = whole.get();
  options.read_only = true;
  EXPECT_EQ((*GraphStore::Open("new", options))->Indexes().size(), 2u);

  const auto files = history.files().AfterKill();
  std::string& checkpoint = files->Content(FilesOf(*files, ".ckpt").front());
  checkpoint.resize(checkpoint.size() - 1);
  const Result result = SalvageOf(files.get());
  EXPECT_NE(Named(result.report).find("constraint people is left out"), std::string::npos)
      << Named(result.report);
  options.files = files.get();
  const auto indexes = (*GraphStore::Open("new", options))->Indexes();
  ASSERT_EQ(indexes.size(), 1u);
  EXPECT_EQ(indexes[0].name, "plain");
}

TEST(SalvageTest, NoDatabaseOrAnotherThere_IsRefused) {
  SimFiles files;
  SalvageOptions options;
  options.files = &files;
  EXPECT_EQ(SalvageGraph("nowhere", "new", options).status().code(), absl::StatusCode::kNotFound);
  History history(1);
  history.Grow(2);
  options.files = &history.files();
  history.files().Put("new/something", "of somebody");
  EXPECT_EQ(SalvageGraph("db", "new", options).status().code(),
            absl::StatusCode::kFailedPrecondition);
}

TEST(SalvageTest, NoSpaceForTheNewOne_IsAnErrorAndTheOldOneStays) {
  History history(3);
  history.Grow(40);
  const auto files = history.files().AfterKill();
  std::map<std::string, std::string> before;
  for (const auto& [name, node] : files->names()) before[name] = node->written;
  uint64_t used = 0;
  for (const auto& [name, content] : before) used += content.size();
  files->SetCapacity(used + 500);
  SalvageOptions options;
  options.files = files.get();
  EXPECT_EQ(SalvageGraph("db", "new", options).status().code(),
            absl::StatusCode::kResourceExhausted);
  for (const auto& [name, content] : before) EXPECT_EQ(files->Content(name), content) << name;
  // With space it is tried again, in the same place.
  files->SetCapacity(uint64_t{1} << 40);
  const auto again = SalvageGraph("db", "new", options);
  EXPECT_TRUE(again.ok()) << again.status();
}

TEST(SalvageTest, WriterWhoseLockIsGone_IsRefused) {
  const testing_util::ScratchPath from("salvage-from"), to("salvage-to");
  auto writer = GraphStore::Open(from.get()).value();
  std::filesystem::remove(from.get() + "/LOCK");
  const absl::Status refused = SalvageGraph(from.get(), to.get(), {}).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition) << refused;
  EXPECT_FALSE(std::filesystem::exists(to.get()));
  writer.reset();
  std::filesystem::remove_all(from.get());
}

}  // namespace
}  // namespace pulse::graph
