// The host program of `blocks`: flows carry out what clients ask for, on BlockFiles. One message is
// one ticket, and is answered by one message.
//
// Threads: OnRequest on the loops, OnDone on a thread of the files'.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "examples/common/host.h"

namespace pulse::blocks {

class Server : public examples::Host, public examples::BlockFiles::Sink {
 public:
  // Clients can connect when it returns. `options.files.store_directory` is the server's to say.
  static absl::StatusOr<std::unique_ptr<Server>> Open(examples::HostOptions options);
  ~Server() override;

  std::unique_ptr<net::Flow> NewFlow(net::Connection* connection) override;
  void OnDone(examples::Io* io) override;
  std::string Describe() override;

 private:
  class ServerFlow;
  struct Batch;

  explicit Server(const examples::HostOptions& options)
      : examples::Host(options), files_options_(options.files) {}

  const examples::FilesOptions files_options_;
  std::unique_ptr<examples::BlockFiles> files_;
  std::atomic<uint64_t> bytes_{0};  // of batches that are under way
};

}  // namespace pulse::blocks
