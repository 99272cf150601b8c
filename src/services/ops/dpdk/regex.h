// RegexDevice: a card's device for regular expressions, by DPDK's regexdev: the co-processing
// paper's cREG, by which its section 5.7 filters. It answers whether a record matches one of its
// rules; what it does not know, whoever asks finds out by RE2.
//
// Its rules are a database that the card's vendor compiled (of group 1), not those of `pulse
// filter`: no command uses it yet, and without a card only its errors are tested.
//
// Thread-safe. Scan blocks for the device. The device stays open until the process ends.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "services/ops/dpdk/module_api.h"

namespace pulse::ops::dpdk {

class RegexDevice {
 public:
  // kUnknown: the record is too large for the device, or one of its limits was reached.
  enum class Answer : uint8_t { kNo, kYes, kUnknown };

  // `name`: a card's PCI address. NotFound: no regex device here. FailedPrecondition: it does not
  // take these rules. ResourceExhausted: it is open with other rules. Else as LoadModule
  // (device.h).
  static absl::StatusOr<std::shared_ptr<RegexDevice>> Open(const std::string& name,
                                                           absl::string_view rules);
  // The same by a given module.
  static absl::StatusOr<std::shared_ptr<RegexDevice>> Open(const ModuleApi* module,
                                                           const std::string& name,
                                                           absl::string_view rules);

  // One for each record. Unavailable: the device does not answer any more.
  absl::StatusOr<std::vector<Answer>> Scan(const std::vector<absl::string_view>& records) const;

  const RegexFacts& facts() const { return facts_; }

 private:
  RegexDevice(std::string name, const ModuleApi* module, void* device, const RegexFacts& facts)
      : name_(std::move(name)), module_(module), device_(device), facts_(facts) {}

  const std::string name_;
  const ModuleApi* const module_;
  void* const device_;
  const RegexFacts facts_;
};

}  // namespace pulse::ops::dpdk
