// The refusal of a file whose format is of a later version of PulseDB: no damage, and nothing that
// salvage is for.
#pragma once

#include <cstdint>
#include <string_view>

#include "absl/status/status.h"
#include "services/graph/model/text.h"

namespace pulse::graph {

inline absl::Status NewerFormat(std::string_view path, uint64_t format, uint64_t known) {
  return absl::FailedPreconditionError(cypher::Concat(
      path, " was made by a newer PulseDB (format ", format, "; this one knows up to ", known,
      "): use that version, or `pulse graph export` there and `pulse graph import` here"));
}

}  // namespace pulse::graph
