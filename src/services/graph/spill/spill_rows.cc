#include "services/graph/spill/spill_rows.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/errors.h"
#include "services/graph/model/value_codec.h"

namespace pulse::cypher {
namespace {

// First bytes of what value_codec.h does not have, or not with such values within.
enum Tag : uint8_t {
  kTagNode = kFirstForeignTag,
  kTagEdge,
  kTagPath,
  kTagList,
  kTagMap,
  kTagSame,
  kTagEnd,
};
static_assert(kTagEnd - 1 <= kLastForeignTag);

using Length = uint32_t;  // before each row
static_assert(sizeof(Length) == 4);

void AppendTag(Tag tag, std::string* out) { out->push_back(static_cast<char>(tag)); }

void AppendEdge(const EdgeRef& edge, std::string* out) {
  AppendVarint(edge.id, out);
  AppendVarint(edge.source, out);
  AppendVarint(edge.target, out);
  AppendVarint(edge.type, out);
}

bool ReadEdge(std::string_view* in, EdgeRef* edge) {
  uint64_t type;
  if (!ReadVarint(in, &edge->id) || !ReadVarint(in, &edge->source) ||
      !ReadVarint(in, &edge->target) || !ReadVarint(in, &type) || type > kNoToken) {
    return false;
  }
  edge->type = static_cast<Token>(type);
  return true;
}

bool ReadPath(std::string_view* in, Value* value) {
  uint64_t length;
  if (!ReadVarint(in, &length) || length > in->size()) return false;
  Path path;
  path.nodes.resize(length + 1);
  path.edges.resize(length);
  for (NodeId& node : path.nodes) {
    if (!ReadVarint(in, &node)) return false;
  }
  for (EdgeRef& edge : path.edges) {
    if (!ReadEdge(in, &edge)) return false;
  }
  *value = Value::MakePath(std::move(path));
  return true;
}

bool ReadList(std::string_view* in, Value* value) {
  uint64_t count;
  if (!ReadVarint(in, &count) || count > in->size()) return false;
  ValueList list(count);
  for (Value& v : list) {
    if (!ReadRowValue(in, &v)) return false;
  }
  *value = Value::List(std::move(list));
  return true;
}

bool ReadMap(std::string_view* in, Value* value) {
  uint64_t count, length;
  if (!ReadVarint(in, &count) || count > in->size()) return false;
  ValueMap map(count);
  for (auto& [key, v] : map) {
    std::string_view text;
    if (!ReadVarint(in, &length) || !ReadBytes(in, length, &text) || !ReadRowValue(in, &v)) {
      return false;
    }
    key = text;
  }
  *value = Value::Map(std::move(map));
  return true;
}

}  // namespace

void AppendRowValue(const Value& value, std::string* out) {
  switch (value.type()) {
    case Type::kNode:
      AppendTag(kTagNode, out);
      return AppendVarint(value.as_node(), out);
    case Type::kEdge:
      AppendTag(kTagEdge, out);
      return AppendEdge(value.as_edge(), out);
    case Type::kPath: {
      const Path& path = value.as_path();
      AppendTag(kTagPath, out);
      AppendVarint(path.edges.size(), out);
      for (const NodeId node : path.nodes) AppendVarint(node, out);
      for (const EdgeRef& edge : path.edges) AppendEdge(edge, out);
      return;
    }
    case Type::kList:
      AppendTag(kTagList, out);
      AppendVarint(value.as_list().size(), out);
      for (const Value& v : value.as_list()) AppendRowValue(v, out);
      return;
    case Type::kMap:
      AppendTag(kTagMap, out);
      AppendVarint(value.as_map().size(), out);
      for (const auto& [key, v] : value.as_map()) {
        AppendVarint(key.size(), out);
        *out += key;
        AppendRowValue(v, out);
      }
      return;
    default:
      return AppendValue(value, out);
  }
}

size_t BytesWhenRead(const Value& value) {
  size_t bytes = value.Bytes();
  if (value.is_list()) {
    for (const Value& v : value.as_list()) bytes += BytesWhenRead(v) - sizeof(Value);
  } else if (value.is_map()) {
    for (const auto& [key, v] : value.as_map()) {
      bytes += BytesWhenRead(v) - sizeof(Value) + (key.size() > 15 ? key.size() + 1 : 0);
    }
  }
  return bytes;
}

void AppendSameAsBefore(std::string* out) { AppendTag(kTagSame, out); }

bool TakeSameAsBefore(std::string_view* in) {
  if (in->empty() || static_cast<uint8_t>(in->front()) != kTagSame) return false;
  in->remove_prefix(1);
  return true;
}

bool ReadRowValue(std::string_view* in, Value* value) {
  if (in->empty()) return false;
  const auto tag = static_cast<uint8_t>(in->front());
  if (tag < kFirstForeignTag || tag > kLastForeignTag) return ReadValue(in, value);
  in->remove_prefix(1);
  switch (tag) {
    case kTagNode: {
      uint64_t node;
      return ReadVarint(in, &node) && (*value = Value::Node(node), true);
    }
    case kTagEdge: {
      EdgeRef edge;
      return ReadEdge(in, &edge) && (*value = Value::Edge(edge), true);
    }
    case kTagPath:
      return ReadPath(in, value);
    case kTagList:
      return ReadList(in, value);
    case kTagMap:
      return ReadMap(in, value);
    default:
      return false;
  }
}

absl::Status SpillWriter::Add(std::string_view row, size_t held) {
  if (row.size() > UINT32_MAX) {
    return absl::ResourceExhaustedError("a row of the query that spills takes more than 4 GiB");
  }
  const auto length = static_cast<Length>(row.size());
  char bytes[sizeof(length)];
  std::memcpy(bytes, &length, sizeof(length));
  buffer_.append(bytes, sizeof(bytes));
  buffer_ += row;
  ++run_.rows;
  run_.largest = std::max(run_.largest, row.size());
  run_.held = std::max(run_.held, held);
  return buffer_.size() >= buffer_bytes_ ? Flush() : absl::OkStatus();
}

absl::Status SpillWriter::Flush() {
  if (buffer_.empty()) return absl::OkStatus();
  PULSE_ASSIGN_OR_RETURN(const uint64_t at, file_->Append(buffer_));
  auto& pieces = run_.pieces;
  if (!pieces.empty() && pieces.back().offset + pieces.back().bytes == at) {
    pieces.back().bytes += buffer_.size();
  } else {
    pieces.push_back({at, buffer_.size()});
  }
  buffer_.clear();
  // A large row leaves nothing behind.
  if (buffer_.capacity() > 4 * buffer_bytes_) buffer_.shrink_to_fit();
  return absl::OkStatus();
}

absl::StatusOr<SpillRun> SpillWriter::Finish() {
  PULSE_RETURN_IF_ERROR(Flush());
  buffer_.shrink_to_fit();
  return std::exchange(run_, {});
}

SpillReader::SpillReader(SpillFile* file, SpillRun run, size_t buffer)
    : file_(file), run_(std::move(run)), buffer_bytes_(buffer), rows_left_(run_.rows) {}

absl::Status SpillReader::Fill(size_t bytes) {
  if (buffer_.size() - at_ >= bytes) return absl::OkStatus();
  buffer_.erase(0, at_);
  at_ = 0;
  while (buffer_.size() < bytes) {
    if (piece_ == run_.pieces.size()) {
      return absl::InternalError("a run of spilled rows ends within a row");
    }
    const SpillRun::Piece& piece = run_.pieces[piece_];
    const size_t have = buffer_.size();
    const auto n = static_cast<size_t>(
        std::min<uint64_t>(std::max(buffer_bytes_, bytes) - have, piece.bytes - piece_read_));
    buffer_.resize(have + n);
    PULSE_RETURN_IF_ERROR(file_->Read(piece.offset + piece_read_, buffer_.data() + have, n));
    piece_read_ += n;
    if (piece_read_ == piece.bytes) {
      ++piece_;
      piece_read_ = 0;
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string_view> SpillReader::Next() {
  Length length;
  PULSE_RETURN_IF_ERROR(Fill(sizeof(length)));
  std::memcpy(&length, buffer_.data() + at_, sizeof(length));
  PULSE_RETURN_IF_ERROR(Fill(sizeof(length) + length));
  const std::string_view row(buffer_.data() + at_ + sizeof(length), length);
  at_ += sizeof(length) + length;
  --rows_left_;
  return row;
}

}  // namespace pulse::cypher
