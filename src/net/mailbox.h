// Mailbox: work for a loop from other threads, and news of its local connections. Outlives the
// loop. Thread-safe but for MaySleep and Take, which are the loop's.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "base/unique_fd.h"

namespace pulse::net {

struct LocalConnection;

// Something happened to an end of a local connection.
struct LocalEvent {
  std::shared_ptr<LocalConnection> connection;
  int side = 0;
};

class Mailbox {
 public:
  bool Open();
  // False when the loop has ended: `work` is dropped.
  bool Push(std::function<void()> work);
  void Tell(LocalEvent event);

  // Whether there is something. Cheap: a loop that looks before it sleeps asks often.
  bool HasMail() const { return has_mail_.load(std::memory_order_relaxed); }
  // Whether there is nothing. Then the next that comes wakes the loop, by wake_fd(); a loop that
  // does not sleep finds what there is by HasMail, or at its next Take.
  bool MaySleep();
  // The loop sleeps no longer.
  void Woke();
  // Swaps in what there is; both are empty before.
  void Take(std::vector<std::function<void()>>* work, std::vector<LocalEvent>* events);
  // What comes later, and what is left, is dropped.
  void Close();
  int wake_fd() const { return wake_.get(); }

 private:
  void Wake();

  std::mutex mutex_;
  std::vector<std::function<void()>> work_;
  std::vector<LocalEvent> events_;
  bool closed_ = false;
  bool sleeps_ = false;
  std::atomic<bool> has_mail_{false};  // written with the mutex
  UniqueFd wake_;
};

}  // namespace pulse::net
