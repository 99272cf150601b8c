// For tests: a process in which the kernel denies io_uring.
#pragma once

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <functional>
#include <iterator>

namespace pulse::testing_util {

// Denies io_uring_setup to this process: always, or for rings of just `entries`.
inline void DenyUring(uint32_t entries) {
  constexpr auto kNumber = static_cast<uint32_t>(offsetof(seccomp_data, nr));
  constexpr auto kEntries = static_cast<uint32_t>(offsetof(seccomp_data, args));
  constexpr uint32_t kDeny = SECCOMP_RET_ERRNO | EPERM;
  sock_filter filter[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, kNumber),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_io_uring_setup, 0, 3),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, kEntries),
      BPF_JUMP(BPF_JMP | (entries == 0 ? BPF_JGE : BPF_JEQ) | BPF_K, entries, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, kDeny),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  sock_fprog program{static_cast<unsigned short>(std::size(filter)), filter};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
      prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) {
    _exit(100);
  }
}

// What `run`, a number from 0 to 99, returns in such a process.
inline int WhereUringIsDenied(uint32_t entries, const std::function<int()>& run) {
  const pid_t child = fork();
  if (child == 0) {
    DenyUring(entries);
    _exit(run());
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

}  // namespace pulse::testing_util
