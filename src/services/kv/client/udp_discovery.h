// Where servers of datagrams are registered in etcd (services/kv/etcd/registration.h).
//
// Threads: any. Blocking: for `timeout_ms` at most. etcd is untrusted. Errors: Unavailable: no
// reply, or there is no such server; FailedPrecondition: etcd refuses.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace pulse::kv {

// "host:port" of the first endpoint of each server below the prefix.
absl::StatusOr<std::vector<std::string>> FindUdpServers(const std::string& etcd,
                                                        std::string_view prefix,
                                                        int64_t timeout_ms);

// That of a registered value; empty where no datagrams are served, or it makes no sense.
std::string UdpEndpointIn(const std::string& text);

}  // namespace pulse::kv
