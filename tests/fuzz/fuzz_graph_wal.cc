// A graph database's log as kills, power cuts and hostile hands leave it: segments of good entries
// (of one record each: two begin at 16 MiB), then cut, changed, removed, exchanged and continued
// with anything. What is read are the entries that were written, from the first one on; what opens
// goes on; what does not is damaged and says so, and its beginning can be read. Then the same bytes
// as the log of a database: it opens or refuses, and what opened can be read, written and opened
// again.
#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "fuzz_input.h"
#include "services/graph/core/store.h"
#include "services/graph/core/test_sim_files.h"
#include "services/graph/core/wal.h"

namespace {

namespace cypher = pulse::cypher;
using pulse::fuzz::Input;
using pulse::graph::AppendWalRecords;
using pulse::graph::GraphStore;
using pulse::graph::SimFiles;
using pulse::graph::StoreOptions;
using pulse::graph::Wal;
using pulse::graph::WalEntry;
using pulse::graph::WalOptions;
using pulse::graph::WalPath;
using pulse::graph::WalSegmentHead;

constexpr char kDirectory[] = "db";

using Entry = std::pair<uint64_t, std::string>;

// What was written, and what is there of it.
struct Log {
  std::unique_ptr<SimFiles> files;
  std::vector<Entry> entries;
  bool changed = false;  // otherwise than by cutting the last segment off
  bool forged = false;   // bytes that nobody wrote there
};

void AppendEntry(Input* input, uint64_t sequence, uint64_t durable, Log* log, std::string* to) {
  std::string payload(1 + input->Below(40), '\0');
  input->Bytes(payload.data(), payload.size());
  AppendWalRecords(sequence, durable, payload, to);
  log->entries.emplace_back(sequence, std::move(payload));
}

Log MakeLog(Input* input, std::unique_ptr<SimFiles> files, uint64_t first) {
  Log log;
  log.files = std::move(files);
  uint64_t sequence = input->Below(3), durable = 0, number = first;
  const uint64_t last = first + input->Below(4);
  for (; number <= last; ++number) {
    std::string bytes = WalSegmentHead(number, sequence);
    for (uint64_t n = input->Below(5); n > 0; --n) {
      sequence += 1 + input->Below(2);
      AppendEntry(input, sequence, durable, &log, &bytes);
      if (input->Byte() % 2 == 0) durable = sequence;
    }
    log.files->Put(WalPath(kDirectory, number), std::move(bytes));
  }
  while (!input->empty()) {
    const std::string name = WalPath(kDirectory, first + input->Below(last - first + 1));
    if (!log.files->names().contains(name)) continue;
    std::string& content = log.files->Content(name);
    const uint8_t what = input->Byte() % 6;
    if (what != 0 || name != WalPath(kDirectory, last)) log.changed = true;
    if (what > 2) log.forged = true;
    switch (what) {
      case 0:
        content.resize(input->Number<uint16_t>() % (content.size() + 1));
        break;
      case 1:
        if (!content.empty()) content[input->Number<uint16_t>() % content.size()] ^= input->Byte();
        break;
      case 2:
        log.files->names().erase(name);
        break;
      case 3:
        std::swap(content, log.files->Content(log.files->names().begin()->first));
        break;
      case 4: {
        std::string bytes(input->Below(200), '\0');
        input->Bytes(bytes.data(), bytes.size());
        content += bytes;
        break;
      }
      default:
        // With a good checksum, and numbers that nobody would have given it.
        AppendEntry(input, input->Evil(sequence), input->Evil(sequence), &log, &content);
    }
  }
  return log;
}

// Reads it; the entries must be of those that were written.
absl::StatusOr<std::unique_ptr<Wal>> Read(const Log& log, uint64_t first, const WalOptions& options,
                                          std::vector<Entry>* read) {
  return Wal::Open(log.files.get(), kDirectory, first, options,
                   [&](uint64_t sequence, std::string_view payload) {
                     FUZZ_CHECK(read->empty() || sequence > read->back().first);
                     read->emplace_back(sequence, payload);
                     return absl::OkStatus();
                   });
}

bool IsBeginning(const std::vector<Entry>& part, const std::vector<Entry>& all) {
  return part.size() <= all.size() && std::equal(part.begin(), part.end(), all.begin());
}

void CheckLog(Log log, uint64_t first) {
  WalOptions reading;
  reading.read_only = true;
  reading.allow_damage = true;
  std::vector<Entry> shown, read, again;
  const auto damaged = Read(log, first, reading, &shown);
  FUZZ_CHECK(damaged.ok() || absl::IsFailedPrecondition(damaged.status()));
  if (!log.changed) FUZZ_CHECK(damaged.ok() && (*damaged)->damage().empty());
  if (!log.forged) FUZZ_CHECK(IsBeginning(shown, log.entries));
  auto opened = Read(log, first, {}, &read);
  if (!opened.ok()) {
    FUZZ_CHECK(absl::IsDataLoss(opened.status()) || absl::IsFailedPrecondition(opened.status()));
    FUZZ_CHECK(log.changed && IsBeginning(read, shown));
    return;
  }
  FUZZ_CHECK(read == shown);
  const std::string payload = "more";
  WalEntry entry{(*opened)->last_sequence() + 1, payload, {}};
  WalEntry* entries[] = {&entry};
  (*opened)->Write(entries);
  FUZZ_CHECK(entry.result.ok());
  opened->reset();
  FUZZ_CHECK(Read(log, first, {}, &again).ok());
  read.emplace_back(entry.sequence, payload);
  FUZZ_CHECK(again == read);
}

// A database with a node, a relationship and names, whose log is empty.
const SimFiles& EmptyLogDatabase() {
  static const SimFiles* const files = [] {
    SimFiles writing;
    StoreOptions options;
    options.files = &writing;
    options.background = false;
    auto store = GraphStore::Open(kDirectory, options);
    FUZZ_CHECK(store.ok());
    auto tx = *(*store)->Begin();
    const pulse::cypher::Token label = *tx->AddLabelName("A"), key = *tx->AddKeyName("w");
    const auto node = *tx->CreateNode({&label, 1}, {{key, cypher::Value::Int(1)}});
    FUZZ_CHECK(tx->CreateEdge(node, node, *tx->AddTypeName("T"), {}).ok());
    FUZZ_CHECK(tx->Commit().ok());
    FUZZ_CHECK((*store)->Close().ok());
    store->reset();
    return writing.AfterKill().release();
  }();
  return *files;
}

// The one behind the checkpoint; an older one is kept for who follows.
uint64_t NewestSegment(SimFiles* files) {
  const auto numbers = pulse::graph::ListWalSegments(files, kDirectory);
  FUZZ_CHECK(numbers.ok() && !numbers->empty());
  return numbers->back();
}

void ReadAll(const cypher::GraphView& view) {
  std::vector<cypher::NodeId> ids(64);
  std::vector<cypher::EdgeRef> edges(64);
  cypher::Properties properties;
  uint64_t position = 0;
  while (const size_t n = view.ScanNodes(cypher::kNoToken, &position, ids).value_or(0)) {
    for (size_t i = 0; i < n; ++i) {
      FUZZ_CHECK(view.NodeExists(ids[i]).value());
      view.ReadNodeProperties(ids[i], &properties).IgnoreError();
    }
  }
  position = 0;
  while (const size_t n = view.ScanEdges({}, &position, edges).value_or(0)) {
    for (size_t i = 0; i < n; ++i) view.ReadEdgeProperties(edges[i], &properties).IgnoreError();
  }
}

void CheckDatabase(const Log& log) {
  StoreOptions options;
  options.files = log.files.get();
  options.background = false;
  auto store = GraphStore::Open(kDirectory, options);
  if (!store.ok()) {
    FUZZ_CHECK(!absl::IsInternal(store.status()) && !absl::IsUnknown(store.status()));
    return;
  }
  ReadAll(**(*store)->Snapshot());
  auto tx = *(*store)->Begin();
  // There may be no numbers left, which must not end the database.
  const auto node = tx->CreateNode({}, {});
  if (node.ok()) tx->CreateEdge(*node, *node, *tx->AddTypeName("T"), {}).IgnoreError();
  FUZZ_CHECK(tx->Commit().ok());
  if (!(*store)->Close().ok()) return;
  store->reset();
  store = GraphStore::Open(kDirectory, options);
  FUZZ_CHECK(store.ok() && (!node.ok() || (*(*store)->Snapshot())->NodeExists(*node).value()));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  Input input(data, size);
  if (input.Byte() % 2 == 0) {
    CheckLog(MakeLog(&input, std::make_unique<SimFiles>(), 1), 1);
  } else {
    auto files = EmptyLogDatabase().AfterKill();
    const uint64_t first = NewestSegment(files.get());
    CheckDatabase(MakeLog(&input, std::move(files), first));
  }
  return 0;
}
