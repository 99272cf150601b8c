// MakerProcess: tells whether the process that has made an object is this one. A forked child has
// copies of its parent's objects, whose threads, events and files are not its own; where it
// destroys them, as at exit(), it has to leave those alone.
#pragma once

#include <sys/types.h>
#include <unistd.h>

namespace pulse {

class MakerProcess {
 public:
  bool IsThis() const { return getpid() == pid_; }

 private:
  const pid_t pid_ = getpid();
};

}  // namespace pulse
