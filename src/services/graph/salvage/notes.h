// What a salvage finds damaged: named, the first ones, and counted. Internal; one thread.
#pragma once

#include <string>
#include <utility>

#include "services/graph/salvage/salvage.h"

namespace pulse::graph {

class SalvageNotes {
 public:
  explicit SalvageNotes(SalvageReport* report) : report_(*report) {}
  void Name(std::string damage) {
    if (report_.damages.size() < kMostNamed) {
      report_.damages.push_back(std::move(damage));
    } else {
      ++report_.more_damages;
    }
  }
  SalvageReport& report() { return report_; }

 private:
  static constexpr size_t kMostNamed = 1000;
  SalvageReport& report_;
};

}  // namespace pulse::graph
