// One file of nodes or relationships, read wholly and in parallel. Internal to LoadCsv.
#pragma once

#include <sys/stat.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "services/graph/load/columns.h"
#include "services/graph/load/csv.h"
#include "services/graph/load/keys.h"
#include "services/graph/load/load.h"
#include "services/graph/load/memory.h"
#include "services/graph/runs/run_reader.h"

namespace pulse::graph {

// Refuses a path among the files of a graph database, for what would be written over.
absl::Status CheckIsNoneOfADatabase(const std::string& path);

// A line that cannot be loaded.
struct BadLine {
  enum class Kind : uint8_t { kForm, kDangling, kDuplicate, kConstraint };
  uint64_t offset = 0;  // where its record begins
  Kind kind = Kind::kForm;
  std::string reason;
};

inline uint64_t MemoryOf(const BadLine& bad) { return sizeof(bad) + bad.reason.size(); }

// Texts that many rows share, and their numbers.
class Dictionary {
 public:
  uint32_t Number(std::string_view text) {
    const auto [at, is_new] =
        numbers_.try_emplace(std::string(text), static_cast<uint32_t>(texts_.size()));
    if (is_new) texts_.push_back(at->first);
    return at->second;
  }
  const std::vector<std::string>& texts() const { return texts_; }

 private:
  std::map<std::string, uint32_t, std::less<>> numbers_;
  std::vector<std::string> texts_;
};

// The rows of a part of the file, in its order.
struct FilePart {
  uint64_t begin = 0, end = 0;
  uint64_t rows = 0;
  uint64_t memory = 0;                  // that was taken for it
  std::vector<cypher::Column> columns;  // of the file's properties
  cypher::Column keys;                  // of nodes: kInts or texts
  std::vector<uint64_t> offsets;        // of nodes' records, and where they are wanted
  std::vector<uint32_t> sources, targets;
  std::vector<uint32_t>
      texts;  // of :LABEL or :TYPE, numbers of `dictionary`; empty: no such column
  Dictionary dictionary;
  std::vector<BadLine> bad;
  std::vector<uint8_t> left;  // by column: long texts stayed in the file
  bool too_narrow = false;    // an inferred type was too narrow: nothing here counts
};

// Of properties by name.
using InferredTypes = std::map<std::string, InferredType>;

// What tells that a file was changed.
struct FileState {
  uint64_t bytes = 0;
  int64_t seconds = 0, nanos = 0;
  bool operator==(const FileState&) const = default;
};

class ParsedFile {
 public:
  using Parallel =
      std::function<absl::Status(size_t n, const std::function<absl::Status(size_t)>& f)>;

  // `named`: a label or type is given beside the file, so that a row needs none.
  // Options and memory outlive it.
  ParsedFile(std::string path, int descriptor, bool of_nodes, bool named,
             const LoadOptions& options, LoadMemory* memory)
      : path_(std::move(path)),
        descriptor_(descriptor),
        of_nodes_(of_nodes),
        named_(named),
        options_(options),
        memory_(*memory) {}

  // Maps the file, or reads its descriptor, and reads its header.
  absl::Status Open();
  // Sets the types of columns that neither header nor options gave: by all values, or by those of
  // the first megabyte.
  absl::Status Infer(bool all, const Parallel& parallel);
  // Between Infer and Parse, of files that are to have each property in one type: adds what was
  // inferred, and takes what all of them have.
  void AddTypes(InferredTypes* types) const;
  void TakeTypes(const InferredTypes& types);
  // Reads all parts. Relationships look up their keys in these spaces.
  absl::Status Parse(const std::vector<const KeySpace*>& sources,
                     const std::vector<const KeySpace*>& targets, const Parallel& parallel);

  const std::string& path() const { return path_; }
  bool IsFile(const struct stat& other) const;
  const FileHeader& header() const { return header_; }
  absl::string_view text() const { return {bytes_.data, bytes_.size}; }
  std::vector<FilePart>& parts() { return parts_; }
  // Of each of a part's columns.
  const std::vector<std::string>& property_names() const { return names_; }
  // Long texts of some properties stay in the file (FilePart::left): their rows in a part have an
  // integer in place of the text, which tells where it is. FailedPrecondition where it is not any
  // more.
  absl::StatusOr<cypher::Value> LeftText(const cypher::Value& place) const;
  // Its bytes, or about a million where it has more.
  static uint64_t LeftBytes(const cypher::Value& place);
  // Puts them in.
  absl::Status FetchTexts(FilePart* part) const;
  // FailedPrecondition where texts are left in the file, and somebody has changed it since Open.
  absl::Status CheckUnchanged() const;
  bool ints_as_keys() const { return key_column_.type == FieldType::kInt; }
  bool has_keys() const { return has_keys_; }
  // Before Parse, of relationships: FilePart::offsets are wanted of them, too.
  void KeepOffsets() { keeps_offsets_ = true; }
  // Between Infer and Parse: as the other files of the same nodes have them.
  void TakeKeysAs(FieldType type) { key_column_.type = type; }
  uint64_t bytes_done() const { return done_.load(std::memory_order_relaxed); }
  uint64_t bytes() const { return bytes_.size; }
  // "FILE:LINE: REASON".
  std::string Text(const BadLine& bad) const;
  absl::string_view RecordAt(uint64_t offset) const;
  // The column with a role, or nullptr.
  const FileColumn* ColumnWith(ColumnRole role) const;

 private:
  struct Spaces {
    const std::vector<const KeySpace*>& sources;
    const std::vector<const KeySpace*>& targets;
  };
  absl::Status ParsePart(const Spaces& spaces, FilePart* part) const;
  // False: *bad says why.
  bool AddRecord(const Spaces& spaces, const std::vector<CsvField>& fields, FilePart* part,
                 BadLine* bad) const;
  bool AddField(const Spaces& spaces, size_t at, const CsvField& field, FilePart* part,
                BadLine* bad) const;
  static bool FindKey(const std::vector<const KeySpace*>& spaces, const CsvField& field,
                      std::string_view what, uint32_t* row, BadLine* bad);
  void StartPart(FilePart* part) const;
  static void CutPart(FilePart* part);

  void SetType(size_t at, FieldType type);
  absl::StatusOr<RunBytes> ReadBytes() const;
  bool LeavesTexts(size_t property) const;
  absl::StatusOr<FileState> State() const;
  absl::Status Changed() const;

  const std::string path_;
  const int descriptor_;
  const bool of_nodes_;
  const bool named_;
  const LoadOptions& options_;
  LoadMemory& memory_;
  RunBytes bytes_;
  FileState opened_;                       // of a mapped file
  mutable std::atomic<bool> left_{false};  // a long text, in any part
  FileHeader header_;
  std::vector<uint8_t> inferred_;    // by column of the header: its type is to be inferred
  std::vector<InferredType> seen_;   // the same: what its values were
  std::vector<uint8_t> unseen_;      // the same: the sample had no value of it
  std::vector<std::string> names_;   // of properties
  std::vector<size_t> property_of_;  // by column of the header; npos: none
  bool keeps_offsets_ = false;       // of relationships, too
  bool has_keys_ = true;             // or there is nothing to tell their type by
  FileColumn key_column_;            // as keys are compared: plain integers, or texts
  std::vector<FilePart> parts_;
  mutable std::atomic<uint64_t> done_{0};
};

}  // namespace pulse::graph
