// What tests of runs share: records as plain structs, runs made of them and read back, and random
// ones. For tests only.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "base/crc32c.h"
#include "services/graph/model/value.h"
#include "services/graph/runs/run_builder.h"
#include "services/graph/runs/run_reader.h"
#include "services/graph/runs/value_codec.h"

namespace pulse::graph::testing_runs {

// A record with all that a run says of it. Properties as texts, which are easy to compare.
struct Item {
  NodeId node = 0;
  Token type = 0;
  NodeId other = 0;
  EdgeId edge = 0;
  uint64_t stamp = 0;
  std::map<Token, cypher::Value> properties;

  auto Order() const { return std::tuple(node, type, other, edge, ~stamp); }
};

inline bool SameValue(const cypher::Value& a, const cypher::Value& b) {
  return a.type() == b.type() && cypher::Order(a, b) == 0;
}

inline bool operator==(const Item& a, const Item& b) {
  if (a.Order() != b.Order() || a.properties.size() != b.properties.size()) return false;
  auto at = b.properties.begin();
  for (const auto& [key, value] : a.properties) {
    if (at->first != key || !SameValue(at->second, value)) return false;
    ++at;
  }
  return true;
}

inline std::ostream& operator<<(std::ostream& out, const Item& item) {
  out << "(" << item.node << ")-[" << item.edge << ":" << item.type << "]-(" << item.other << ") @"
      << SequenceOf(item.stamp) << "/" << (item.stamp & 3);
  for (const auto& [key, value] : item.properties) out << " " << key << ":" << int(value.type());
  return out;
}

inline void Sort(std::vector<Item>* items) {
  std::sort(items->begin(), items->end(),
            [](const Item& a, const Item& b) { return a.Order() < b.Order(); });
}

// `items` sorted; each with another Order().
inline absl::StatusOr<RunInfo> WriteRun(const std::vector<Item>& items, const RunOptions& options,
                                        RunSink* sink) {
  auto builder = RunBuilder::Create(options, sink);
  if (!builder.ok()) return builder.status();
  for (size_t begin = 0; begin < items.size();) {
    size_t end = begin;
    std::vector<NodeId> others;
    std::vector<EdgeId> edges;
    std::vector<uint64_t> stamps;
    std::vector<std::pair<Token, size_t>> types;  // and their ends
    for (; end < items.size() && items[end].node == items[begin].node; ++end) {
      others.push_back(items[end].other);
      edges.push_back(items[end].edge);
      stamps.push_back(items[end].stamp);
      if (types.empty() || types.back().first != items[end].type) {
        types.emplace_back(items[end].type, 0);
      }
      types.back().second = others.size();
    }
    std::vector<ListInput> lists;
    size_t from = 0;
    for (const auto& [type, to] : types) {
      lists.push_back({type,
                       {&others[from], to - from},
                       {&edges[from], to - from},
                       {&stamps[from], to - from}});
      from = to;
    }
    if (absl::Status st = (*builder)->Add(items[begin].node, lists); !st.ok()) return st;
    for (size_t i = begin; i < end; ++i) {
      for (const auto& [key, value] : items[i].properties) {
        absl::Status st = (*builder)->FillNulls(key, i);
        if (st.ok()) st = (*builder)->AppendValues(key, {&value, 1});
        if (!st.ok()) return st;
      }
    }
    begin = end;
  }
  return (*builder)->Finish();
}

inline std::string RunOf(const std::vector<Item>& items, const RunOptions& options) {
  StringSink sink;
  const auto info = WriteRun(items, options, &sink);
  if (!info.ok()) return std::string(info.status().message());
  return std::move(sink.bytes());
}

// What a run says of itself, to be changed: one that lies, and whose checksums fit.
struct LyingRun {
  std::vector<uint64_t> meta;  // all of it is varints; [2]: records
  std::vector<SegmentEntry> entries;

  explicit LyingRun(std::string run) : bytes_(std::move(run)) {
    std::memcpy(&footer_, &bytes_[bytes_.size() - sizeof(footer_)], sizeof(footer_));
    absl::string_view at(bytes_);
    at.remove_suffix(sizeof(footer_));
    at.remove_prefix(footer_.meta_offset);
    for (uint64_t number = 0; ReadVarint(&at, &number);) meta.push_back(number);
    entries.resize((footer_.index_offset - footer_.tables_offset) / sizeof(SegmentEntry));
    if (!entries.empty()) {
      std::memcpy(entries.data(), &bytes_[footer_.tables_offset], TableBytes());
    }
  }
  std::string Bytes() {
    if (!entries.empty()) {
      std::memcpy(&bytes_[footer_.tables_offset], entries.data(), TableBytes());
    }
    bytes_.resize(footer_.meta_offset);
    for (const uint64_t number : meta) AppendVarint(number, &bytes_);
    footer_.meta_crc = Crc32c(&bytes_[footer_.meta_offset], bytes_.size() - footer_.meta_offset);
    footer_.tables_crc = Crc32c(&bytes_[footer_.tables_offset], TableBytes());
    footer_.file_bytes = bytes_.size() + sizeof(footer_);
    footer_.crc = Crc32c(&footer_, offsetof(RunFooter, crc));
    bytes_.append(reinterpret_cast<const char*>(&footer_), sizeof(footer_));
    return bytes_;
  }

 private:
  size_t TableBytes() const { return entries.size() * sizeof(SegmentEntry); }
  std::string bytes_;
  RunFooter footer_;
};

// Everything, by a scan. What a run no longer stores of stamps is 0.
inline absl::StatusOr<std::vector<Item>> ReadItems(const RunReader& run, NodeId first = 0,
                                                   NodeId last = ~NodeId{0}) {
  std::vector<Item> items;
  RunReader::Cursor cursor(&run, first, last);
  NodeView view;
  while (true) {
    const auto more = cursor.Next(&view);
    if (!more.ok()) return more.status();
    if (!*more) return items;
    uint64_t position = view.position();
    NodeView::Lists lists(view);
    ListView list;
    while (lists.Next(&list)) {
      for (uint64_t piece = 0; piece < list.pieces(); ++piece) {
        NodeId others[kPiece];
        EdgeId edges[kPiece];
        uint64_t stamps[kPiece];
        list.Others(piece, others);
        list.Edges(piece, others, edges);
        list.Stamps(piece, stamps);
        for (uint32_t i = 0; i < list.PieceCount(piece); ++i) {
          Item item{view.node(), list.type(), others[i], edges[i], stamps[i], {}};
          cypher::Properties properties;
          const absl::Status st = run.ReadProperties(position++, &properties);
          if (!st.ok()) return st;
          for (auto& [key, value] : properties) item.properties.emplace(key, std::move(value));
          items.push_back(std::move(item));
        }
      }
    }
  }
}

// As a run with this horizon stores it.
inline Item Stored(Item item, uint64_t horizon) {
  if (SequenceOf(item.stamp) <= horizon) item.stamp &= 3;
  return item;
}

template <typename Random>
cypher::Value RandomValue(Random* random, int kind) {
  using cypher::Value;
  auto& r = *random;
  switch (kind % 8) {
    case 0:
      return Value::Int(static_cast<int64_t>(r() % 100));
    case 1:
      return Value::Int(static_cast<int64_t>(r()));
    case 2:
      return Value::Float(static_cast<double>(r() % 1000) / 8);
    case 3:
      return Value::String(std::string(r() % 20, static_cast<char>('a' + r() % 26)));
    case 4:
      return Value::Bool(r() % 2 == 0);
    case 5:
      return Value::List({Value::Int(static_cast<int64_t>(r() % 9)), Value(), Value::String("x")});
    case 6:
      return Value::Date(static_cast<int64_t>(r() % 40000));
    default:
      return Value::Map({{"k", Value::Float(0.5)}, {"l", Value::List({})}});
  }
}

}  // namespace pulse::graph::testing_runs
