// Datagrams of `pulse kv --udp-port`, both ways: what clients send to a server, and what a server
// answers. Any bytes are carried out, refused or ignored, within the buffers; who has no session
// never gets more bytes than it has sent; each request has one completion.
#include <arpa/inet.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "fuzz_input.h"
#include "services/kv/client/udp_endpoint.h"
#include "services/kv/udp/batch.h"

namespace {

using pulse::kv::AppendUdpRequest;
using pulse::kv::kLeastMemory;
using pulse::kv::kUdpHelloBytes;
using pulse::kv::kUdpMagic;
using pulse::kv::kUdpMostDatagram;
using pulse::kv::kUdpVersion;
using pulse::kv::KvStore;
using pulse::kv::KvStoreOptions;
using pulse::kv::ReadUdpHeader;
using pulse::kv::UdpAnswer;
using pulse::kv::UdpBatch;
using pulse::kv::UdpCookies;
using pulse::kv::UdpEndpoint;
using pulse::kv::UdpHeader;
using pulse::kv::UdpHello;
using pulse::kv::UdpPeer;
using pulse::kv::UdpResponseBytes;
using pulse::kv::UdpResponseReader;
using pulse::kv::UdpSessions;
using pulse::kv::UdpStats;
using pulse::kv::UdpType;
using pulse::kv::UdpWelcome;
using pulse::kv::WireOp;
using pulse::kv::WireStatus;
using pulse::kv::WriteUdpResponse;

KvStore* Keys() {
  static const auto store = [] {
    KvStoreOptions options;
    options.memory_bytes = 2 * kLeastMemory;
    options.partitions = 2;
    options.ticks = false;
    options.clock = [] { return int64_t{1'000'000}; };
    return *KvStore::Open(options);
  }();
  return store.get();
}

UdpPeer PeerOf(uint16_t port) {
  UdpPeer peer;
  auto* v4 = reinterpret_cast<sockaddr_in*>(&peer.address);
  v4->sin_family = AF_INET;
  v4->sin_port = port;
  peer.size = sizeof(*v4);
  return peer;
}

void Change(pulse::fuzz::Input* in, std::string* bytes) {
  for (uint64_t left = in->Below(6); left > 0 && !bytes->empty(); --left) {
    (*bytes)[in->Number<uint16_t>() % bytes->size()] = static_cast<char>(in->Byte());
  }
  if (in->Byte() % 8 == 0) bytes->resize(bytes->size() * in->Byte() / 255);
}

std::string Hello(uint64_t nonce, uint64_t cookie) {
  UdpHeader h{};
  h.magic = kUdpMagic;
  h.version = kUdpVersion;
  h.type = UdpType::kHello;
  const UdpHello hello{nonce, cookie};
  std::string bytes(kUdpHelloBytes, '\0');
  std::memcpy(bytes.data(), &h, sizeof(h));
  std::memcpy(bytes.data() + sizeof(h), &hello, sizeof(hello));
  return bytes;
}

std::string Requests(pulse::fuzz::Input* in, uint64_t session) {
  UdpHeader h{};
  h.magic = kUdpMagic;
  h.version = kUdpVersion;
  h.type = UdpType::kRequests;
  h.session = session;
  h.sequence = 1 + in->Below(80);
  h.floor = h.sequence - std::min<uint64_t>(in->Below(40), h.sequence - 1);
  h.reply_bytes = static_cast<uint32_t>(512 + 8 * in->Below(64));
  std::string bytes(sizeof(h), '\0');
  for (uint64_t left = in->Below(20); left > 0; --left) {
    const std::string key(in->Below(12), static_cast<char>('a' + in->Below(3)));
    const std::string value(in->Below(16) * in->Below(64), 'v');
    const auto op = static_cast<WireOp>(1 + in->Below(3));
    const bool set = op == WireOp::kSet;
    AppendUdpRequest({op, key, set ? std::string_view(value) : std::string_view(),
                      set ? static_cast<int64_t>(in->Below(3)) : 0},
                     &bytes);
    ++h.count;
  }
  std::memcpy(bytes.data(), &h, sizeof(h));
  return bytes;
}

// Several clients, one of which has a session.
void Serve(pulse::fuzz::Input* in) {
  static const UdpCookies cookies({1, 2});
  UdpWelcome facts{};
  facts.partitions = 2;
  UdpSessions sessions(2, {3, 4});
  UdpStats stats;
  UdpBatch batch(Keys(), &facts, &cookies, &sessions, &stats);
  const UdpPeer peers[] = {PeerOf(1), PeerOf(2), PeerOf(3)};
  const uint64_t session = sessions.Open(peers[0], 1, 0)->id();
  for (uint64_t round = 1 + in->Below(4); round > 0; --round) {
    // Of exactly this size, so that a sanitizer sees what is outside.
    std::vector<std::pair<const UdpPeer*, std::vector<char>>> sent;
    for (uint64_t left = in->Below(8); left > 0; --left) {
      const UdpPeer* peer = &peers[in->Below(3)];
      std::string bytes;
      switch (in->Below(4)) {
        case 0:
          bytes = Hello(in->Below(3), in->Byte() % 2 == 0 ? cookies.Of(*peer) : in->Byte());
          break;
        case 1:
          bytes.assign(in->Below(200), '\0');
          for (char& c : bytes) c = static_cast<char>(in->Byte());
          break;
        default:
          bytes = Requests(in, session);
      }
      Change(in, &bytes);
      sent.emplace_back(peer, std::vector<char>(bytes.begin(), bytes.end()));
    }
    size_t without_session = 0;
    for (const auto& [peer, bytes] : sent) {
      const std::string_view view(bytes.data(), bytes.size());
      FUZZ_CHECK(batch.Add(*peer, view, 1));
      if (peer != &peers[0]) without_session += view.size();
    }
    batch.Run();
    for (const UdpBatch::Reply& r : batch.replies()) {
      FUZZ_CHECK(r.size >= sizeof(UdpHeader) && r.size <= kUdpMostDatagram);
      UdpHeader h;
      FUZZ_CHECK(ReadUdpHeader({r.bytes, r.size}, &h));
      if (h.type == UdpType::kResponses) {
        FUZZ_CHECK(r.size <= h.reply_bytes && *r.peer == peers[0]);
        UdpResponseReader reader({r.bytes, r.size});
        UdpAnswer answer;
        size_t count = 0;
        while (reader.Next(&answer)) ++count;
        FUZZ_CHECK(!reader.bad() && count == h.count);
      } else if (!(*r.peer == peers[0])) {
        FUZZ_CHECK(r.size <= without_session);
        without_session -= r.size;
      }
    }
    batch.Clear();
  }
}

// An endpoint with requests under way, and a server that answers anything.
void Receive(pulse::fuzz::Input* in) {
  pulse::KvUdpOptions options;
  options.datagram_bytes = 512;
  UdpEndpoint endpoint(options, "fuzz", pulse::UniqueFd(), 5);
  size_t submitted = 0;
  size_t completed = 0;
  const auto count = [&](const pulse::KvUdpCompletion&) { ++completed; };
  int64_t now = 1;
  for (uint64_t left = 1 + in->Below(30); left > 0; --left) {
    ++now;
    UdpHeader h{};
    h.magic = kUdpMagic;
    h.version = kUdpVersion;
    h.type = static_cast<UdpType>(1 + in->Below(7));
    h.count = static_cast<uint16_t>(in->Below(6));
    h.session = in->Below(2);
    h.sequence = in->Byte() % 2 == 0 ? 5 : in->Below(12);
    h.stamp = now - static_cast<int64_t>(in->Below(8));
    std::string bytes(reinterpret_cast<const char*>(&h), sizeof(h));
    if (h.type == UdpType::kWelcome) {
      UdpWelcome w{};
      w.boot = 1 + in->Below(2);
      w.partitions = static_cast<uint32_t>(in->Below(3));
      w.window = static_cast<uint32_t>(in->Below(34));
      w.most_requests = static_cast<uint32_t>(in->Below(40));
      w.ports[0] = w.ports[1] = 7;
      bytes.append(reinterpret_cast<const char*>(&w), sizeof(w));
    } else {
      for (uint64_t records = in->Below(6); records > 0; --records) {
        std::string value(in->Below(40), 'v');
        std::string record(UdpResponseBytes(value.size()), '\0');
        WriteUdpResponse(
            {static_cast<uint16_t>(in->Below(10)), static_cast<WireStatus>(in->Below(5)), value},
            record.data());
        bytes += record;
      }
    }
    if (in->Byte() % 2 == 0) Change(in, &bytes);
    const std::vector<char> exact(bytes.begin(), bytes.end());
    if (endpoint.Take({exact.data(), exact.size()}, now)) {
      pulse::KvUdpCompletion done;
      while (endpoint.TakeNext(&done)) {
        ++completed;
        FUZZ_CHECK(done.value.empty() ||
                   (done.value.data() >= exact.data() &&
                    done.value.data() + done.value.size() <= exact.data() + exact.size()));
      }
    }
    if (endpoint.state() == UdpEndpoint::State::kOpen) {
      for (uint64_t more = in->Below(4); more > 0; --more) {
        const std::string key(in->Below(30), 'k');
        if (endpoint.Submit({WireOp::kGet, key, {}, 0}, submitted, now)) ++submitted;
      }
    }
    endpoint.Send(now, in->Byte() % 2 == 0);
    if (in->Byte() % 16 == 0) endpoint.Expire(now + options.timeout_ms * 1'000'000 - 3, count);
    FUZZ_CHECK(endpoint.outstanding() == submitted - completed);
  }
  endpoint.Lose(count);
  FUZZ_CHECK(completed == submitted && endpoint.outstanding() == 0);
  FUZZ_CHECK(endpoint.NextAt() == INT64_MAX);
}

}  // namespace

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  pulse::fuzz::Input in(data, size);
  Keys()->ClearAt(0, true);
  if (in.Byte() % 2 == 0) {
    Serve(&in);
  } else {
    Receive(&in);
  }
  return 0;
}
