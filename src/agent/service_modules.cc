#include "agent/service_modules.h"

#include <utility>

#include "base/errors.h"

namespace pulse {

absl::StatusOr<std::unique_ptr<ServiceModules>> ServiceModules::Open(
    std::span<const ServiceEntry* const> entries, const OptionValues& options, AgentFacts facts) {
  std::unique_ptr<ServiceModules> all(new ServiceModules(entries));
  for (const ServiceEntry* entry : entries) {
    if (entry->open == nullptr) continue;
    PULSE_ASSIGN_OR_RETURN(auto module, entry->open(options, facts));
    if (module == nullptr) continue;
    facts.opened.emplace_back(entry, module.get());
    all->modules_.push_back(std::move(module));
  }
  return all;
}

ServiceModules::~ServiceModules() {
  // What was opened later may use what was there.
  while (!modules_.empty()) modules_.pop_back();
}

ServiceTable ServiceModules::Offered() const {
  ServiceTable offered;
  for (const auto& module : modules_) {
    if (auto service = module->Offer(); service.has_value()) offered.push_back(*std::move(service));
  }
  return offered;
}

std::vector<const ServiceSpec*> ServiceModules::Known() const {
  std::vector<const ServiceSpec*> known;
  for (const ServiceEntry* entry : entries_) {
    if (entry->spec != nullptr) known.push_back(entry->spec);
  }
  return known;
}

std::vector<NumberGroup> ServiceModules::Numbers() const {
  std::vector<NumberGroup> groups;
  for (const auto& module : modules_) {
    NumberGroup group = module->Numbers();
    if (!group.numbers.empty()) groups.push_back(std::move(group));
  }
  return groups;
}

std::string ServiceModules::Describe() const {
  std::string text;
  for (const auto& module : modules_) text += module->Describe();
  return text;
}

void ServiceModules::Stop() {
  for (const auto& module : modules_) module->Stop();
}

NetworkFront* ServiceModules::front() const {
  for (const auto& module : modules_) {
    if (NetworkFront* front = module->front(); front != nullptr) return front;
  }
  return nullptr;
}

}  // namespace pulse
