// graph/model's bytes of values and numbers, for what reads Abseil's views and returns a status:
// the columns and lists of runs. Any thread; nothing blocks; input is untrusted.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "services/graph/model/text.h"
#include "services/graph/model/value_codec.h"

namespace pulse::graph {

using cypher::AppendVarint;

// False: *in does not begin with one. Takes it off *in.
inline bool ReadVarint(absl::string_view* in, uint64_t* value) {
  std::string_view rest(in->data(), in->size());
  if (!cypher::ReadVarint(&rest, value)) return false;
  *in = cypher::Absl(rest);
  return true;
}

// InvalidArgument for a node, a relationship or a path, also inside.
inline absl::Status EncodeValue(const cypher::Value& value, std::string* out) {
  if (!cypher::IsStorable(value)) {
    return absl::InvalidArgumentError(cypher::Concat(
        "a value of type ", cypher::TypeName(value.type()), " cannot be stored as a property"));
  }
  cypher::AppendValue(value, out);
  return absl::OkStatus();
}

// Takes one value off *in. DataLoss where *in does not begin with one, or it nests too deeply.
inline absl::Status DecodeValue(absl::string_view* in, cypher::Value* value) {
  std::string_view rest(in->data(), in->size());
  if (!cypher::ReadValue(&rest, value)) return absl::DataLossError("bytes that are no value");
  *in = cypher::Absl(rest);
  return absl::OkStatus();
}

}  // namespace pulse::graph
