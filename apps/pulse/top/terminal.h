// A terminal taken over for a picture that is drawn anew in place: alternate screen, no cursor,
// keys one by one. It is given back in its former state by the destructor, which also runs when a
// signal asks the program to end; and for as long as the program is stopped (Ctrl-Z).
//
// One at a time, main thread only; no other thread may be running, since signals are blocked and
// read from a descriptor.
#pragma once

#include <termios.h>

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/unique_fd.h"

namespace pulse::top {

class Terminal {
 public:
  // Standard input and output must be terminals.
  static absl::StatusOr<std::unique_ptr<Terminal>> Open();
  ~Terminal();
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;

  struct Size {
    size_t width = 80;
    size_t height = 24;
  };
  static Size SizeOf(int fd);

  void Draw(const std::vector<std::string>& lines);

  enum class Event { kTime, kQuit, kResized };
  // Until `timeout_ms` have passed (kTime), somebody asks to end (q, Ctrl-C, a signal, or the
  // terminal is gone), or the picture must be drawn again.
  Event Wait(int timeout_ms);
  // The signal that asked to end, 0 if it was a key or Ctrl-C.
  int signal() const { return signal_; }

 private:
  Terminal() = default;
  void Enter();
  void Leave();
  bool HandleSignal(Event* event);

  termios before_{};
  UniqueFd signals_;
  bool entered_ = false;
  int signal_ = 0;
};

// Whether the user's character set has block characters.
bool HasUnicode();

}  // namespace pulse::top
