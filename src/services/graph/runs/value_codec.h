// Values as bytes: in columns of runs, and wherever else the store writes one (its log, its nodes).
// Nodes, relationships and paths are no stored values. Any thread; nothing blocks; input is
// untrusted.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "services/graph/model/value.h"

namespace pulse::graph {

void AppendVarint(uint64_t value, std::string* out);
// False: *in does not begin with one. Takes it off *in.
bool ReadVarint(absl::string_view* in, uint64_t* value);

// InvalidArgument for a node, a relationship or a path, also inside.
absl::Status EncodeValue(const cypher::Value& value, std::string* out);
// Takes one value off *in. DataLoss where *in does not begin with one, or it nests too deeply.
absl::Status DecodeValue(absl::string_view* in, cypher::Value* value);

}  // namespace pulse::graph
