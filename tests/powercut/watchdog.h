// Watchdog: ends the program, with the stacks of all its threads, when something takes absurdly
// long. It turns a hang into a failure that can be read; nothing is measured with it.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

namespace pulse::powercut {

// A signal handler: the stack of the thread that it runs in, to standard error.
void PrintStack(int signal);

class Watchdog {
 public:
  // Dumps and aborts unless destroyed or fed within `limit`.
  explicit Watchdog(std::chrono::seconds limit);
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;

  // `what` begins now.
  void Feed(const std::string& what);

 private:
  void Run();

  const std::chrono::seconds limit_;
  std::mutex mu_;
  std::condition_variable cv_;
  bool stop_ = false;
  std::string what_;
  std::chrono::steady_clock::time_point due_;
  std::thread thread_;
};

}  // namespace pulse::powercut
