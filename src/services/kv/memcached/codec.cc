#include "services/kv/memcached/codec.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <utility>

namespace pulse::kv::memcached {
namespace {

constexpr std::array<std::pair<std::string_view, Command>, 27> kCommands = {{
    {"get", Command::kGet},
    {"gets", Command::kGets},
    {"gat", Command::kGat},
    {"gats", Command::kGats},
    {"set", Command::kSet},
    {"add", Command::kAdd},
    {"replace", Command::kReplace},
    {"append", Command::kAppend},
    {"prepend", Command::kPrepend},
    {"cas", Command::kCas},
    {"incr", Command::kIncr},
    {"decr", Command::kDecr},
    {"touch", Command::kTouch},
    {"delete", Command::kDelete},
    {"flush_all", Command::kFlushAll},
    {"stats", Command::kStats},
    {"version", Command::kVersion},
    {"config", Command::kConfig},
    {"verbosity", Command::kVerbosity},
    {"quit", Command::kQuit},
    {"shutdown", Command::kShutdown},
    {"mg", Command::kMetaGet},
    {"ms", Command::kMetaSet},
    {"md", Command::kMetaDelete},
    {"ma", Command::kMetaArithmetic},
    {"mn", Command::kMetaNoop},
    {"me", Command::kMetaDebug},
}};

// The first byte of a request of the binary protocol.
constexpr char kBinaryMagic = static_cast<char>(0x80);

// The next word of `line`, taken off it; empty at its end.
std::string_view TakeWord(std::string_view* line) {
  const size_t begin = std::min(line->find_first_not_of(' '), line->size());
  const size_t end = std::min(line->find(' ', begin), line->size());
  const std::string_view word = line->substr(begin, end - begin);
  line->remove_prefix(end);
  return word;
}

// What counts of the line that ends at `end`, where its '\n' is.
std::string_view LineOf(std::string_view bytes, size_t end) {
  std::string_view line = bytes.substr(0, end);
  if (line.ends_with('\r')) line.remove_suffix(1);
  return line.substr(0, line.find('\0'));
}

bool HasBlock(Command command) {
  switch (command) {
    case Command::kSet:
    case Command::kAdd:
    case Command::kReplace:
    case Command::kAppend:
    case Command::kPrepend:
    case Command::kCas:
    case Command::kMetaSet:
      return true;
    default:
      return false;
  }
}

// The data block that the line announces, which is waited for even where the request is refused: a
// value that somebody chose must not be taken for requests. None for a line that does not say how
// long one is.
std::optional<uint64_t> BlockOf(std::string_view line) {
  constexpr size_t kEnough = kMostMetaWords + 1;
  std::array<std::string_view, kEnough> words;
  size_t count = 0;
  words[count++] = TakeWord(&line);
  const Command command = FindCommand(words[0]);
  if (!HasBlock(command)) return std::nullopt;
  while (count < kEnough && !(words[count] = TakeWord(&line)).empty()) ++count;
  const bool meta = command == Command::kMetaSet;
  const size_t least = meta ? 3 : command == Command::kCas ? 6 : 5;
  if (count < least || (!meta && count > least + 1)) return std::nullopt;
  uint64_t size = 0;
  if (!ParseUnsigned(words[meta ? 2 : 4], &size) || size > kMaxBlock) return std::nullopt;
  return size;
}

template <class Number>
bool Parse(std::string_view text, Number* value) {
  if (text.starts_with('+') && text.size() > 1 && text[1] != '-') text.remove_prefix(1);
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *value);
  return error == std::errc() && end == text.data() + text.size();
}

}  // namespace

Command FindCommand(std::string_view name) {
  for (const auto& [known, command] : kCommands) {
    if (name == known) return command;
  }
  return Command::kUnknown;
}

bool ParseUnsigned(std::string_view text, uint64_t* value) { return Parse(text, value); }
bool ParseSigned(std::string_view text, int64_t* value) { return Parse(text, value); }

absl::StatusOr<size_t> RequestSplitter::FindLine(std::string_view bytes) {
  if (first_ && !bytes.empty() && bytes[0] == kBinaryMagic) {
    return absl::InvalidArgumentError("the binary protocol is not served; use the text protocol");
  }
  const size_t end = bytes.substr(0, kMaxLine + 2).find('\n', seen_);
  // The same whether the line has arrived as a whole or not.
  const size_t size = end != std::string_view::npos ? end : bytes.size();
  const bool too_long = size > kMaxLine + 1 || (size == kMaxLine + 1 && bytes[kMaxLine] != '\r') ||
                        (size > kMaxWord && bytes.substr(0, kMaxWord).find(' ') == bytes.npos);
  if (too_long) {
    seen_ = 0;
    return absl::InvalidArgumentError("line too long");
  }
  if (end == std::string_view::npos) {
    seen_ = bytes.size();
    return 0;
  }
  seen_ = 0;
  first_ = false;
  return end + 1;
}

absl::StatusOr<size_t> RequestSplitter::Next(std::string_view bytes) {
  skipped_ = skip_ > 0 && !bytes.empty();
  if (skip_ > 0) {
    const size_t piece = std::min<uint64_t>(skip_, bytes.size());
    skip_ -= piece;
    return piece;
  }
  if (need_ == 0) {
    const auto line = FindLine(bytes);
    if (!line.ok() || *line == 0) return line;
    const auto block = BlockOf(LineOf(bytes, *line - 1));
    if (!block.has_value()) return line;
    if (*block > max_data_) {
      skip_ = *block + 2;
      return line;
    }
    need_ = *line + *block + 2;
  }
  return bytes.size() < need_ ? 0 : std::exchange(need_, 0);
}

void Request::Parse(std::string_view bytes) {
  words.clear();
  data = {};
  noreply = too_large = bad_chunk = false;
  const size_t end = std::min(bytes.find('\n'), bytes.size());
  std::string_view line = LineOf(bytes, end);
  if (const auto block = BlockOf(line)) {
    std::string_view rest = bytes.substr(std::min(end + 1, bytes.size()));
    too_large = rest.size() < *block + 2;
    if (!too_large) {
      data = rest.substr(0, *block);
      bad_chunk = rest.substr(*block, 2) != "\r\n";
    }
  }
  for (std::string_view word = TakeWord(&line); !word.empty(); word = TakeWord(&line)) {
    words.push_back(word);
  }
  command = words.empty() ? Command::kUnknown : FindCommand(words[0]);
  noreply = words.size() > 1 && words.back() == "noreply";
}

bool Request::closes() const {
  return command == Command::kQuit ||
         (command == Command::kUnknown && words.size() > 1 && words.back().starts_with("HTTP/"));
}

namespace {

// A command of both protocols, sent as a line: memcached's has a key, so many numbers, and may have
// noreply. Redis's own have other words. Of config, one line is memcached's.
struct SharedName {
  std::string_view name;
  size_t numbers;
};
constexpr SharedName kSharedNames[] = {{"set", 3},  {"append", 3}, {"incr", 1},
                                       {"decr", 1}, {"touch", 1},  {"config", 0}};
constexpr std::string_view kConfigLine = "config get cluster";
// A line that is longer than that is no such command.
constexpr size_t kLongestFirstLine = 2048;

bool HasShapeOfMemcached(const SharedName& shared, std::string_view line) {
  if (shared.name == "config") {
    return line.substr(0, line.find_last_not_of(" \r") + 1) == kConfigLine;
  }
  size_t arguments = 0;
  for (size_t at = shared.name.size(); at < line.size();) {
    const size_t begin = line.find_first_not_of(" \r", at);
    if (begin == std::string_view::npos) break;
    at = std::min(line.find_first_of(" \r", begin), line.size());
    const std::string_view word = line.substr(begin, at - begin);
    ++arguments;
    if (arguments == 1) continue;
    const bool number = word.find_first_not_of("-0123456789") == std::string_view::npos;
    const bool last = arguments == shared.numbers + 2;
    if (arguments > shared.numbers + 2 || (last ? word != "noreply" : !number)) return false;
  }
  return arguments > shared.numbers;
}

}  // namespace

bool LooksLikeMemcached(std::string_view first_bytes, bool* undecided) {
  *undecided = false;
  if (!first_bytes.empty() && first_bytes[0] == kBinaryMagic) return true;
  for (const auto& [name, command] : kCommands) {
    if (first_bytes.size() <= name.size()) {
      *undecided |= name.starts_with(first_bytes);
      continue;
    }
    const char next = first_bytes[name.size()];
    if (!first_bytes.starts_with(name) || (next != ' ' && next != '\r' && next != '\n')) continue;
    *undecided = false;
    for (const SharedName& shared : kSharedNames) {
      if (shared.name != name) continue;
      // The same whether more of it has arrived or not.
      const size_t end = first_bytes.substr(0, kLongestFirstLine).find('\n');
      if (end != std::string_view::npos) {
        return HasShapeOfMemcached(shared, first_bytes.substr(0, end));
      }
      *undecided = first_bytes.size() < kLongestFirstLine;
      return false;
    }
    return true;
  }
  return false;
}

}  // namespace pulse::kv::memcached
