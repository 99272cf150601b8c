// HttpClient: POSTs over HTTP, one after the other, by libcurl: as much of HTTP as etcd's gateway
// needs. No redirections and no proxies. Whoever answers is not trusted: a reply has a bound.
// libcurl is loaded by the first Open, which is FailedPrecondition where there is none.
//
// Threads: one at a time. Blocking: Post, for its timeout at most. Errors: Unavailable when there
// is no whole reply, FailedPrecondition for a reply other than 200, Cancelled; each says why.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace pulse::kv {

class HttpClient {
 public:
  static constexpr size_t kMostReply = size_t{1} << 20;

  // `url`: "http://HOST:PORT" or https, what comes before each path.
  static absl::StatusOr<std::unique_ptr<HttpClient>> Open(std::string url);
  ~HttpClient();
  HttpClient(const HttpClient&) = delete;
  HttpClient& operator=(const HttpClient&) = delete;

  // The body of the reply. `cancel`, where there is one: looked at about once in a second.
  absl::StatusOr<std::string> Post(std::string_view path, const std::string& body,
                                   int64_t timeout_ms, const std::atomic<bool>* cancel);
  const std::string& url() const { return url_; }

 private:
  explicit HttpClient(std::string url) : url_(std::move(url)) {}

  const std::string url_;
  void* curl_ = nullptr;
};

}  // namespace pulse::kv
