#include "net/test_application.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/testing.h"
#include "net/byte_budget.h"

namespace pulse::net::test {
namespace {

class LineFlow : public Flow {
 public:
  LineFlow(LineApplication* app, Connection* connection) : app_(app), connection_(connection) {
    ++app_->flows;
  }
  ~LineFlow() override { --app_->flows; }

  absl::StatusOr<size_t> SplitRequest(std::string_view bytes) override {
    const size_t end = bytes.find('\n');
    if (bytes.substr(0, 3) == "bad") return absl::InvalidArgumentError("malformed");
    return end == std::string_view::npos ? 0 : end + 1;
  }
  absl::StatusOr<size_t> SplitReply(std::string_view bytes) override {
    const size_t end = bytes.find('\n');
    return end == std::string_view::npos ? 0 : end + 1;
  }

  void OnRequest(Ticket ticket, std::string_view bytes) override {
    const std::string line(bytes.substr(0, bytes.size() - 1));
    if (!takes_requests_) ++app_->given_too_early;
    switch (line.empty() ? ' ' : line[0]) {
      case 'h':
        connection_->Forward(ticket, bytes);
        return;
      case 'o':
        connection_->Forward(ticket, bytes, 0);
        return;
      case 'n':
        connection_->Forward(ticket, bytes, static_cast<uint32_t>(line[2] - '0'));
        return;
      case 'l':
        app_->late.Add([remote = connection_->remote(), c = connection_, ticket, line] {
          // In two parts, between which other requests may be answered.
          remote->Post([c, ticket] { c->ReplyPart(ticket, "late"); });
          remote->Post([c, ticket, line] { c->Reply(ticket, absl::StrCat(line, "\n")); });
        });
        return;
      case 's':
        takes_requests_ = false;
        app_->late.Add([this, remote = connection_->remote(), ticket, line] {
          remote->Post([this, ticket, line] {
            takes_requests_ = true;
            connection_->Reply(ticket, absl::StrCat(line, "\n"));
          });
        });
        return;
      case 'p':
        connection_->remote()->Post(
            [c = connection_, ticket, text = std::string(bytes)] { c->Forward(ticket, text); });
        return;
      case 'k':
        app_->close_kept = [remote = connection_->remote(), c = connection_] {
          remote->Post([c] { c->Close("closed\n"); });
        };
        connection_->ReplyPart(ticket, "kept\n");
        return;
      case 'w':
        app_->waits = true;
        testing_util::Eventually([&] { return app_->go_on.load(); });
        connection_->Reply(ticket, "went on\n");
        return;
      case 'b': {
        const std::string text = absl::StrCat("agent", line, "\n");
        auto buffer = connection_->buffers()->Take(line.size() + 1, 16);
        if (!buffer.has_value()) {
          connection_->Reply(ticket, text);
          return;
        }
        text.copy(buffer->data(), line.size() + 1, 5);
        text.copy(buffer->Prepend(5), 5);
        connection_->Reply(ticket, *std::move(buffer));
        return;
      }
      case 'r':
        large_ticket_ = ticket;
        large_bytes_ = std::stoul(line.substr(2));
        return;
      case 'q':
        connection_->Close("bye\n");
        return;
      default:
        connection_->Reply(ticket, absl::StrCat("agent", line, app_->reply_suffix, "\n"));
    }
  }
  void OnRequestsEnd() override {
    if (app_->asks_at_once) connection_->MayExceed();
  }
  bool takes_requests() const override { return takes_requests_; }
  bool lacks_room() const override { return large_bytes_ > 0; }
  void OnRoom() override {
    if (large_bytes_ == 0) return;
    if (!connection_->MayExceed() && !connection_->budget()->HasRoomFor(large_bytes_)) return;
    const std::string reply(std::exchange(large_bytes_, 0), 'r');
    connection_->Reply(large_ticket_, absl::StrCat(reply, "\n"));
  }
  std::string OnHostLost(Ticket ticket, bool sent) override {
    return sent ? "-lost sent\n" : "-lost unsent\n";
  }
  std::string ErrorReply(const absl::Status& error) override {
    return absl::StrCat("-error ", error.message(), "\n");
  }
  Preface HostPreface() override {
    if (app_->preface.empty()) return {};
    const std::lock_guard lock(app_->host_calls_mutex);
    app_->host_calls += "P";
    return {app_->preface, 1};
  }
  absl::Status OnPreface(std::string_view bytes) override {
    return bytes == "+preface\n" ? absl::OkStatus() : absl::InternalError("refused by the host");
  }
  void OnHostClosed() override {
    {
      const std::lock_guard lock(app_->host_calls_mutex);
      app_->host_calls += "C";
    }
    ++app_->host_closed;
    if (app_->close_with_host) connection_->Close("-closed\n");
  }

 private:
  LineApplication* const app_;
  Connection* const connection_;
  bool takes_requests_ = true;
  Ticket large_ticket_ = 0;
  size_t large_bytes_ = 0;  // of its reply, which has to wait
};

bool SendAll(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t n = send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    bytes.remove_prefix(static_cast<size_t>(n));
  }
  return true;
}

}  // namespace

LateAnswers::~LateAnswers() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

void LateAnswers::Add(std::function<void()> answer) {
  const std::lock_guard lock(mutex_);
  waiting_.push_back(std::move(answer));
  changed_.notify_one();
}

void LateAnswers::Run() {
  std::unique_lock lock(mutex_);
  while (!stop_) {
    changed_.wait(lock, [&] { return stop_ || !waiting_.empty(); });
    std::vector<std::function<void()>> now;
    now.swap(waiting_);
    lock.unlock();
    std::shuffle(now.begin(), now.end(), random_);
    for (const auto& answer : now) answer();
    lock.lock();
  }
}

std::unique_ptr<Flow> LineApplication::NewFlow(Connection* connection) {
  return std::make_unique<LineFlow>(this, connection);
}

TestClient::TestClient(uint16_t port) : TestClient(absl::StrCat("127.0.0.1:", port)) {}

TestClient::TestClient(const std::string& text) {
  const Address address = *ParseAddress(text);
  UniqueFd fd(socket(address.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  while (connect(fd.get(), address.get(), address.size) != 0) {
    if (errno != EINTR && errno != EAGAIN) return;
  }
  TuneSocket(fd.get(), 0);
  // A hang becomes a failure.
  const timeval limit{60, 0};
  setsockopt(fd.get(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
  fd_ = std::move(fd);
}

bool TestClient::Send(std::string_view bytes) { return SendAll(fd_.get(), bytes); }

std::string TestClient::Line() {
  while (true) {
    const size_t end = in_.find('\n');
    if (end != std::string::npos) {
      std::string line = in_.substr(0, end);
      in_.erase(0, end + 1);
      return line;
    }
    char bytes[65536];
    const ssize_t n = recv(fd_.get(), bytes, sizeof(bytes), 0);
    if (n < 0 && errno == EINTR) continue;
    if (n == 0) return "EOF";
    if (n < 0) return errno == EAGAIN ? "HANGS" : "RESET";
    in_.append(bytes, static_cast<size_t>(n));
  }
}

std::string TestClient::Ask(std::string_view line) {
  if (!Send(absl::StrCat(std::string(line), "\n"))) return "RESET";
  return Line();
}

void TestClient::EndSending() { shutdown(fd_.get(), SHUT_WR); }

void TestClient::Reset() {
  const linger now{1, 0};
  setsockopt(fd_.get(), SOL_SOCKET, SO_LINGER, &now, sizeof(now));
  fd_.reset();
}

TestHost::TestHost() {
  auto fd = Listen(*ParseAddress("127.0.0.1:0"), 4096);
  port_ = LocalAddress(fd->get()).port();
  listener_ = *std::move(fd);
  Start();
}

std::string TestHost::address() const { return absl::StrCat("127.0.0.1:", port_); }

void TestHost::Start() {
  stop_ = false;
  // Another program's connection may have the port for a while.
  PULSE_CHECK(testing_util::Eventually([&] {
    if (listener_.valid()) return true;
    auto fd = Listen(*ParseAddress(address()), 4096);
    if (fd.ok()) listener_ = *std::move(fd);
    return listener_.valid();
  }));
  accepting_ = std::thread([this] {
    while (!stop_) {
      pollfd p{listener_.get(), POLLIN, 0};
      if (poll(&p, 1, 10) <= 0) continue;
      const int fd = accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC);
      if (fd < 0) continue;
      ++connections;
      const std::lock_guard lock(mutex_);
      open_.push_back(fd);
      threads_.emplace_back([this, fd] { Serve(fd); });
    }
  });
}

void TestHost::Stop() {
  if (!accepting_.joinable()) return;
  stop_ = true;
  accepting_.join();
  listener_.reset();
  for (const int fd : open_) shutdown(fd, SHUT_RDWR);
  for (auto& t : threads_) t.join();
  for (const int fd : open_) close(fd);
  threads_.clear();
  open_.clear();
}

bool TestHost::Answer(int fd, const std::string& line) {
  ++lines;
  if (swallow || line[0] == 'o') return true;
  if (line == "hello") return SendAll(fd, "+preface\n");
  const int n = line[0] == 'n' ? line[2] - '0' : 1;
  for (int i = 0; i < n; ++i) {
    if (!SendAll(fd, absl::StrCat("host", line, "\n"))) return false;
  }
  return true;
}

void TestHost::Serve(int fd) {
  TuneSocket(fd, 0);
  std::string in;
  char bytes[65536];
  while (!stop_) {
    testing_util::Eventually([&] { return !frozen || stop_; });
    if (stop_) break;
    const ssize_t n = recv(fd, bytes, sizeof(bytes), 0);
    if (n <= 0) break;
    in.append(bytes, static_cast<size_t>(n));
    size_t begin = 0;
    for (size_t end; (end = in.find('\n', begin)) != std::string::npos; begin = end + 1) {
      if (!Answer(fd, in.substr(begin, end - begin))) return;
    }
    in.erase(0, begin);
  }
  shutdown(fd, SHUT_RDWR);
}

}  // namespace pulse::net::test
