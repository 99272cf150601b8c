#include "services/graph/load/csv.h"

#include <algorithm>
#include <cstring>

#include "services/graph/model/text.h"

namespace pulse::graph {
namespace {

bool IsLineEnd(char c) { return c == '\n' || c == '\r'; }

}  // namespace

const char* NotCsv(absl::string_view beginning) {
  struct Format {
    absl::string_view magic;
    const char* what;
  };
  static constexpr Format kFormats[] = {
      {"\x1f\x8b", "it is compressed by gzip: write what `zcat` makes of it to a file"},
      {"\x28\xb5\x2f\xfd", "it is compressed by zstd: write what `zstdcat` makes of it to a file"},
      {absl::string_view("\xfd"
                         "7zXZ\0",
                         6),
       "it is compressed by xz: write what `xzcat` makes of it to a file"},
      {"BZh", "it is compressed by bzip2: write what `bzcat` makes of it to a file"},
      // Of letters, too; a page's header, or the file's, begins with the other one.
      {"PAR1\x15",
       "it is Parquet: `load_nodes` and `load_edges` of the Python package pulsedb read it, "
       "through "
       "Arrow"},
      {"\xff\xfe", "it is UTF-16: write what `iconv -f utf-16 -t utf-8` makes of it to a file"},
      {"\xfe\xff", "it is UTF-16: write what `iconv -f utf-16 -t utf-8` makes of it to a file"},
  };
  // bzip2's magic is of letters: its block begins with another one.
  constexpr absl::string_view kBzip2Block = "1AY&SY";
  for (const Format& format : kFormats) {
    if (beginning.substr(0, format.magic.size()) != format.magic) continue;
    if (format.magic == "BZh" && beginning.substr(4, kBzip2Block.size()) != kBzip2Block) continue;
    return format.what;
  }
  return nullptr;
}

absl::Status CheckDialect(const CsvDialect& dialect) {
  const char all[] = {dialect.delimiter, dialect.quote, dialect.array_delimiter, dialect.escape};
  for (size_t i = 0; i < 4; ++i) {
    if (IsLineEnd(all[i]) || (all[i] == '\0' && i < 3)) {
      return absl::InvalidArgumentError("a CSV dialect's characters are no line ends and not NUL");
    }
    for (size_t k = 0; k < i; ++k) {
      // Some escape quotes by a quote, and say so.
      if (all[i] == all[k] && !(i == 3 && k == 1)) {
        return absl::InvalidArgumentError("a CSV dialect uses one character for two things");
      }
    }
  }
  return absl::OkStatus();
}

CsvReader::CsvReader(absl::string_view file, uint64_t begin, uint64_t end,
                     const CsvDialect& dialect)
    : file_(file), end_(end), dialect_(dialect), at_(begin) {}

absl::string_view CsvReader::text() const {
  absl::string_view line = file_.substr(record_, at_ - record_);
  while (!line.empty() && IsLineEnd(line.back())) line.remove_suffix(1);
  return line;
}

// at_ is behind the opening quote. False: the record is broken.
bool CsvReader::QuotedField(CsvField* field) {
  const uint64_t begin = at_;
  std::string* buffer = nullptr;
  uint64_t copied = begin;  // what is before it is in the buffer
  const auto buffer_to = [&](uint64_t to) {
    if (buffer == nullptr) {
      if (unquoted_.size() == unquoted_count_) unquoted_.emplace_back();
      buffer = &unquoted_[unquoted_count_++];
      buffer->clear();
    }
    buffer->append(file_.data() + copied, to - copied);
  };
  const char escape = dialect_.escape != dialect_.quote ? dialect_.escape : '\0';
  for (; at_ < end_; ++at_) {
    const char c = file_[at_];
    if (escape != '\0' && c == escape && at_ + 1 < end_ &&
        (file_[at_ + 1] == dialect_.quote || file_[at_ + 1] == escape)) {
      buffer_to(at_);
      copied = ++at_;
      continue;
    }
    if (c != dialect_.quote) continue;
    if (at_ + 1 < end_ && file_[at_ + 1] == dialect_.quote) {
      buffer_to(at_ + 1);
      copied = at_ + 2;
      ++at_;
      continue;
    }
    if (buffer == nullptr) {
      field->text = file_.substr(begin, at_ - begin);
    } else {
      buffer_to(at_);
      field->text = *buffer;
    }
    field->quoted = true;
    ++at_;
    if (at_ == end_ || file_[at_] == dialect_.delimiter || IsLineEnd(file_[at_])) return true;
    error_ = "there is something behind a closing quote";
    return false;
  }
  error_ = "nothing closes a quote";
  unclosed_ = true;
  return false;
}

bool CsvReader::ReadField(CsvField* field) {
  field->offset = at_;
  if (at_ < end_ && file_[at_] == dialect_.quote) {
    ++at_;
    return QuotedField(field);
  }
  const uint64_t begin = at_;
  while (at_ < end_ && file_[at_] != dialect_.delimiter && !IsLineEnd(file_[at_])) ++at_;
  field->text = file_.substr(begin, at_ - begin);
  return true;
}

bool CsvReader::Next(std::vector<CsvField>* fields) {
  fields->clear();
  error_ = nullptr;
  unclosed_ = false;
  unquoted_count_ = 0;
  while (at_ < end_ && IsLineEnd(file_[at_])) ++at_;
  record_ = at_;
  if (at_ >= end_) return false;
  while (true) {
    if (!ReadField(&fields->emplace_back())) {
      // On with the line behind the one where it began.
      const size_t line_end = file_.find_first_of("\r\n", record_);
      at_ = line_end == absl::string_view::npos || line_end >= end_ ? end_ : line_end + 1;
      return true;
    }
    if (at_ < end_ && file_[at_] == dialect_.delimiter) {
      ++at_;
      continue;
    }
    if (at_ < end_ && file_[at_] == '\r') ++at_;
    if (at_ < end_ && file_[at_] == '\n') ++at_;
    return true;
  }
}

std::string NotUtf8(absl::string_view record, const std::vector<CsvField>& fields,
                    const std::vector<std::string>& names) {
  if (cypher::IsUtf8(StdView(record))) return {};
  for (size_t i = 0; i < fields.size(); ++i) {
    const std::string_view text = StdView(fields[i].text);
    const size_t good = cypher::Utf8Length(text);
    if (good == text.size()) continue;
    constexpr char kDigits[] = "0123456789abcdef";
    const auto byte = static_cast<unsigned char>(text[good]);
    return cypher::Concat("column ",
                          i < names.size() && !names[i].empty() ? names[i] : std::to_string(i + 1),
                          ": byte ", good + 1, " of the text, 0x",
                          std::string{kDigits[byte >> 4], kDigits[byte & 15]},
                          ", is not UTF-8: write what `iconv -f latin1 -t utf-8` makes of the "
                          "file, with the encoding "
                          "that it has in place of latin1");
  }
  return {};  // a delimiter is no ASCII
}

std::vector<uint64_t> SplitCsv(absl::string_view file, uint64_t begin, uint64_t part_bytes,
                               const CsvDialect& dialect) {
  std::vector<uint64_t> ends;
  if (begin >= file.size()) return ends;
  const bool quotes =
      std::memchr(file.data() + begin, dialect.quote, file.size() - begin) != nullptr;
  if (!quotes) {
    for (uint64_t at = begin; file.size() - at > part_bytes;) {
      const size_t line = file.find('\n', at + part_bytes);
      if (line == absl::string_view::npos) break;
      at = line + 1;
      ends.push_back(at);
    }
  } else {
    // Where records begin is told by nothing but all records before.
    CsvReader reader(file, begin, file.size(), dialect);
    std::vector<CsvField> fields;
    for (uint64_t from = begin; reader.Next(&fields);) {
      if (reader.end_offset() - from < part_bytes) continue;
      from = reader.end_offset();
      ends.push_back(from);
    }
  }
  if (ends.empty() || ends.back() < file.size()) ends.push_back(file.size());
  return ends;
}

uint64_t LineOf(absl::string_view file, uint64_t offset) {
  const absl::string_view before = file.substr(0, offset);
  uint64_t line = 1 + static_cast<uint64_t>(std::count(before.begin(), before.end(), '\n'));
  // Lines that end by CR alone.
  for (size_t at = 0; (at = before.find('\r', at)) != before.npos; ++at) {
    line += at + 1 == file.size() || file[at + 1] != '\n' ? 1 : 0;
  }
  return line;
}

}  // namespace pulse::graph
