// The served store inside a program, pulse/kv_server.h: `pulse kv` without its command line, and
// calls on the keys that it serves.
#include "pulse/kv_server.h"

#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>

#include <algorithm>
#include <mutex>
#include <optional>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "base/cpu_list.h"
#include "base/errors.h"
#include "base/log.h"
#include "base/shortage.h"
#include "net/address.h"
#include "net/director.h"
#include "services/kv/core/partition.h"
#include "services/kv/memcached/flow.h"
#include "services/kv/memory_shares.h"
#include "services/kv/program_calls.h"
#include "services/kv/store.h"
#include "services/redis/commands/cluster.h"
#include "services/redis/designs.h"
#include "services/redis/serve.h"

namespace pulse {
namespace {

using absl::StatusCode;
using kv::Candidate;
using kv::InCallback;
using kv::Item;
using kv::kPolicies;
using kv::Partition;

static_assert(kKvMostPartitions == kv::kMostPartitions);

// The thread that starts the server lends what its threads begin with: no signals, but for those
// that tell of a thread's own mistakes. And the director raises the limit of descriptors.
class ProcessAsItWas {
 public:
  ProcessAsItWas() {
    sigset_t all;
    sigfillset(&all);
    for (const int own : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS, SIGABRT}) {
      sigdelset(&all, own);
    }
    pthread_sigmask(SIG_SETMASK, &all, &signals_);
    getrlimit(RLIMIT_NOFILE, &files_);
  }
  ~ProcessAsItWas() {
    if (files_.rlim_cur > 0) setrlimit(RLIMIT_NOFILE, &files_);
    pthread_sigmask(SIG_SETMASK, &signals_, nullptr);
  }
  ProcessAsItWas(const ProcessAsItWas&) = delete;
  ProcessAsItWas& operator=(const ProcessAsItWas&) = delete;
  // The other half of the descriptors is the program's.
  uint32_t MostClients(uint32_t wanted) const {
    const rlim_t most = std::max<rlim_t>(1, files_.rlim_cur / 2);
    return static_cast<uint32_t>(std::min<rlim_t>(wanted, most));
  }

 private:
  static std::mutex& Mutex() {
    static std::mutex mutex;
    return mutex;
  }
  // Of those that start at the same time one after the other: each has to find what was there.
  const std::lock_guard<std::mutex> alone_{Mutex()};
  sigset_t signals_;
  rlimit files_{};
};

// The server's messages name options of `pulse kv`; here they are members.
std::string InOurWords(absl::string_view text) {
  return absl::StrReplaceAll(text, {{"--requirepass", "requirepass"},
                                    {"--users", "users"},
                                    {"--tls-cert", "tls_cert"},
                                    {"--tls-key", "tls_key"},
                                    {"--tls-ca", "tls_ca"},
                                    {"--bind", "bind"},
                                    {"say --insecure", "set insecure"},
                                    {"--threads", "threads"},
                                    {"--cpus", "cpus"}});
}
absl::Status InOurWords(const absl::Status& status) {
  return absl::Status(status.code(), InOurWords(status.message()));
}

// Where clients reach it; empty when that is not known.
std::string HostIn(std::string bind) {
  const auto address = net::ParseBind(bind, 0);
  if (bind.starts_with('[') && bind.ends_with(']')) bind = bind.substr(1, bind.size() - 2);
  return address.ok() && !address->is_any() ? bind : "";
}

absl::Status CheckOptions(const KvServerOptions& o) {
  const auto out_of_range = [](absl::string_view name, uint64_t least, uint64_t most) {
    return absl::InvalidArgumentError(absl::StrCat(name, ": expected ", least, " to ", most));
  };
  if (o.threads < 1 || o.threads > net::kMostThreads) {
    return out_of_range("threads", 1, net::kMostThreads);
  }
  if (o.partitions < 0 || o.partitions > kKvMostPartitions) {
    return out_of_range("partitions", 0, kKvMostPartitions);
  }
  if (o.max_clients == 0) return out_of_range("max_clients", 1, UINT32_MAX);
  if (o.max_value > kv::kMaxValueBytes) return out_of_range("max_value", 0, kv::kMaxValueBytes);
  if (o.memory_bytes > uint64_t{1} << 40) {
    return out_of_range("memory_bytes", 0, uint64_t{1} << 40);
  }
  if (static_cast<size_t>(o.policy) >= kPolicies.size()) {
    return absl::InvalidArgumentError("policy is no KvPolicy");
  }
  return absl::OkStatus();
}

}  // namespace

class KvServer::Impl {
 public:
  explicit Impl(const KvServerOptions& options)
      : options_(options),
        log_(options.log == nullptr
                 ? LogTarget::Take()
                 : [log = options.log](absl::string_view line) { log(InOurWords(line)); }),
        designs_(options.threads, options.cpus, {}),
        cluster_(/*enabled=*/false, options.threads, HostIn(options.bind)) {}
  ~Impl() {
    const std::lock_guard<std::mutex> lock(running_mutex_);
    running_ = nullptr;  // clients may ask for its numbers while it ends
  }

  absl::Status Open();
  uint16_t port() const { return server_->port(); }

  // Calls `use(partition, hash)` with the key's partition held.
  template <class Use>
  absl::Status With(std::string_view key, const Use& use) {
    if (InCallback::Of(this)) return kv::CallbackError();
    absl::Status status;
    store_->WithPartition(key, /*may_block=*/true, [&](Partition& partition, uint64_t hash) {
      status = use(partition, hash);
    });
    return status;
  }
  StatusCode SetAt(Partition* partition, std::string_view key, uint64_t hash,
                   std::string_view value, const KvSetOptions& how, const Candidate& candidate,
                   uint32_t client_flags = 0) {
    const StatusCode code = kv::SetAt(partition, key, hash, value, how, candidate,
                                      store_->options().limits.max_value, client_flags);
    if (code == StatusCode::kOk) TellWatchers(key);
    return code;
  }
  StatusCode DeleteAt(Partition* partition, std::string_view key, uint64_t hash) {
    const bool found = partition->Erase(key, hash);
    if (found) TellWatchers(key);
    return kv::FoundCode(found);
  }
  // In words.
  absl::Status ErrorOf(StatusCode code, std::string_view key, size_t value_size) const;
  // Calls `execute(i, partition, hash, candidate)` for each key; what it returns is the key's code.
  // The first refusal, in words. `Of` is what a batch is of: keys or pairs.
  template <class Of, class Execute>
  absl::Status RunBatch(absl::Span<const Of> batch, absl::Span<StatusCode> codes,
                        const Execute& execute);

 private:
  void TellWatchers(std::string_view key) {
    if (store_->watch_table()->active()) store_->watch_table()->Touch(key);
  }
  absl::StatusOr<std::unique_ptr<redis::Keyspace>> OpenStore(kv::KvStoreOptions store,
                                                             const redis::KeyspaceLimits& limits);

  const KvServerOptions options_;
  const LogTarget log_;
  redis::Designs designs_;
  redis::Cluster cluster_;
  kv::memcached::Counters counters_;
  std::unique_ptr<kv::memcached::Executor> memcached_;
  std::mutex running_mutex_;
  const redis::Server* running_ = nullptr;
  kv::KvStore* store_ = nullptr;           // the server's
  std::unique_ptr<redis::Server> server_;  // ends first
};

absl::StatusOr<std::unique_ptr<redis::Keyspace>> KvServer::Impl::OpenStore(
    kv::KvStoreOptions store, const redis::KeyspaceLimits& limits) {
  store.limits = limits;
  PULSE_ASSIGN_OR_RETURN(auto opened, kv::KvStore::Open(store));
  store_ = opened.get();
  kv::memcached::ExecutorOptions options;
  options.max_value = store_->options().limits.max_value;
  options.started_ms = store_->now_ms();
  options.endpoints = &cluster_;
  options.threads = options_.threads;
  options.server = [this]() -> std::optional<redis::ServerNumbers> {
    const std::lock_guard<std::mutex> lock(running_mutex_);
    if (running_ == nullptr) return std::nullopt;
    return running_->numbers();
  };
  memcached_ = std::make_unique<kv::memcached::Executor>(store_, &counters_, options);
  return opened;
}

absl::Status KvServer::Impl::Open() {
  const KvServerOptions& o = options_;
  const kv::MemoryShares shares = kv::DivideMemory(o.memory_bytes, o.max_value, /*agents=*/false);
  kv::KvStoreOptions store;
  store.partitions = o.partitions > 0 ? o.partitions : o.threads;
  const uint64_t least =
      shares.set_aside + static_cast<uint64_t>(store.partitions) * kv::kLeastMemory;
  if (o.memory_bytes < least) {
    return absl::InvalidArgumentError(
        absl::StrCat("memory_bytes ", o.memory_bytes, ": at least ", least, " are needed with ",
                     store.partitions, store.partitions == 1 ? " partition" : " partitions",
                     o.max_value == 0 ? "" : absl::StrCat(" and a max_value of ", o.max_value)));
  }
  store.memory_bytes = o.memory_bytes - shares.set_aside;
  store.told_memory_bytes = o.memory_bytes;
  store.policy = kPolicies[static_cast<size_t>(o.policy)];
  store.designs = &designs_;
  store.trims_heap = false;
  store.cluster = &cluster_;

  const ProcessAsItWas process;
  const ScopedThreadAffinity affinity(o.cpus);
  redis::ServeOptions serve;
  serve.password = o.requirepass;
  serve.users_file = o.users;
  serve.tls_cert = o.tls_cert;
  serve.tls_key = o.tls_key;
  serve.tls_ca = o.tls_ca;
  serve.insecure = o.insecure;
  serve.bind = o.bind;
  serve.port = o.port;
  serve.port_option = "port";
  serve.threads = o.threads;
  serve.cpus = o.cpus;
  serve.max_clients = process.MostClients(o.max_clients);
  serve.limits.max_bulk = shares.max_value;
  serve.buffer_bytes = shares.buffers;
  serve.designs = &designs_;
  serve.cluster = &cluster_;
  serve.keyspace = [&](const redis::KeyspaceLimits& limits) { return OpenStore(store, limits); };
  serve.other.is_it = &kv::memcached::LooksLikeMemcached;
  serve.other.make = [this](net::Connection* connection, WorkerPool* workers) {
    return std::make_unique<kv::memcached::MemcachedFlow>(memcached_.get(), workers, &designs_,
                                                          connection);
  };
  serve.other.counts = [this] { return counters_.Totals(); };
  PULSE_ASSIGN_OR_RETURN(server_, redis::Server::Open(serve));
  const std::lock_guard<std::mutex> lock(running_mutex_);
  running_ = server_.get();
  return absl::OkStatus();
}

absl::Status KvServer::Impl::ErrorOf(StatusCode code, std::string_view key,
                                     size_t value_size) const {
  if (kv::IsNormal(code)) return kv::Plain(code);
  const std::string what =
      absl::StrCat(kv::KeyText(key), " with a value of ", value_size, " bytes");
  if (code == StatusCode::kResourceExhausted) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "there is no room for ", what,
        ": delete items, or give more memory_bytes, fewer partitions or a policy that evicts"));
  }
  return absl::InvalidArgumentError(absl::StrCat(
      what, " is too large: a key may have ", kv::kMaxKeyBytes, " bytes, a value ",
      store_->options().limits.max_value, " (max_value), and both, here with a key of ", key.size(),
      " bytes, ", store_->most_value(),
      ", half of a partition's memory: give more memory_bytes, or fewer partitions"));
}

template <class Of, class Execute>
absl::Status KvServer::Impl::RunBatch(absl::Span<const Of> batch, absl::Span<StatusCode> codes,
                                      const Execute& execute) {
  if (InCallback::Of(this)) return kv::CallbackError();
  if (!codes.empty() && codes.size() != batch.size()) return kv::CodesError();
  size_t refused = 0;
  StatusCode refusal = StatusCode::kOk;
  const InCallback in_callback(this);
  std::array<std::string_view, kv::kLargestGroup> keys;
  for (size_t first = 0; first < batch.size(); first += keys.size()) {
    const size_t count = std::min(keys.size(), batch.size() - first);
    for (size_t i = 0; i < count; ++i) keys[i] = kv::KeyOf(batch[first + i]);
    store_->WithPartitions({keys.data(), count}, [&](size_t i, Partition& partition, uint64_t hash,
                                                     const Candidate& candidate) {
      const StatusCode code = execute(first + i, &partition, hash, candidate);
      if (!codes.empty()) codes[first + i] = code;
      if (refusal != StatusCode::kOk || kv::IsNormal(code)) return;
      refused = first + i;
      refusal = code;
    });
  }
  if (refusal == StatusCode::kOk) return absl::OkStatus();
  const Of& one = batch[refused];
  const absl::Status why = ErrorOf(refusal, kv::KeyOf(one), kv::ValueSizeOf(one));
  return absl::Status(why.code(), absl::StrCat("number ", refused, " of a batch: ", why.message()));
}

absl::StatusOr<std::unique_ptr<KvServer>> KvServer::Start(const KvServerOptions& options) {
  PULSE_RETURN_IF_ERROR(CheckOptions(options));
  auto impl = std::make_unique<Impl>(options);
  const absl::Status status = CatchNoMemory([&]() -> absl::Status {
    try {
      return impl->Open();
    } catch (const std::system_error&) {
      return NoThreadError("the server");
    }
  });
  if (!status.ok()) return InOurWords(status);
  return std::unique_ptr<KvServer>(new KvServer(std::move(impl)));
}

KvServer::KvServer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
KvServer::~KvServer() = default;

uint16_t KvServer::port() const { return impl_->port(); }

absl::Status KvServer::Get(std::string_view key, std::string* value) {
  return impl_->With(key, [&](Partition& partition, uint64_t hash) {
    const Item* item = partition.Find(key, hash);
    if (item != nullptr) value->assign(item->value());
    return kv::Plain(kv::FoundCode(item != nullptr));
  });
}

absl::Status KvServer::Set(std::string_view key, std::string_view value,
                           const KvSetOptions& options) {
  PULSE_RETURN_IF_ERROR(kv::CheckSetOptions(options));
  return impl_->With(key, [&](Partition& partition, uint64_t hash) {
    return impl_->ErrorOf(impl_->SetAt(&partition, key, hash, value, options, {}), key,
                          value.size());
  });
}

absl::Status KvServer::Delete(std::string_view key) {
  return impl_->With(key, [&](Partition& partition, uint64_t hash) {
    return kv::Plain(impl_->DeleteAt(&partition, key, hash));
  });
}

absl::StatusOr<int64_t> KvServer::Increment(std::string_view key, int64_t delta) {
  int64_t sum = 0;
  PULSE_RETURN_IF_ERROR(impl_->With(key, [&](Partition& partition, uint64_t hash) -> absl::Status {
    const Item* item = partition.Find(key, hash);
    // What stays, as with INCR.
    const kv::ItemFacts facts = item != nullptr ? item->facts() : kv::ItemFacts();
    PULSE_ASSIGN_OR_RETURN(sum, kv::SumOf(item != nullptr ? item->value() : "0", delta, key));
    const std::string text = absl::StrCat(sum);
    const StatusCode code = impl_->SetAt(&partition, key, hash, text,
                                         {.expires_ms = facts.expires_ms}, {}, facts.client_flags);
    return impl_->ErrorOf(code, key, text.size());
  }));
  return sum;
}

absl::Status KvServer::GetBatch(absl::Span<const std::string_view> keys,
                                KvCalls::VisitValue visit) {
  return impl_->RunBatch(
      keys, {}, [&](size_t i, Partition* partition, uint64_t hash, const Candidate& candidate) {
        const Item* item = partition->FindAt(candidate.at, candidate.word, keys[i], hash);
        visit(i, item != nullptr ? std::optional(item->value()) : std::nullopt);
        return StatusCode::kOk;
      });
}

absl::Status KvServer::SetBatch(absl::Span<const KvPair> pairs, const KvSetOptions& options,
                                absl::Span<StatusCode> codes) {
  PULSE_RETURN_IF_ERROR(kv::CheckSetOptions(options));
  return impl_->RunBatch(
      pairs, codes, [&](size_t i, Partition* partition, uint64_t hash, const Candidate& candidate) {
        return impl_->SetAt(partition, pairs[i].key, hash, pairs[i].value, options, candidate);
      });
}

absl::Status KvServer::DeleteBatch(absl::Span<const std::string_view> keys,
                                   absl::Span<StatusCode> codes) {
  return impl_->RunBatch(keys, codes,
                         [&](size_t i, Partition* partition, uint64_t hash, const Candidate&) {
                           return impl_->DeleteAt(partition, keys[i], hash);
                         });
}

}  // namespace pulse
