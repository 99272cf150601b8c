// Mailbox: work for a loop from other threads, and news of its local connections. Outlives the
// loop. Thread-safe but for MaySleep and Take, which are the loop's.
#pragma once

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

  // Whether there is nothing. Then the next that comes wakes the loop, by wake_fd(), which one that
  // looks before it sleeps looks at, too; a busy loop finds what there is at its next Take.
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
  UniqueFd wake_;
};

}  // namespace pulse::net
