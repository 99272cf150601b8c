#include "services/graph/salvage/salvaged_runs.h"

#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "base/errors.h"
#include "services/graph/core/view.h"
#include "services/graph/model/text.h"
#include "services/graph/nodes/node_table.h"

namespace pulse::graph {
namespace {

using cypher::Concat;

constexpr Token kMostTypes = Tables::kMaxTokens;

}  // namespace

absl::Status SalvagedRuns::Add(const std::string& path, const Side* side,
                               absl::StatusOr<RunBytes> bytes, SalvageNotes* notes) {
  const auto lost = [&](std::string what) {
    notes->Name(std::move(what));
    ++notes->report().files_lost;
    for (const Side s : {Side::kOut, Side::kIn}) {
      if (side == nullptr || *side == s) whole_run_lost_[static_cast<size_t>(s)] = true;
    }
    return absl::OkStatus();
  };
  if (absl::IsNotFound(bytes.status())) return lost(Concat("the run ", path, " is missing"));
  // What this process is short of is no damage.
  if (absl::IsResourceExhausted(bytes.status())) return bytes.status();
  if (!bytes.ok()) {
    return lost(
        Concat("the run ", path, " cannot be read: ", std::string(bytes.status().message())));
  }
  Opened run;
  std::vector<std::string> damage;
  auto reader = RunReader::OpenDamaged(*std::move(bytes), &damage);
  if (absl::IsDataLoss(reader.status())) return lost(std::string(reader.status().message()));
  if (!reader.ok()) return reader.status();
  run.reader = *std::move(reader);
  const Side is = run.reader->info().side;
  if (side != nullptr && is != *side) {
    return lost(Concat("the run ", path, " is one of the other direction"));
  }
  run.keys_lost = !damage.empty() && is == Side::kOut && run.reader->info().keys.empty();
  if (run.keys_lost) notes->report().values_lost += run.reader->info().records;
  for (std::string& one : damage) notes->Name(std::move(one));
  Verify(&run, notes);
  runs_[static_cast<size_t>(is)].push_back(std::move(run));
  return absl::OkStatus();
}

void SalvagedRuns::Verify(Opened* run, SalvageNotes* notes) {
  const RunReader& reader = *run->reader;
  const auto groups = reader.groups();
  NodeView views[kGroupNodes];
  for (size_t g = 0; g < groups.size(); ++g) {
    const auto read = reader.ReadGroup(g, views);
    if (read.ok()) continue;
    const uint64_t end = g + 1 < groups.size() ? groups[g + 1].position : reader.info().records;
    run->bad_groups.insert(groups[g].group);
    notes->report().records_lost += end - groups[g].position;
    notes->Name(Concat(std::string(read.status().message()), " (", end - groups[g].position,
                       " relationships of this direction)"));
  }
  for (size_t k = 0; k < reader.info().keys.size(); ++k) {
    for (size_t s = 0; s < reader.segments(); ++s) {
      const auto segment = reader.ParsedSegment(k, s);
      if (segment.ok()) continue;
      const SegmentEntry& entry = reader.RawSegment(k, s);
      run->bad_segments.insert(uint64_t{k} << 32 | s);
      notes->report().values_lost += entry.count - std::min(entry.count, entry.nulls);
      notes->Name(std::string(segment.status().message()));
    }
  }
}

bool SalvagedRuns::AnyLost(Side side) const {
  if (whole_run_lost_[static_cast<size_t>(side)]) return true;
  return std::any_of(runs(side).begin(), runs(side).end(),
                     [](const Opened& run) { return !run.bad_groups.empty(); });
}

bool SalvagedRuns::Lost(Side side, NodeId node) const {
  if (whole_run_lost_[static_cast<size_t>(side)]) return true;
  return std::any_of(runs(side).begin(), runs(side).end(), [node](const Opened& run) {
    return IsBad(run, node) && run.reader->Contains(node);
  });
}

void SalvagedRuns::ReadNode(Side side, NodeId node, std::vector<Edge>* out) const {
  out->clear();
  bool resolve = false;
  size_t from = 0;  // runs
  NodeId others[kPiece + 8];
  EdgeId edges[kPiece + 8];
  uint64_t stamps[kPiece + 8];
  for (size_t r = 0; r < runs(side).size(); ++r) {
    const Opened& run = runs(side)[r];
    if (IsBad(run, node) || !run.reader->Contains(node)) continue;
    const auto view = run.reader->Find(node);
    if (!view.ok()) continue;  // it was read before
    resolve |= ++from > 1;
    uint64_t position = view->position();
    NodeView::Lists lists(*view);
    ListView list;
    while (lists.Next(&list)) {
      resolve |= !list.plain();
      // No database has such a type, nor such nodes below.
      if (list.type() >= kMostTypes) {
        position += list.count();
        continue;
      }
      for (uint64_t piece = 0; piece < list.pieces(); ++piece) {
        list.Others(piece, others);
        list.Edges(piece, others, edges);
        if (!list.plain()) list.Stamps(piece, stamps);
        for (uint32_t i = 0; i < list.PieceCount(piece); ++i, ++position) {
          Edge edge;
          edge.ref = side == Side::kOut ? EdgeRef{edges[i], node, others[i], list.type()}
                                        : EdgeRef{edges[i], others[i], node, list.type()};
          if (others[i] >= NodeTable::kCapacity) continue;
          edge.run = r;
          edge.position = position;
          edge.flags = list.plain() ? 0 : stamps[i] & (kTombstone | kUpdate);
          out->push_back(edge);
        }
      }
    }
  }
  if (!resolve) return;
  absl::flat_hash_map<EdgeId, size_t> newest;
  size_t kept = 0;
  for (const Edge& edge : *out) {
    const auto [it, first] = newest.emplace(edge.ref.id, kept);
    if (first) {
      (*out)[kept++] = edge;
      continue;
    }
    Edge& known = (*out)[it->second];
    if ((edge.flags & kTombstone) != 0 || (edge.flags != 0 && known.flags == 0)) known = edge;
  }
  out->resize(kept);
  std::erase_if(*out, [](const Edge& edge) { return (edge.flags & kTombstone) != 0; });
}

absl::Status SalvagedRuns::ForEachNode(
    Side side, const std::function<absl::Status(std::span<const Edge>)>& call) {
  std::vector<size_t> at(runs(side).size());
  std::vector<Edge> edges;
  while (true) {
    uint64_t group = ~uint64_t{0};
    for (size_t r = 0; r < at.size(); ++r) {
      const auto groups = runs(side)[r].reader->groups();
      if (at[r] < groups.size()) group = std::min(group, groups[at[r]].group);
    }
    if (group == ~uint64_t{0}) return absl::OkStatus();
    uint64_t bitmap = 0;
    for (size_t r = 0; r < at.size(); ++r) {
      const auto groups = runs(side)[r].reader->groups();
      if (at[r] == groups.size() || groups[at[r]].group != group) continue;
      if (!runs(side)[r].bad_groups.contains(group)) bitmap |= groups[at[r]].bitmap;
      ++at[r];
    }
    for (; bitmap != 0; bitmap &= bitmap - 1) {
      const NodeId node = group * kGroupNodes + static_cast<NodeId>(__builtin_ctzll(bitmap));
      ReadNode(side, node, &edges);
      if (!edges.empty()) PULSE_RETURN_IF_ERROR(call(edges));
    }
  }
}

SalvagedRuns::State SalvagedRuns::Look(Side side, const EdgeRef& edge) const {
  const NodeId node = side == Side::kOut ? edge.source : edge.target;
  State state = State::kUnknown;
  for (const Opened& run : runs(side)) {
    if (IsBad(run, node) || !run.reader->Contains(node)) continue;
    EdgeLocator locator(run.reader.get());
    const auto found = locator.Find(edge);
    if (!found.ok() || found->position == kNoPosition) continue;
    if (IsTombstone(found->stamp)) return State::kDead;
    state = State::kAlive;
  }
  return state;
}

bool SalvagedRuns::ReadProperties(const Edge& edge, Properties* out,
                                  std::vector<Token>* lost) const {
  out->clear();
  lost->clear();
  const Opened& run = runs(Side::kOut)[edge.run];
  if (run.keys_lost) return false;
  const RunReader& reader = *run.reader;
  const auto& keys = reader.info().keys;
  if (keys.empty()) return true;
  const size_t segment = reader.SegmentOf(edge.position);
  for (size_t k = 0; k < keys.size(); ++k) {
    Value value;
    absl::Status read = absl::DataLossError("");
    if (!run.bad_segments.contains(uint64_t{k} << 32 | segment)) {
      const auto parsed = reader.ParsedSegment(k, segment);
      read = parsed.status();
      if (parsed.ok()) {
        read = parsed->ReadValue(
            static_cast<uint32_t>(edge.position - reader.SegmentStart(segment)), &value);
      }
    }
    if (!read.ok()) {
      lost->push_back(keys[k]);
    } else if (!value.is_null()) {
      out->emplace_back(keys[k], std::move(value));
    }
  }
  return true;
}

}  // namespace pulse::graph
