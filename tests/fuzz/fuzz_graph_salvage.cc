// What the files of a graph database may hold when it is salvaged: operations of any kind with good
// checksums, records and frames cut and changed, runs that are not of this database. Whatever there
// is, the new database opens and can be read as a whole.
#include <memory>
#include <string>
#include <vector>

#include "fuzz_input.h"
#include "services/graph/core/store.h"
#include "services/graph/core/test_sim_files.h"
#include "services/graph/core/wal_records.h"
#include "services/graph/salvage/salvage.h"

namespace {

namespace cypher = pulse::cypher;
using cypher::NodeId;
using cypher::Token;
using pulse::graph::GraphStore;
using pulse::graph::SimFiles;
using pulse::graph::StoreOptions;

// A database of two checkpoints, four runs and a log, made once.
const SimFiles& GoodDatabase() {
  static const SimFiles* const files = [] {
    SimFiles writing;
    StoreOptions options;
    options.files = &writing;
    options.background = false;
    auto store = GraphStore::Open("db", options);
    FUZZ_CHECK(store.ok());
    for (int round = 0; round < 4; ++round) {
      auto tx = *(*store)->Begin();
      const Token label = *tx->AddLabelName("A"), key = *tx->AddKeyName("w");
      const NodeId a = *tx->CreateNode({&label, 1}, {{key, cypher::Value::Int(round)}});
      const NodeId b = *tx->CreateNode({}, {});
      FUZZ_CHECK(tx->CreateEdge(a, b, *tx->AddTypeName("T"), {{key, cypher::Value::Int(1)}}).ok());
      FUZZ_CHECK(tx->Commit().ok());
      if (round == 1) FUZZ_CHECK((*store)->Checkpoint().ok());
      if (round == 2) FUZZ_CHECK((*store)->Flush().ok());
    }
    store->reset();
    return writing.AfterKill().release();
  }();
  return *files;
}

void ReadAll(const GraphStore& store, const cypher::GraphView& view) {
  std::vector<cypher::NodeId> ids(64);
  std::vector<cypher::EdgeRef> edges(64);
  cypher::Properties properties;
  uint64_t position = 0;
  while (const size_t n = view.ScanNodes(cypher::kNoToken, &position, ids).value()) {
    for (size_t i = 0; i < n; ++i) {
      FUZZ_CHECK(view.ReadNodeProperties(ids[i], &properties).ok());
      uint64_t degree = 0;
      FUZZ_CHECK(view.Degrees({&ids[i], 1}, cypher::Direction::kBoth, {}, {&degree, 1}).ok());
    }
  }
  position = 0;
  while (const size_t n = view.ScanEdges({}, &position, edges).value()) {
    for (size_t i = 0; i < n; ++i) {
      FUZZ_CHECK(view.ReadEdgeProperties(edges[i], &properties).ok());
      FUZZ_CHECK(view.NodeExists(edges[i].source).value());
      FUZZ_CHECK(view.NodeExists(edges[i].target).value());
    }
  }
  FUZZ_CHECK(store.stats().damage.empty());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  pulse::fuzz::Input input(data, size);
  const auto files = GoodDatabase().AfterKill();
  std::vector<std::string> names;
  for (const auto& [name, node] : files->names()) {
    if (name != "db/LOCK") names.push_back(name);
  }
  uint64_t sequence = 100;
  while (!input.empty()) {
    const std::string& name = names[input.Below(names.size())];
    if (!files->names().contains(name)) continue;
    std::string& content = files->Content(name);
    switch (input.Byte() % 5) {
      case 0:
        files->names().erase(name);
        break;
      case 1:
        content.resize(input.Number<uint16_t>() % (content.size() + 1));
        break;
      case 2:
        if (!content.empty()) content[input.Number<uint16_t>() % content.size()] ^= input.Byte();
        break;
      default: {
        // A commit that nobody has made, with a good checksum.
        std::string payload(1 + input.Below(60), '\0');
        input.Bytes(payload.data(), payload.size());
        sequence += input.Below(3);
        pulse::graph::AppendWalRecords(sequence, sequence - 1, payload, &content);
      }
    }
  }
  pulse::graph::SalvageOptions options;
  options.files = files.get();
  const auto report = pulse::graph::SalvageGraph("db", "new", options);
  if (!report.ok()) {
    // Nothing is left, or the manifest says that it is newer.
    FUZZ_CHECK(absl::IsNotFound(report.status()) || absl::IsFailedPrecondition(report.status()));
    return 0;
  }
  StoreOptions reading;
  reading.files = files.get();
  reading.read_only = true;
  const auto store = GraphStore::Open("new", reading);
  FUZZ_CHECK(store.ok());
  ReadAll(**store, **(*store)->Snapshot());
  return 0;
}
