// CSV: what separates records and fields, and taking them apart. Quotes as RFC 4180 has them (a
// doubled quote inside quotes is one), with other delimiters, and an escape character where asked.
// Lines end with \n or \r\n.
//
// Pure; any thread; nothing blocks. Fields are views into the file, or into the record's own buffer
// where quotes had to be taken away.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace pulse::graph {

struct CsvDialect {
  char delimiter = ',';
  char quote = '"';
  char escape =
      '\0';  // none; '\\': a quote or another one behind it counts as it is, in quotes only
  char array_delimiter = ';';  // between the elements of a list, and between labels
  // A field of this text without quotes is null. The empty field always is.
  std::string null_text = {};
};

// What separates elements where nobody says it.
inline char ArrayDelimiterBeside(char delimiter) { return delimiter == ';' ? '|' : ';'; }

// What a file is by its first bytes that is no CSV, with the remedy: "gzip: ...". Null: it may be
// some.
const char* NotCsv(absl::string_view beginning);

// InvalidArgument where two of them are the same, or one is a line's end.
absl::Status CheckDialect(const CsvDialect& dialect);

struct CsvField {
  absl::string_view text;
  bool quoted = false;
  uint64_t offset = 0;  // in the file, with its quote
};

class CsvReader {
 public:
  // Reads [begin, end) of `file`, which begin and end where records do. The file outlives it.
  CsvReader(absl::string_view file, uint64_t begin, uint64_t end, const CsvDialect& dialect);

  // The next record, or false at the end. Empty lines are none. A record that is broken (a quote
  // that nothing closes, something behind a closing quote) sets error() and is skipped to its
  // line's end.
  bool Next(std::vector<CsvField>* fields);
  // The field that begins here, and nothing behind it; false where it is broken.
  bool ReadField(CsvField* field);
  // Of the last record: why it is broken, or nullptr.
  const char* error() const { return error_; }
  // Whether that is a quote that nothing closes, which what follows may do where there is more.
  bool unclosed() const { return unclosed_; }
  uint64_t offset() const { return record_; }  // where it begins
  uint64_t end_offset() const { return at_; }  // behind its line
  absl::string_view text() const;              // without its line's end

 private:
  bool QuotedField(CsvField* field);

  const absl::string_view file_;
  const uint64_t end_;
  const CsvDialect& dialect_;
  uint64_t at_;
  uint64_t record_ = 0;
  const char* error_ = nullptr;
  bool unclosed_ = false;
  std::deque<std::string> unquoted_;  // whose texts stay where they are
  size_t unquoted_count_ = 0;
};

// Why a record of this text has a field that is not UTF-8, with its number from 1, or its name, and
// the remedy. Empty: all of them are.
std::string NotUtf8(absl::string_view record, const std::vector<CsvField>& fields,
                    const std::vector<std::string>& names);

// Cuts [begin, file.size()) into parts of about `part_bytes`, each of whole records: the ends of
// parts.
std::vector<uint64_t> SplitCsv(absl::string_view file, uint64_t begin, uint64_t part_bytes,
                               const CsvDialect& dialect);

inline std::string_view StdView(absl::string_view text) { return {text.data(), text.size()}; }

// The number, from 1, of the line that an offset lies in.
uint64_t LineOf(absl::string_view file, uint64_t offset);

}  // namespace pulse::graph
