// The host server as a director's application: its flows answer everything themselves. What arrived
// together is one batch, run on the loop as far as nothing has to wait, then on the pool; its
// replies go out in order. A connection has one batch under way at a time, so that its commands are
// carried out in their order.
//
// Threads: as net::Application and Flow say. The executor and the pool outlive the director.
#pragma once

#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "base/worker_pool.h"
#include "net/application.h"
#include "services/redis/designs.h"
#include "services/redis/executor.h"
#include "services/redis/serve.h"

namespace pulse::redis {

// A connection whose bytes arrive elsewhere: somebody else has cut them into requests, and found
// their arguments.
class SplitFlow : public net::Flow {
 public:
  // As OnRequest; `request` is in the form of AppendSplit (codec.h), and not trusted.
  virtual void OnSplitRequest(net::Ticket ticket, std::string_view request) = 0;
  // Nothing of the connection is under way, so that others may carry out its next request, and
  // answer it. Null otherwise. Valid until the next call.
  struct Idle {
    Executor* executor = nullptr;
    Session* session = nullptr;
  };
  virtual Idle WhileIdle() = 0;
};

class HostApplication : public net::Application {
 public:
  // `is_private`: of the listener for directors.
  // `executors`: one for each loop of the director, or one for all.
  HostApplication(std::vector<Executor*> executors, Keyspace* store, ServerFacts* facts,
                  WorkerPool* pool, const Limits& limits, bool is_private,
                  Designs* designs = nullptr, const OtherProtocol* other = nullptr)
      : executors_(std::move(executors)),
        store_(store),
        facts_(facts),
        pool_(pool),
        limits_(limits),
        private_(is_private),
        designs_(designs),
        other_(other),
        groups_(store->CollectsSets()) {}
  std::unique_ptr<net::Flow> NewFlow(net::Connection* connection) override;
  std::unique_ptr<SplitFlow> NewSplitFlow(net::Connection* connection);
  // Of a connection that speaks the other protocol; null where it is not served.
  std::unique_ptr<net::Flow> NewOtherFlow(net::Connection* connection);
  // Whether it is served now: the users may have changed.
  bool ServesOther() const;
  const Limits& limits() const { return limits_; }
  const ServerFacts& facts() const { return *facts_; }
  // Carries out the SETs that several connections have sent, together; hands what a thread of the
  // host is to carry out to it, all at once.
  void OnTurnEnd() override;

 private:
  friend class HostFlow;
  void SendGroupAway();
  // Of the node that a loop is.
  Executor* ExecutorOf(net::Connection* connection) const;

  const std::vector<Executor*> executors_;
  Keyspace* store_;
  ServerFacts* facts_;
  WorkerPool* pool_;
  Limits limits_;
  bool private_;
  Designs* designs_;  // null: loops carry out what needs no waiting
  const OtherProtocol* other_;
  bool groups_;  // whether a loop may write at all
};

}  // namespace pulse::redis
