// PulseDB's in-memory store inside a program that serves it: clients of Redis and memcached use it
// over TCP, as they use a `pulse kv`, while the program reads and writes the same items by calls.
//
//   auto server = pulse::KvServer::Start({.memory_bytes = uint64_t{1} << 30, .port = 6379});
//   absl::Status stored = (*server)->Set("key", "value", {.ttl_ms = 60'000});
//   // redis-cli get key
//
// examples/kv_server_example.cc is a whole program. Link with -lpulse-kv-server. A store that no
// client reaches is in pulse/kv.h, which needs less.
//
// What clients are served is in docs/services/kv.md. A write by the program is one as any other:
// it breaks a client's WATCH, and clients that track the key are told. What it stores is to
// memcached's clients as what a Redis client has stored: without flags, and with a version when one
// is asked for. INFO counts the commands of clients alone.
//
// Keys have 0 to 65535 bytes, any; values up to KvServerOptions::max_value. What is stored is
// copied into the store before a call returns, and Get copies it out. Bytes that are given to be
// stored must not lie in the store: pass no view from a callback on. An item whose time has come,
// by the system's clock, does not exist for any call.
//
// Threads. Any thread may make any call at any time, but for Start and the destructor. Calls on a
// single key are atomic, also towards clients; a batch is not. The partitions of a call's keys are
// locked meanwhile, of up to 128 keys of a batch at once.
//
// Blocking. Calls wait for other calls and clients' commands on the same partition, and for page
// faults. Start and the destructor block. No other I/O in calls.
//
// Callbacks see values in place while partitions are held, so they should be short. A view is valid
// until the callback returns. A callback must not call its own server: it is refused with
// FailedPrecondition.
//
// Errors are those of pulse/kv.h, but for Unavailable: partitions have no owners here.
//
// The process. Several servers may be there, each with a store, threads and a port of its own. The
// threads, named pulse-*, take none of the program's signals, and no handler is installed; limits,
// environment and working directory stay as they are. Not across fork: the child must not use it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "pulse/kv.h"

namespace pulse {

struct KvServerOptions {
  // Of the server in all. A sixteenth, and 32 MiB at least, is for what clients have on their way,
  // or, with a large max_value, some more than twice that; the rest, 16 MiB at least for each
  // partition, for index, keys and values, and never exceeded. It does not count what the program's
  // heap keeps of what was freed.
  uint64_t memory_bytes = uint64_t{1} << 30;
  std::string bind = "127.0.0.1";  // beyond loopback only with a password or TLS, or `insecure`
  uint16_t port = 0;               // 0: one that the kernel chooses, see KvServer::port
  int threads = 1;                 // that serve clients, 1 to 64
  // 1 to kKvMostPartitions; 0: as many as threads. Threads, the program's, too, wait for each other
  // in the same partition alone.
  int partitions = 0;
  KvPolicy policy = KvPolicy::kNone;
  // The longest value in bytes, 512 MiB at most, and no more than half of a partition's memory. 0:
  // as long as what is set aside for clients has room for, 32 MiB at most.
  uint64_t max_value = 0;
  // Clients at a time; at most half of the descriptors that the process may open (ulimit -n).
  uint32_t max_clients = 10'000;
  std::vector<int> cpus = {};  // of the server's threads; empty: those of the thread that starts it

  // Who may connect, as the options of `pulse kv`.
  std::string requirepass = {};  // the password of the user `default` itself; empty: none is needed
  std::string users = {};        // a file of users, in Redis's form
  std::string tls_cert = {};     // files of PEM
  std::string tls_key = {};
  std::string tls_ca = {};
  bool insecure = false;

  // Warnings and errors for an operator, such as that clients are too many: a line each, from any
  // thread, partitions held or not: it must not call, start or end a server, nor wait for a thread
  // that does. Of several servers each is told all. Empty: nobody is
  // told; nothing is printed in any case.
  std::function<void(std::string_view line)> log = nullptr;
};

class PULSE_EXPORT KvServer {
 public:
  // When it returns, clients can connect. InvalidArgument for options out of range, and for an
  // address that others reach without a password or TLS; other codes for a port that somebody has,
  // or one that needs rights, and for what the machine lacks. All name the option and the remedy.
  static absl::StatusOr<std::unique_ptr<KvServer>> Start(const KvServerOptions& options);
  // Answers what clients have asked, for some seconds at most, and disconnects them. The items are
  // gone. All calls have returned before.
  ~KvServer();
  KvServer(const KvServer&) = delete;
  KvServer& operator=(const KvServer&) = delete;

  uint16_t port() const;

  // --- As in KvCalls (pulse/kv.h).
  absl::Status Get(std::string_view key, std::string* value);
  absl::Status Set(std::string_view key, std::string_view value, const KvSetOptions& options = {});
  absl::Status Delete(std::string_view key);
  absl::StatusOr<int64_t> Increment(std::string_view key, int64_t delta = 1);
  absl::Status GetBatch(absl::Span<const std::string_view> keys, KvCalls::VisitValue visit);
  absl::Status SetBatch(absl::Span<const KvPair> pairs, const KvSetOptions& options = {},
                        absl::Span<absl::StatusCode> codes = {});
  absl::Status DeleteBatch(absl::Span<const std::string_view> keys,
                           absl::Span<absl::StatusCode> codes = {});

 private:
  class Impl;
  explicit KvServer(std::unique_ptr<Impl> impl);
  const std::unique_ptr<Impl> impl_;
};

}  // namespace pulse
