#include "net/mailbox.h"

#include <sys/eventfd.h>

#include <utility>

namespace pulse::net {

bool Mailbox::Open() {
  wake_ = UniqueFd(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  return wake_.valid();
}

void Mailbox::Wake() {
  has_mail_.store(true, std::memory_order_relaxed);
  if (std::exchange(sleeps_, false)) eventfd_write(wake_.get(), 1);
}

bool Mailbox::Push(std::function<void()> work) {
  const std::lock_guard lock(mutex_);
  if (closed_) return false;
  work_.push_back(std::move(work));
  Wake();
  return true;
}

void Mailbox::Tell(LocalEvent event) {
  const std::lock_guard lock(mutex_);
  if (closed_) return;
  events_.push_back(std::move(event));
  Wake();
}

bool Mailbox::MaySleep() {
  const std::lock_guard lock(mutex_);
  sleeps_ = work_.empty() && events_.empty();
  return sleeps_;
}

void Mailbox::Woke() {
  const std::lock_guard lock(mutex_);
  sleeps_ = false;
}

void Mailbox::Take(std::vector<std::function<void()>>* work, std::vector<LocalEvent>* events) {
  const std::lock_guard lock(mutex_);
  work_.swap(*work);
  events_.swap(*events);
  has_mail_.store(false, std::memory_order_relaxed);
}

void Mailbox::Close() {
  std::vector<std::function<void()>> work;  // destroyed without the lock
  std::vector<LocalEvent> events;
  const std::lock_guard lock(mutex_);
  closed_ = true;
  has_mail_.store(false, std::memory_order_relaxed);
  work.swap(work_);
  events.swap(events_);
}

}  // namespace pulse::net
