// For the director's tests: a protocol of lines, a client, and a host that one can stop.
//
// Requests are lines. "a..." is answered by the agent at once, "l..." by it later from another
// thread, "h..." by the host, "o..." (one way) goes to the host, which does not answer it; "n:K..."
// goes to the host, which answers with K lines; "p..." is forwarded at the end of the turn, behind
// all events; at "w..." the loop waits for `go_on`; "k..." is answered by "kept" and then left open
// until `close_kept` closes its connection; "s..." is answered as "l...", and the next one is taken
// only then; "r:N" is answered by N letters, once all connections
// have room for so many or it is its turn; "bad" is malformed, "quit" closes.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/unique_fd.h"
#include "net/address.h"
#include "net/application.h"
#include "net/director.h"

namespace pulse::net::test {

// Answers later, from its own thread, in random order.
class LateAnswers {
 public:
  explicit LateAnswers(uint64_t seed) : random_(seed), thread_([this] { Run(); }) {}
  ~LateAnswers();
  void Add(std::function<void()> answer);

 private:
  void Run();
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::function<void()>> waiting_;
  std::mt19937_64 random_;
  bool stop_ = false;
  std::thread thread_;
};

class LineApplication : public Application {
 public:
  explicit LineApplication(uint64_t seed = 1) : late(seed) {}
  std::unique_ptr<Flow> NewFlow(Connection* connection) override;
  Ordering ordering() const override { return order; }

  Ordering order = Ordering::kRequest;
  std::string preface;        // a line; the host answers it by one that must be "+preface"
  bool asks_at_once = false;  // whether it may exceed the room, before it knows that it lacks any
  std::string reply_suffix;   // of the agent's answers: makes them long
  std::atomic<int> flows{0};
  std::atomic<int> host_closed{0};
  bool close_with_host = false;         // the client gets "-closed" when the host's connection ends
  std::atomic<int> given_too_early{0};  // requests behind an "s..." without an answer
  std::atomic<bool> waits{false};
  std::atomic<bool> go_on{false};
  std::function<void()> close_kept;  // to be called once "kept" has come
  // "P" for each preface, "C" for each end of a connection to the host.
  std::mutex host_calls_mutex;
  std::string host_calls;
  LateAnswers late;
};

// A blocking client.
class TestClient {
 public:
  explicit TestClient(uint16_t port);
  explicit TestClient(const std::string& address);
  bool ok() const { return fd_.valid(); }
  bool Send(std::string_view bytes);
  // The next line without its end; "EOF" at the end of the stream, "RESET" for an error.
  std::string Line();
  std::string Ask(std::string_view line);
  void EndSending();
  void Reset();
  int fd() const { return fd_.get(); }

 private:
  UniqueFd fd_;
  std::string in_;
};

// A host: answers "X" by "hostX", once per line, in order. Threads; may be stopped and started on
// the same port.
class TestHost {
 public:
  TestHost();
  ~TestHost() { Stop(); }
  void Start();
  void Stop();  // cuts all connections
  std::string address() const;
  // Does not read while true.
  std::atomic<bool> frozen{false};
  std::atomic<bool> swallow{false};  // reads but does not answer
  std::atomic<uint64_t> lines{0};
  std::atomic<int> connections{0};

 private:
  void Serve(int fd);
  bool Answer(int fd, const std::string& line);
  uint16_t port_ = 0;
  UniqueFd listener_;
  std::atomic<bool> stop_{false};
  std::thread accepting_;
  std::mutex mutex_;
  std::vector<std::thread> threads_;
  std::vector<int> open_;
};

}  // namespace pulse::net::test
