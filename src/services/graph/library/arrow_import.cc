#include <cstring>
#include <memory>
#include <optional>

#include "base/errors.h"
#include "services/graph/library/arrow.h"
#include "services/graph/load/load_columns.h"
#include "services/graph/model/temporal.h"
#include "services/graph/model/text.h"

namespace pulse::graph {
namespace {

using cypher::Column;
using cypher::Concat;
using cypher::Value;

// Released at the end, unless it was before.
template <typename T>
struct Held {
  T value = {};
  Held() = default;
  Held(const Held&) = delete;
  Held& operator=(const Held&) = delete;
  ~Held() {
    if (value.release != nullptr) value.release(&value);
  }
};

// Offset and zone of a date-time that Arrow has by its instant.
Value MakeInstant(int64_t seconds, int32_t nanos, const cypher::Zone& zone) {
  return Value::MakeDateTime({seconds, nanos, cypher::OffsetAt(seconds, zone), zone.name});
}

// What a format says, once for a column.
class Reader {
 public:
  Reader(std::string name, const ArrowSchema& schema)
      : name_(std::move(name)), format_(schema.format) {
    if (schema.dictionary != nullptr) {
      dictionary_ = std::make_unique<Reader>(name_, *schema.dictionary);
      return;
    }
    if ((format_ == "+l" || format_ == "+L") && schema.n_children == 1) {
      child_ = std::make_unique<Reader>(name_, *schema.children[0]);
      return;
    }
    if (format_.size() >= 4 && format_.substr(0, 2) == "ts") {
      const std::string zone = format_.substr(4);
      if (!zone.empty()) {
        zone_ = cypher::ParseZone(zone == "UTC" || zone == "utc" ? "Z" : zone);
        if (!zone_) Refuse(Concat("the zone ", zone, " is not known here"));
      }
      return;
    }
    static constexpr std::string_view kKnown[] = {"n", "b", "c", "C", "s", "S",  "i",   "I",  "l",
                                                  "L", "f", "g", "u", "U", "vu", "tdD", "tdm"};
    for (const std::string_view known : kKnown) {
      if (format_ == known) return;
    }
    Refuse(Concat("the Arrow type \"", format_, "\" is not one that a property can have; cast it"));
  }

  // Of this, and what is below it.
  absl::Status status() const {
    absl::Status status = status_;
    if (dictionary_ != nullptr) status.Update(dictionary_->status());
    if (child_ != nullptr) status.Update(child_->status());
    return status;
  }

  Column::Kind kind() const {
    if (dictionary_ != nullptr || format_.size() != 1) return Column::Kind::kValues;
    if (std::strchr("cCsSiIlL", format_[0]) != nullptr) return Column::Kind::kInts;
    return format_ == "f" || format_ == "g" ? Column::Kind::kFloats : Column::Kind::kValues;
  }

  void Append(const ArrowArray& array, Column* out) {
    for (int64_t i = 0; i < array.length; ++i) {
      const bool valid = IsValid(array, i);
      switch (out->kind) {
        case Column::Kind::kInts:
          out->ints.push_back(valid ? Int(array, i) : 0);
          out->valid.push_back(valid ? 1 : 0);
          break;
        case Column::Kind::kFloats:
          out->floats.push_back(!valid           ? 0
                                : format_ == "f" ? At<float>(array, i)
                                                 : At<double>(array, i));
          out->valid.push_back(valid ? 1 : 0);
          break;
        default:
          out->values.push_back(valid ? At(array, i) : Value());
      }
    }
  }

 private:
  void Refuse(std::string_view why) {
    status_.Update(absl::InvalidArgumentError(Concat("column ", name_, ": ", why)));
  }

  bool IsValid(const ArrowArray& array, int64_t i) const {
    if (format_ == "n") return false;
    const auto* bits = static_cast<const uint8_t*>(array.buffers[0]);
    const int64_t at = i + array.offset;
    return array.null_count == 0 || bits == nullptr || ((bits[at / 8] >> (at % 8)) & 1) != 0;
  }

  template <typename T>
  static T At(const ArrowArray& array, int64_t i, int buffer = 1) {
    T value;
    std::memcpy(&value,
                static_cast<const char*>(array.buffers[buffer]) +
                    static_cast<size_t>(i + array.offset) * sizeof(T),
                sizeof(T));
    return value;
  }

  int64_t Int(const ArrowArray& array, int64_t i) {
    switch (format_[0]) {
      case 'c':
        return At<int8_t>(array, i);
      case 'C':
        return At<uint8_t>(array, i);
      case 's':
        return At<int16_t>(array, i);
      case 'S':
        return At<uint16_t>(array, i);
      case 'i':
        return At<int32_t>(array, i);
      case 'I':
        return At<uint32_t>(array, i);
      case 'L': {
        const auto value = At<uint64_t>(array, i);
        if (value > INT64_MAX) {
          status_.Update(absl::OutOfRangeError(
              Concat("column ", name_, ": ", value, " is more than 2**63 - 1")));
        }
        return static_cast<int64_t>(value);
      }
      default:
        return At<int64_t>(array, i);
    }
  }

  Value At(const ArrowArray& array, int64_t i) {
    if (!IsValid(array, i)) return {};
    if (dictionary_ != nullptr) return dictionary_->At(*array.dictionary, Int(array, i));
    if (child_ != nullptr) return List(array, i);
    switch (format_[0]) {
      case 'b': {
        const int64_t at = i + array.offset;
        return Value::Bool(
            ((static_cast<const uint8_t*>(array.buffers[1])[at / 8] >> (at % 8)) & 1) != 0);
      }
      case 'u':
        return Text(array, At<int32_t>(array, i), At<int32_t>(array, i + 1));
      case 'U':
        return Text(array, At<int64_t>(array, i), At<int64_t>(array, i + 1));
      case 'v':
        return View(array, i);
      case 'f':
        return Value::Float(At<float>(array, i));
      case 'g':
        return Value::Float(At<double>(array, i));
      case 't':
        return Temporal(array, i);
      default:
        return Value::Int(Int(array, i));
    }
  }

  Value Text(const ArrowArray& array, int64_t begin, int64_t end) const {
    return Value::String(
        {static_cast<const char*>(array.buffers[2]) + begin, static_cast<size_t>(end - begin)});
  }

  // 16 bytes: the length, and up to 12 bytes, or the first four, a buffer and an offset.
  Value View(const ArrowArray& array, int64_t i) const {
    struct Cell {
      int32_t size;
      char text[4];
      int32_t buffer, offset;
    };
    const auto cell = At<Cell>(array, i);
    const auto size = static_cast<size_t>(cell.size);
    if (cell.size <= 12) {
      const char* at = static_cast<const char*>(array.buffers[1]) +
                       static_cast<size_t>(i + array.offset) * sizeof(Cell) + sizeof cell.size;
      return Value::String({at, size});
    }
    return Value::String(
        {static_cast<const char*>(array.buffers[2 + cell.buffer]) + cell.offset, size});
  }

  Value List(const ArrowArray& array, int64_t i) {
    const int64_t begin = format_ == "+l" ? At<int32_t>(array, i) : At<int64_t>(array, i);
    const int64_t end = format_ == "+l" ? At<int32_t>(array, i + 1) : At<int64_t>(array, i + 1);
    cypher::ValueList list;
    for (int64_t at = begin; at < end; ++at) list.push_back(child_->At(*array.children[0], at));
    return Value::List(std::move(list));
  }

  Value Temporal(const ArrowArray& array, int64_t i) {
    if (format_ == "tdD") return Value::Date(At<int32_t>(array, i));
    if (format_ == "tdm") return Value::Date(cypher::FloorDiv(At<int64_t>(array, i), 86'400'000));
    const int64_t parts = format_[2] == 's'   ? 1
                          : format_[2] == 'm' ? 1000
                          : format_[2] == 'u' ? 1'000'000
                                              : cypher::kNanosPerSecond;
    const auto value = At<int64_t>(array, i);
    const int64_t seconds = cypher::FloorDiv(value, parts);
    constexpr int64_t kMost = cypher::kMaxYear * 366 * cypher::kSecondsPerDay;
    if (seconds > kMost || seconds < -kMost) {
      status_.Update(absl::OutOfRangeError(
          Concat("column ", name_, ": a timestamp is beyond the year ", cypher::kMaxYear)));
      return {};
    }
    const auto nanos =
        static_cast<int32_t>(cypher::FloorMod(value, parts) * (cypher::kNanosPerSecond / parts));
    return zone_ ? MakeInstant(seconds, nanos, *zone_) : Value::LocalDateTime(seconds, nanos);
  }

  const std::string name_, format_;
  std::unique_ptr<Reader> dictionary_, child_;
  std::optional<cypher::Zone> zone_;
  absl::Status status_;
};

}  // namespace

absl::StatusOr<NamedColumns> ImportArrow(ArrowArrayStream* stream, uint64_t* rows) {
  const auto failed = [stream] {
    const char* why = stream->get_last_error(stream);
    return absl::InternalError(why == nullptr ? "the Arrow stream failed" : why);
  };
  Held<ArrowSchema> schema;
  if (stream->get_schema(stream, &schema.value) != 0) return failed();
  if (std::string_view(schema.value.format) != "+s") {
    return absl::InvalidArgumentError("this Arrow stream is no table: it has no columns");
  }
  NamedColumns columns;
  std::vector<std::unique_ptr<Reader>> readers;
  for (int64_t i = 0; i < schema.value.n_children; ++i) {
    const ArrowSchema& child = *schema.value.children[i];
    const std::string name = child.name == nullptr ? "" : child.name;
    readers.push_back(std::make_unique<Reader>(name, child));
    PULSE_RETURN_IF_ERROR(readers.back()->status());
    columns.emplace_back(name, Column());
    columns.back().second.kind = readers.back()->kind();
  }
  *rows = 0;
  for (;;) {
    Held<ArrowArray> batch;
    if (stream->get_next(stream, &batch.value) != 0) return failed();
    if (batch.value.release == nullptr) return columns;
    if (batch.value.n_children != schema.value.n_children) {
      return absl::InternalError("a batch of the Arrow stream has other columns than its schema");
    }
    *rows += static_cast<uint64_t>(batch.value.length);
    for (size_t i = 0; i < columns.size(); ++i) {
      ArrowArray child = *batch.value.children[i];
      // A slice of a struct moves those of its fields, too.
      child.offset += batch.value.offset;
      child.length = batch.value.length;
      readers[i]->Append(child, &columns[i].second);
      PULSE_RETURN_IF_ERROR(readers[i]->status());
    }
  }
}

}  // namespace pulse::graph
