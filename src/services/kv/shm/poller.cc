#include "services/kv/shm/poller.h"

#include <utility>

#include "base/errors.h"

namespace pulse::kv {

absl::StatusOr<std::unique_ptr<ShmPoller>> ShmPoller::Start(KvStore* store,
                                                            const Options& options) {
  std::unique_ptr<ShmPoller> poller(new ShmPoller(store, options));
  PULSE_ASSIGN_OR_RETURN(poller->thread_,
                         PeerPoller::Start(poller.get(), {.name = "pulse-kv-shm",
                                                          .number = options.number,
                                                          .spin_nanos = options.spin_nanos,
                                                          .cpus = options.cpus}));
  return poller;
}

ShmPoller::ShmPoller(KvStore* store, const Options& options)
    : store_(store),
      options_(options),
      partitions_(static_cast<uint32_t>(store->options().partitions)) {}

size_t ShmPoller::Serve(const ShmPeers& clients) {
  size_t batches = 0;
  for (const auto& peer : clients) {
    auto* client = static_cast<ShmAttachment*>(peer.get());
    size_t answered = 0;
    for (uint32_t p = options_.number; p < partitions_; p += options_.threads) {
      answered += ServeQueue(client, p) ? 1 : 0;
    }
    if (answered > 0) client->Ring();
    batches += answered;
  }
  return batches;
}

bool ShmPoller::ServeQueue(ShmAttachment* client, uint32_t partition) {
  QueuePair& queue = client->queue(partition);
  const char* requests = nullptr;
  switch (queue.FindRequests(&requests)) {
    case QueuePair::Found::kNothing:
      return false;
    case QueuePair::Found::kCorrupt:
      client->Break();  // who accepts clients sees its end, and takes it from us
      return false;
    case QueuePair::Found::kBatch:
      break;
  }
  const QueuePairOptions& o = queue.options();
  const BatchResult result =
      store_->RunBatch(partition, {requests,
                                   queue.ResponseBufferOfOldest(),
                                   o.buffer_bytes,
                                   o.batch,
                                   queue.first(),
                                   client->far(),
                                   {.lookahead = &client->lookahead(partition),
                                    .requests = queue.PeekNext(),
                                    .responses = queue.ResponseBufferOfNext()}});
  if (result.whole) {
    queue.Answer();
  } else {
    queue.AnswerPart(result.answered);
  }
  return true;
}

bool ShmPoller::HasWork(const ShmPeers& clients) {
  const char* requests = nullptr;
  for (const auto& peer : clients) {
    auto* client = static_cast<ShmAttachment*>(peer.get());
    for (uint32_t p = options_.number; p < partitions_; p += options_.threads) {
      if (client->queue(p).FindRequests(&requests) == QueuePair::Found::kBatch) return true;
    }
  }
  return false;
}

}  // namespace pulse::kv
