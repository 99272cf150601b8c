#include "examples/common/wire.h"

#include <algorithm>
#include <iterator>

namespace pulse::examples {

Code Codes::Of(const absl::Status& status) const {
  // The agent's session is over.
  if (absl::IsAborted(status) || absl::IsFailedPrecondition(status)) return Code::kUnavailable;
  const auto* const found = std::find(std::begin(all), std::end(all), status.code());
  return found == std::end(all) ? Code::kFailed : static_cast<Code>(found - all);
}

absl::Status Codes::ToStatus(Code code, std::string_view text) const {
  if (text.empty() && code == Code::kUnavailable) text = "the server is lost, or cannot be reached";
  if (text.empty()) text = "refused, without a word";
  const auto known = std::min<size_t>(static_cast<size_t>(code), std::size(all));
  return absl::Status(known < std::size(all) ? all[known] : absl::StatusCode::kInternal,
                      absl::string_view(text.data(), text.size()));
}

}  // namespace pulse::examples
