#include "services/graph/syntax/error.h"

#include <algorithm>

#include "absl/strings/cord.h"
#include "absl/strings/str_split.h"
#include "base/json.h"
#include "services/graph/model/text.h"

namespace pulse::cypher {
namespace {

constexpr char kPayload[] = "pulse/cypher";

absl::Status Make(absl::StatusCode code, std::string_view kind, std::string_view phase,
                  std::string_view detail, std::string_view message) {
  absl::Status status(code, Absl(message));
  status.SetPayload(kPayload, absl::Cord(Concat(kind, "|", phase, "|", detail)));
  return status;
}

// Characters, not bytes, of UTF-8.
size_t Characters(std::string_view text) {
  return static_cast<size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; }));
}

}  // namespace

absl::Status CompileError(std::string_view kind, std::string_view detail,
                          std::string_view message) {
  return Make(absl::StatusCode::kInvalidArgument, kind, "compile time", detail, message);
}

absl::Status RuntimeError(std::string_view kind, std::string_view detail,
                          std::string_view message) {
  return Make(absl::StatusCode::kFailedPrecondition, kind, "runtime", detail, message);
}

absl::Status LimitError(absl::StatusCode code, std::string_view message, std::string_view detail) {
  return Make(code, "LimitExceeded", "runtime", detail, message);
}

ErrorInfo InfoOf(const absl::Status& status) {
  const auto payload = status.GetPayload(kPayload);
  if (!payload) return {};
  const std::vector<std::string> parts = absl::StrSplit(std::string(*payload), '|');
  if (parts.size() != 3) return {};
  return {parts[0], parts[1], parts[2]};
}

std::string AtPosition(std::string_view query, Pos pos, std::string_view message) {
  const size_t offset = std::min<size_t>(pos.offset, query.size());
  const auto line_number =
      1 + std::count(query.begin(), query.begin() + static_cast<long>(offset), '\n');
  size_t begin = query.rfind('\n', offset == 0 ? 0 : offset - 1);
  begin = begin == std::string_view::npos || offset == 0 ? 0 : begin + 1;
  if (begin > offset) begin = offset;
  size_t end = query.find('\n', offset);
  if (end == std::string_view::npos) end = query.size();
  const size_t column = 1 + Characters(query.substr(begin, offset - begin));
  // What is shown of a long line.
  constexpr size_t kBefore = 60, kAfter = 40;
  if (offset - begin > kBefore) begin = offset - kBefore;
  while (begin < offset && (query[begin] & 0xC0) == 0x80) ++begin;
  end = std::min(end, offset + kAfter);
  while (end > offset && end < query.size() && (query[end] & 0xC0) == 0x80) --end;
  std::string line(query.substr(begin, end - begin));
  std::replace(line.begin(), line.end(), '\t', ' ');
  const std::string shown = CleanText(line);
  const size_t indent = Characters(query.substr(begin, offset - begin));
  return Concat(message, " (line ", line_number, ", column ", column, ")\n\"", shown, "\"\n",
                std::string(indent + 1, ' '), "^");
}

}  // namespace pulse::cypher
