// The client of `pulse kv --udp-port`: batches of requests in datagrams, each sent to the endpoint
// of its keys' partition, so that one thread of the server carries it out without a look at another
// partition. DPU-KV paper, section 5: endpoints are found in etcd, and the server echoes time
// stamps.
//
//   auto client = pulse::KvUdpClient::Open({.etcd = "http://127.0.0.1:2379"});
//   absl::Status stored = (*client)->Set("key", "value", 60'000);
//   std::string value;
//   if ((*client)->Get("key", &value).ok()) ...
//
// examples/kv_udp_example.cc is a whole program, with pipelines.
//
// Keys and values are those of the server's Redis and memcached clients: any bytes, keys of 0 to
// 65535. A request, and an answer, lies in one datagram: key and value together have at most
// set_bytes(), and a value that is read get_bytes(). What is longer is refused by name, and is
// there for clients of the other protocols.
//
// Retries. A datagram may be lost, come twice, or come late. What is not answered is sent again,
// after a time that doubles each time, until the request's time is over. The server remembers a
// client's last datagrams, so:
//   - a SET or DELETE that is sent again is carried out once, and the answer is that of the first
//     time. (A read that is sent again reads again.)
//   - one that the client has given up (kTimeout) may have been carried out, or be carried out
//     later; but not once a request that was submitted after that, for a key of the same partition,
//     has been answered. So a late copy never undoes what the client knows to have written since.
//   - a server that ends takes this memory along, also where it keeps its keys (--memory-file). So
//     requests without an answer are then kLost, and none is sent to the next server.
// A client that was silent for a minute may have been forgotten by a server that has as many
// clients as it takes; it introduces itself anew, and nothing is carried out twice. So does one
// whose address has changed, as a translator of addresses may do it: writes without an answer are
// kTimeout then.
//
// Order. Requests for one key take effect in the order of the calls if they were submitted together
// (without a Flush, Poll or Wait in between, and in one datagram), or if the first one's completion
// was taken before the next is submitted. Else the network decides. (A read whose value found no
// room beside the others' answers is asked for again, alone, and so reads later.)
//
// Threads. One client object is for one thread at a time; it has no thread of its own: datagrams
// are sent, also again, within Flush, Poll, Wait and the calls for one key. Not for a child after
// fork.
//
// Blocking. Submit, Flush and Poll do not wait. Open, Wait, Get, Set and Delete do, for bounded
// times.
//
// Access. Datagrams have no passwords and no encryption: whoever reaches the server's ports may
// read and write all keys, and so may whoever sees the network. A forged or damaged answer that
// does not fit is ignored, and cannot harm the program.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

#ifndef PULSE_EXPORT
#define PULSE_EXPORT __attribute__((visibility("default")))
#endif

namespace pulse {

struct KvUdpOptions {
  // Where the server is found: etcd's URL, in which `pulse kv --etcd` registers it below the
  // prefix; or addresses, "10.0.0.1:7000", of endpoints of one server: any one that answers tells
  // the rest.
  std::string etcd = {};
  std::string etcd_prefix = "/pulse/kv";
  std::vector<std::string> endpoints = {};

  // The longest datagram, either way, without the headers of IP and UDP: 512 to 65504. The default
  // crosses an Ethernet in one piece; over loopback, longer ones cost less for each request.
  uint32_t datagram_bytes = 1432;
  // Requests of a datagram, at most; 1 to 1024.
  uint32_t datagram_requests = 1024;
  // Datagrams under way to one endpoint, 1 to 32. With more requests Submit says that it is busy.
  uint32_t window = 8;
  // For how long a request is tried, and Open: 1 to 30000.
  int64_t timeout_ms = 1000;
  // After so long without an answer a datagram is sent again, or later where answers take longer;
  // then after twice as long, up to 16 times.
  int64_t retry_ms = 10;
};

enum class KvUdpCode : uint8_t {
  kOk = 0,
  kNotFound = 1,  // get, delete: there is no such item
  kNoMemory = 2,  // set: the store is full; nothing has changed
  kTooLarge = 3,  // set: for the store. get: the value takes no datagram; value_size is its size
  kTimeout = 5,   // no answer in time: see Retries
  kLost = 6,      // the server has ended: see Retries
};

struct KvUdpCompletion {
  uint64_t tag = 0;  // as it was submitted
  KvUdpCode code = KvUdpCode::kOk;
  std::string_view value = {};  // of a get that is kOk; valid until the next Poll or Wait
  uint64_t value_size = 0;      // kTooLarge: of the value
  int64_t nanos = 0;            // from the datagram's stamp to its answer; 0 without one
};

struct KvUdpStats {
  uint64_t datagrams = 0;  // of requests, sent for the first time
  uint64_t resent = 0;     // sent again
  uint64_t answers = 0;    // datagrams that had an answer for us
  uint64_t ignored = 0;    // datagrams that made no sense, or came too late
  uint64_t timeouts = 0;   // requests
};

class PULSE_EXPORT KvUdpClient {
 public:
  // Unavailable: no endpoint answers, or etcd does not, or knows none. InvalidArgument: options.
  // FailedPrecondition: a server of another release, or several servers below the prefix.
  // ResourceExhausted: the server has as many clients as it takes (--udp-clients), or this process
  // as many descriptors.
  static absl::StatusOr<std::unique_ptr<KvUdpClient>> Open(const KvUdpOptions& options);
  virtual ~KvUdpClient() = default;  // does not wait; what is under way may be carried out

  // The most bytes of key and value of a set together, and of a value that is read.
  virtual size_t set_bytes() const = 0;
  virtual size_t get_bytes() const = 0;

  // One request, and its answer. NotFound is without a message. InvalidArgument: too large.
  // ResourceExhausted: the store is full. DeadlineExceeded, Unavailable: kTimeout, kLost.
  // FailedPrecondition: there are requests whose completions were not taken.
  absl::Status Get(std::string_view key, std::string* value);
  // `ttl_ms`: above 0, the item ends so long after the server has it; 0: it does not end.
  absl::Status Set(std::string_view key, std::string_view value, int64_t ttl_ms = 0);
  absl::Status Delete(std::string_view key);

  // Many under way. Requests are collected in datagrams, which are sent when a few are full, and by
  // Flush, Poll and Wait. What is given is copied. ResourceExhausted, without a message: as much is
  // under way as may be, take completions first. InvalidArgument: too large, or a negative ttl_ms.
  // Unavailable: the server has ended; open another client.
  virtual absl::Status SubmitGet(std::string_view key, uint64_t tag) = 0;
  virtual absl::Status SubmitSet(std::string_view key, std::string_view value, int64_t ttl_ms,
                                 uint64_t tag) = 0;
  virtual absl::Status SubmitDelete(std::string_view key, uint64_t tag) = 0;
  // Sends what was collected, and what is due again.
  virtual void Flush() = 0;
  // Takes completions that are there, in any order; returns how many.
  virtual size_t Poll(absl::Span<KvUdpCompletion> completions) = 0;
  // The same, and waits until there is one, or `timeout_ms` are over. 0: there was none, or nothing
  // is under way.
  virtual size_t Wait(absl::Span<KvUdpCompletion> completions, int64_t timeout_ms) = 0;
  // Requests that were submitted and whose completions were not taken.
  virtual size_t outstanding() const = 0;

  virtual KvUdpStats stats() const = 0;
  virtual uint32_t partitions() const = 0;
  virtual uint32_t PartitionOf(std::string_view key) const = 0;
  // Where a partition's requests go.
  virtual const std::string& EndpointOf(uint32_t partition) const = 0;

 protected:
  KvUdpClient() = default;

 private:
  absl::Status Finish(absl::Status submitted, std::string* value);
};

}  // namespace pulse
