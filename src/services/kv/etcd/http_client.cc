#include "services/kv/etcd/http_client.h"

#include <curl/curl.h>
#include <dlfcn.h>

#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/errors.h"
#include "base/json.h"

namespace pulse::kv {
namespace {

// Loaded by the first client: libcurl brings thirty libraries, which would take a third of the time
// that `pulse` needs to start.
struct Curl {
  absl::Status status;
#define PULSE_CURL_FUNCTIONS(f)                                                                   \
  f(url) f(url_cleanup) f(url_get) f(url_set) f(free) f(global_init) f(easy_init) f(easy_cleanup) \
      f(easy_reset) f(easy_setopt) f(easy_perform) f(easy_getinfo) f(easy_strerror)
#define PULSE_CURL_MEMBER(name) decltype(&curl_##name) name = nullptr;
  PULSE_CURL_FUNCTIONS(PULSE_CURL_MEMBER)
};

Curl LoadCurl() {
  Curl curl;
  constexpr char kLibrary[] = "libcurl.so.4";
  void* const library = dlopen(kLibrary, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (library == nullptr) {
    curl.status = absl::FailedPreconditionError(absl::StrCat(
        "loading ", kLibrary, ": ", dlerror(), "; install libcurl (Debian's package libcurl4)"));
    return curl;
  }
#define PULSE_CURL_LOAD(name)                                                                     \
  curl.name = reinterpret_cast<decltype(curl.name)>(dlsym(library, "curl_" #name));               \
  if (curl.name == nullptr) {                                                                     \
    curl.status = absl::FailedPreconditionError(                                                  \
        absl::StrCat(kLibrary, " has no curl_" #name "; install libcurl of Debian 12 or newer")); \
  }
  PULSE_CURL_FUNCTIONS(PULSE_CURL_LOAD)
#undef PULSE_CURL_LOAD
#undef PULSE_CURL_MEMBER
#undef PULSE_CURL_FUNCTIONS
  if (curl.status.ok() && curl.global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK) {
    curl.status = absl::ResourceExhaustedError("making an HTTP client");
  }
  return curl;
}

const Curl& LoadedCurl() {
  static const Curl curl = LoadCurl();
  return curl;
}

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
  const Curl& curl = LoadedCurl();
  PULSE_RETURN_IF_ERROR(curl.status);
  // Checks the URL without asking for anything.
  const std::unique_ptr<CURLU, decltype(curl.url_cleanup)> parsed(curl.url(), curl.url_cleanup);
  if (parsed == nullptr) return absl::ResourceExhaustedError("making an HTTP client");
  const bool is_http = url.starts_with("http://") || url.starts_with("https://");
  if (!is_http || curl.url_set(parsed.get(), CURLUPART_URL, url.c_str(), 0) != CURLUE_OK) {
    return absl::InvalidArgumentError(
        absl::StrCat("'", CleanText(url), "': expected a URL, such as http://127.0.0.1:2379"));
  }
  char* user = nullptr;
  const CURLUcode has_user = curl.url_get(parsed.get(), CURLUPART_USER, &user, 0);
  curl.free(user);
  if (has_user != CURLUE_NO_USER) {
    return absl::InvalidArgumentError("a URL with a user's name would be logged: leave it out");
  }
  std::unique_ptr<HttpClient> client(new HttpClient(std::move(url)));
  client->curl_ = curl.easy_init();
  if (client->curl_ == nullptr) return absl::ResourceExhaustedError("making an HTTP client");
  return client;
}

HttpClient::~HttpClient() {
  if (curl_ != nullptr) LoadedCurl().easy_cleanup(curl_);
}

absl::StatusOr<std::string> HttpClient::Post(std::string_view path, const std::string& body,
                                             int64_t timeout_ms, const std::atomic<bool>* cancel) {
  std::string reply;
  char error[CURL_ERROR_SIZE] = "";
  const Curl& curl = LoadedCurl();
  curl.easy_reset(curl_);  // connections stay open
  const std::string target = url_ + std::string(path);
  curl.easy_setopt(curl_, CURLOPT_URL, target.c_str());
  curl.easy_setopt(curl_, CURLOPT_PROTOCOLS_STR, "http,https");
  curl.easy_setopt(curl_, CURLOPT_NOPROXY, "*");
  curl.easy_setopt(curl_, CURLOPT_NOSIGNAL, 1L);  // for threads
  curl.easy_setopt(curl_, CURLOPT_TIMEOUT_MS, static_cast<long>(timeout_ms));
  curl.easy_setopt(curl_, CURLOPT_POSTFIELDSIZE, static_cast<long>(body.size()));
  curl.easy_setopt(curl_, CURLOPT_POSTFIELDS, body.c_str());
  curl.easy_setopt(curl_, CURLOPT_ERRORBUFFER, error);
  curl.easy_setopt(curl_, CURLOPT_WRITEFUNCTION, &Receive);
  curl.easy_setopt(curl_, CURLOPT_WRITEDATA, &reply);
  if (cancel != nullptr) {
    curl.easy_setopt(curl_, CURLOPT_NOPROGRESS, 0L);
    curl.easy_setopt(curl_, CURLOPT_XFERINFOFUNCTION, &IsCancelled);
    curl.easy_setopt(curl_, CURLOPT_XFERINFODATA, const_cast<std::atomic<bool>*>(cancel));
  }
  const CURLcode code = curl.easy_perform(curl_);
  long status = 0;
  curl.easy_getinfo(curl_, CURLINFO_RESPONSE_CODE, &status);
  curl.easy_setopt(curl_, CURLOPT_ERRORBUFFER, nullptr);  // which ends with this call
  if (code == CURLE_ABORTED_BY_CALLBACK) return absl::CancelledError("stopping");
  if (code == CURLE_WRITE_ERROR) {
    return absl::UnavailableError(absl::StrCat("its reply is longer than ", kMostReply, " bytes"));
  }
  if (code != CURLE_OK) {
    return absl::UnavailableError(error[0] != '\0' ? error : curl.easy_strerror(code));
  }
  if (status != 200) {
    return absl::FailedPreconditionError(
        absl::StrCat("it answers with status ", status, ": ", CleanText(reply.substr(0, kShown))));
  }
  return reply;
}

}  // namespace pulse::kv
