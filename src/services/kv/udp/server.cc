#include "services/kv/udp/server.h"

#include <poll.h>
#include <pthread.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/clock.h"
#include "base/cpu_list.h"
#include "base/cpu_profile.h"
#include "base/errors.h"
#include "base/log.h"
#include "services/kv/core/hash.h"

namespace pulse::kv {

absl::Status UdpServer::Check(const UdpOptions& options, int partitions) {
  if (options.threads < 1 || options.threads > kUdpMostPartitions) {
    return absl::InvalidArgumentError(
        absl::StrCat("--udp-threads ", options.threads, ": 1 to ", kUdpMostPartitions));
  }
  if (options.clients < 1 || options.clients > 4096) {
    return absl::InvalidArgumentError(
        absl::StrCat("--udp-clients ", options.clients, ": 1 to 4096"));
  }
  const int last = options.port + partitions - 1;
  if (options.port < 0 || (options.port > 0 && last > UINT16_MAX)) {
    return absl::InvalidArgumentError(
        absl::StrCat("--udp-port ", options.port, ": with those that follow for ", partitions,
                     " partitions it is no port; choose a lower one"));
  }
  return absl::OkStatus();
}

uint64_t UdpServer::BytesFor(const UdpOptions& options, int partitions) {
  // Of requests under way: their entries in lanes, commands and datagrams.
  constexpr uint64_t kEach = sizeof(BatchRequest) + 256;
  const uint64_t endpoint = UdpSessions::BytesFor(options.clients) + UdpBatch::kReplyBytes +
                            UdpBatch::kMostRequests * kEach;
  return static_cast<uint64_t>(partitions) * endpoint +
         options.threads * UdpReceiver::kMessages * UdpReceiver::kMessageBytes;
}

absl::StatusOr<std::unique_ptr<UdpServer>> UdpServer::Open(KvStore* store,
                                                           const UdpOptions& options) {
  PULSE_RETURN_IF_ERROR(Check(options, store->options().partitions));
  std::unique_ptr<UdpServer> server(new UdpServer());
  server->options_ = options;
  PULSE_ASSIGN_OR_RETURN(server->stop_, WakeEvent::Create());
  PULSE_RETURN_IF_ERROR(server->Listen(store, options));
  const size_t threads = std::min<size_t>(options.threads, server->endpoints_.size());
  for (size_t t = 0; t < threads; ++t) {
    auto worker = std::make_unique<Worker>();
    for (size_t p = t; p < server->endpoints_.size(); p += threads) {
      worker->endpoints.push_back(server->endpoints_[p].get());
    }
    worker->thread = std::thread([s = server.get(), w = worker.get()] { s->Run(w); });
    server->workers_.push_back(std::move(worker));
  }
  return server;
}

absl::Status UdpServer::Listen(KvStore* store, const UdpOptions& options) {
  UdpWelcome facts{};
  facts.boot = SipHash(DrawSipKey(), {});
  facts.hash_seed = HashSeed();
  facts.partitions = static_cast<uint32_t>(store->options().partitions);
  facts.window = kUdpWindow;
  facts.most_requests = kUdpMostRequests;
  for (uint32_t p = 0; p < facts.partitions; ++p) {
    const int port = options.port == 0 ? 0 : options.port + static_cast<int>(p);
    PULSE_ASSIGN_OR_RETURN(const auto address,
                           net::ParseAddress(absl::StrCat(options.host, ":", port)));
    auto endpoint = std::make_unique<Endpoint>(options);
    PULSE_ASSIGN_OR_RETURN(endpoint->socket, BindUdp(address));
    facts.ports[p] = net::LocalAddress(endpoint->socket.get()).port();
    ports_.push_back(facts.ports[p]);
    endpoints_.push_back(std::move(endpoint));
  }
  for (uint32_t p = 0; p < facts.partitions; ++p) {
    Endpoint& e = *endpoints_[p];
    e.facts = facts;
    e.facts.partition = p;
    e.batch = std::make_unique<UdpBatch>(store, &e.facts, &e.cookies, &e.sessions, &e.stats);
  }
  return absl::OkStatus();
}

UdpServer::~UdpServer() {
  stopping_ = true;
  stop_.Set();
  for (const auto& worker : workers_) worker->thread.join();
}

void UdpServer::Run(Worker* worker) {
  pthread_setname_np(pthread_self(), "pulse-host-udp");
  if (const absl::Status status = SetThreadAffinity(options_.cpus); !status.ok()) {
    LogOnce("udp-cpus", status.message());
  }
  CpuProfile& profile = CpuProfile::OfThread();
  profile.set_side(CpuSide::kHost);
  std::vector<pollfd> fds = {{stop_.fd(), POLLIN, 0}};
  for (const Endpoint* e : worker->endpoints) fds.push_back({e->socket.get(), POLLIN, 0});
  bool more = false;
  while (!stopping_.load(std::memory_order_relaxed)) {
    profile.BeginWait();
    // What interrupts it does no harm.
    poll(fds.data(), fds.size(), more ? 0 : -1);
    profile.EndWait(CpuComponent::kReceive);
    more = false;
    for (size_t i = 0; i < worker->endpoints.size(); ++i) {
      Endpoint* endpoint = worker->endpoints[i];
      if (fds[i + 1].revents == 0 && !endpoint->full) continue;
      Serve(worker, endpoint);
      more |= endpoint->full;
    }
    profile.EndTurn();
  }
}

void UdpServer::Serve(Worker* worker, Endpoint* endpoint) {
  UdpBatch& batch = *endpoint->batch;
  {
    const CpuScope scope(CpuComponent::kReceive);
    const int got = worker->receiver.Receive(endpoint->socket.get());
    endpoint->full = got == static_cast<int>(UdpReceiver::kMessages);
    if (got <= 0) return;
  }
  const int64_t now = NowNanos();
  const auto answer = [&] {
    batch.Run();
    const CpuScope scope(CpuComponent::kRespond);
    for (const UdpBatch::Reply& r : batch.replies()) worker->sender.Add(r.peer, r.bytes, r.size);
    endpoint->stats.Add(UdpStats::kLost, worker->sender.Send(endpoint->socket.get()));
    batch.Clear();
  };
  const UdpPeer* peer = nullptr;
  std::string_view datagram;
  while (worker->receiver.Next(&peer, &datagram)) {
    const CpuScope scope(CpuComponent::kParse);
    if (batch.Add(*peer, datagram, now)) continue;
    answer();
    batch.Add(*peer, datagram, now);  // an empty one takes it
  }
  answer();
}

UdpNumbers UdpServer::numbers() const {
  UdpNumbers sum;
  for (const auto& e : endpoints_) {
    for (size_t i = 0; i < sum.values.size(); ++i) {
      sum.values[i] += e->stats.Get(static_cast<UdpStats::Counter>(i));
    }
  }
  return sum;
}

void UdpServer::AddInfo(std::string* out) const {
  const UdpNumbers n = numbers();
  const auto add = [&](absl::string_view name, UdpStats::Counter counter) {
    absl::StrAppend(out, name, ":", n.Get(counter), "\r\n");
  };
  add("udp_clients", UdpStats::kSessions);
  add("udp_datagrams", UdpStats::kDatagrams);
  add("udp_requests", UdpStats::kRequests);
  add("udp_batches", UdpStats::kBatches);
  add("udp_repeated_datagrams", UdpStats::kRepeats);
  add("udp_stale_datagrams", UdpStats::kStale);
  add("udp_refused_datagrams", UdpStats::kRefused);
  add("udp_ignored_datagrams", UdpStats::kIgnored);
  add("udp_lost_answers", UdpStats::kLost);
}

}  // namespace pulse::kv
