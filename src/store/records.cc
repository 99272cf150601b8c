#include "store/records.h"

#include "base/check.h"
#include "store/store.h"

namespace pulse::store {
namespace {

// Appends fields to a payload.
class FieldWriter {
 public:
  explicit FieldWriter(std::string* out) : out_(out) {}

  template <typename... T>
  void Numbers(const T&... values) {
    (out_->append(reinterpret_cast<const char*>(&values), sizeof(values)), ...);
  }
  void Name(absl::string_view name, size_t length, bool (*)(absl::string_view)) {
    out_->append(name.data(), length);
  }
  void LastName(absl::string_view name, bool (*is_valid)(absl::string_view)) {
    Name(name, name.size(), is_valid);
  }
  void Runs(const RunView& runs) { out_->append(runs.bytes(), runs.size() * sizeof(Run)); }

 private:
  std::string* const out_;
};

// Takes fields off the front of a payload; remembers when there was too little.
class FieldReader {
 public:
  FieldReader(const char* at, const char* end) : at_(at), end_(end) {}

  template <typename... T>
  void Numbers(T&... values) {
    (Number(&values), ...);
  }
  void Name(absl::string_view& name, size_t length, bool (*is_valid)(absl::string_view)) {
    if (left() < length) {
      ok_ = false;
      return;
    }
    name = absl::string_view(at_, length);
    ok_ &= is_valid(name);
    at_ += length;
  }
  void LastName(absl::string_view& name, bool (*is_valid)(absl::string_view)) {
    Name(name, left(), is_valid);
  }
  void Runs(RunView& runs) {
    if (left() % sizeof(Run) != 0) ok_ = false;
    runs = RunView(at_, left() / sizeof(Run));
    at_ = end_;
  }
  bool Done() const { return ok_ && at_ == end_; }

 private:
  size_t left() const { return static_cast<size_t>(end_ - at_); }
  template <typename T>
  void Number(T* value) {
    if (left() < sizeof(T)) {
      ok_ = false;
      return;
    }
    std::memcpy(value, at_, sizeof(T));
    at_ += sizeof(T);
  }

  const char* at_;
  const char* const end_;
  bool ok_ = true;
};

// The fields of a record's payload in their order, written or read. False: an unknown type.
template <typename AnyRecord, typename Fields>
bool VisitFields(AnyRecord& r, Fields& fields) {
  switch (r.type) {
    case RecordType::kCreateDirectory:
    case RecordType::kDirectory:
      fields.Numbers(r.directory);
      fields.LastName(r.name, IsDirectoryName);
      return true;
    case RecordType::kRemoveDirectory:
    case RecordType::kClearDirectory:
      fields.Numbers(r.directory);
      return true;
    case RecordType::kRenameDirectory:
      fields.Numbers(r.directory, r.to_directory);
      fields.LastName(r.to_name, IsDirectoryName);
      return true;
    case RecordType::kCreateFile:
      fields.Numbers(r.file, r.directory, r.time_ns);
      fields.LastName(r.name, IsFileName);
      return true;
    case RecordType::kUnlink:
      fields.Numbers(r.directory);
      fields.LastName(r.name, IsFileName);
      return true;
    case RecordType::kRename: {
      auto length = static_cast<uint16_t>(r.name.size());
      fields.Numbers(r.directory, r.to_directory, length);
      fields.Name(r.name, length, IsFileName);
      fields.LastName(r.to_name, IsFileName);
      return true;
    }
    case RecordType::kLink:
      fields.Numbers(r.file, r.directory);
      fields.LastName(r.name, IsFileName);
      return true;
    case RecordType::kSetLength:
      fields.Numbers(r.file, r.size, r.valid, r.time_ns);
      return true;
    case RecordType::kTrimSegments:
      fields.Numbers(r.file, r.keep);
      return true;
    case RecordType::kAddSegments:
    case RecordType::kReplaceSegments:
      fields.Numbers(r.file);
      fields.Runs(r.runs);
      return true;
    case RecordType::kFile:
      fields.Numbers(r.file, r.size, r.valid, r.time_ns);
      fields.Runs(r.runs);
      return true;
  }
  return false;
}

}  // namespace

void AppendRecord(const Record& r, std::string* out) {
  const size_t start = out->size();
  FieldWriter fields(out);
  fields.Numbers(RecordHeader{static_cast<uint16_t>(r.type), 0});
  VisitFields(r, fields);
  const size_t payload = out->size() - start - sizeof(RecordHeader);
  PULSE_CHECK(payload <= UINT16_MAX, "a record's length must fit its header");
  const auto length = static_cast<uint16_t>(payload);
  std::memcpy(out->data() + start + offsetof(RecordHeader, payload_bytes), &length, sizeof(length));
}

bool DecodeRecord(const char** at, const char* end, Record* record) {
  if (static_cast<size_t>(end - *at) < sizeof(RecordHeader)) return false;
  RecordHeader header;
  std::memcpy(&header, *at, sizeof(header));
  const char* payload = *at + sizeof(header);
  if (static_cast<size_t>(end - payload) < header.payload_bytes) return false;
  FieldReader fields(payload, payload + header.payload_bytes);
  Record r;
  r.type = static_cast<RecordType>(header.type);
  if (!VisitFields(r, fields) || !fields.Done()) return false;
  *record = r;
  *at = payload + header.payload_bytes;
  return true;
}

bool IsFileName(absl::string_view name) {
  return !name.empty() && name.size() <= kMaxFileName && name != "." && name != ".." &&
         name.find('/') == absl::string_view::npos && name.find('\0') == absl::string_view::npos;
}

bool IsDirectoryName(absl::string_view name) {
  return !name.empty() && name.size() <= kMaxDirectoryName &&
         name.find('\0') == absl::string_view::npos;
}

}  // namespace pulse::store
