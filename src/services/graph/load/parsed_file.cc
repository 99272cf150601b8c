#include "services/graph/load/parsed_file.h"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "base/errors.h"
#include "base/file_calls.h"
#include "services/graph/load/load_columns.h"
#include "services/graph/model/text.h"

namespace pulse::graph {
namespace {

using cypher::Concat;

constexpr uint64_t kPartBytes = uint64_t{4} << 20;
constexpr uint64_t kSampleBytes = uint64_t{1} << 20;
constexpr size_t kNone = ~size_t{0};
// Of bad lines, after which they are charged.
constexpr uint64_t kBadBytes = uint64_t{256} << 10;
// From which on a text stays in the file.
constexpr size_t kLongText = 4096;
// What is kept of one: its offset, above as many bits of its length.
constexpr int kLengthBits = 20;
constexpr uint64_t kMostLength = (uint64_t{1} << kLengthBits) - 1;
constexpr uint64_t kMostOffset = uint64_t{1} << (63 - kLengthBits);

}  // namespace

absl::Status CheckIsNoneOfADatabase(const std::string& path) {
  namespace fs = std::filesystem;
  std::error_code error;  // what cannot be resolved cannot be opened either
  fs::path file = path;
  // Also a link to nothing: opening makes what it leads to. The system follows as many.
  for (int links = 0; links < 40 && fs::is_symlink(file, error); ++links) {
    file = file.parent_path() / fs::read_symlink(file, error);
  }
  const auto directory = fs::weakly_canonical(file, error).parent_path();
  if (!fs::exists(directory / "MANIFEST", error)) return absl::OkStatus();
  return absl::InvalidArgumentError(cypher::Concat(
      path, " lies among the files of a graph database, and cannot be the reject file"));
}

absl::StatusOr<RunBytes> ParsedFile::ReadBytes() const {
  if (descriptor_ < 0) return MapRun(path_);
  struct stat info;
  if (fstat(descriptor_, &info) != 0) return ErrnoError(errno, "looking at", path_);
  PULSE_RETURN_IF_ERROR(memory_.Take(static_cast<uint64_t>(info.st_size)));
  std::string bytes(static_cast<size_t>(info.st_size), '\0');
  PULSE_ASSIGN_OR_RETURN(const size_t n,
                         ReadAt(descriptor_, bytes.data(), bytes.size(), 0, "reading", path_));
  bytes.resize(n);
  return OwnRun(std::move(bytes), path_);
}

absl::StatusOr<FileState> ParsedFile::State() const {
  struct stat info;
  if (stat(path_.c_str(), &info) != 0) return ErrnoError(errno, "looking at", path_);
  if (!S_ISREG(info.st_mode)) {
    return absl::InvalidArgumentError(
        Concat(path_,
               ": not a file; one is read twice, for the types and for the values, so that a pipe "
               "has to be written to a file first"));
  }
  return FileState{static_cast<uint64_t>(info.st_size), info.st_mtim.tv_sec, info.st_mtim.tv_nsec};
}

absl::Status ParsedFile::Changed() const {
  return absl::FailedPreconditionError(
      Concat(path_, " was changed while it was loaded: nobody may do so"));
}

absl::Status ParsedFile::CheckUnchanged() const {
  if (!left_.load(std::memory_order_relaxed)) return absl::OkStatus();
  PULSE_ASSIGN_OR_RETURN(const FileState now, State());
  return now == opened_ ? absl::OkStatus() : Changed();
}

bool ParsedFile::IsFile(const struct stat& other) const {
  struct stat info;
  const int looked = descriptor_ < 0 ? stat(path_.c_str(), &info) : fstat(descriptor_, &info);
  return looked == 0 && IsSameFile(info, other);
}

absl::Status ParsedFile::Open() {
  if (descriptor_ < 0) {
    PULSE_ASSIGN_OR_RETURN(opened_, State());
  }
  PULSE_ASSIGN_OR_RETURN(bytes_, ReadBytes());
  if (const char* format = NotCsv(text().substr(0, 16)); format != nullptr) {
    return absl::InvalidArgumentError(Concat(path_, ": ", format));
  }
  auto header = ReadHeader(text(), of_nodes_, options_.dialect, options_.types);
  if (!header.ok()) {
    return absl::InvalidArgumentError(
        Concat(path_, ":1: ", std::string(header.status().message())));
  }
  header_ = *std::move(header);
  for (const FileColumn& column : header_.columns) {
    const bool property = column.role == ColumnRole::kProperty ||
                          (column.role == ColumnRole::kKey && !column.name.empty());
    property_of_.push_back(property ? names_.size() : kNone);
    if (property) names_.push_back(column.name);
    const bool typed = property || column.role == ColumnRole::kKey;
    inferred_.push_back(typed && column.type == FieldType::kInferred && !column.list ? 1 : 0);
  }
  seen_.resize(inferred_.size());
  unseen_.assign(inferred_.size(), 0);
  return absl::OkStatus();
}

absl::Status ParsedFile::Infer(bool all, const Parallel& parallel) {
  std::vector<uint64_t> ends;
  if (std::count(inferred_.begin(), inferred_.end(), 1) == 0) {
    // The header says all.
  } else if (all) {
    ends = SplitCsv(text(), header_.end, kPartBytes, options_.dialect);
  } else {
    ends.push_back(bytes_.size);
  }
  std::vector<std::vector<InferredType>> types(ends.size());
  const auto infer = [&](size_t p) {
    std::vector<InferredType>& of = types[p];
    of.resize(header_.columns.size());
    const uint64_t begin = p == 0 ? header_.end : ends[p - 1];
    CsvReader reader(text(), begin, ends[p], options_.dialect);
    std::vector<CsvField> fields;
    while (reader.Next(&fields) && (all || reader.offset() - begin < kSampleBytes)) {
      if (reader.error() != nullptr || fields.size() != of.size()) continue;
      for (size_t c = 0; c < of.size(); ++c) {
        if (inferred_[c] != 0) of[c].Add(fields[c], options_.dialect);
      }
    }
    return absl::OkStatus();
  };
  PULSE_RETURN_IF_ERROR(parallel(ends.size(), infer));
  for (size_t c = 0; c < header_.columns.size(); ++c) {
    if (inferred_[c] == 0) continue;
    seen_[c] = {};
    for (const auto& of : types) seen_[c].Add(of[c]);
    const FieldType type = seen_[c].type();
    unseen_[c] = !all && type == FieldType::kInferred ? 1 : 0;
    if (header_.columns[c].role == ColumnRole::kKey) has_keys_ = type != FieldType::kInferred;
    SetType(c, type);
  }
  if (const FileColumn* key = ColumnWith(ColumnRole::kKey)) {
    key_column_ = *key;
    key_column_.list = false;
    if (key->list || key->type != FieldType::kInt) key_column_.type = FieldType::kString;
  }
  return absl::OkStatus();
}

void ParsedFile::SetType(size_t at, FieldType type) {
  FileColumn& column = header_.columns[at];
  // Keys are compared, and no number with a point is equal to what another file writes of it.
  const bool text =
      type == FieldType::kInferred || (column.role == ColumnRole::kKey && type != FieldType::kInt);
  column.type = text ? FieldType::kString : type;
}

void ParsedFile::AddTypes(InferredTypes* types) const {
  for (size_t c = 0; c < seen_.size(); ++c) {
    if (inferred_[c] != 0 && property_of_[c] != kNone) {
      (*types)[header_.columns[c].name].Add(seen_[c]);
    }
  }
}

void ParsedFile::TakeTypes(const InferredTypes& types) {
  for (size_t c = 0; c < seen_.size(); ++c) {
    if (inferred_[c] == 0 || property_of_[c] == kNone) continue;
    const FileColumn& column = header_.columns[c];
    const auto found = types.find(column.name);
    if (found == types.end()) continue;
    const FieldType type = found->second.type();
    // A key has no point; another file's property of its name may.
    const bool point = column.role == ColumnRole::kKey && type == FieldType::kFloat;
    if (!point) SetType(c, type);
  }
}

const FileColumn* ParsedFile::ColumnWith(ColumnRole role) const {
  for (const FileColumn& column : header_.columns) {
    if (column.role == role) return &column;
  }
  return nullptr;
}

bool ParsedFile::LeavesTexts(size_t property) const {
  if (descriptor_ >= 0) return false;
  const auto at = static_cast<size_t>(
      std::find(property_of_.begin(), property_of_.end(), property) - property_of_.begin());
  const FileColumn& column = header_.columns[at];
  return column.role == ColumnRole::kProperty && column.type == FieldType::kString && !column.list;
}

uint64_t ParsedFile::LeftBytes(const cypher::Value& place) {
  return static_cast<uint64_t>(place.as_int()) & kMostLength;
}

absl::StatusOr<cypher::Value> ParsedFile::LeftText(const cypher::Value& place) const {
  CsvReader reader(text(), static_cast<uint64_t>(place.as_int()) >> kLengthBits, bytes_.size,
                   options_.dialect);
  CsvField field;
  if (!reader.ReadField(&field) ||
      std::min<uint64_t>(field.text.size(), kMostLength) != LeftBytes(place)) {
    return Changed();
  }
  return cypher::Value::String(StdView(field.text));
}

absl::Status ParsedFile::FetchTexts(FilePart* part) const {
  for (size_t property = 0; property < names_.size(); ++property) {
    if (part->left[property] == 0) continue;
    for (cypher::Value& value : part->columns[property].values) {
      if (!value.is_int()) continue;
      PULSE_ASSIGN_OR_RETURN(value, LeftText(value));
    }
  }
  return absl::OkStatus();
}

absl::string_view ParsedFile::RecordAt(uint64_t offset) const {
  CsvReader reader(text(), offset, bytes_.size, options_.dialect);
  std::vector<CsvField> fields;
  reader.Next(&fields);
  return reader.text();
}

std::string ParsedFile::Text(const BadLine& bad) const {
  return Concat(path_, ":", LineOf(text(), bad.offset), ": ", bad.reason);
}

void ParsedFile::StartPart(FilePart* part) const {
  part->columns.resize(names_.size());
  part->left.assign(names_.size(), 0);
  for (size_t c = 0; c < header_.columns.size(); ++c) {
    if (property_of_[c] != kNone) {
      StartColumn(header_.columns[c], &part->columns[property_of_[c]]);
    }
    if (header_.columns[c].role == ColumnRole::kKey) StartColumn(key_column_, &part->keys);
  }
}

// Back to `rows` rows.
void ParsedFile::CutPart(FilePart* part) {
  const auto cut = [part](auto* rows) {
    if (rows->size() > part->rows) rows->resize(part->rows);
  };
  for (cypher::Column& column : part->columns) CutColumn(&column, part->rows);
  CutColumn(&part->keys, part->rows);
  cut(&part->offsets);
  cut(&part->sources);
  cut(&part->targets);
  cut(&part->texts);
}

bool ParsedFile::FindKey(const std::vector<const KeySpace*>& spaces, const CsvField& field,
                         std::string_view what, uint32_t* row, BadLine* bad) {
  *row = kNoRow;
  const KeySpace* in = nullptr;
  for (const KeySpace* space : spaces) {
    const uint32_t found = space->Find(field.text);
    if (found == kNoRow) continue;
    if (in != nullptr) {
      bad->kind = BadLine::Kind::kForm;
      bad->reason = Concat("the key ", cypher::ShortText(StdView(field.text)), " of the ", what,
                           " is one of ", in->name(), " and of ", space->name(),
                           "; say which is meant, by :START_ID(", in->name(), ") or TYPE(",
                           in->name(), ",...)=FILE");
      return false;
    }
    in = space;
    *row = found;
  }
  if (in != nullptr) return true;
  bad->kind = BadLine::Kind::kDangling;
  bad->reason = Concat("there is no node with the key ", cypher::ShortText(StdView(field.text)),
                       ", the ", what);
  return false;
}

bool ParsedFile::AddField(const Spaces& spaces, size_t at, const CsvField& field, FilePart* part,
                          BadLine* bad) const {
  const FileColumn& column = header_.columns[at];
  const auto refuse = [&] {
    if (inferred_[at] != 0) part->too_narrow = true;
    bad->reason = Concat("column ", column.name.empty() ? Concat(at + 1) : column.name, ": ",
                         cypher::ShortText(StdView(field.text)), " is not ",
                         std::string(FieldTypeText(column)));
    return false;
  };
  const auto no_key = [&](std::string_view end) {
    if (!IsNullField(field, options_.dialect)) return false;
    bad->reason = Concat("there is no key of the ", end);
    return true;
  };
  uint32_t row = kNoRow;
  switch (column.role) {
    case ColumnRole::kKey:
      if (IsNullField(field, options_.dialect)) {
        bad->reason = "there is no key";
        return false;
      }
      if (!AppendField(key_column_, field, options_.dialect, &part->keys)) return refuse();
      break;
    case ColumnRole::kSource:
      if (no_key("source")) return false;
      if (!FindKey(spaces.sources, field, "source", &row, bad)) return false;
      part->sources.push_back(row);
      break;
    case ColumnRole::kTarget:
      if (no_key("target")) return false;
      if (!FindKey(spaces.targets, field, "target", &row, bad)) return false;
      part->targets.push_back(row);
      break;
    case ColumnRole::kLabels:
    case ColumnRole::kType: {
      const bool none = IsNullField(field, options_.dialect);
      const std::string_view text = none ? std::string_view() : StdView(field.text);
      if (text.empty() && column.role == ColumnRole::kType && !named_) {
        bad->reason = "there is no type";
        return false;
      }
      part->texts.push_back(part->dictionary.Number(text));
      break;
    }
    case ColumnRole::kProperty:
    case ColumnRole::kIgnored:
      break;
  }
  const size_t property = property_of_[at];
  if (property == kNone) return true;
  if (unseen_[at] != 0 && !IsNullField(field, options_.dialect)) return refuse();
  if (field.text.size() >= kLongText && field.offset < kMostOffset && LeavesTexts(property)) {
    const uint64_t length = std::min<uint64_t>(field.text.size(), kMostLength);
    part->columns[property].values.push_back(
        cypher::Value::Int(static_cast<int64_t>(field.offset << kLengthBits | length)));
    part->left[property] = 1;
    left_.store(true, std::memory_order_relaxed);
    return true;
  }
  // Behind the sample: what all of the fields would have made it, texts such as 007 among them.
  if (inferred_[at] != 0 && column.type != FieldType::kString &&
      !IsNullField(field, options_.dialect)) {
    if (MustBeText(field, column.type)) return refuse();
    if (column.type == FieldType::kFloat && IsRoundedByDouble(field.text)) return refuse();
  }
  return AppendField(column, field, options_.dialect, &part->columns[property]) || refuse();
}

bool ParsedFile::AddRecord(const Spaces& spaces, const std::vector<CsvField>& fields,
                           FilePart* part, BadLine* bad) const {
  if (fields.size() != header_.columns.size()) {
    bad->reason =
        Concat("the line has ", fields.size(), " fields, the header has ", header_.columns.size());
    return false;
  }
  for (size_t c = 0; c < fields.size(); ++c) {
    if (!AddField(spaces, c, fields[c], part, bad)) return false;
  }
  return true;
}

absl::Status ParsedFile::ParsePart(const Spaces& spaces, FilePart* part) const {
  CsvReader reader(text(), part->begin, part->end, options_.dialect);
  std::vector<CsvField> fields;
  StartPart(part);
  uint64_t bad_bytes = 0;  // not taken yet
  while (!part->too_narrow && reader.Next(&fields)) {
    BadLine bad;
    bad.offset = reader.offset();
    if (reader.error() != nullptr) {
      bad.reason = reader.error();
    } else if (bad.reason = NotUtf8(reader.text(), fields, header_.names); !bad.reason.empty()) {
      // Nobody who reads the graph expects such a text.
    } else if (AddRecord(spaces, fields, part, &bad)) {
      if (of_nodes_ || keeps_offsets_) part->offsets.push_back(reader.offset());
      ++part->rows;
      continue;
    }
    CutPart(part);
    bad_bytes += MemoryOf(bad);
    part->bad.push_back(std::move(bad));
    if (bad_bytes > kBadBytes) {
      part->memory += bad_bytes;
      PULSE_RETURN_IF_ERROR(memory_.Take(std::exchange(bad_bytes, 0)));
    }
    // Without a place for them the first one ends the load.
    if (options_.reject_path.empty()) break;
  }
  done_.fetch_add(part->end - part->begin, std::memory_order_relaxed);
  const uint64_t taken = part->memory;
  part->memory += bad_bytes + MemoryOf(part->keys) + part->offsets.capacity() * sizeof(uint64_t) +
                  (part->sources.capacity() + part->targets.capacity() + part->texts.capacity()) *
                      sizeof(uint32_t);
  for (const cypher::Column& column : part->columns) part->memory += MemoryOf(column);
  return memory_.Take(part->memory - taken);
}

absl::Status ParsedFile::Parse(const std::vector<const KeySpace*>& sources,
                               const std::vector<const KeySpace*>& targets,
                               const Parallel& parallel) {
  const std::vector<uint64_t> ends = SplitCsv(text(), header_.end, kPartBytes, options_.dialect);
  const Spaces spaces{sources, targets};
  for (bool again = false;; again = true) {
    for (const FilePart& part : parts_) memory_.Give(part.memory);
    parts_.clear();
    parts_.resize(ends.size());
    done_.store(0, std::memory_order_relaxed);
    for (size_t p = 0; p < ends.size(); ++p) {
      parts_[p].begin = p == 0 ? header_.end : ends[p - 1];
      parts_[p].end = ends[p];
    }
    PULSE_RETURN_IF_ERROR(
        parallel(ends.size(), [&](size_t p) { return ParsePart(spaces, &parts_[p]); }));
    const bool too_narrow = std::any_of(parts_.begin(), parts_.end(),
                                        [](const FilePart& part) { return part.too_narrow; });
    if (!too_narrow || again) return absl::OkStatus();
    // The first megabyte did not show what is further on; of nodes all was looked at.
    if (of_nodes_) return Changed();
    PULSE_RETURN_IF_ERROR(Infer(true, parallel));
  }
}

}  // namespace pulse::graph
