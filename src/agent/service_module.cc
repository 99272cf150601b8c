#include "agent/service_module.h"

#include "absl/strings/numbers.h"

namespace pulse {

std::string OptionValues::Text(const OptionSpec& spec) const {
  const auto it = values_.find(spec.name);
  return it == values_.end() || it->second.empty() ? spec.value : it->second.back();
}

std::vector<std::string> OptionValues::List(const OptionSpec& spec) const {
  const auto it = values_.find(spec.name);
  return it == values_.end() ? std::vector<std::string>() : it->second;
}

std::optional<int64_t> OptionValues::Integer(const OptionSpec& spec) const {
  int64_t n = 0;
  if (!absl::SimpleAtoi(Text(spec), &n)) return std::nullopt;
  return n;
}

}  // namespace pulse
