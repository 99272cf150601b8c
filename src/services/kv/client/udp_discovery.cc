#include "services/kv/client/udp_discovery.h"

#include "absl/strings/str_cat.h"
#include "base/errors.h"
#include "nlohmann/json.hpp"
#include "services/kv/etcd/http_client.h"
#include "services/kv/etcd/values.h"

namespace pulse::kv {

using Json = nlohmann::json;

std::string UdpEndpointIn(const std::string& text) {
  const Json value = Json::parse(text, nullptr, false);
  if (!value.is_object()) return "";
  const auto host = value.find("host");
  const auto ports = value.find("udp_ports");
  if (host == value.end() || !host->is_string() || ports == value.end() || !ports->is_array() ||
      ports->empty() || !ports->front().is_number_unsigned() || ports->front() > 65535u) {
    return "";
  }
  const auto name = host->get<std::string>();
  const bool is_v6 = name.find(':') != std::string::npos && !name.starts_with('[');
  return absl::StrCat(is_v6 ? "[" : "", name, is_v6 ? "]:" : ":", ports->front().get<unsigned>());
}

absl::StatusOr<std::vector<std::string>> FindUdpServers(const std::string& etcd,
                                                        std::string_view prefix,
                                                        int64_t timeout_ms) {
  PULSE_ASSIGN_OR_RETURN(const auto http, HttpClient::Open(etcd));
  auto values = ReadEtcd(http.get(), prefix, timeout_ms, nullptr);
  if (!values.ok()) {
    return absl::Status(values.status().code(),
                        absl::StrCat("asking etcd at ", etcd, ": ", values.status().message()));
  }
  std::vector<std::string> found;
  for (const EtcdValue& value : *values) {
    if (std::string endpoint = UdpEndpointIn(value.text); !endpoint.empty())
      found.push_back(endpoint);
  }
  if (!found.empty()) return found;
  return absl::UnavailableError(
      absl::StrCat("etcd at ", etcd, " knows no server of datagrams below ", std::string(prefix),
                   ": start pulse kv with --udp-port, --etcd and this --etcd-prefix"));
}

}  // namespace pulse::kv
