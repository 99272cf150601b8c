// deny_io_uring COMMAND ARGUMENTS...: runs COMMAND with io_uring_setup and epoll_pwait2 answering
// EPERM, as under a container's system call filter of some years ago.

#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <cstring>

namespace {

#if defined(__x86_64__)
constexpr unsigned kArch = AUDIT_ARCH_X86_64;
#elif defined(__aarch64__)
constexpr unsigned kArch = AUDIT_ARCH_AARCH64;
#else
#error "deny_io_uring: add this processor's AUDIT_ARCH value"
#endif

constexpr int kCannotRun = 125;

bool InstallFilter() {
  sock_filter code[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, arch)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, kArch, 0, 3),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_io_uring_setup, 2, 0),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_epoll_pwait2, 1, 0),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
  };
  sock_fprog program = {sizeof(code) / sizeof(code[0]), code};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    fprintf(stderr, "usage: deny_io_uring COMMAND [ARGUMENTS]\n");
    return 2;
  }
  if (!InstallFilter()) {
    fprintf(stderr, "deny_io_uring: cannot install the filter: %s\n", strerror(errno));
    return kCannotRun;
  }
  if (syscall(__NR_io_uring_setup, 1, nullptr) != -1 || errno != EPERM) {
    fprintf(stderr, "deny_io_uring: the filter does not filter\n");
    return kCannotRun;
  }
  execvp(argv[1], argv + 1);
  fprintf(stderr, "deny_io_uring: cannot run %s: %s\n", argv[1], strerror(errno));
  return kCannotRun;
}
