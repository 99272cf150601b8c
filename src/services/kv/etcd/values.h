// Reads etcd (version 3, by its JSON gateway): the values of all keys below a prefix.
//
// Threads and blocking: as HttpClient's Post, of which it is one. etcd is untrusted: what is no
// value is left out. Errors: Post's; Unavailable for a reply that is none of etcd's.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "services/kv/etcd/http_client.h"

namespace pulse::kv {

struct EtcdValue {
  std::string text;
  int64_t create_revision = 0;  // the order in which keys came; 0: etcd does not say
};

// Of the keys PREFIX/..., in their order.
absl::StatusOr<std::vector<EtcdValue>> ReadEtcd(HttpClient* http, std::string_view prefix,
                                                int64_t timeout_ms,
                                                const std::atomic<bool>* cancel);

// Those in the gateway's reply.
absl::StatusOr<std::vector<EtcdValue>> EtcdValuesIn(const std::string& reply);

}  // namespace pulse::kv
