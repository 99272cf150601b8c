#include "services/kv/etcd/values.h"

#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "base/errors.h"
#include "nlohmann/json.hpp"

namespace pulse::kv {
namespace {

using Json = nlohmann::json;

// The gateway sends whole numbers as text.
int64_t RevisionOf(const Json& kv) {
  const auto it = kv.find("create_revision");
  int64_t revision = 0;
  if (it == kv.end() || !it->is_string() ||
      !absl::SimpleAtoi(it->get_ref<const std::string&>(), &revision)) {
    return 0;
  }
  return revision;
}

}  // namespace

absl::StatusOr<std::vector<EtcdValue>> EtcdValuesIn(const std::string& reply) {
  const Json answer = Json::parse(reply, nullptr, false);
  if (!answer.is_object()) return absl::UnavailableError("it answers no JSON object");
  std::vector<EtcdValue> values;
  const auto kvs = answer.find("kvs");
  // Without values it says nothing but its header. Anything else is none of etcd's, and does not
  // mean that there are no values.
  if (kvs == answer.end() && answer.contains("header")) return values;
  if (kvs == answer.end() || !kvs->is_array()) {
    return absl::UnavailableError("its answer has no list of values");
  }
  for (const Json& kv : *kvs) {
    if (!kv.is_object()) continue;
    const auto value = kv.find("value");
    EtcdValue found;
    if (value == kv.end() || !value->is_string() ||
        !absl::Base64Unescape(value->get_ref<const std::string&>(), &found.text)) {
      continue;
    }
    found.create_revision = RevisionOf(kv);
    values.push_back(std::move(found));
  }
  return values;
}

absl::StatusOr<std::vector<EtcdValue>> ReadEtcd(HttpClient* http, std::string_view prefix,
                                                int64_t timeout_ms,
                                                const std::atomic<bool>* cancel) {
  while (prefix.ends_with('/')) prefix.remove_suffix(1);
  const std::string first = std::string(prefix) + '/';
  const std::string end = std::string(prefix) + static_cast<char>('/' + 1);
  const Json request = {{"key", absl::Base64Escape(first)}, {"range_end", absl::Base64Escape(end)}};
  PULSE_ASSIGN_OR_RETURN(const std::string reply,
                         http->Post("/v3/kv/range", request.dump(), timeout_ms, cancel));
  return EtcdValuesIn(reply);
}

}  // namespace pulse::kv
