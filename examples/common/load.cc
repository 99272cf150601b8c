#include "examples/common/load.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "absl/strings/str_cat.h"
#include "base/clock.h"
#include "base/errors.h"
#include "fmt/format.h"

namespace pulse::examples {
namespace {

constexpr int64_t kGiveUpNanos = 30'000'000'000;
constexpr useconds_t kPauseMicros = 20'000;
constexpr size_t kReceive = size_t{256} << 10;

absl::Status Lost(int err, const char* what, const std::string& on, const char* remedy = "") {
  return absl::UnavailableError(ErrnoError(err, what, on, remedy).message());
}

double Micros(const Histogram& h, double percentile) {
  return static_cast<double>(h.ValueAtPercentile(percentile)) / 1e3;
}

}  // namespace

void LoadResult::Answered(bool read, int64_t nanos) {
  ++(read ? reads : writes);
  (read ? read_nanos : write_nanos).Record(static_cast<uint64_t>(std::max<int64_t>(nanos, 0)));
}

void LoadResult::Refused(std::string_view why) {
  ++errors;
  last_error = std::string(why);
}

void LoadResult::Add(const LoadResult& other) {
  reads += other.reads;
  writes += other.writes;
  errors += other.errors;
  lost += other.lost;
  reconnects += other.reconnects;
  verified += other.verified;
  if (!other.last_error.empty()) last_error = other.last_error;
  read_nanos.Merge(other.read_nanos);
  write_nanos.Merge(other.write_nanos);
}

std::string RenderFigures(std::span<const LoadFigures> figures, double seconds) {
  std::string table = fmt::format("{:8}{:>10}{:>9}{:>9}{:>9}{:>9}\n", "", "a second", "p50 us",
                                  "p99 us", "p99.9 us", "max us");
  for (const LoadFigures& f : figures) {
    if (f.count == 0) continue;
    table += fmt::format("{:8}{:>10.0f}{:>9.0f}{:>9.0f}{:>9.0f}{:>9.0f}\n", f.name,
                         static_cast<double>(f.count) / seconds, Micros(*f.nanos, 50),
                         Micros(*f.nanos, 99), Micros(*f.nanos, 99.9),
                         static_cast<double>(f.nanos->Max()) / 1e3);
  }
  return table;
}

nlohmann::json FiguresJson(std::span<const LoadFigures> figures, double seconds) {
  nlohmann::json out;
  uint64_t all = 0;
  for (const LoadFigures& f : figures) {
    if (f.count == 0) continue;
    all += f.count;
    const std::string name = f.name;
    out[name + "_per_s"] = static_cast<double>(f.count) / seconds;
    out[name + "_p50_us"] = Micros(*f.nanos, 50);
    out[name + "_p99_us"] = Micros(*f.nanos, 99);
    out[name + "_p999_us"] = Micros(*f.nanos, 99.9);
    out[name + "_max_us"] = static_cast<double>(f.nanos->Max()) / 1e3;
  }
  out["ops"] = all;
  out["ops_per_s"] = static_cast<double>(all) / seconds;
  return out;
}

absl::StatusOr<UniqueFd> ConnectTcp(const std::string& host, uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  if (inet_pton(AF_INET, host.c_str(), &address.sin_addr) != 1) {
    return absl::InvalidArgumentError("not an IPv4 address: " + host);
  }
  UniqueFd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!fd.valid()) return ErrnoError(errno, "creating", "a socket");
  if (connect(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0) {
    return Lost(errno, "connecting to", absl::StrCat(host, ":", port), "is the server running?");
  }
  const int one = 1;
  setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
  return fd;
}

absl::Status MessageStream::Connect(const std::string& host, uint16_t port) {
  PULSE_ASSIGN_OR_RETURN(fd_, ConnectTcp(host, port));
  out_.clear();
  in_.clear();
  sent_ = taken_ = 0;
  return absl::OkStatus();
}

absl::Status MessageStream::Send() {
  while (sent_ < out_.size()) {
    const ssize_t n = send(fd_.get(), out_.data() + sent_, out_.size() - sent_, MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == EAGAIN) return absl::OkStatus();
    if (n < 0) return Lost(errno, "sending", "requests");
    sent_ += static_cast<size_t>(n);
  }
  out_.clear();
  sent_ = 0;
  return absl::OkStatus();
}

absl::Status MessageStream::Receive() {
  in_.erase(0, taken_);
  taken_ = 0;
  const size_t had = in_.size();
  in_.resize(had + kReceive);
  ssize_t n;
  do {
    n = recv(fd_.get(), in_.data() + had, kReceive, 0);
  } while (n < 0 && errno == EINTR);
  const int err = errno;
  in_.resize(had + static_cast<size_t>(std::max<ssize_t>(n, 0)));
  if (n == 0) return absl::UnavailableError(name_ + ": the server closed the connection");
  if (n < 0 && err != EAGAIN) return Lost(err, "receiving", "replies");
  return absl::OkStatus();
}

absl::Status ConnectAgain(const std::function<absl::Status()>& connect) {
  const int64_t until = NowNanos() + kGiveUpNanos;
  while (true) {
    const absl::Status st = connect();
    if (st.ok() || NowNanos() > until) return st;
    usleep(kPauseMicros);
  }
}

}  // namespace pulse::examples
