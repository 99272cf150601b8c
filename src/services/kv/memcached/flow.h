// A connection that speaks memcached's protocol, as a director's flow: it answers everything
// itself. What arrived together is one batch, run on the loop as far as nothing has to wait, then
// on the pool; its replies go out in order. A connection has one batch under way at a time, so that
// its requests are carried out in their order.
//
// Ownership: the executor outlives the pool, and the pool the director. Threads: as net::Flow says.
// Errors: replies; a request that can never become whole ends the connection, after a line that
// says why.
//
// The director's max_message must have room for a line of kMaxLine, and for a value of the
// executor's max_value with a line that such a command may have; what is longer ends the
// connection. kMessageOverhead more than max_value has room for both at once. Nobody is asked for a
// password here: who serves this where one is needed has to refuse it.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/worker_pool.h"
#include "net/application.h"
#include "services/kv/memcached/codec.h"
#include "services/kv/memcached/commands.h"
#include "services/redis/designs.h"
#include "services/redis/message_batch.h"

namespace pulse::kv::memcached {

inline constexpr size_t kMessageOverhead = kMaxLine + 4;

class MemcachedFlow final : public net::Flow {
 public:
  // `designs` null: the loop carries out what has not to wait.
  MemcachedFlow(const Executor* executor, WorkerPool* pool, redis::Designs* designs,
                net::Connection* connection)
      : executor_(executor),
        pool_(pool),
        designs_(designs),
        connection_(connection),
        splitter_(executor->options().max_value) {}

  absl::StatusOr<size_t> SplitRequest(std::string_view bytes) override {
    return splitter_.Next(bytes);
  }
  absl::StatusOr<size_t> SplitReply(std::string_view bytes) override;
  void OnRequest(net::Ticket ticket, std::string_view bytes) override;
  void OnRequestsEnd() override;
  size_t held() const override { return incoming_bytes_ + batch_bytes_; }
  bool lacks_room() const override { return state_ == State::kFull && batch_->lacks > 0; }
  size_t expected() const override { return splitter_.expected(); }
  void OnRoom() override;
  std::string OnHostLost(net::Ticket ticket, bool sent) override;
  std::string ErrorReply(const absl::Status& error) override;

 private:
  enum class State {
    kIdle,
    kWaiting,  // on the pool
    kFull,     // for the client to take replies
    kClosed,
  };
  enum class Stop { kEnd, kWouldBlock, kFull, kClose };
  struct Batch : redis::MessageBatch {
    Request request;
    std::shared_ptr<net::ByteBudget> budget;  // null: there is no bound
  };

  static Stop Run(const Executor& executor, Batch* batch, bool may_block);
  void StartBatch();
  void RunBatch();
  void RunBatchOnPool(WorkerPool* pool);
  void HandleStop(Stop stop);

  const Executor* const executor_;
  WorkerPool* const pool_;
  redis::Designs* const designs_;
  net::Connection* const connection_;
  RequestSplitter splitter_;
  State state_ = State::kIdle;
  std::shared_ptr<Batch> incoming_;  // collects while another is under way
  std::shared_ptr<Batch> batch_;
  // Of requests in them; the batch's also while it is on the pool.
  size_t incoming_bytes_ = 0;
  size_t batch_bytes_ = 0;
};

// A listener for memcached's clients alone.
class MemcachedApplication final : public net::Application {
 public:
  MemcachedApplication(const Executor* executor, WorkerPool* pool)
      : executor_(executor), pool_(pool) {}
  std::unique_ptr<net::Flow> NewFlow(net::Connection* connection) override {
    return std::make_unique<MemcachedFlow>(executor_, pool_, nullptr, connection);
  }

 private:
  const Executor* const executor_;
  WorkerPool* const pool_;
};

}  // namespace pulse::kv::memcached
