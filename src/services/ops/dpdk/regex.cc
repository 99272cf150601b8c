#include "services/ops/dpdk/regex.h"

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/errors.h"
#include "services/ops/dpdk/device.h"

namespace pulse::ops::dpdk {

absl::StatusOr<std::shared_ptr<RegexDevice>> RegexDevice::Open(const std::string& name,
                                                               absl::string_view rules) {
  PULSE_ASSIGN_OR_RETURN(const ModuleApi* module, LoadModule());
  return Open(module, name, rules);
}

absl::StatusOr<std::shared_ptr<RegexDevice>> RegexDevice::Open(const ModuleApi* module,
                                                               const std::string& name,
                                                               absl::string_view rules) {
  void* device = nullptr;
  RegexFacts facts{};
  Error error{};
  const Outcome got = module->open_regex(
      name.c_str(), rules.data(), static_cast<uint32_t>(rules.size()), &device, &facts, &error);
  if (got == Outcome::kOk) {
    return std::shared_ptr<RegexDevice>(new RegexDevice(name, module, device, facts));
  }
  const std::string text = absl::StrCat("device ", name, " of DPDK: ", error.text);
  if (got == Outcome::kNoDevice) return absl::NotFoundError(text);
  if (got == Outcome::kFull) return absl::ResourceExhaustedError(text);
  return absl::FailedPreconditionError(text);
}

absl::StatusOr<std::vector<RegexDevice::Answer>> RegexDevice::Scan(
    const std::vector<absl::string_view>& records) const {
  std::vector<Answer> answers(records.size(), Answer::kUnknown);
  std::vector<RegexJob> jobs;
  std::vector<size_t> of;
  for (size_t i = 0; i < records.size(); ++i) {
    if (records[i].size() > facts_.largest_input) continue;
    jobs.push_back({reinterpret_cast<const uint8_t*>(records[i].data()), records[i].size(), 0,
                    Outcome::kLost});
    of.push_back(i);
  }
  if (jobs.empty()) return answers;
  module_->scan(device_, jobs.data(), static_cast<uint32_t>(jobs.size()));
  for (size_t i = 0; i < jobs.size(); ++i) {
    const RegexJob& job = jobs[i];
    if (job.outcome == Outcome::kLost) {
      return absl::UnavailableError(
          absl::StrCat("device ", name_, " of DPDK does not answer; it is lost"));
    }
    if (job.outcome == Outcome::kOk) {
      answers[of[i]] = job.matched != 0 ? Answer::kYes : Answer::kNo;
    }
  }
  return answers;
}

}  // namespace pulse::ops::dpdk
