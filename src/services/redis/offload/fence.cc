#include "services/redis/offload/fence.h"

#include <pthread.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "base/errors.h"
#include "base/log.h"
#include "base/unique_fd.h"
#include "net/address.h"
#include "services/redis/commands/codec.h"
#include "services/redis/commands/commands.h"

namespace pulse::redis {

FenceClient::FenceClient(std::string host, DirtyTable* table, std::function<void()> settled)
    : host_(std::move(host)), table_(table), settled_(std::move(settled)) {
  thread_ = std::thread([this] { Run(); });
}

FenceClient::~FenceClient() {
  {
    std::lock_guard lock(mu_);
    stop_ = true;
  }
  wake_.notify_all();
  thread_.join();
}

void FenceClient::AwaitFence(std::string id, std::vector<DirtyTable::Slot> slots) {
  if (slots.empty()) return;
  {
    std::lock_guard lock(mu_);
    lost_.push_back({std::move(id), std::move(slots)});
  }
  wake_.notify_all();
}

void FenceClient::Run() {
  pthread_setname_np(pthread_self(), "pulse-agent-fen");
  std::vector<LostConnection> pending;
  int64_t pause_ms = 0;
  bool warned = false;
  while (true) {
    {
      std::unique_lock lock(mu_);
      if (pause_ms > 0) {
        wake_.wait_for(lock, std::chrono::milliseconds(pause_ms), [&] { return stop_; });
      } else {
        wake_.wait(lock, [&] { return stop_ || !lost_.empty(); });
      }
      if (stop_) return;
      std::move(lost_.begin(), lost_.end(), std::back_inserter(pending));
      lost_.clear();
    }
    absl::Status status;
    while (!pending.empty() && status.ok()) {
      status = RequestFence(pending.back().id);
      if (!status.ok()) break;
      fences_.fetch_add(1, std::memory_order_relaxed);
      for (const auto slot : pending.back().slots) table_->Settle(slot);
      settled_();
      pending.pop_back();
    }
    pause_ms = status.ok() ? 0 : std::clamp<int64_t>(pause_ms * 2, 10, 500);
    if (!status.ok() && !warned) {
      Log(LogLevel::kWarn,
          absl::StrCat("asking the host for lost connections: ", status.message(),
                       "; keys that they may have written are not read on the agent until it "
                       "answers"));
    }
    warned = !status.ok();
  }
}

absl::Status FenceClient::RequestFence(const std::string& id) {
  PULSE_ASSIGN_OR_RETURN(const auto address, net::ParseAddress(host_));
  // A fresh connection: what an old one has in its buffers says nothing.
  const UniqueFd fd(socket(address.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!fd.valid()) return ErrnoError(errno, "opening a socket for", host_);
  // How long stopping may take.
  const timeval limit = {1, 0};
  setsockopt(fd.get(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
  setsockopt(fd.get(), SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
  if (connect(fd.get(), reinterpret_cast<const sockaddr*>(&address.storage), address.size) != 0) {
    return ErrnoError(errno, "connecting to the host", host_);
  }
  std::string request;
  AppendRequest({"PULSE.FENCE", id, CommandsDigest()}, &request);
  if (send(fd.get(), request.data(), request.size(), MSG_NOSIGNAL) !=
      static_cast<ssize_t>(request.size())) {
    return ErrnoError(errno, "asking the host", host_);
  }
  std::string reply;
  ReplySplitter splitter;
  while (true) {
    char bytes[512];
    const ssize_t n = recv(fd.get(), bytes, sizeof(bytes), 0);
    if (n == 0) return absl::UnavailableError(absl::StrCat("the host ", host_, " hung up"));
    if (n < 0) return ErrnoError(errno, "waiting for the host", host_);
    reply.append(bytes, static_cast<size_t>(n));
    PULSE_ASSIGN_OR_RETURN(const auto whole, splitter.Next(reply));
    if (whole == 0) continue;
    if (reply[0] != '$') {
      return absl::FailedPreconditionError(absl::StrCat("the host ", host_, " says ",
                                                        reply.substr(0, 100),
                                                        "; expected `pulse serve --host-socket`"));
    }
    return absl::OkStatus();
  }
}

}  // namespace pulse::redis
