// The store against its oracle: random transactions, some at the same time, with flushes,
// compactions, checkpoints, kept snapshots, kills, power cuts, a log cut at every byte, and faults
// of every call.
#include <gtest/gtest.h>

#include <set>
#include <vector>

#include "base/testing.h"
#include "services/graph/core/committed.h"
#include "services/graph/core/store.h"
#include "services/graph/core/test_graph_model.h"
#include "services/graph/core/test_sim_files.h"

namespace pulse::graph {
namespace {

using testing_util::LongTests;
using testing_util::TestSeed;

StoreOptions SimOptions(Files* files) {
  StoreOptions options;
  options.files = files;
  options.background = false;
  options.log_segment_bytes = 3000;
  return options;
}

std::unique_ptr<GraphStore> OpenOk(const StoreOptions& options) {
  auto store = GraphStore::Open("db", options);
  EXPECT_TRUE(store.ok()) << store.status();
  return store.ok() ? *std::move(store) : nullptr;
}

// A kill or a power cut takes nothing that was synced.
std::unique_ptr<GraphStore> OpenWhole(const StoreOptions& options) {
  const auto before = ReadCommitted(options.files, "db");
  EXPECT_TRUE(before.ok()) << before.status();
  auto store = OpenOk(options);
  if (store != nullptr && before.ok() && before->has_value()) {
    const absl::Status there = CheckSyncedIsThere(**before, store->sequence(), "db");
    EXPECT_TRUE(there.ok()) << there;
  }
  return store;
}

std::string DumpNow(GraphStore* store) { return DumpStore(**store->Snapshot()); }

struct OpenTransaction {
  std::unique_ptr<cypher::DatabaseTransaction> tx;
  std::vector<ModelOp> ops;
  Oracle sees;  // what it should see
  uint64_t begun = 0;
};

struct KeptSnapshot {
  std::shared_ptr<const GraphView> view;
  std::string dump;
};

// Without relationships that the same transaction creates and deletes. They are in nobody's way: an
// endpoint may be gone when it commits.
std::vector<ModelOp> Lasting(const std::vector<ModelOp>& ops) {
  std::set<EdgeId> created, passing;
  for (const ModelOp& op : ops) {
    if (op.kind == ModelOp::kEdge) created.insert(op.edge.id);
    if (op.kind == ModelOp::kDeleteEdge && created.contains(op.edge.id)) passing.insert(op.edge.id);
  }
  std::vector<ModelOp> out;
  for (const ModelOp& op : ops) {
    const bool of_edge = op.kind == ModelOp::kEdge || op.kind == ModelOp::kSetEdge ||
                         op.kind == ModelOp::kDeleteEdge;
    if (!of_edge || !passing.contains(op.edge.id)) out.push_back(op);
  }
  return out;
}

// Rounds of a database, which ends with a kill each.
void RunModel(uint64_t seed, int rounds, int steps) {
  RandomOps ops(seed);
  auto& random = ops.random();
  auto files = std::make_unique<SimFiles>();
  Oracle oracle;
  for (int round = 0; round < rounds; ++round) {
    StoreOptions options = SimOptions(files.get());
    options.retain_commits = round % 2 == 0 ? 0 : 5;
    auto store = OpenWhole(options);
    ASSERT_NE(store, nullptr);
    ASSERT_EQ(DumpNow(store.get()), oracle.Dump()) << "after reopening, round " << round;
    std::vector<OpenTransaction> open;
    std::vector<KeptSnapshot> kept;
    std::map<uint64_t, std::string> history{{store->sequence(), oracle.Dump()}};
    for (int step = 0; step < steps; ++step) {
      const uint64_t dice = random() % 100;
      if (open.empty() || (dice < 10 && open.size() < 3)) {
        auto tx = store->Begin();
        ASSERT_TRUE(tx.ok()) << tx.status();
        open.push_back({*std::move(tx), {}, oracle, store->sequence()});
      } else if (dice < 70) {
        OpenTransaction& t = open[random() % open.size()];
        const size_t before = t.ops.size();
        ops.Step(t.tx.get(), &t.ops);
        if (::testing::Test::HasFatalFailure()) return;
        for (size_t i = before; i < t.ops.size(); ++i) t.sees.Apply(t.ops[i]);
        if (random() % 8 == 0) {
          ASSERT_EQ(DumpStore(*t.tx), t.sees.Dump());
        }
      } else if (dice < 88) {
        const size_t which = random() % open.size();
        OpenTransaction t = std::move(open[which]);
        open.erase(open.begin() + static_cast<long>(which));
        if (random() % 10 != 0) {
          const absl::Status status = t.tx->Commit();
          if (!status.ok()) {
            ASSERT_EQ(status.code(), absl::StatusCode::kAborted) << status;
            ASSERT_NE(t.begun, store->sequence()) << "nobody else committed: " << status;
          } else {
            for (const ModelOp& op : Lasting(t.ops)) oracle.Apply(op);
            if (::testing::Test::HasFatalFailure()) return;
            history[store->sequence()] = oracle.Dump();
          }
        }
        t.tx.reset();
        ASSERT_EQ(DumpNow(store.get()), oracle.Dump());
      } else if (dice < 91) {
        if (kept.size() < 3) kept.push_back({*store->Snapshot(), oracle.Dump()});
      } else if (dice < 93 && !kept.empty()) {
        const size_t which = random() % kept.size();
        ASSERT_EQ(DumpStore(*kept[which].view), kept[which].dump);
        kept.erase(kept.begin() + static_cast<long>(which));
      } else if (dice < 95) {
        // Time travel, as far as it is kept.
        const uint64_t now = store->sequence();
        for (uint64_t back = 0; back <= options.retain_commits && back <= now; ++back) {
          const auto it = history.find(now - back);
          if (it == history.end()) continue;
          const auto view = store->Snapshot(now - back);
          ASSERT_TRUE(view.ok()) << view.status();
          ASSERT_EQ(DumpStore(**view), it->second) << back << " commits back";
        }
      } else {
        const absl::Status status = dice < 97   ? store->Flush()
                                    : dice < 98 ? store->Checkpoint()
                                                : store->Compact();
        ASSERT_TRUE(status.ok()) << status;
        ASSERT_EQ(DumpNow(store.get()), oracle.Dump()) << "after maintenance " << dice;
      }
    }
    for (const KeptSnapshot& snapshot : kept) ASSERT_EQ(DumpStore(*snapshot.view), snapshot.dump);
    open.clear();
    kept.clear();
    if (round % 3 == 0) {
      ASSERT_TRUE(store->Close().ok());
    }
    auto after = round % 2 == 0 ? files->AfterKill() : files->AfterPowerCut(random);
    store.reset();
    files = std::move(after);
  }
}

TEST(StoreModel, RandomTransactions_AgreeWithTheOracle) {
  const uint64_t seed = TestSeed();
  const int runs = LongTests() ? 60 : testing_util::Rounds(6);
  for (int i = 0; i < runs; ++i) {
    SCOPED_TRACE(Concat("seed ", seed + static_cast<uint64_t>(i)));
    RunModel(seed + static_cast<uint64_t>(i), 6, 150);
    if (HasFatalFailure()) return;
  }
}

// What may be missing is the newest commits, whatever was flushed of them.
TEST(StoreModel, PowerCutWithoutSync_ShowsAnEarlierState) {
  const uint64_t seed = TestSeed();
  for (uint64_t run = 0; run < 20; ++run) {
    SCOPED_TRACE(Concat("seed ", seed + run));
    RandomOps ops(seed + run);
    SimFiles files;
    StoreOptions options = SimOptions(&files);
    options.sync = false;
    Oracle oracle;
    std::set<std::string> states{oracle.Dump()};
    const auto store = OpenOk(options);
    for (int commit = 0; commit < 40; ++commit) {
      auto tx = *store->Begin();
      std::vector<ModelOp> done;
      for (uint64_t i = 0; i < 1 + ops.random()() % 4; ++i) ops.Step(tx.get(), &done);
      ASSERT_TRUE(tx->Commit().ok());
      for (const ModelOp& op : Lasting(done)) oracle.Apply(op);
      states.insert(oracle.Dump());
      const uint64_t dice = ops.random()() % 10;
      if (dice < 2) {
        ASSERT_TRUE((dice == 0 ? store->Flush() : store->Checkpoint()).ok());
        if (dice == 1) states = {oracle.Dump()};  // no older one
      }
      const auto cut = files.AfterPowerCut(ops.random());
      const auto after = OpenWhole(SimOptions(cut.get()));
      ASSERT_NE(after, nullptr);
      const std::string dump = DumpNow(after.get());
      ASSERT_TRUE(states.contains(dump)) << dump << "is no state that was";
    }
  }
}

TEST(StoreModel, LogCutAtEveryByte_ShowsTheCommitsThatAreWhole) {
  RandomOps ops(TestSeed());
  SimFiles files;
  StoreOptions options = SimOptions(&files);
  options.log_segment_bytes = 1 << 20;
  Oracle oracle;
  std::vector<std::string> dumps{oracle.Dump()};
  std::vector<size_t> ends{32};
  const std::string log = "db/00000001.wal";
  {
    const auto store = OpenOk(options);
    while (dumps.size() < 25) {
      auto tx = *store->Begin();
      std::vector<ModelOp> done;
      for (uint64_t i = 0; i < 1 + ops.random()() % 3; ++i) ops.Step(tx.get(), &done);
      if (done.empty()) continue;
      const uint64_t before = store->sequence();
      ASSERT_TRUE(tx->Commit().ok());
      for (const ModelOp& op : done) oracle.Apply(op);
      if (store->sequence() == before) continue;  // what it did cancelled itself
      dumps.push_back(oracle.Dump());
      ends.push_back(files.Content(log).size());
    }
  }
  const std::string bytes = files.Content(log);
  const auto image = files.AfterKill();
  for (size_t cut = 0; cut <= bytes.size(); ++cut) {
    image->Content(log) = bytes.substr(0, cut);
    const auto copy = image->AfterKill();
    const auto store = OpenOk(SimOptions(copy.get()));
    ASSERT_NE(store, nullptr) << cut;
    size_t whole = 0;
    while (whole + 1 < ends.size() && ends[whole + 1] <= cut) ++whole;
    ASSERT_EQ(DumpNow(store.get()), dumps[whole]) << "cut at " << cut;
  }
}

// One commit after the other with maintenance between, until the call with this number fails. What
// was acknowledged is there at once, and after a kill or a power cut; what failed may be.
void RunFault(uint64_t seed, uint64_t call, bool* reached) {
  RandomOps ops(seed);
  auto& random = ops.random();
  SimFiles files;
  Oracle oracle;
  std::string maybe;  // with the commit that failed
  {
    const auto store = OpenOk(SimOptions(&files));
    ASSERT_NE(store, nullptr);
    files.FailAt(call);
    for (int step = 0; step < 40; ++step) {
      const uint64_t before = files.calls();
      auto tx = *store->Begin();
      std::vector<ModelOp> done;
      ops.Step(tx.get(), &done);
      const absl::Status status = tx->Commit();
      tx.reset();
      if (status.ok()) {
        for (const ModelOp& op : done) oracle.Apply(op);
      } else {
        ASSERT_TRUE(before < call && files.calls() >= call) << status;
        Oracle with = oracle;
        for (const ModelOp& op : done) with.Apply(op);
        maybe = with.Dump();
      }
      ASSERT_EQ(DumpNow(store.get()), oracle.Dump());
      if (!status.ok()) break;
      if (step % 7 == 3) {
        const absl::Status kept = step % 3 == 0   ? store->Flush()
                                  : step % 3 == 1 ? store->Checkpoint()
                                                  : store->Compact();
        if (!kept.ok()) {
          ASSERT_GE(files.calls(), call) << kept;
        }
        ASSERT_EQ(DumpNow(store.get()), oracle.Dump());
      }
    }
    *reached = files.calls() >= call;
    files.FailAt(0);
  }
  const auto after = call % 2 == 0 ? files.AfterKill() : files.AfterPowerCut(random);
  const auto store = OpenWhole(SimOptions(after.get()));
  ASSERT_NE(store, nullptr);
  const std::string dump = DumpNow(store.get());
  ASSERT_TRUE(dump == oracle.Dump() || dump == maybe) << "got\n"
                                                      << dump << "expected\n"
                                                      << oracle.Dump() << "or\n"
                                                      << maybe;
}

TEST(StoreModel, FaultOfEveryCall_LosesNothing) {
  const uint64_t seed = TestSeed();
  const uint64_t stride = LongTests() ? 1 : 3;
  bool reached = true;
  for (uint64_t call = 1 + seed % stride; reached; call += stride) {
    SCOPED_TRACE(Concat("call ", call));
    RunFault(seed, call, &reached);
    if (HasFatalFailure()) return;
  }
}

}  // namespace
}  // namespace pulse::graph
