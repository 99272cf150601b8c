#include "services/graph/runs/list.h"

#include <algorithm>
#include <cstring>

#include "services/graph/runs/bits.h"
#include "services/graph/runs/value_codec.h"

namespace pulse::graph {
namespace {

// The header of a list, 24 bits.
constexpr int kEdgeWidthAt = 6, kOtherBaseAt = 12, kEdgeBaseAt = 15;
constexpr uint32_t kLocal = 1 << 18;
constexpr uint32_t kConsecutive = 1 << 19;
constexpr uint32_t kStamps = 1 << 20;
constexpr uint32_t kPieces = 1 << 21;
constexpr uint32_t kUnused = 1 << 22;
constexpr uint32_t kSeveral = 1 << 23;
constexpr size_t kHeaderBytes = 3;
constexpr size_t kPieceEntry = 24;
constexpr uint8_t kTombstoneBits = 1, kUpdateBits = 2;
constexpr uint64_t kMaxList = uint64_t{1} << 31;

int WidthOfCode(uint32_t code) { return code == 57 ? 64 : static_cast<int>(code); }
uint32_t CodeOfWidth(int width) { return width == 64 ? 57 : static_cast<uint32_t>(width); }
int BytesOfCode(uint32_t code) { return code == 7 ? 8 : static_cast<int>(code); }
uint32_t CodeOfBytes(uint64_t value) {
  const int bytes = value == 0 ? 0 : (71 - __builtin_clzll(value)) / 8;
  return bytes > 6 ? 7 : static_cast<uint32_t>(bytes);
}
uint64_t LoadBytes(const char* p, int bytes) {
  return bytes == 0 ? 0 : LoadWord(p) & LowBits(8 * bytes);
}
void AppendBytes(uint64_t value, int bytes, std::string* out) {
  out->append(reinterpret_cast<const char*>(&value), static_cast<size_t>(bytes));
}

// An entry of the directory of pieces: bases, then offset and widths.
struct PieceEntry {
  uint64_t other_base, edge_base, offset;
  uint32_t other_code, edge_code;
};
PieceEntry ReadPiece(const char* directory, uint64_t piece) {
  const char* p = directory + piece * kPieceEntry;
  const uint64_t last = LoadWord(p + 16);
  return {LoadWord(p), LoadWord(p + 8), last & LowBits(48), static_cast<uint32_t>(last >> 48 & 255),
          static_cast<uint32_t>(last >> 56)};
}
uint64_t PieceBytes(const PieceEntry& entry, uint64_t count, bool consecutive) {
  return PackedBytes(count - 1, WidthOfCode(entry.other_code)) +
         (consecutive ? 0 : PackedBytes(count, WidthOfCode(entry.edge_code)));
}

uint64_t VersionBytes(const char* p, uint64_t count) {
  const int width = WidthOfCode(static_cast<uint8_t>(p[0]));
  uint64_t bytes = 2 + (width > 0 ? 8 : 0) + PackedBytes(count, width);
  for (const uint8_t flag : {kTombstoneBits, kUpdateBits}) {
    if ((static_cast<uint8_t>(p[1]) & flag) != 0) bytes += (count + 7) / 8;
  }
  return bytes;
}

bool BitOf(const char* bits, uint64_t i) {
  return (static_cast<uint8_t>(bits[i / 8]) >> (i % 8) & 1) != 0;
}

void AppendBitmap(std::span<const uint64_t> stamps, uint64_t flag, std::string* out) {
  const size_t begin = out->size();
  out->resize(begin + (stamps.size() + 7) / 8);
  for (size_t i = 0; i < stamps.size(); ++i) {
    if ((stamps[i] & flag) != 0) {
      char& byte = (*out)[begin + i / 8];
      byte = static_cast<char>(byte | 1 << (i % 8));
    }
  }
}

// Whether these stamps say anything that a reader needs.
bool Matter(std::span<const uint64_t> stamps, uint64_t horizon) {
  return std::any_of(stamps.begin(), stamps.end(), [horizon](uint64_t stamp) {
    return HidesOlder(stamp) || SequenceOf(stamp) > horizon;
  });
}

void AppendStamps(std::span<const uint64_t> stamps, uint64_t horizon, std::string* out) {
  uint64_t most = 0, flags = 0;
  for (const uint64_t stamp : stamps) {
    most = std::max(most, SequenceOf(stamp));
    flags |= stamp;
  }
  const int width = most > horizon ? BitsFor(most - horizon) : 0;
  out->push_back(static_cast<char>(CodeOfWidth(width)));
  const bool tombstones = (flags & kTombstone) != 0, updates = (flags & kUpdate) != 0;
  out->push_back(
      static_cast<char>((tombstones ? kTombstoneBits : 0) | (updates ? kUpdateBits : 0)));
  if (width > 0) AppendBytes(horizon, 8, out);
  const auto above = [&](size_t i) {
    const uint64_t sequence = SequenceOf(stamps[i]);
    return sequence > horizon ? sequence - horizon : 0;
  };
  PackBits(stamps.size(), width, above, out);
  if (tombstones) AppendBitmap(stamps, kTombstone, out);
  if (updates) AppendBitmap(stamps, kUpdate, out);
}

// Identifiers as they are stored.
class StoredEdges {
 public:
  StoredEdges(NodeId node, Side side, const ListInput& list) : edges_(list.edges) {
    local_ = true;
    for (size_t i = 0; i < edges_.size() && local_; ++i) {
      const NodeId source = side == Side::kOut ? node : list.others[i];
      local_ = IsLocalEdgeId(edges_[i]) && source <= kMaxLocalSource &&
               SourceOfLocal(edges_[i]) == source;
    }
    for (size_t i = 1; i < edges_.size() && consecutive_; ++i) {
      consecutive_ = (*this)[i] == (*this)[i - 1] + 1;
    }
  }
  uint64_t operator[](size_t i) const { return local_ ? OrdinalOf(edges_[i]) : edges_[i]; }
  bool local() const { return local_; }
  bool consecutive() const { return consecutive_; }

 private:
  std::span<const EdgeId> edges_;
  bool local_;
  bool consecutive_ = true;
};

// The bits of one piece, and what its header or entry says of them.
PieceEntry AppendPiece(std::span<const NodeId> others, const StoredEdges& edges, size_t first,
                       std::string* out) {
  const size_t n = others.size();
  uint64_t gap = 0, least = edges[first], most = least;
  for (size_t i = 1; i < n; ++i) gap = std::max(gap, others[i] - others[i - 1]);
  if (!edges.consecutive()) {
    for (size_t i = 1; i < n; ++i) {
      least = std::min(least, edges[first + i]);
      most = std::max(most, edges[first + i]);
    }
  }
  const int other_width = BitsFor(gap), edge_width = BitsFor(most - least);
  PackBits(
      n - 1, other_width, [&](size_t i) { return others[i + 1] - others[i]; }, out);
  PackBits(
      n, edge_width, [&](size_t i) { return edges[first + i] - least; }, out);
  return {others[0], least, 0, CodeOfWidth(other_width), CodeOfWidth(edge_width)};
}

bool EncodeList(NodeId node, Side side, const ListInput& list, uint64_t horizon, std::string* out) {
  const StoredEdges edges(node, side, list);
  const bool stamps = Matter(list.stamps, horizon);
  uint32_t header = (edges.local() ? kLocal : 0) | (edges.consecutive() ? kConsecutive : 0) |
                    (stamps ? kStamps : 0);
  std::string packed;
  const size_t n = list.others.size();
  if (n <= kPiece) {
    const PieceEntry entry = AppendPiece(list.others, edges, 0, &packed);
    const uint32_t other_bytes = CodeOfBytes(entry.other_base);
    const uint32_t edge_bytes = CodeOfBytes(entry.edge_base);
    header |= entry.other_code | entry.edge_code << kEdgeWidthAt | other_bytes << kOtherBaseAt |
              edge_bytes << kEdgeBaseAt;
    AppendBytes(header, kHeaderBytes, out);
    AppendVarint(list.type, out);
    AppendBytes(entry.other_base, BytesOfCode(other_bytes), out);
    AppendBytes(entry.edge_base, BytesOfCode(edge_bytes), out);
  } else {
    header |= kPieces;
    AppendBytes(header, kHeaderBytes, out);
    AppendVarint(list.type, out);
    for (size_t first = 0; first < n; first += kPiece) {
      const uint64_t offset = packed.size();
      const PieceEntry entry = AppendPiece(
          list.others.subspan(first, std::min<size_t>(kPiece, n - first)), edges, first, &packed);
      AppendBytes(entry.other_base, 8, out);
      AppendBytes(entry.edge_base, 8, out);
      AppendBytes(offset | uint64_t{entry.other_code} << 48 | uint64_t{entry.edge_code} << 56, 8,
                  out);
    }
  }
  out->append(packed);
  if (stamps) AppendStamps(list.stamps, horizon, out);
  return stamps;
}

}  // namespace

// How lists lie: the only place that takes one apart.
struct ListLayout {
  // `at` is a list that was checked.
  static void Read(const char* at, NodeId node, Side side, uint64_t count, ListView* view) {
    const auto header = static_cast<uint32_t>(LoadWord(at) & LowBits(24));
    at += kHeaderBytes;
    auto type = static_cast<uint8_t>(*at++);
    Token token = type & 127u;
    for (int shift = 7; type >= 128; shift += 7) {
      type = static_cast<uint8_t>(*at++);
      token |= static_cast<Token>(type & 127u) << shift;
    }
    view->type_ = token;
    view->side_ = side;
    view->node_ = node;
    view->count_ = count;
    view->local_ = (header & kLocal) != 0;
    view->consecutive_ = (header & kConsecutive) != 0;
    view->directory_ = nullptr;
    if ((header & kPieces) != 0) {
      view->directory_ = at;
      view->packed_ = at + view->pieces() * kPieceEntry;
    } else {
      const int other_bytes = BytesOfCode(header >> kOtherBaseAt & 7);
      const int edge_bytes = BytesOfCode(header >> kEdgeBaseAt & 7);
      view->other_base_ = LoadBytes(at, other_bytes);
      view->edge_base_ = LoadBytes(at + other_bytes, edge_bytes);
      view->packed_ = at + other_bytes + edge_bytes;
      view->other_width_ = static_cast<uint8_t>(WidthOfCode(header & 63));
      view->edge_width_ = static_cast<uint8_t>(WidthOfCode(header >> kEdgeWidthAt & 63));
    }
    view->versions_ = nullptr;
    if ((header & kStamps) != 0) view->versions_ = view->packed_ + DataBytes(*view);
  }

  // Of the packed bits.
  static uint64_t DataBytes(const ListView& view) {
    if (view.directory_ == nullptr) {
      return PackedBytes(view.count_ - 1, view.other_width_) +
             (view.consecutive_ ? 0 : PackedBytes(view.count_, view.edge_width_));
    }
    const uint64_t last = view.pieces() - 1;
    const PieceEntry entry = ReadPiece(view.directory_, last);
    return entry.offset + PieceBytes(entry, view.PieceCount(last), view.consecutive_);
  }

  // Whether a list of `count` records takes exactly `bytes` bytes from `at` on.
  static bool Check(const char* at, uint64_t bytes, uint64_t count, bool* has_stamps) {
    if (count == 0 || count > kMaxList || bytes < kHeaderBytes + 1) return false;
    const auto header = static_cast<uint32_t>(LoadWord(at) & LowBits(24));
    if ((header & (kSeveral | kUnused)) != 0) return false;
    if (((header & kPieces) != 0) != (count > kPiece)) return false;
    if ((header & 63) > 57 || (header >> kEdgeWidthAt & 63) > 57) return false;
    absl::string_view rest(at + kHeaderBytes, bytes - kHeaderBytes);
    uint64_t type = 0;
    if (!ReadVarint(&rest, &type) || type > kNoToken) return false;
    if ((header & kPieces) != 0) {
      const uint64_t pieces = (count + kPiece - 1) / kPiece;
      if (rest.size() < pieces * kPieceEntry) return false;
      uint64_t offset = 0;
      for (uint64_t i = 0; i < pieces; ++i) {
        const PieceEntry entry = ReadPiece(rest.data(), i);
        if (entry.other_code > 57 || entry.edge_code > 57 || entry.offset != offset) return false;
        offset += PieceBytes(entry, std::min<uint64_t>(kPiece, count - i * kPiece),
                             (header & kConsecutive) != 0);
      }
    } else {
      const auto other_bytes = static_cast<size_t>(BytesOfCode(header >> kOtherBaseAt & 7));
      const auto edge_bytes = static_cast<size_t>(BytesOfCode(header >> kEdgeBaseAt & 7));
      if (rest.size() < other_bytes + edge_bytes) return false;
    }
    ListView view;
    Read(at, 0, Side::kOut, count, &view);
    const char* end = view.packed_ + DataBytes(view);
    if (end > at + bytes) return false;
    const auto left = static_cast<uint64_t>(at + bytes - end);
    if (view.versions_ == nullptr) return left == 0;
    if (has_stamps != nullptr) *has_stamps = true;
    return left >= 2 && static_cast<uint8_t>(end[0]) <= 57 && static_cast<uint8_t>(end[1]) <= 3 &&
           VersionBytes(end, count) == left;
  }
};

void ListView::Others(uint64_t piece, NodeId* out) const {
  if (directory_ == nullptr) {
    UnpackSums(packed_, other_width_, count_, other_base_, out);
    return;
  }
  const PieceEntry entry = ReadPiece(directory_, piece);
  UnpackSums(packed_ + entry.offset, WidthOfCode(entry.other_code), PieceCount(piece),
             entry.other_base, out);
}

void ListView::Edges(uint64_t piece, const NodeId* others, EdgeId* out) const {
  const uint32_t n = PieceCount(piece);
  uint64_t base = edge_base_;
  const char* packed = packed_;
  int other_width = other_width_, edge_width = edge_width_;
  if (directory_ != nullptr) {
    const PieceEntry entry = ReadPiece(directory_, piece);
    base = entry.edge_base;
    packed += entry.offset;
    other_width = WidthOfCode(entry.other_code);
    edge_width = WidthOfCode(entry.edge_code);
  }
  if (local_) base += LocalEdgeId(side_ == Side::kOut ? node_ : 0, 0);
  if (consecutive_) {
    for (uint32_t i = 0; i < n; ++i) out[i] = base + i;
  } else {
    UnpackBits(packed + PackedBytes(n - 1, other_width), edge_width, 0, n, base, out);
  }
  if (local_ && side_ == Side::kIn) {
    for (uint32_t i = 0; i < n; ++i) out[i] += others[i] << kOrdinalBits;
  }
}

EdgeId ListView::first_edge() const {
  const uint64_t base = directory_ == nullptr ? edge_base_ : ReadPiece(directory_, 0).edge_base;
  return local_ ? LocalEdgeId(node_, 0) + base : base;
}

void ListView::Stamps(uint64_t piece, uint64_t* out) const {
  const uint32_t n = PieceCount(piece);
  if (versions_ == nullptr) {
    std::fill(out, out + n, 0);
    return;
  }
  const uint64_t first = piece * kPiece;
  const int width = WidthOfCode(static_cast<uint8_t>(versions_[0]));
  const auto flags = static_cast<uint8_t>(versions_[1]);
  const char* at = versions_ + 2;
  uint64_t base = 0;
  if (width > 0) {
    base = LoadWord(at);
    at += 8;
  }
  UnpackBits(at, width, first, n, 0, out);
  for (uint32_t i = 0; i < n; ++i) out[i] = out[i] == 0 ? 0 : MakeStamp(base + out[i]);
  at += PackedBytes(count_, width);
  for (const uint8_t kind : {kTombstoneBits, kUpdateBits}) {
    if ((flags & kind) == 0) continue;
    for (uint32_t i = 0; i < n; ++i) {
      if (BitOf(at, first + i)) out[i] |= kind == kTombstoneBits ? kTombstone : kUpdate;
    }
    at += (count_ + 7) / 8;
  }
}

uint64_t ListView::PieceOf(NodeId other) const {
  if (directory_ == nullptr) return 0;
  uint64_t low = 0, high = pieces() - 1;
  while (low < high) {
    const uint64_t middle = (low + high) / 2;
    if (LoadWord(directory_ + (middle + 1) * kPieceEntry) >= other) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  return low;
}

uint64_t ListView::CountOther(NodeId other) const {
  NodeId others[kPiece];
  uint64_t count = 0;
  for (uint64_t piece = PieceOf(other); piece < pieces(); ++piece) {
    const uint32_t n = PieceCount(piece);
    Others(piece, others);
    if (others[0] > other) break;
    const auto range = std::equal_range(others, others + n, other);
    count += static_cast<uint64_t>(range.second - range.first);
  }
  return count;
}

uint64_t ListView::Find(NodeId other, EdgeId edge) const {
  const uint64_t last = pieces();
  uint64_t piece = PieceOf(other);
  NodeId others[kPiece];
  EdgeId edges[kPiece];
  for (; piece < last; ++piece) {
    const uint32_t n = PieceCount(piece);
    Others(piece, others);
    if (others[0] > other) break;
    const auto at = static_cast<uint32_t>(std::lower_bound(others, others + n, other) - others);
    if (at == n || others[at] != other) continue;
    Edges(piece, others, edges);
    for (uint32_t i = at; i < n && others[i] == other; ++i) {
      if (edges[i] == edge) return piece * kPiece + i;
    }
  }
  return count_;
}

void NodeView::Lists::BeginSeveral() {
  several_ = true;
  left_ = LoadWord(at_) & LowBits(24) & ~uint64_t{kSeveral};
  at_ += kHeaderBytes;
}

void NodeView::Lists::ReadOnly(ListView* list) const {
  ListLayout::Read(at_, view_.node(), view_.side(), view_.count(), list);
}

bool NodeView::Lists::NextOfSeveral(ListView* list) {
  absl::string_view rest(at_, static_cast<size_t>(view_.data() + view_.bytes() - at_));
  uint64_t count = 0, bytes = 0;
  if (!ReadVarint(&rest, &count) || !ReadVarint(&rest, &bytes)) return false;
  ListLayout::Read(rest.data(), view_.node(), view_.side(), count, list);
  at_ = rest.data() + bytes;
  return true;
}

bool EncodeBlock(NodeId node, Side side, std::span<const ListInput> lists, uint64_t horizon,
                 std::string* out) {
  if (lists.size() == 1) return EncodeList(node, side, lists[0], horizon, out);
  bool stamps = false;
  AppendBytes(kSeveral | lists.size(), kHeaderBytes, out);
  std::string bytes;
  for (const ListInput& list : lists) {
    bytes.clear();
    stamps = EncodeList(node, side, list, horizon, &bytes) || stamps;
    AppendVarint(list.others.size(), out);
    AppendVarint(bytes.size(), out);
    out->append(bytes);
  }
  return stamps;
}

bool CheckBlock(const char* data, uint64_t bytes, uint64_t count, bool* has_stamps) {
  if (bytes < kHeaderBytes + 1) return false;
  const auto header = static_cast<uint32_t>(LoadWord(data) & LowBits(24));
  if ((header & kSeveral) == 0) return ListLayout::Check(data, bytes, count, has_stamps);
  absl::string_view rest(data + kHeaderBytes, bytes - kHeaderBytes);
  uint64_t sum = 0;
  for (uint32_t left = header & ~kSeveral; left > 0; --left) {
    uint64_t of_list = 0, list_bytes = 0;
    if (!ReadVarint(&rest, &of_list) || !ReadVarint(&rest, &list_bytes)) return false;
    if (list_bytes > rest.size() || of_list > count - sum) return false;
    if (!ListLayout::Check(rest.data(), list_bytes, of_list, has_stamps)) return false;
    sum += of_list;
    rest.remove_prefix(list_bytes);
  }
  return rest.empty() && sum == count;
}

}  // namespace pulse::graph
