// What the loop of a connection and the thread that carries out its messages share: messages in
// their order, interruptions, and how much waits for the client.
//
// One thread at a time works on a connection: Push says when one has to be found. Threads: as
// marked.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>

#include "net/application.h"

namespace pulse::bolt {

struct Incoming {
  net::Ticket ticket = 0;  // 0: not from the client, which has nothing to be answered
  std::string bytes;       // without chunks; empty: what the connection was doing was terminated
};

class Inbox {
 public:
  // `interrupt`: called outside of all locks with what SetRunning was given.
  explicit Inbox(std::function<void(const std::string& running)> interrupt)
      : interrupt_(std::move(interrupt)) {}

  // Any thread. True: nobody works on the connection, and somebody has to.
  bool Push(Incoming message) {
    std::string running;
    bool start = false;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      if (closed_) return false;
      if (IsReset(message.bytes)) {
        ++resets_;
        running = running_;
      }
      held_ += HeldBy(message);
      if (message.ticket == 0) ++terminations_;
      messages_.push_back(std::move(message));
      start = !std::exchange(working_, true);
    }
    changed_.notify_all();
    if (!running.empty()) interrupt_(running);
    return start;
  }
  // The client is gone. True: nobody works on the connection.
  bool Close() {
    std::string running;
    bool start = false;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      closed_ = true;
      running = running_;
      start = !std::exchange(working_, true);
    }
    changed_.notify_all();
    if (!running.empty()) interrupt_(running);
    return start;
  }
  // Bytes of messages that wait.
  size_t held() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return held_;
  }

  // For the thread that works on it, which stops unless there is a message. After kClosed nobody
  // works on the connection any more.
  enum class Next { kMessage, kRest, kClosed };
  Next PopOrStop(Incoming* message) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (closed_) return Next::kClosed;
    if (messages_.empty()) {
      working_ = false;
      return Next::kRest;
    }
    Take(message);
    return Next::kMessage;
  }
  bool Pop(Incoming* message) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (messages_.empty()) return false;
    Take(message);
    return true;
  }
  // The first message; null: there is none. Valid until it is popped.
  const Incoming* Peek() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return messages_.empty() ? nullptr : &messages_.front();
  }
  // Waits for a message. False: none came in time, or the connection is closed.
  bool Wait(std::chrono::milliseconds limit) {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait_for(lock, limit, [this] { return !messages_.empty() || closed_; });
    return !messages_.empty() && !closed_;
  }
  bool closed() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return closed_;
  }
  // A RESET is on its way, or the client is gone: what runs is to end.
  bool interrupted() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return closed_ || resets_ > 0;
  }
  // Returns how many are still to come.
  int DoneReset() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return --resets_;
  }
  // What a RESET ends; empty: nothing. It may have come already.
  void SetRunning(std::string running) {
    bool now = false;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      running_ = running;
      now = !running.empty() && (closed_ || resets_ > 0);
    }
    if (now) interrupt_(running);
  }

  // Bytes that are on their way to the client.
  void AddUnsent(size_t bytes) {
    const std::lock_guard<std::mutex> lock(mutex_);
    unsent_ += bytes;
  }
  void Sent(size_t bytes) {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      unsent_ -= bytes;
    }
    changed_.notify_all();
  }
  bool HasRoom(size_t most) const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return unsent_ <= most;
  }
  // Until there is room for more, or nobody wants it, or it is to end.
  void WaitForRoom(size_t most) {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock,
                  [&] { return unsent_ <= most || closed_ || resets_ > 0 || terminations_ > 0; });
  }

  static bool IsReset(std::string_view message) {
    return message.size() == 2 && message == std::string_view("\xB0\x0F", 2);
  }

 private:
  void Take(Incoming* message) {
    *message = std::move(messages_.front());
    messages_.pop_front();
    held_ -= HeldBy(*message);
    if (message->ticket == 0) --terminations_;
  }
  static size_t HeldBy(const Incoming& message) { return sizeof(message) + message.bytes.size(); }

  const std::function<void(const std::string&)> interrupt_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Incoming> messages_;
  size_t held_ = 0;
  size_t unsent_ = 0;
  int resets_ = 0, terminations_ = 0;
  bool working_ = false;
  bool closed_ = false;
  std::string running_;
};

}  // namespace pulse::bolt
