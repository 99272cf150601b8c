// A host program without what it does: a director without a host, whose flows answer all requests
// themselves. Behind an agent that answers reads, `ordered` makes replies leave in the order of the
// messages: so the agent knows which were answered when it loses this server.
//
// A host is opened, and destroyed, by one thread. Its class calls Listen as the last step of
// opening it, and Stop as the first of destruction: what comes back from its files after that goes
// to connections that have ended.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "base/errors.h"
#include "examples/common/block_files.h"
#include "examples/common/wire.h"
#include "net/director.h"

namespace pulse::examples {

struct HostOptions {
  std::string listen = "127.0.0.1:0";
  int threads = 1;  // of the network
  bool ordered = false;
  FilesOptions files;
};

class Host : public net::Application {
 public:
  net::Ordering ordering() const override {
    return ordered_ ? net::Ordering::kRequest : net::Ordering::kAny;
  }
  uint16_t port() const { return director_->port(); }
  // What there is to say of it when it has begun to serve.
  virtual std::string Describe() { return {}; }

 protected:
  explicit Host(const HostOptions& options) : ordered_(options.ordered) {}
  // Returns when clients can connect.
  absl::Status Listen(const HostOptions& options) {
    net::DirectorOptions d;
    d.listen = {options.listen};
    d.threads = options.threads;
    d.application = this;
    d.limits.max_message = kMaxMessage;
    PULSE_ASSIGN_OR_RETURN(director_, net::Director::Open(std::move(d)));
    return absl::OkStatus();
  }
  void Stop() {
    if (director_ != nullptr) director_->Stop();
  }

 private:
  const bool ordered_;
  std::unique_ptr<net::Director> director_;
};

// A flow of such a program.
template <typename Header, uint32_t kRequestMagic>
class HostFlow : public net::Flow {
 public:
  explicit HostFlow(net::Connection* connection) : connection_(connection) {}
  absl::StatusOr<size_t> SplitRequest(std::string_view bytes) override {
    return SplitMessage<Header>(bytes, kRequestMagic);
  }
  // There is no host behind it.
  absl::StatusOr<size_t> SplitReply(std::string_view) override { return size_t{0}; }
  std::string OnHostLost(net::Ticket, bool) override { return {}; }

 protected:
  net::Connection* const connection_;
};

}  // namespace pulse::examples
