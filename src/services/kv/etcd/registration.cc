#include "services/kv/etcd/registration.h"

#include <pthread.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/errors.h"
#include "base/log.h"
#include "nlohmann/json.hpp"

namespace pulse::kv {
namespace {

// When the server ends: nobody is to wait long for an etcd that is away.
constexpr int64_t kRevokeMs = 1'000;

std::vector<EtcdLease::Entry> EntriesOf(const EtcdOptions& options,
                                        const redis::Cluster& endpoints) {
  std::vector<EtcdLease::Entry> entries;
  for (const redis::Cluster::Node& node : endpoints.nodes()) {
    nlohmann::json value = {{"id", node.id},
                            {"host", endpoints.host()},
                            {"port", node.port},
                            {"first_slot", node.first_slot},
                            {"last_slot", node.last_slot},
                            {"cluster", endpoints.enabled()},
                            {"protocols", options.protocols},
                            {"tls", options.tls}};
    if (!options.udp_ports.empty()) value["udp_ports"] = options.udp_ports;
    entries.emplace_back(absl::StrCat(options.prefix, "/", node.id), value.dump());
  }
  return entries;
}

}  // namespace

absl::StatusOr<std::unique_ptr<EtcdRegistration>> EtcdRegistration::Open(
    const EtcdOptions& options, const redis::Cluster& endpoints) {
  PULSE_ASSIGN_OR_RETURN(auto http, HttpClient::Open(options.url));
  std::unique_ptr<EtcdRegistration> registration(
      new EtcdRegistration(options, endpoints, std::move(http)));
  registration->thread_ = std::thread([r = registration.get()] { r->Run(); });
  return registration;
}

EtcdRegistration::EtcdRegistration(const EtcdOptions& options, const redis::Cluster& endpoints,
                                   std::unique_ptr<HttpClient> http)
    : http_(std::move(http)),
      // Several tries fit into a lease's time.
      lease_(http_->url(), EntriesOf(options, endpoints), options.ttl_seconds,
             [this, timeout = std::clamp<int64_t>(options.ttl_seconds * 1000 / 3, 500, 5'000)](
                 std::string_view path, const std::string& body) {
               const bool last = stopping_.load();
               return http_->Post(path, body, last ? kRevokeMs : timeout,
                                  last ? nullptr : &stopping_);
             }) {}

EtcdRegistration::~EtcdRegistration() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  if (thread_.joinable()) thread_.join();
  if (const absl::Status revoked = lease_.Revoke(); !revoked.ok()) {
    Log(LogLevel::kWarn, absl::StrCat("etcd at ", http_->url(), ": taking the endpoints away: ",
                                      revoked.message(), "; they go when their lease ends"));
  }
}

void EtcdRegistration::Run() {
  pthread_setname_np(pthread_self(), "pulse-kv-etcd");
  std::unique_lock<std::mutex> lock(mutex_);
  while (!stopping_) {
    lock.unlock();
    const auto wait = std::chrono::milliseconds(lease_.Step());
    lock.lock();
    wake_.wait_for(lock, wait, [this] { return stopping_.load(); });
  }
}

}  // namespace pulse::kv
