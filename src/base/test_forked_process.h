// A child of this process that has all of its open files open, too, and does nothing.
#pragma once

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/unique_fd.h"

namespace pulse::testing_util {

class ForkedProcess {
 public:
  ForkedProcess() {
    int ends[2];
    if (pipe(ends) != 0) {
      ADD_FAILURE() << "no pipe";
      return;
    }
    UniqueFd theirs(ends[0]);
    ours_ = UniqueFd(ends[1]);
    child_ = fork();
    if (child_ != 0) return;
    ours_.reset();
    char c;
    _exit(read(theirs.get(), &c, 1) == 0 ? 0 : 1);  // until the parent's end is closed
  }
  ~ForkedProcess() {
    ours_.reset();
    int status = -1;
    EXPECT_EQ(waitpid(child_, &status, 0), child_);
    EXPECT_EQ(status, 0);
  }
  ForkedProcess(const ForkedProcess&) = delete;
  ForkedProcess& operator=(const ForkedProcess&) = delete;

 private:
  UniqueFd ours_;
  pid_t child_ = -1;
};

}  // namespace pulse::testing_util
