// pulse/kv_client.h by ShmClient.
#include <algorithm>
#include <climits>
#include <cstring>
#include <memory>
#include <string_view>

#include "pulse/kv_client.h"
#include "services/kv/client/client.h"

using pulse::kv::ShmClient;
using pulse::kv::WireOp;

struct pulse_kv_client {
  std::unique_ptr<ShmClient> client;
};

namespace {

// Of no bytes, somewhere: what copies them may want a pointer.
std::string_view View(const void* bytes, size_t size) {
  return {size == 0 ? "" : static_cast<const char*>(bytes), size};
}
bool IsThere(const void* bytes, size_t size) { return bytes != nullptr || size == 0; }

int Submit(pulse_kv_client* client, WireOp op, const void* key, size_t key_size, const void* value,
           size_t value_size, uint64_t ttl_ms, uint64_t tag) {
  if (client == nullptr || !IsThere(key, key_size) || !IsThere(value, value_size)) {
    return PULSE_KV_INVALID;
  }
  return client->client->Submit(op, View(key, key_size), View(value, value_size), ttl_ms, tag);
}

}  // namespace

extern "C" {

const char* pulse_kv_text(int code) {
  static constexpr const char* kTexts[] = {"ok",
                                           "no such item",
                                           "the store is full",
                                           "key or value is too large",
                                           "the server refused the request",
                                           "no answer in time",
                                           "the server has ended or broke the protocol",
                                           "too much is under way; take completions first",
                                           "an argument makes no sense",
                                           "no server listens there",
                                           "library and server do not fit together",
                                           "the server takes no more clients",
                                           "another user's server",
                                           "the system refused memory or descriptors"};
  return code >= 0 && code <= PULSE_KV_SYSTEM ? kTexts[code] : "unknown code";
}

int pulse_kv_open(const char* path, uint32_t timeout_ms, pulse_kv_client** client, char* why,
                  size_t why_size) {
  if (client == nullptr || path == nullptr) return PULSE_KV_INVALID;
  *client = nullptr;
  auto opened = ShmClient::Open(path, static_cast<int>(std::min<uint32_t>(timeout_ms, INT_MAX)));
  if (opened.ok()) {
    *client = new pulse_kv_client{*std::move(opened)};
    return PULSE_KV_OK;
  }
  if (why != nullptr && why_size > 0) {
    const absl::string_view text = opened.status().message().substr(0, why_size - 1);
    std::memcpy(why, text.data(), text.size());
    why[text.size()] = '\0';
  }
  return ShmClient::CodeOfOpening(opened.status());
}

void pulse_kv_close(pulse_kv_client* client) { delete client; }

void pulse_kv_limits(const pulse_kv_client* client, size_t* set_bytes, size_t* get_bytes) {
  if (set_bytes != nullptr) *set_bytes = client == nullptr ? 0 : client->client->set_bytes();
  if (get_bytes != nullptr) *get_bytes = client == nullptr ? 0 : client->client->get_bytes();
}

int pulse_kv_get(pulse_kv_client* client, const void* key, size_t key_size, void* value,
                 size_t room, size_t* size) {
  if (size == nullptr || !IsThere(value, room)) return PULSE_KV_INVALID;
  *size = 0;
  if (client == nullptr || !IsThere(key, key_size)) return PULSE_KV_INVALID;
  return client->client->Get(View(key, key_size), static_cast<char*>(value), room, size);
}

int pulse_kv_set(pulse_kv_client* client, const void* key, size_t key_size, const void* value,
                 size_t value_size, uint64_t ttl_ms) {
  if (client == nullptr || !IsThere(key, key_size) || !IsThere(value, value_size)) {
    return PULSE_KV_INVALID;
  }
  return client->client->Set(View(key, key_size), View(value, value_size), ttl_ms);
}

int pulse_kv_delete(pulse_kv_client* client, const void* key, size_t key_size) {
  if (client == nullptr || !IsThere(key, key_size)) return PULSE_KV_INVALID;
  pulse_kv_completion done{};
  return client->client->Call(WireOp::kDelete, View(key, key_size), {}, 0, &done);
}

int pulse_kv_submit_get(pulse_kv_client* client, const void* key, size_t key_size, uint64_t tag) {
  return Submit(client, WireOp::kGet, key, key_size, nullptr, 0, 0, tag);
}

int pulse_kv_submit_set(pulse_kv_client* client, const void* key, size_t key_size,
                        const void* value, size_t value_size, uint64_t ttl_ms, uint64_t tag) {
  return Submit(client, WireOp::kSet, key, key_size, value, value_size, ttl_ms, tag);
}

int pulse_kv_submit_delete(pulse_kv_client* client, const void* key, size_t key_size,
                           uint64_t tag) {
  return Submit(client, WireOp::kDelete, key, key_size, nullptr, 0, 0, tag);
}

int pulse_kv_flush(pulse_kv_client* client) {
  return client == nullptr ? PULSE_KV_INVALID : client->client->Flush();
}

int pulse_kv_poll(pulse_kv_client* client, pulse_kv_completion* completions, size_t most,
                  size_t* count) {
  if (client == nullptr || count == nullptr || !IsThere(completions, most)) {
    return PULSE_KV_INVALID;
  }
  return client->client->Poll(completions, most, count);
}

int pulse_kv_wait(pulse_kv_client* client, pulse_kv_completion* completions, size_t most,
                  size_t* count, uint32_t timeout_ms) {
  if (client == nullptr || count == nullptr || !IsThere(completions, most)) {
    return PULSE_KV_INVALID;
  }
  return client->client->Wait(completions, most, count, timeout_ms);
}

size_t pulse_kv_outstanding(const pulse_kv_client* client) {
  return client == nullptr ? 0 : client->client->outstanding();
}

}  // extern "C"
