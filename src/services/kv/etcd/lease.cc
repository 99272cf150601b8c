#include "services/kv/etcd/lease.h"

#include <algorithm>

#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/errors.h"
#include "base/log.h"
#include "nlohmann/json.hpp"

namespace pulse::kv {
namespace {

constexpr char kTransaction[] = "/v3/kv/txn";  // all or none
constexpr int64_t kMostBackOffMs = 5'000;
constexpr int64_t kLongestTtl = 24 * 60 * 60;
// Between looks for keys that were deleted: once in a time to live.
constexpr int kStepsOfALook = 3;

// A whole number, which the gateway sends as text; 0 where there is none.
int64_t NumberIn(const nlohmann::json& object, const char* name) {
  const auto it = object.find(name);
  int64_t number = 0;
  if (it == object.end() || !it->is_string() ||
      !absl::SimpleAtoi(it->get_ref<const std::string&>(), &number)) {
    return 0;
  }
  return number;
}

absl::Status NoSense(std::string_view path) {
  return absl::InternalError(absl::StrCat("its reply to ", std::string(path),
                                          " is not etcd's; is it the version 3 API's address?"));
}

}  // namespace

EtcdLease::EtcdLease(std::string name, std::vector<Entry> entries, int64_t ttl_seconds, Post post)
    : name_(std::move(name)),
      entries_(std::move(entries)),
      asked_ttl_(ttl_seconds),
      post_(std::move(post)),
      ttl_(ttl_seconds) {}

absl::StatusOr<nlohmann::json> EtcdLease::Ask(std::string_view path,
                                              const nlohmann::json& request) {
  PULSE_ASSIGN_OR_RETURN(const std::string body, post_(path, request.dump()));
  nlohmann::json reply = nlohmann::json::parse(body, nullptr, /*allow_exceptions=*/false);
  if (!reply.is_object()) return NoSense(path);
  return reply;
}

absl::Status EtcdLease::Grant() {
  constexpr char kPath[] = "/v3/lease/grant";
  PULSE_ASSIGN_OR_RETURN(const auto reply, Ask(kPath, {{"TTL", asked_ttl_}}));
  const int64_t id = NumberIn(reply, "ID");
  // etcd has a least one. Who answers may say anything.
  ttl_ = std::min(NumberIn(reply, "TTL"), kLongestTtl);
  if (id == 0 || ttl_ <= 0) return NoSense(kPath);
  lease_ = std::to_string(id);
  put_ = false;
  return absl::OkStatus();
}

nlohmann::json EtcdLease::Puts() const {
  auto puts = nlohmann::json::array();
  for (const auto& [key, value] : entries_) {
    puts.push_back({{"requestPut",
                     {{"key", absl::Base64Escape(key)},
                      {"value", absl::Base64Escape(value)},
                      {"lease", lease_}}}});
  }
  return puts;
}

absl::Status EtcdLease::Put() {
  PULSE_ASSIGN_OR_RETURN(const auto reply, Ask(kTransaction, {{"success", Puts()}}));
  const auto succeeded = reply.find("succeeded");
  if (succeeded == reply.end() || *succeeded != true) return NoSense(kTransaction);
  put_ = true;
  steps_ = 0;
  return absl::OkStatus();
}

// The lease may be alive, and somebody have deleted its keys. Those that are there keep their place
// among others' (create_revision).
absl::Status EtcdLease::PutBack() {
  auto compare = nlohmann::json::array();
  for (const auto& entry : entries_) {
    compare.push_back({{"key", absl::Base64Escape(entry.first)},
                       {"target", "CREATE"},
                       {"result", "GREATER"},
                       {"createRevision", "0"}});
  }
  PULSE_ASSIGN_OR_RETURN(const auto reply, Ask(kTransaction, {{"compare", compare},
                                                              {"success", nlohmann::json::array()},
                                                              {"failure", Puts()}}));
  const auto succeeded = reply.find("succeeded");
  if (succeeded != reply.end() && *succeeded == true) return absl::OkStatus();
  // The gateway leaves out what is false.
  const auto responses = reply.find("responses");
  if (responses == reply.end() || !responses->is_array() || responses->size() != entries_.size()) {
    return NoSense(kTransaction);
  }
  Log(LogLevel::kWarn,
      absl::StrCat("etcd at ", name_, ": endpoints had been deleted, and are registered again"));
  return absl::OkStatus();
}

absl::Status EtcdLease::KeepAlive() {
  constexpr char kPath[] = "/v3/lease/keepalive";
  PULSE_ASSIGN_OR_RETURN(const auto reply, Ask(kPath, {{"ID", lease_}}));
  const auto result = reply.find("result");
  if (result == reply.end() || !result->is_object()) return NoSense(kPath);
  if (NumberIn(*result, "ID") == 0) return NoSense(kPath);
  if (NumberIn(*result, "TTL") <= 0) return absl::NotFoundError("the lease has ended");
  return absl::OkStatus();
}

int64_t EtcdLease::Step() {
  absl::Status status = put_ ? KeepAlive() : absl::OkStatus();
  if (absl::IsNotFound(status)) {
    // Anew at once.
    lease_.clear();
    status = absl::OkStatus();
  }
  if (status.ok() && lease_.empty()) status = Grant();
  if (status.ok() && !put_) {
    status = Put();
  } else if (status.ok() && ++steps_ % kStepsOfALook == 0) {
    status = PutBack();
  }
  if (absl::IsCancelled(status)) return 0;
  if (!status.ok() && !absl::IsUnavailable(status)) {
    // It may be the lease that etcd does not like.
    lease_.clear();
    put_ = false;
  }
  if (!told_ || status.ok() != registered_) {
    const std::string what =
        absl::StrCat("etcd at ", name_, ": ", status.ok() ? "" : "cannot keep ", entries_.size(),
                     entries_.size() == 1 ? " endpoint" : " endpoints", " registered");
    if (!status.ok()) {
      Log(LogLevel::kWarn,
          absl::StrCat(what, ": ", status.message(), "; the server serves on, and tries again"));
    } else {
      // At the start all is as it should be.
      Log(told_ ? LogLevel::kWarn : LogLevel::kInfo, what);
    }
  }
  told_ = true;
  registered_ = status.ok();
  if (status.ok()) {
    back_off_ms_ = kFirstBackOffMs;
    return ttl_ * 1000 / 3;
  }
  const int64_t wait = back_off_ms_;
  back_off_ms_ = std::min(back_off_ms_ * 2, kMostBackOffMs);
  return wait;
}

absl::Status EtcdLease::Revoke() {
  if (lease_.empty()) return absl::OkStatus();
  const auto reply = Ask("/v3/lease/revoke", {{"ID", lease_}});
  lease_.clear();
  put_ = registered_ = false;
  return reply.status();
}

}  // namespace pulse::kv
