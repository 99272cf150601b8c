#include "services/kv/udp/codec.h"

namespace pulse::kv {
namespace {

// Takes a record of `size` bytes, and its padding, which must be there, too.
bool Take(std::string_view* rest, uint64_t size) {
  const uint64_t padded = (size + 7) & ~uint64_t{7};
  if (padded > rest->size()) return false;
  rest->remove_prefix(static_cast<size_t>(padded));
  return true;
}

}  // namespace

bool ReadUdpHeader(std::string_view datagram, UdpHeader* header) {
  if (datagram.size() < sizeof(*header)) return false;
  std::memcpy(header, datagram.data(), sizeof(*header));
  return header->magic == kUdpMagic;
}

bool UdpRequestReader::Next(UdpCommand* command) {
  if (rest_.empty() || bad_) return false;
  bad_ = true;
  UdpRequest r;
  if (rest_.size() < sizeof(r)) return false;
  std::memcpy(&r, rest_.data(), sizeof(r));
  if (r.op < WireOp::kGet || r.op > WireOp::kDelete || (r.flags & ~kUdpTtl) != 0) return false;
  if (r.op != WireOp::kSet && (r.value_size != 0 || r.flags != 0)) return false;
  const size_t key_at = sizeof(r) + ((r.flags & kUdpTtl) != 0 ? 8 : 0);
  const std::string_view record = rest_;
  if (!Take(&rest_, uint64_t{key_at} + r.key_size + r.value_size)) return false;
  command->op = r.op;
  command->ttl_ms = 0;
  if ((r.flags & kUdpTtl) != 0) {
    std::memcpy(&command->ttl_ms, record.data() + sizeof(r), 8);
    if (command->ttl_ms <= 0) return false;
  }
  command->key = record.substr(key_at, r.key_size);
  command->value = record.substr(key_at + r.key_size, r.value_size);
  bad_ = false;
  return true;
}

bool UdpResponseReader::Next(UdpAnswer* answer) {
  if (rest_.empty() || bad_) return false;
  bad_ = true;
  UdpResponse r;
  if (rest_.size() < sizeof(r)) return false;
  std::memcpy(&r, rest_.data(), sizeof(r));
  if (r.status > WireStatus::kMalformed) return false;
  const std::string_view record = rest_;
  if (!Take(&rest_, sizeof(r) + uint64_t{r.value_size})) return false;
  answer->request = r.request;
  answer->status = r.status;
  answer->value = record.substr(sizeof(r), r.value_size);
  bad_ = false;
  return true;
}

void AppendUdpRequest(const UdpCommand& command, std::string* out) {
  UdpRequest r{};
  r.value_size = static_cast<uint32_t>(command.value.size());
  r.key_size = static_cast<uint16_t>(command.key.size());
  r.op = command.op;
  r.flags = command.ttl_ms != 0 ? kUdpTtl : 0;
  out->append(reinterpret_cast<const char*>(&r), sizeof(r));
  if (command.ttl_ms != 0) {
    out->append(reinterpret_cast<const char*>(&command.ttl_ms), sizeof(command.ttl_ms));
  }
  out->append(command.key).append(command.value);
  out->resize(UdpPadded(out->size()), '\0');
}

void WriteUdpResponse(const UdpAnswer& answer, char* to) {
  UdpResponse r{};
  r.value_size = static_cast<uint32_t>(answer.value.size());
  r.request = answer.request;
  r.status = answer.status;
  const size_t size = sizeof(r) + answer.value.size();
  std::memcpy(to, &r, sizeof(r));
  if (!answer.value.empty()) std::memcpy(to + sizeof(r), answer.value.data(), answer.value.size());
  std::memset(to + size, 0, UdpPadded(size) - size);
}

}  // namespace pulse::kv
