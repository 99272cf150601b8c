#include "apps/pulse/metrics/endpoint.h"

#include <CivetServer.h>
#include <prometheus/exposer.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <exception>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/strings/str_cat.h"
#include "apps/pulse/metrics/collector.h"
#include "apps/pulse/util/option_values.h"
#include "base/errors.h"
#include "base/shortage.h"
#include "base/unique_fd.h"
#include "net/address.h"

namespace pulse::metrics {
namespace {

absl::Status NoAddress(const std::string& text) {
  return absl::InvalidArgumentError(absl::StrCat(
      "--metrics \"", text,
      "\": expected PORT, ADDRESS:PORT or [ADDRESS]:PORT, such as 9464 or 127.0.0.1:9464"));
}

absl::StatusOr<net::Address> AddressOf(const std::string& text) {
  const size_t colon = text.rfind(':');
  const std::string host = colon == std::string::npos ? "localhost" : text.substr(0, colon);
  // Not ::1, which localhost may be, too.
  auto address =
      net::ParseAddress(absl::StrCat(host == "localhost" ? "127.0.0.1" : host, ":",
                                     text.substr(colon == std::string::npos ? 0 : colon + 1)));
  if (!address.ok() || address->is_unix()) return NoAddress(text);
  if (address->storage.ss_family == AF_INET6 && mg_check_feature(MG_FEATURES_IPV6) == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("--metrics ", text,
                     ": this build's HTTP server (civetweb) has no IPv6; give an address of IPv4, "
                     "such as 127.0.0.1"));
  }
  return address;
}

// The library answers GET alone. HEAD gets the same head, without a body, as HTTP has it; to
// everything else it says so.
int AnswerHead(mg_connection* connection) {
  const mg_request_info* request = mg_get_request_info(connection);
  if (request == nullptr || std::string_view(request->request_method) != "HEAD" ||
      std::string_view(request->local_uri) != "/metrics") {
    return 0;
  }
  mg_printf(connection,
            "HTTP/1.1 200 OK\r\nContent-Type: text/plain; charset=utf-8\r\n"
            "Connection: close\r\n\r\n");
  return 200;
}

}  // namespace

Endpoint::Endpoint() = default;

// civetweb looks every two seconds whether it is to end, or when a client comes.
Endpoint::~Endpoint() {
  if (exposer_ == nullptr || !address_.has_value()) return;
  std::atomic<bool> ended{false};
  const auto end_it = [&] {
    exposer_.reset();
    ended = true;
  };
  std::thread end;
  // Without one it takes its two seconds.
  if (!StartThread("the end of --metrics", end_it, &end).ok()) end_it();
  while (!ended) {
    const UniqueFd poke(std::max(net::StartConnect(*address_), -1));
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  if (end.joinable()) end.join();
}

absl::StatusOr<std::unique_ptr<Endpoint>> Endpoint::Open(const std::string& text, bool anywhere,
                                                         Sources sources) {
  PULSE_ASSIGN_OR_RETURN(const auto address, AddressOf(text));
  if (!address.is_loopback() && !anywhere) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--metrics ", text,
        ": whoever reaches this address could read what is counted here, and the names of "
        "databases, without a password; add --metrics-anywhere if that is meant, or use "
        "127.0.0.1"));
  }
  // The library says only that it could not: so the cause is found out before.
  if (const absl::Status st = net::CheckFree(address); !st.ok())
    return OptionError("--metrics", st);
  std::string where = address.ToString();
  std::unique_ptr<Endpoint> e(new Endpoint());
  e->collector_ = std::make_shared<Collector>(std::move(sources));
  CivetCallbacks callbacks;
  callbacks.begin_request = &AnswerHead;
  try {
    // A client that says nothing holds a thread for half a second, and others have theirs.
    e->exposer_ = std::make_unique<prometheus::Exposer>(
        std::vector<std::string>{"listening_ports", where, "num_threads", "32",
                                 "request_timeout_ms", "500", "keep_alive_timeout_ms", "500"},
        &callbacks);
    e->exposer_->RegisterCollectable(e->collector_);
    const std::vector<int> ports = e->exposer_->GetListeningPorts();
    if (!ports.empty()) where = absl::StrCat(where.substr(0, where.rfind(':') + 1), ports[0]);
  } catch (const std::exception& error) {
    return absl::UnavailableError(absl::StrCat("--metrics: the HTTP server for ", where,
                                               " did not start (civetweb: ", error.what(),
                                               "); choose another address or port"));
  }
  if (const auto bound = net::ParseAddress(where); bound.ok()) e->address_ = *bound;
  e->url_ = absl::StrCat("http://", where, "/metrics");
  return e;
}

void Endpoint::AddOptions(CLI::App* command, const char* example_port, std::string* address,
                          bool* anywhere) {
  CLI::Option* const metrics = command->add_option(
      "--metrics", *address,
      absl::StrCat("serve Prometheus at http://ADDRESS:PORT/metrics; a port alone, such as ",
                   example_port, ", is\non 127.0.0.1"));
  command
      ->add_flag("--metrics-anywhere", *anywhere,
                 "allow --metrics an address that other machines reach")
      ->needs(metrics);
}

}  // namespace pulse::metrics
