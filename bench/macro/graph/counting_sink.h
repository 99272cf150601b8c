// Where the bytes of a run go nowhere: as the paper has it, only the part in memory is measured.
#pragma once

#include <cstdint>

#include "services/graph/runs/run_builder.h"

namespace pulse::bench {

class CountingSink : public graph::RunSink {
 public:
  absl::Status Append(absl::string_view bytes) override {
    bytes_ += bytes.size();
    return absl::OkStatus();
  }
  uint64_t bytes() const { return bytes_; }

 private:
  uint64_t bytes_ = 0;
};

}  // namespace pulse::bench
