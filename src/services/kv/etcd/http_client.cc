#include "services/kv/etcd/http_client.h"

#include <curl/curl.h>

#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/json.h"

namespace pulse::kv {
namespace {

// Of a reply that is an error.
constexpr size_t kShown = 200;

size_t Receive(char* data, size_t size, size_t count, void* to) {
  auto* reply = static_cast<std::string*>(to);
  if (reply->size() + size * count > HttpClient::kMostReply) return 0;  // ends it with an error
  reply->append(data, size * count);
  return size * count;
}

int IsCancelled(void* cancel, curl_off_t, curl_off_t, curl_off_t, curl_off_t) {
  return static_cast<const std::atomic<bool>*>(cancel)->load() ? 1 : 0;
}

}  // namespace

absl::StatusOr<std::unique_ptr<HttpClient>> HttpClient::Open(std::string url) {
  while (url.ends_with('/')) url.pop_back();
  // Checks the URL without asking for anything.
  const std::unique_ptr<CURLU, decltype(&curl_url_cleanup)> parsed(curl_url(), &curl_url_cleanup);
  if (parsed == nullptr) return absl::ResourceExhaustedError("making an HTTP client");
  const bool is_http = url.starts_with("http://") || url.starts_with("https://");
  if (!is_http || curl_url_set(parsed.get(), CURLUPART_URL, url.c_str(), 0) != CURLUE_OK) {
    return absl::InvalidArgumentError(
        absl::StrCat("'", CleanText(url), "': expected a URL, such as http://127.0.0.1:2379"));
  }
  char* user = nullptr;
  const CURLUcode has_user = curl_url_get(parsed.get(), CURLUPART_USER, &user, 0);
  curl_free(user);
  if (has_user != CURLUE_NO_USER) {
    return absl::InvalidArgumentError("a URL with a user's name would be logged: leave it out");
  }
  static const CURLcode initialized = curl_global_init(CURL_GLOBAL_DEFAULT);
  std::unique_ptr<HttpClient> client(new HttpClient(std::move(url)));
  client->curl_ = initialized == CURLE_OK ? curl_easy_init() : nullptr;
  if (client->curl_ == nullptr) return absl::ResourceExhaustedError("making an HTTP client");
  return client;
}

HttpClient::~HttpClient() {
  if (curl_ != nullptr) curl_easy_cleanup(curl_);
}

absl::StatusOr<std::string> HttpClient::Post(std::string_view path, const std::string& body,
                                             int64_t timeout_ms, const std::atomic<bool>* cancel) {
  std::string reply;
  char error[CURL_ERROR_SIZE] = "";
  CURL* const curl = curl_;
  curl_easy_reset(curl);  // connections stay open
  const std::string target = url_ + std::string(path);
  curl_easy_setopt(curl, CURLOPT_URL, target.c_str());
  curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https");
  curl_easy_setopt(curl, CURLOPT_NOPROXY, "*");
  curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);  // for threads
  curl_easy_setopt(curl, CURLOPT_TIMEOUT_MS, static_cast<long>(timeout_ms));
  curl_easy_setopt(curl, CURLOPT_POSTFIELDSIZE, static_cast<long>(body.size()));
  curl_easy_setopt(curl, CURLOPT_POSTFIELDS, body.c_str());
  curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, error);
  curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, &Receive);
  curl_easy_setopt(curl, CURLOPT_WRITEDATA, &reply);
  if (cancel != nullptr) {
    curl_easy_setopt(curl, CURLOPT_NOPROGRESS, 0L);
    curl_easy_setopt(curl, CURLOPT_XFERINFOFUNCTION, &IsCancelled);
    curl_easy_setopt(curl, CURLOPT_XFERINFODATA, const_cast<std::atomic<bool>*>(cancel));
  }
  const CURLcode code = curl_easy_perform(curl);
  long status = 0;
  curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &status);
  curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, nullptr);  // which ends with this call
  if (code == CURLE_ABORTED_BY_CALLBACK) return absl::CancelledError("stopping");
  if (code == CURLE_WRITE_ERROR) {
    return absl::UnavailableError(absl::StrCat("its reply is longer than ", kMostReply, " bytes"));
  }
  if (code != CURLE_OK) {
    return absl::UnavailableError(error[0] != '\0' ? error : curl_easy_strerror(code));
  }
  if (status != 200) {
    return absl::FailedPreconditionError(
        absl::StrCat("it answers with status ", status, ": ", CleanText(reply.substr(0, kShown))));
  }
  return reply;
}

}  // namespace pulse::kv
