#include <algorithm>
#include <cerrno>
#include <cstring>
#include <exception>
#include <memory>

#include "services/graph/library/arrow.h"
#include "services/graph/library/column_types.h"
#include "services/graph/model/temporal.h"
#include "services/graph/model/text.h"

namespace pulse::graph {
namespace {

using cypher::Concat;
using cypher::Type;
using cypher::Value;

constexpr size_t kBatchRows = 65536;
constexpr int64_t kNullable = 2;  // ARROW_FLAG_NULLABLE

std::string FormatOf(const FrameType& type) {
  switch (type.kind) {
    case FrameKind::kBool:
      return "b";
    case FrameKind::kInt:
      return "l";
    case FrameKind::kFloat:
      return "g";
    case FrameKind::kString:
      return "u";
    case FrameKind::kBytes:
      return "z";
    case FrameKind::kDate:
      return "tdD";
    case FrameKind::kLocalTime:
      return "ttn";
    case FrameKind::kLocalDateTime:
      return type.nanos ? "tsn:" : "tsu:";
    case FrameKind::kInstant:
      return (type.nanos ? "tsn:" : "tsu:") + type.zone;
    case FrameKind::kDuration:
      return "tin";
    case FrameKind::kList:
      return "+l";
    case FrameKind::kStruct:
      return "+s";
    default:
      return "n";
  }
}

// --- Schemas.

struct SchemaOwner {
  SchemaOwner() = default;
  SchemaOwner(const SchemaOwner&) = delete;
  SchemaOwner& operator=(const SchemaOwner&) = delete;
  ~SchemaOwner() {
    for (const auto& child : children) {
      if (child->release != nullptr) child->release(child.get());
    }
  }
  std::string format, name;
  std::vector<std::unique_ptr<ArrowSchema>> children;
  std::vector<ArrowSchema*> pointers;
};

void ReleaseSchema(ArrowSchema* schema) {
  delete static_cast<SchemaOwner*>(schema->private_data);
  schema->release = nullptr;
}

void MakeSchema(const FrameType& type, const std::string& name, ArrowSchema* out) {
  auto owner = std::make_unique<SchemaOwner>();
  owner->format = FormatOf(type);
  owner->name = name;
  for (size_t i = 0; i < type.children.size(); ++i) {
    owner->children.push_back(std::make_unique<ArrowSchema>());
    owner->pointers.push_back(owner->children.back().get());
    MakeSchema(type.children[i], type.kind == FrameKind::kList ? "item" : type.names[i],
               owner->pointers.back());
  }
  *out = {};
  out->format = owner->format.c_str();
  out->name = owner->name.c_str();
  out->flags = kNullable;
  out->n_children = static_cast<int64_t>(owner->pointers.size());
  out->children = owner->pointers.data();
  out->release = ReleaseSchema;
  out->private_data = owner.release();
}

// --- Arrays.

struct ArrayOwner {
  ArrayOwner() = default;
  ArrayOwner(const ArrayOwner&) = delete;
  ArrayOwner& operator=(const ArrayOwner&) = delete;
  ~ArrayOwner() {
    for (const auto& child : children) {
      if (child->release != nullptr) child->release(child.get());
    }
  }
  std::vector<std::string> buffers;  // bytes
  std::vector<const void*> pointers;
  std::vector<std::unique_ptr<ArrowArray>> children;
  std::vector<ArrowArray*> child_pointers;
};

void ReleaseArray(ArrowArray* array) {
  delete static_cast<ArrayOwner*>(array->private_data);
  array->release = nullptr;
}

// Collects the values of one array, and of those below it.
class Builder {
 public:
  Builder(const FrameType& type, const EntityRecords* entities) : type_(type), entities_(entities) {
    for (const FrameType& child : type.children) {
      children_.push_back(std::make_unique<Builder>(child, entities));
    }
    if (HasOffsets()) Fixed(int32_t{0}, &offsets_);
  }

  // False: *why says what does not fit into the type.
  bool Add(const Value& value, std::string* why) {
    const bool null = value.is_null();
    if (rows_ % 8 == 0) valid_.push_back(0);
    if (!null) valid_.back() = static_cast<char>(valid_.back() | (1 << (rows_ % 8)));
    nulls_ += null ? 1 : 0;
    ++rows_;
    switch (type_.kind) {
      case FrameKind::kNull:
      case FrameKind::kMixed:
        return true;
      case FrameKind::kBool:
        if ((rows_ - 1) % 8 == 0) data_.push_back(0);
        if (value.is_true()) {
          data_.back() = static_cast<char>(data_.back() | (1 << ((rows_ - 1) % 8)));
        }
        return true;
      case FrameKind::kFloat:
        Fixed(null ? 0.0 : value.as_number(), &data_);
        return true;
      case FrameKind::kString:
        if (!null) {
          data_ += value.is_string() ? value.as_string() : cypher::TemporalText(value);
        }
        return Offset(data_.size(), why);
      case FrameKind::kBytes:
        if (!null) data_ += value.as_bytes();
        return Offset(data_.size(), why);
      case FrameKind::kDate:
        if (value.is_null() || value.as_days() == static_cast<int32_t>(value.as_days())) {
          Fixed(static_cast<int32_t>(null ? 0 : value.as_days()), &data_);
          return true;
        }
        *why = "a date is out of Arrow's range";
        return false;
      case FrameKind::kDuration:
        return AddDuration(value, why);
      case FrameKind::kList:
        if (!null) {
          for (const Value& item : value.as_list()) {
            if (!children_[0]->Add(item, why)) return false;
          }
        }
        return Offset(children_[0]->rows_, why);
      case FrameKind::kStruct:
        return AddStruct(value, why);
      default:
        return AddInt(value, why);
    }
  }

  void Finish(ArrowArray* out) {
    auto owner = std::make_unique<ArrayOwner>();
    *out = {};
    out->length = static_cast<int64_t>(rows_);
    out->null_count = static_cast<int64_t>(nulls_);
    if (type_.kind == FrameKind::kNull) {
      out->null_count = out->length;
    } else {
      owner->buffers.push_back(nulls_ == 0 ? std::string() : std::move(valid_));
      if (HasOffsets()) owner->buffers.push_back(std::move(offsets_));
      if (type_.kind != FrameKind::kStruct && type_.kind != FrameKind::kList) {
        owner->buffers.push_back(std::move(data_));
      }
    }
    for (size_t i = 0; i < owner->buffers.size(); ++i) {
      owner->pointers.push_back(i == 0 && nulls_ == 0 ? nullptr : owner->buffers[i].data());
    }
    for (const auto& child : children_) {
      owner->children.push_back(std::make_unique<ArrowArray>());
      owner->child_pointers.push_back(owner->children.back().get());
      child->Finish(owner->child_pointers.back());
    }
    out->n_buffers = static_cast<int64_t>(owner->pointers.size());
    out->buffers = owner->pointers.data();
    out->n_children = static_cast<int64_t>(owner->child_pointers.size());
    out->children = owner->child_pointers.data();
    out->release = ReleaseArray;
    out->private_data = owner.release();
  }

 private:
  bool HasOffsets() const {
    return type_.kind == FrameKind::kString || type_.kind == FrameKind::kBytes ||
           type_.kind == FrameKind::kList;
  }

  template <typename T>
  static void Fixed(T value, std::string* out) {
    out->append(reinterpret_cast<const char*>(&value), sizeof value);
  }

  bool Offset(size_t end, std::string* why) {
    if (end > INT32_MAX) {
      *why = "65,536 rows take more than 2 GiB";
      return false;
    }
    Fixed(static_cast<int32_t>(end), &offsets_);
    return true;
  }

  bool AddInt(const Value& value, std::string* why) {
    if (type_.kind == FrameKind::kLocalDateTime || type_.kind == FrameKind::kInstant) {
      // Years that nanoseconds, or even microseconds, of 64 bits do not reach.
      const int64_t seconds = value.is_null()                   ? 0
                              : value.type() == Type::kDateTime ? value.as_datetime().seconds
                                                                : value.as_local_seconds();
      const int64_t most = type_.nanos ? 9'223'372'035 : 9'223'372'036'853;
      if (seconds > most || seconds < -most) {
        *why = type_.nanos ? "a date-time is out of the range of nanoseconds, which another needs"
                           : "a date-time is out of Arrow's range";
        return false;
      }
    }
    Fixed(FixedInt(type_, value), &data_);
    return true;
  }

  bool AddDuration(const Value& value, std::string* why) {
    const cypher::Duration duration = value.is_null() ? cypher::Duration() : value.as_duration();
    if (duration.months != static_cast<int32_t>(duration.months) ||
        duration.days != static_cast<int32_t>(duration.days) || duration.seconds > 9'223'372'035 ||
        duration.seconds < -9'223'372'035) {
      *why = "a duration is out of Arrow's range";
      return false;
    }
    Fixed(static_cast<int32_t>(duration.months), &data_);
    Fixed(static_cast<int32_t>(duration.days), &data_);
    Fixed(duration.seconds * cypher::kNanosPerSecond + duration.nanos, &data_);
    return true;
  }

  bool AddStruct(const Value& value, std::string* why) {
    const Value map = Plain(value, entities_);
    for (size_t i = 0; i < children_.size(); ++i) {
      const Value* item = map.is_null() ? nullptr : map.Find(type_.names[i]);
      if (!children_[i]->Add(item == nullptr ? Value() : *item, why)) return false;
    }
    return true;
  }

  const FrameType& type_;
  const EntityRecords* const entities_;
  std::vector<std::unique_ptr<Builder>> children_;
  std::string valid_, offsets_, data_;
  size_t rows_ = 0, nulls_ = 0;
};

// --- The stream. Its functions are called by whoever took it, on any thread.

struct Stream {
  std::shared_ptr<const ResultTable> table;
  FrameType row;  // a struct of the columns
  size_t next = 0;
  bool begun = false;
  std::string error;
};

Stream* StreamOf(ArrowArrayStream* stream) { return static_cast<Stream*>(stream->private_data); }

// No exception goes to who reads. A call that was refused memory has changed nothing.
template <typename Function>
int Within(Stream* stream, const Function& function) {
  try {
    return function();
  } catch (const std::exception&) {   // bad_alloc, or length_error: more than there can be
    stream->error = "out of memory";  // short: this takes none
    return ENOMEM;
  }
}

int GetSchema(ArrowArrayStream* stream, ArrowSchema* out) {
  Stream* const s = StreamOf(stream);
  *out = {};
  return Within(s, [&] {
    MakeSchema(s->row, "", out);
    return 0;
  });
}

int NextBatch(Stream* stream, ArrowArray* out) {
  Stream& s = *stream;
  const ResultTable& table = *s.table;
  if (s.next >= table.rows() && s.begun) return 0;
  const size_t end = std::min(table.rows(), s.next + kBatchRows);
  auto owner = std::make_unique<ArrayOwner>();
  for (size_t i = 0; i < table.width(); ++i) {
    Builder builder(s.row.children[i], table.entities());
    std::string why;
    for (size_t row = s.next; row < end; ++row) {
      if (builder.Add(table.At(row, i), &why)) continue;
      s.error = Concat("column ", table.columns()[i], ": ", why);
      return EINVAL;
    }
    owner->children.push_back(std::make_unique<ArrowArray>());
    owner->child_pointers.push_back(owner->children.back().get());
    builder.Finish(owner->child_pointers.back());
  }
  owner->pointers.push_back(nullptr);
  out->length = static_cast<int64_t>(end - s.next);
  out->n_buffers = 1;
  out->buffers = owner->pointers.data();
  out->n_children = static_cast<int64_t>(owner->child_pointers.size());
  out->children = owner->child_pointers.data();
  out->release = ReleaseArray;
  out->private_data = owner.release();
  s.begun = true;
  s.next = end;
  return 0;
}

int GetNext(ArrowArrayStream* stream, ArrowArray* out) {
  *out = {};
  return Within(StreamOf(stream), [&] { return NextBatch(StreamOf(stream), out); });
}

const char* GetLastError(ArrowArrayStream* stream) {
  const std::string& error = StreamOf(stream)->error;
  return error.empty() ? nullptr : error.c_str();
}

void ReleaseStream(ArrowArrayStream* stream) {
  delete StreamOf(stream);
  stream->release = nullptr;
}

// The name of a column, or of a field below it, that has no single type; empty: there is none.
std::string FindMixed(const FrameType& type, const std::string& name) {
  if (type.kind == FrameKind::kMixed) return Concat(name, " holds ", type.zone);
  for (size_t i = 0; i < type.children.size(); ++i) {
    const std::string below = type.names.empty() ? name + "[]" : Concat(name, ".", type.names[i]);
    std::string found = FindMixed(type.children[i], below);
    if (!found.empty()) return found;
  }
  return {};
}

// Whether a name at which Arrow's would end early is in it.
bool HasNul(const FrameType& type) {
  return std::any_of(type.names.begin(), type.names.end(),
                     [](const auto& name) { return name.find('\0') != std::string::npos; }) ||
         std::any_of(type.children.begin(), type.children.end(), HasNul);
}

}  // namespace

absl::Status ExportArrow(std::shared_ptr<const ResultTable> table, ArrowArrayStream* out) {
  auto state = std::make_unique<Stream>();
  state->table = std::move(table);
  state->row.kind = FrameKind::kStruct;
  state->row.names = state->table->columns();
  for (size_t i = 0; i < state->table->width(); ++i) {
    state->row.children.push_back(TypeOf(*state->table, i));
    const std::string mixed =
        FindMixed(state->row.children.back(), "column " + state->table->columns()[i]);
    if (mixed.empty()) continue;
    return absl::InvalidArgumentError(
        Concat(mixed, "; a column of Arrow has one type: let the query return toString() of it"));
  }
  if (HasNul(state->row)) {
    return absl::InvalidArgumentError(
        "the name of a column, or a key of a map, has a NUL, which no name in Arrow can have: let "
        "the query name it otherwise");
  }
  out->get_schema = GetSchema;
  out->get_next = GetNext;
  out->get_last_error = GetLastError;
  out->release = ReleaseStream;
  out->private_data = state.release();
  return absl::OkStatus();
}

}  // namespace pulse::graph
