#include "store/records.h"

#include "base/check.h"
#include "store/store.h"

namespace pulse::store {
namespace {

template <typename T>
void Put(T value, std::string* out) {
  out->append(reinterpret_cast<const char*>(&value), sizeof(value));
}

void PutName(absl::string_view name, std::string* out) { out->append(name.data(), name.size()); }

// Takes fields off the front of a payload; remembers when there was too little.
class Fields {
 public:
  Fields(const char* at, const char* end) : at_(at), end_(end) {}

  template <typename T>
  void Take(T* value) {
    if (static_cast<size_t>(end_ - at_) < sizeof(T)) {
      ok_ = false;
      return;
    }
    std::memcpy(value, at_, sizeof(T));
    at_ += sizeof(T);
  }
  void TakeName(size_t length, absl::string_view* name) {
    if (static_cast<size_t>(end_ - at_) < length) {
      ok_ = false;
      return;
    }
    *name = absl::string_view(at_, length);
    at_ += length;
  }
  void TakeRest(absl::string_view* name) { TakeName(static_cast<size_t>(end_ - at_), name); }
  void TakeRuns(RunView* runs) {
    const size_t n = static_cast<size_t>(end_ - at_);
    if (n % sizeof(Run) != 0) ok_ = false;
    *runs = RunView(at_, n / sizeof(Run));
    at_ = end_;
  }
  bool Done() const { return ok_ && at_ == end_; }

 private:
  const char* at_;
  const char* const end_;
  bool ok_ = true;
};

}  // namespace

void AppendRecord(const Record& r, std::string* out) {
  const size_t start = out->size();
  Put(RecordHeader{static_cast<uint16_t>(r.type), 0}, out);
  switch (r.type) {
    case RecordType::kCreateDirectory:
    case RecordType::kDirectory:
      Put(r.directory, out);
      PutName(r.name, out);
      break;
    case RecordType::kRemoveDirectory:
    case RecordType::kClearDirectory:
      Put(r.directory, out);
      break;
    case RecordType::kRenameDirectory:
      Put(r.directory, out);
      Put(r.to_directory, out);
      PutName(r.to_name, out);
      break;
    case RecordType::kCreateFile:
      Put(r.file, out);
      Put(r.directory, out);
      Put(r.time_ns, out);
      PutName(r.name, out);
      break;
    case RecordType::kUnlink:
      Put(r.directory, out);
      PutName(r.name, out);
      break;
    case RecordType::kRename:
      Put(r.directory, out);
      Put(r.to_directory, out);
      Put(static_cast<uint16_t>(r.name.size()), out);
      PutName(r.name, out);
      PutName(r.to_name, out);
      break;
    case RecordType::kLink:
      Put(r.file, out);
      Put(r.directory, out);
      PutName(r.name, out);
      break;
    case RecordType::kSetLength:
      Put(r.file, out);
      Put(r.size, out);
      Put(r.valid, out);
      Put(r.time_ns, out);
      break;
    case RecordType::kTrimSegments:
      Put(r.file, out);
      Put(r.keep, out);
      break;
    case RecordType::kAddSegments:
    case RecordType::kReplaceSegments:
      Put(r.file, out);
      out->append(r.runs.bytes(), r.runs.size() * sizeof(Run));
      break;
    case RecordType::kFile:
      Put(r.file, out);
      Put(r.size, out);
      Put(r.valid, out);
      Put(r.time_ns, out);
      out->append(r.runs.bytes(), r.runs.size() * sizeof(Run));
      break;
  }
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
  Fields in(payload, payload + header.payload_bytes);
  Record r;
  r.type = static_cast<RecordType>(header.type);
  bool names_ok = true;
  switch (r.type) {
    case RecordType::kCreateDirectory:
    case RecordType::kDirectory:
      in.Take(&r.directory);
      in.TakeRest(&r.name);
      names_ok = IsDirectoryName(r.name);
      break;
    case RecordType::kRemoveDirectory:
    case RecordType::kClearDirectory:
      in.Take(&r.directory);
      break;
    case RecordType::kRenameDirectory:
      in.Take(&r.directory);
      in.Take(&r.to_directory);
      in.TakeRest(&r.to_name);
      names_ok = IsDirectoryName(r.to_name);
      break;
    case RecordType::kCreateFile:
      in.Take(&r.file);
      in.Take(&r.directory);
      in.Take(&r.time_ns);
      in.TakeRest(&r.name);
      names_ok = IsFileName(r.name);
      break;
    case RecordType::kUnlink:
      in.Take(&r.directory);
      in.TakeRest(&r.name);
      names_ok = IsFileName(r.name);
      break;
    case RecordType::kRename: {
      uint16_t length = 0;
      in.Take(&r.directory);
      in.Take(&r.to_directory);
      in.Take(&length);
      in.TakeName(length, &r.name);
      in.TakeRest(&r.to_name);
      names_ok = IsFileName(r.name) && IsFileName(r.to_name);
      break;
    }
    case RecordType::kLink:
      in.Take(&r.file);
      in.Take(&r.directory);
      in.TakeRest(&r.name);
      names_ok = IsFileName(r.name);
      break;
    case RecordType::kSetLength:
      in.Take(&r.file);
      in.Take(&r.size);
      in.Take(&r.valid);
      in.Take(&r.time_ns);
      break;
    case RecordType::kTrimSegments:
      in.Take(&r.file);
      in.Take(&r.keep);
      break;
    case RecordType::kAddSegments:
    case RecordType::kReplaceSegments:
      in.Take(&r.file);
      in.TakeRuns(&r.runs);
      break;
    case RecordType::kFile:
      in.Take(&r.file);
      in.Take(&r.size);
      in.Take(&r.valid);
      in.Take(&r.time_ns);
      in.TakeRuns(&r.runs);
      break;
    default:
      return false;
  }
  if (!in.Done() || !names_ok) return false;
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
