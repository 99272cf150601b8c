// What a run of the graph store may hold. Checksums are made good after the damage, so that what
// lies behind them is reached: whatever opens is read in every way, without reading outside it.
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/crc32c.h"
#include "fuzz_input.h"
#include "mover/copy_engine.h"
#include "services/graph/runs/merge.h"
#include "services/graph/runs/run_builder.h"
#include "services/graph/runs/run_reader.h"
#include "services/graph/runs/value_codec.h"

namespace pulse::graph {
namespace {

using cypher::Value;

// A run with everything that one may have: several types, versions, a long list, each kind of
// column.
std::string GoodRun(Side side) {
  StringSink sink;
  auto builder = RunBuilder::Create({.side = side, .horizon = 5, .rows_per_segment = 64}, &sink);
  FUZZ_CHECK(builder.ok());
  for (NodeId node : {3, 5, 64, 700}) {
    std::vector<NodeId> others;
    std::vector<EdgeId> edges;
    std::vector<uint64_t> stamps;
    for (uint64_t i = 0; i < (node == 64 ? 600u : 6u); ++i) {
      others.push_back(i * i);
      edges.push_back(node == 5 ? 100 + i * 3 : LocalEdgeId(side == Side::kOut ? node : i * i, i));
      stamps.push_back(node == 700 ? MakeStamp(i * 4, i % 3) : 0);
    }
    const size_t half = others.size() / 2;
    const ListInput lists[] = {
        {1, {others.data(), half}, {edges.data(), half}, {stamps.data(), half}},
        {900,
         {others.data() + half, half},
         {edges.data() + half, half},
         {stamps.data() + half, half}}};
    FUZZ_CHECK((*builder)->Add(node, {lists, node == 3 ? 1u : 2u}).ok());
  }
  if (side == Side::kOut) {
    for (uint64_t i = 0; i < (*builder)->records(); ++i) {
      const Value values[] = {Value::Int(static_cast<int64_t>(i)), Value::String("text"),
                              Value::Float(0.5), Value::List({Value::Int(1), Value()})};
      for (Token key = 0; key < 4; ++key) {
        const Value value = i % 3 == 0 && key > 0 ? Value() : values[key];
        FUZZ_CHECK((*builder)->AppendValues(key, {&value, 1}).ok());
      }
    }
  }
  FUZZ_CHECK((*builder)->Finish().ok());
  return std::move(sink.bytes());
}

template <typename T>
T Load(const std::string& bytes, uint64_t at) {
  T value;
  std::memcpy(&value, bytes.data() + at, sizeof(value));
  return value;
}
template <typename T>
void Store(const T& value, uint64_t at, std::string* bytes) {
  std::memcpy(bytes->data() + at, &value, sizeof(value));
}

// All checksums that the footer's offsets lead to.
void MakeGood(std::string* bytes) {
  const uint64_t footer_at = bytes->size() - sizeof(RunFooter);
  RunFooter footer = Load<RunFooter>(*bytes, footer_at);
  const auto within = [&](uint64_t offset, uint64_t n) {
    return offset <= footer_at && n <= footer_at - offset;
  };
  const auto sum = [&](uint64_t offset, uint64_t n) { return Crc32c(bytes->data() + offset, n); };
  if (footer.groups < 1000 && within(footer.index_offset, footer.groups * sizeof(GroupEntry))) {
    for (uint64_t i = 0; i < footer.groups; ++i) {
      const uint64_t at = footer.index_offset + i * sizeof(GroupEntry);
      GroupEntry entry = Load<GroupEntry>(*bytes, at);
      if (within(entry.offset, entry.bytes)) entry.crc = sum(entry.offset, entry.bytes);
      Store(entry, at, bytes);
    }
    footer.index_crc = sum(footer.index_offset, footer.groups * sizeof(GroupEntry));
  }
  if (footer.tables_offset <= footer.index_offset && within(footer.index_offset, 0)) {
    for (uint64_t at = footer.tables_offset; at + sizeof(SegmentEntry) <= footer.index_offset;
         at += sizeof(SegmentEntry)) {
      SegmentEntry entry = Load<SegmentEntry>(*bytes, at);
      if (within(entry.offset, entry.bytes)) entry.crc = sum(entry.offset, entry.bytes);
      Store(entry, at, bytes);
    }
    footer.tables_crc = sum(footer.tables_offset, footer.index_offset - footer.tables_offset);
  }
  if (footer.meta_offset <= footer_at) {
    footer.meta_crc = sum(footer.meta_offset, footer_at - footer.meta_offset);
  }
  footer.crc = Crc32c(&footer, offsetof(RunFooter, crc));
  Store(footer, footer_at, bytes);
}

void ReadAll(const RunReader& run) {
  (void)run.Verify().ok();
  RunReader::Cursor cursor(&run);
  NodeView view;
  EdgeLocator locator(&run);
  std::vector<uint64_t> positions;
  while (true) {
    const auto more = cursor.Next(&view);
    if (!more.ok() || !*more) break;
    const auto again = run.Find(view.node());
    FUZZ_CHECK(again.ok() && again->count() == view.count() && again->data() == view.data());
    uint64_t sum = 0;
    NodeView::Lists lists(view);
    ListView list;
    while (lists.Next(&list)) {
      sum += list.count();
      // Packed to no bits, a few bytes say that there are very many.
      for (uint64_t piece = 0; piece < list.pieces() && piece < 50; ++piece) {
        NodeId others[kPiece];
        EdgeId edges[kPiece];
        uint64_t stamps[kPiece];
        list.Others(piece, others);
        list.Edges(piece, others, edges);
        list.Stamps(piece, stamps);
        EdgeRef ref{edges[0], view.node(), others[0], list.type()};
        if (run.info().side == Side::kIn) std::swap(ref.source, ref.target);
        (void)locator.Find(ref).ok();
      }
    }
    FUZZ_CHECK(sum == view.count());
    if (positions.size() < 1000) positions.push_back(view.position());
  }
  for (const Token key : run.info().keys) {
    cypher::Column column;
    ColumnGather gather(positions.size(), &column);
    (void)run.Gather(key, positions, {}, &gather).ok();
  }
  cypher::Properties properties;
  for (const uint64_t position : positions) (void)run.ReadProperties(position, &properties).ok();
}

class NoSink : public RunSink {
 public:
  absl::Status Append(absl::string_view /*bytes*/) override { return absl::OkStatus(); }
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  fuzz::Input in(data, size);
  if (in.Below(8) == 0) {
    const std::string bytes = in.Rest();
    absl::string_view rest(bytes);
    Value value;
    if (DecodeValue(&rest, &value).ok()) {
      std::string again;
      FUZZ_CHECK(EncodeValue(value, &again).ok());
    }
    return 0;
  }
  static const std::string good[] = {GoodRun(Side::kOut), GoodRun(Side::kIn)};
  std::string bytes = good[in.Below(2)];
  const bool mend = in.Below(8) != 0;
  for (int i = 0; i < 8 && !in.empty(); ++i) {
    const uint64_t at = in.Number<uint16_t>() % bytes.size();
    if (in.Below(2) == 0) {
      bytes[at] = static_cast<char>(in.Byte());
    } else {
      const uint64_t value = in.Evil(Load<uint64_t>(bytes, std::min(at, bytes.size() - 8)));
      Store(value, std::min(at, bytes.size() - 8), &bytes);
    }
  }
  if (mend) MakeGood(&bytes);
  const auto run = RunReader::Open(OwnRun(bytes, "fuzzed"));
  if (!run.ok()) return 0;
  ReadAll(**run);
  // What is far more than it should be would be merged for hours.
  if ((*run)->info().records > 10'000) return 0;
  const auto other = RunReader::Open(OwnRun(good[static_cast<int>((*run)->info().side)], "good"));
  FUZZ_CHECK(other.ok());
  const auto engine = CreateInlineCopyEngine({});
  FUZZ_CHECK(engine.ok());
  NoSink sink;
  const std::vector<std::shared_ptr<const RunReader>> runs = {*run, *other};
  (void)MergeRuns(runs, {.bottom = true, .check_copied = in.Below(2) == 0}, engine->get(), &sink)
      .ok();
  return 0;
}

}  // namespace pulse::graph
