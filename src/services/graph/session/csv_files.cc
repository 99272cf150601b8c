#include "services/graph/session/csv_files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "base/errors.h"
#include "base/file_calls.h"
#include "base/unique_fd.h"
#include "services/graph/load/csv.h"
#include "services/graph/model/text.h"

namespace pulse::cypher {
namespace {

constexpr size_t kFirstPiece = size_t{1} << 20;
constexpr std::string_view kScheme = "file://";

class FileRecords : public CsvRecords {
 public:
  FileRecords(std::string name, UniqueFd fd, char separator)
      : name_(std::move(name)), fd_(std::move(fd)) {
    dialect_.delimiter = separator;
    if (separator != '\\') dialect_.escape = '\\';  // as Neo4j's, of quotes and of itself
    piece_.resize(kFirstPiece);
    StartAt(0);
  }

  absl::StatusOr<bool> Next(std::vector<Field>* fields) override {
    while (true) {
      const bool found = reader_->Next(&raw_);
      // What ends with the piece may go on behind it; so may a quote that nothing closes.
      const bool whole = found && !reader_->unclosed() && reader_->end_offset() < filled_;
      if (!whole && !at_end_) {
        PULSE_RETURN_IF_ERROR(ReadMore(found ? reader_->offset() : filled_));
        continue;
      }
      if (!found) return false;
      lines_ += Lines(counted_, reader_->offset());
      counted_ = reader_->offset();
      if (reader_->error() != nullptr) {
        return absl::InvalidArgumentError(Concat(name_, ", line ", line(), ": ", reader_->error()));
      }
      if (const std::string why = graph::NotUtf8(reader_->text(), raw_, {}); !why.empty()) {
        return absl::InvalidArgumentError(Concat(name_, ", line ", line(), ", ", why));
      }
      fields->clear();
      for (const graph::CsvField& field : raw_) {
        fields->push_back({graph::StdView(field.text), field.text.empty() && !field.quoted});
      }
      return true;
    }
  }
  uint64_t line() const override { return lines_ + 1; }

 private:
  uint64_t Lines(uint64_t begin, uint64_t end) const {
    return static_cast<uint64_t>(std::count(piece_.begin() + static_cast<ptrdiff_t>(begin),
                                            piece_.begin() + static_cast<ptrdiff_t>(end), '\n'));
  }

  void StartAt(uint64_t offset) {
    reader_.emplace(absl::string_view(piece_.data(), filled_), offset, filled_, dialect_);
  }

  // Keeps what is from `keep` on, and reads behind it.
  absl::Status ReadMore(uint64_t keep) {
    lines_ += Lines(counted_, keep);
    counted_ = 0;
    std::memmove(piece_.data(), piece_.data() + keep, filled_ - keep);
    filled_ -= keep;
    if (filled_ == piece_.size()) {
      if (filled_ >= kMostRecordBytes) {
        return absl::InvalidArgumentError(Concat(
            name_, ", line ", line(), ": a record of more than ", kMostRecordBytes >> 20, " MiB"));
      }
      piece_.resize(piece_.size() * 2);
    }
    while (!at_end_ && filled_ < piece_.size()) {
      const ssize_t n = read(fd_.get(), piece_.data() + filled_, piece_.size() - filled_);
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) return ErrnoError(errno, "reading", name_);
      filled_ += static_cast<size_t>(n);
      at_end_ = n == 0;
    }
    const bool beginning = std::exchange(beginning_, false);
    if (beginning) {
      const char* format = graph::NotCsv(absl::string_view(piece_.data(), filled_));
      if (format != nullptr) return absl::InvalidArgumentError(Concat(name_, ": ", format));
    }
    if (beginning && filled_ >= 3 && std::string_view(piece_.data(), 3) == "\xEF\xBB\xBF") {
      StartAt(3);  // a mark of the text's encoding
    } else {
      StartAt(0);
    }
    return absl::OkStatus();
  }

  const std::string name_;
  const UniqueFd fd_;
  graph::CsvDialect dialect_;
  std::string piece_;
  size_t filled_ = 0;  // of it
  bool at_end_ = false;
  bool beginning_ = true;
  uint64_t lines_ = 0;    // before counted_
  uint64_t counted_ = 0;  // in the piece
  std::optional<graph::CsvReader> reader_;
  std::vector<graph::CsvField> raw_;
};

int HexDigit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  c = static_cast<char>(c | 0x20);
  return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

// %20 and the like.
std::string Decoded(std::string_view text) {
  std::string decoded;
  for (size_t i = 0; i < text.size(); ++i) {
    const bool coded = text[i] == '%' && i + 2 < text.size() && HexDigit(text[i + 1]) >= 0 &&
                       HexDigit(text[i + 2]) >= 0;
    decoded +=
        coded ? static_cast<char>(HexDigit(text[i + 1]) * 16 + HexDigit(text[i + 2])) : text[i];
    if (coded) i += 2;
  }
  return decoded;
}

// The path, with a slash in front where it came by a URL.
absl::StatusOr<std::string> PathOf(std::string_view where) {
  std::string path(where);
  if (where.substr(0, kScheme.size()) == kScheme) {
    const std::string_view rest = where.substr(kScheme.size());
    if (rest.empty() || rest[0] != '/') {
      return absl::InvalidArgumentError(
          Concat(where, ": a file on this machine is file:///NAME, with three slashes"));
    }
    path = Decoded(rest);
  } else if (const size_t colon = where.find("://"); colon != std::string_view::npos) {
    return absl::InvalidArgumentError(Concat(where, ": only files can be loaded, by file:///NAME"));
  }
  if (path.empty() || path.find('\0') != std::string::npos) {
    return absl::InvalidArgumentError("LOAD CSV wants the name of a file");
  }
  return path;
}

}  // namespace

absl::StatusOr<std::unique_ptr<CsvRecords>> OpenCsvFile(const CsvDirectory& directory,
                                                        std::string_view where, char separator) {
  if (directory.path.empty() && !directory.everywhere) {
    return absl::PermissionDeniedError(
        Concat(where, ": the server reads no files: it was started without --import DIR"));
  }
  PULSE_ASSIGN_OR_RETURN(const std::string path, PathOf(where));
  UniqueFd fd;
  if (directory.everywhere) {
    fd.reset(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  } else {
    const size_t begin = path.find_first_not_of('/');
    const UniqueFd base = OpenFile(directory.path, O_PATH | O_DIRECTORY);
    if (base.valid()) {
      fd = graph::OpenBelow(base.get(), begin == std::string::npos ? "." : path.substr(begin),
                            O_RDONLY | O_NONBLOCK);
    }
    if (!fd.valid() && (errno == EXDEV || errno == ELOOP)) {
      return absl::PermissionDeniedError(Concat(where, ": outside the directory of --import"));
    }
  }
  if (!fd.valid()) return ErrnoError(errno, "opening", std::string(where));
  struct stat st;
  if (fstat(fd.get(), &st) != 0) return ErrnoError(errno, "opening", std::string(where));
  if (!S_ISREG(st.st_mode)) {
    return absl::InvalidArgumentError(Concat(where, ": not a file"));
  }
  return std::make_unique<FileRecords>(std::string(where), std::move(fd), separator);
}

}  // namespace pulse::cypher
