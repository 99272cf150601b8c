#include "services/redis/commands/codec.h"

#include <charconv>
#include <cmath>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "base/errors.h"
#include "services/redis/commands/error_stats.h"

namespace pulse::redis {
namespace {

// A line that holds a type and a number. Longer ones are no numbers.
constexpr size_t kMaxHeadLine = 64;

absl::Status ProtocolError(std::string_view what) {
  return absl::InvalidArgumentError(
      absl::StrCat("ERR Protocol error: ", absl::string_view(what.data(), what.size())));
}

// Where the line at `begin` ends ("\r\n" excluded), npos when its end is not there yet.
size_t LineEnd(std::string_view bytes, size_t begin) {
  const size_t end = bytes.find('\r', begin);
  return end == std::string_view::npos || end + 1 >= bytes.size() ? std::string_view::npos : end;
}

int HexDigit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

bool IsBlank(char c) {
  return c == ' ' || c == '\t' || c == '\r' || c == '\n' || c == '\v' || c == '\f' || c == '\0';
}

// What stands for itself, or for another byte, after a backslash between double quotes.
char Escaped(char c) {
  switch (c) {
    case 'n':
      return '\n';
    case 'r':
      return '\r';
    case 't':
      return '\t';
    case 'b':
      return '\b';
    case 'a':
      return '\a';
    default:
      return c;
  }
}

// One argument between quotes that begins after the quote at `*at`. False when it does not end, or
// text follows it directly.
bool ReadQuoted(std::string_view line, size_t* at, std::string* out) {
  const char quote = line[(*at)++];
  while (*at < line.size()) {
    const char c = line[*at];
    const bool escape = c == '\\' && *at + 1 < line.size();
    if (c == quote) {
      ++*at;
      return *at == line.size() || IsBlank(line[*at]);
    }
    if (quote == '"' && escape && line[*at + 1] == 'x' && *at + 3 < line.size() &&
        HexDigit(line[*at + 2]) >= 0 && HexDigit(line[*at + 3]) >= 0) {
      out->push_back(static_cast<char>(HexDigit(line[*at + 2]) * 16 + HexDigit(line[*at + 3])));
      *at += 4;
    } else if (quote == '"' && escape) {
      out->push_back(Escaped(line[*at + 1]));
      *at += 2;
    } else if (quote == '\'' && escape && line[*at + 1] == '\'') {
      out->push_back('\'');
      *at += 2;
    } else {
      out->push_back(c);
      ++*at;
    }
  }
  return false;
}

}  // namespace

bool ParseInteger(std::string_view text, int64_t* value) {
  if (text.empty() || text.size() > 20) return false;
  const size_t first = text[0] == '-' ? 1 : 0;
  if (first == text.size()) return false;
  if (text[first] == '0' && text.size() > 1) return false;  // "-0" and "01" are none
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *value);
  return error == std::errc() && end == text.data() + text.size();
}

size_t RequestSplitter::Finish(size_t size) {
  position_ = expected_ = 0;
  left_ = -1;
  return size;
}

absl::Status RequestSplitter::Error(std::string_view what) {
  Finish(0);
  return ProtocolError(what);
}

absl::StatusOr<size_t> RequestSplitter::Next(std::string_view bytes) {
  if (bytes.empty()) return 0;
  return bytes[0] == '*' ? Array(bytes) : Line(bytes);
}

absl::StatusOr<size_t> RequestSplitter::Line(std::string_view bytes) {
  const size_t end = bytes.find('\n', position_);
  if (end == std::string_view::npos ? bytes.size() >= limits_.max_inline
                                    : end >= limits_.max_inline) {
    return Error("too big inline request");
  }
  if (end != std::string_view::npos) return Finish(end + 1);
  position_ = bytes.size();
  return 0;
}

absl::StatusOr<size_t> RequestSplitter::Array(std::string_view bytes) {
  if (left_ < 0) {
    const size_t end = LineEnd(bytes, 0);
    if (end == std::string_view::npos) {
      if (bytes.size() > kMaxHeadLine) return Error("too big mbulk count string");
      return 0;
    }
    int64_t count = 0;
    if (!ParseInteger(bytes.substr(1, end - 1), &count) || count > limits_.max_arguments ||
        bytes[end + 1] != '\n') {
      return Error("invalid multibulk length");
    }
    many_ = count > 10;
    left_ = count > 0 ? count : 0;
    position_ = end + 2;
  }
  if (many_ && !authenticated_) return Error("unauthenticated multibulk length");
  while (left_ > 0) {
    bool whole = false;
    if (auto status = Bulk(bytes, &whole); !status.ok()) return status;
    if (!whole) return 0;
    --left_;
  }
  return Finish(position_);
}

// The argument at position_; moves behind it when it is whole.
absl::Status RequestSplitter::Bulk(std::string_view bytes, bool* whole) {
  if (position_ >= bytes.size()) return absl::OkStatus();
  if (bytes[position_] != '$') {
    const char got = bytes[position_];
    const char shown = got >= 0x20 && got < 0x7f ? got : '?';
    return Error(std::string("expected '$', got '") + shown + "'");
  }
  const size_t end = LineEnd(bytes, position_);
  if (end == std::string_view::npos) {
    if (bytes.size() - position_ > kMaxHeadLine) return Error("too big bulk count string");
    return absl::OkStatus();
  }
  int64_t size = 0;
  if (!ParseInteger(bytes.substr(position_ + 1, end - position_ - 1), &size) || size < 0 ||
      static_cast<uint64_t>(size) > limits_.max_bulk || bytes[end + 1] != '\n') {
    return Error("invalid bulk length");
  }
  if (size > 16384 && !authenticated_) return Error("unauthenticated bulk length");
  const size_t data = end + 2;
  const auto length = static_cast<size_t>(size);
  expected_ = data + length + 2;
  if (bytes.size() < expected_) return absl::OkStatus();
  if (bytes[data + length] != '\r' || bytes[data + length + 1] != '\n') {
    return Error("expected CRLF after a bulk string");
  }
  position_ = data + length + 2;
  *whole = true;
  return absl::OkStatus();
}

absl::Status Request::Parse(std::string_view bytes) {
  arguments_.clear();
  if (bytes.empty() || bytes[0] != '*') {
    while (!bytes.empty() && (bytes.back() == '\n' || bytes.back() == '\r')) bytes.remove_suffix(1);
    return ParseLine(bytes);
  }
  size_t end = LineEnd(bytes, 0);
  int64_t count = 0;
  if (end == std::string_view::npos || !ParseInteger(bytes.substr(1, end - 1), &count)) {
    return ProtocolError("invalid multibulk length");
  }
  size_t at = end + 2;
  for (; count > 0; --count) {
    int64_t size = 0;
    end = at < bytes.size() && bytes[at] == '$' ? LineEnd(bytes, at) : std::string_view::npos;
    if (end == std::string_view::npos || !ParseInteger(bytes.substr(at + 1, end - at - 1), &size) ||
        size < 0 || bytes.size() - (end + 2) < 2 ||
        static_cast<uint64_t>(size) > bytes.size() - (end + 2) - 2) {
      return ProtocolError("invalid bulk length");
    }
    arguments_.push_back(bytes.substr(end + 2, static_cast<size_t>(size)));
    at = end + 2 + static_cast<size_t>(size) + 2;
  }
  return absl::OkStatus();
}

absl::Status Request::ParseSplit(std::string_view bytes) {
  arguments_.clear();
  const auto take = [&bytes] {
    uint32_t number = 0;
    if (bytes.size() >= sizeof(number)) {
      std::memcpy(&number, bytes.data(), sizeof(number));
      bytes.remove_prefix(sizeof(number));
    }
    return number;
  };
  const uint32_t count = take();
  if (count > bytes.size() / sizeof(uint32_t)) return ProtocolError("invalid multibulk length");
  std::string_view rest = bytes.substr(count * sizeof(uint32_t));
  for (uint32_t i = 0; i < count; ++i) {
    const uint32_t size = take();
    if (size > rest.size()) return ProtocolError("invalid bulk length");
    arguments_.push_back(rest.substr(0, size));
    rest.remove_prefix(size);
  }
  return rest.empty() ? absl::OkStatus() : ProtocolError("invalid bulk length");
}

absl::Status Request::ParseLine(std::string_view line) {
  unquoted_.clear();
  unquoted_.reserve(line.size());  // so that views of it stay
  size_t at = 0;
  while (true) {
    while (at < line.size() && IsBlank(line[at])) ++at;
    if (at == line.size()) return absl::OkStatus();
    const size_t begin = unquoted_.size();
    while (at < line.size() && !IsBlank(line[at])) {
      if (line[at] == '"' || line[at] == '\'') {
        if (!ReadQuoted(line, &at, &unquoted_)) {
          arguments_.clear();
          return ProtocolError("unbalanced quotes in request");
        }
        break;
      }
      unquoted_.push_back(line[at++]);
    }
    arguments_.push_back(std::string_view(unquoted_).substr(begin));
  }
}

absl::Status ReplySplitter::Error(std::string_view what) {
  position_ = 0;
  depth_ = 0;
  return absl::InvalidArgumentError(
      absl::StrCat("ERR malformed reply: ", absl::string_view(what.data(), what.size())));
}

absl::StatusOr<size_t> ReplySplitter::Next(std::string_view bytes) {
  while (true) {
    PULSE_ASSIGN_OR_RETURN(const auto step, Element(bytes));
    if (step == Step::kIncomplete) return 0;
    if (step == Step::kMore) continue;
    const size_t size = position_;
    position_ = 0;
    depth_ = 0;
    return size;
  }
}

// One element ended at `end`: with it all that were waiting for it alone.
absl::StatusOr<ReplySplitter::Step> ReplySplitter::Ended(size_t end) {
  position_ = end;
  while (depth_ > 0) {
    uint64_t& left = left_[depth_ - 1];
    if (left >= kChunks || --left > 0) return Step::kMore;
    --depth_;
  }
  return Step::kDone;
}

absl::StatusOr<ReplySplitter::Step> ReplySplitter::Element(std::string_view bytes) {
  if (position_ >= bytes.size()) return Step::kIncomplete;
  const char type = bytes[position_];
  const size_t end = LineEnd(bytes, position_);
  const bool chunks = depth_ > 0 && left_[depth_ - 1] == kChunks;
  if (chunks != (type == ';')) return Error("a chunk out of place");
  if (end != std::string_view::npos && bytes[end + 1] != '\n')
    return Error("a line without an end");
  if (strchr("+-:_,#(", type) != nullptr && type != '\0') {
    if (end != std::string_view::npos) return Ended(end + 2);
    if (bytes.size() - position_ > limits_.max_reply_bulk) return Error("too long a line");
    return Step::kIncomplete;
  }
  if (end == std::string_view::npos) {
    if (strchr("$!=;*~>%|.", type) == nullptr || type == '\0') return Error("unknown type");
    if (bytes.size() - position_ > kMaxHeadLine) return Error("too long a length");
    return Step::kIncomplete;
  }
  const std::string_view text = bytes.substr(position_ + 1, end - position_ - 1);
  switch (type) {
    case '$':
    case '!':
    case '=':
    case ';':
      return Bulk(bytes, end + 2, text);
    case '*':
    case '~':
    case '>':
    case '%':
    case '|':
      return Aggregate(type, end + 2, text);
    case '.':
      if (depth_ == 0 || left_[depth_ - 1] != kStreamed || !text.empty()) {
        return Error("an end out of place");
      }
      --depth_;
      return Ended(end + 2);
    default:
      return Error("unknown type");
  }
}

absl::StatusOr<ReplySplitter::Step> ReplySplitter::Bulk(std::string_view bytes, size_t data,
                                                        std::string_view length) {
  const char type = bytes[position_];
  if (type == '$' && length == "?") {
    if (depth_ == kMaxNesting) return Error("nested too deeply");
    left_[depth_++] = kChunks;
    position_ = data;
    return Step::kMore;
  }
  int64_t size = 0;
  if (!ParseInteger(length, &size) || size < -1 || (size == -1 && type != '$') ||
      (size > 0 && static_cast<uint64_t>(size) > limits_.max_reply_bulk)) {
    return Error("invalid bulk length");
  }
  if (size == -1) return Ended(data);
  if (type == ';' && size == 0) {
    --depth_;
    return Ended(data);
  }
  const auto needed = static_cast<size_t>(size) + 2;
  if (bytes.size() - data < needed) return Step::kIncomplete;
  if (bytes.substr(data + needed - 2, 2) != "\r\n") return Error("no line end after a bulk string");
  return Ended(data + needed);
}

absl::StatusOr<ReplySplitter::Step> ReplySplitter::Aggregate(char type, size_t data,
                                                             std::string_view count) {
  uint64_t elements = kStreamed;
  if (count != "?") {
    int64_t value = 0;
    if (!ParseInteger(count, &value) || value < -1 || (value == -1 && type != '*') ||
        (value > 0 && static_cast<uint64_t>(value) > limits_.max_elements)) {
      return Error("invalid multibulk length");
    }
    if (value == -1) return Ended(data);
    elements = static_cast<uint64_t>(value);
    if (type == '%' || type == '|') elements *= 2;
    if (type == '|') ++elements;  // the reply itself
    if (elements == 0) return Ended(data);
  } else if (type == '|') {
    return Error("a streamed attribute");
  }
  if (depth_ == kMaxNesting) return Error("nested too deeply");
  left_[depth_++] = elements;
  position_ = data;
  return Step::kMore;
}

void ReplyWriter::Head(char type, int64_t value) {
  char text[24];
  text[0] = type;
  char* end = std::to_chars(text + 1, text + sizeof(text) - 2, value).ptr;
  *end++ = '\r';
  *end++ = '\n';
  out_->append(text, static_cast<size_t>(end - text));
}

void ReplyWriter::Simple(std::string_view text) {
  out_->push_back('+');
  out_->append(text);
  out_->append("\r\n");
}

void ReplyWriter::Error(std::string_view text) {
  if (errors_ != nullptr) errors_->Add(text);
  out_->push_back('-');
  for (const char c : text) out_->push_back(c == '\r' || c == '\n' ? ' ' : c);
  out_->append("\r\n");
}

void ReplyWriter::Bulk(std::string_view bytes) {
  Head('$', bytes.size());
  // With the line's end, which would have a long one copied to twice its room.
  out_->reserve(out_->size() + bytes.size() + 2);
  out_->append(bytes);
  out_->append("\r\n");
}

void ReplyWriter::Double(std::string_view digits) {
  if (protocol_ < 3) {
    Bulk(digits);
    return;
  }
  out_->push_back(',');
  out_->append(digits);
  out_->append("\r\n");
}

void ReplyWriter::Null() { out_->append(protocol_ >= 3 ? "_\r\n" : "$-1\r\n"); }
void ReplyWriter::NullArray() { out_->append(protocol_ >= 3 ? "_\r\n" : "*-1\r\n"); }

void ReplyWriter::Map(size_t pairs) {
  if (protocol_ >= 3) {
    Head('%', pairs);
  } else {
    Head('*', pairs * 2);
  }
}

void ReplyWriter::Verbatim(std::string_view text) {
  if (protocol_ < 3) {
    Bulk(text);
    return;
  }
  Head('=', text.size() + 4);
  out_->append("txt:");
  out_->append(text);
  out_->append("\r\n");
}

std::string ErrorLine(const absl::Status& error) {
  const absl::string_view message = error.message();
  std::string out;
  ReplyWriter writer(&out, 2);
  // A code is a word of capitals; "IO error" has none.
  size_t code = 0;
  while (code < message.size() && message[code] >= 'A' && message[code] <= 'Z') ++code;
  if (code > 2 && code < message.size() && message[code] == ' ') {
    writer.Error({message.data(), message.size()});
  } else {
    writer.Error(absl::StrCat("ERR ", message));
  }
  return out;
}

void AppendSplit(std::span<const std::string_view> arguments, std::string* out) {
  const auto append = [out](size_t number) {
    const auto n = static_cast<uint32_t>(number);
    char bytes[sizeof(n)];
    std::memcpy(bytes, &n, sizeof(n));
    out->append(bytes, sizeof(n));
  };
  append(arguments.size());
  for (const std::string_view argument : arguments) append(argument.size());
  for (const std::string_view argument : arguments) out->append(argument);
}

void AppendRequest(const std::vector<std::string_view>& arguments, std::string* out) {
  ReplyWriter writer(out, 2);
  writer.Array(arguments.size());
  for (const std::string_view argument : arguments) writer.Bulk(argument);
}

}  // namespace pulse::redis
