// The host program of `blocks`: a director without a host whose flows carry out what clients ask
// for, on BlockFiles. One message is one ticket, and is answered by one message.
//
// Behind an agent that answers reads, `ordered` makes replies leave in the order of the messages:
// so the agent knows which were answered when it loses this server.
//
// Threads: OnRequest on the loops, OnDone on a thread of the files'. The server outlives the
// director that it is given to; the files are closed when the director has stopped, before it goes.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "examples/blocks/block_files.h"
#include "net/application.h"

namespace pulse::blocks {

struct ServerOptions {
  bool ordered = false;
  // Of replies in the making; a request beyond it is told to ask again.
  uint64_t max_bytes = uint64_t{256} << 20;
};

class Server : public director::Application, public BlockFiles::Sink {
 public:
  explicit Server(const ServerOptions& options) : options_(options) {}
  ~Server() override;

  // Before the first connection. Not owned.
  void set_files(BlockFiles* files) { files_ = files; }

  std::unique_ptr<director::Flow> NewFlow(director::Connection* connection) override;
  director::Ordering ordering() const override {
    return options_.ordered ? director::Ordering::kRequest : director::Ordering::kAny;
  }
  void OnDone(Io* io) override;

  uint64_t reads() const { return reads_.load(std::memory_order_relaxed); }
  uint64_t writes() const { return writes_.load(std::memory_order_relaxed); }

 private:
  class ServerFlow;
  struct Batch;

  const ServerOptions options_;
  BlockFiles* files_ = nullptr;
  std::atomic<uint64_t> bytes_{0};  // of batches that are under way
  std::atomic<uint64_t> reads_{0};
  std::atomic<uint64_t> writes_{0};
};

}  // namespace pulse::blocks
