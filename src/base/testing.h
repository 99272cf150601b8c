// What the unit tests share: a printed seed, waiting for a condition, scratch files, counts of what
// a process holds. For tests only; nothing that ships includes this.
#pragma once

#include <dirent.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <future>
#include <random>
#include <string>
#include <thread>

#include "absl/status/status.h"

namespace pulse::testing_util {

#if defined(__SANITIZE_ADDRESS__)
inline constexpr bool kAddressSanitizer = true;
#else
inline constexpr bool kAddressSanitizer = false;
#endif

#if defined(__SANITIZE_THREAD__)
inline constexpr bool kThreadSanitizer = true;
#else
inline constexpr bool kThreadSanitizer = false;
#endif

inline std::string Text(const absl::Status& status) { return std::string(status.message()); }

// The seed of a random test: PULSE_TEST_SEED, or a fresh one. Printed, so that a failure repeats.
inline uint64_t TestSeed() {
  static const uint64_t seed = [] {
    const char* text = getenv("PULSE_TEST_SEED");
    const uint64_t s = text != nullptr ? strtoull(text, nullptr, 0) : std::random_device{}();
    printf("seed %llu (repeat with PULSE_TEST_SEED=%llu)\n", static_cast<unsigned long long>(s),
           static_cast<unsigned long long>(s));
    fflush(stdout);
    return s;
  }();
  return seed;
}

// What a sample begins with: PULSE_TEST_SAMPLE, or the seed. CI, whose seed stays the same, takes
// another sample with each commit.
inline uint64_t TestSample() {
  static const uint64_t sample = [] {
    const char* text = getenv("PULSE_TEST_SAMPLE");
    if (text == nullptr) return TestSeed();
    printf("sample %s (repeat with PULSE_TEST_SAMPLE=%s)\n", text, text);
    return uint64_t{strtoull(text, nullptr, 0)};
  }();
  return sample;
}

// `make test-long`: everything of what is otherwise taken as a sample, chosen by the seed.
inline bool LongTests() {
  const char* text = getenv("PULSE_TEST_LONG");
  return text != nullptr && text[0] == '1';
}

// Of a loop that takes `n` rounds: a third of them under a sanitizer, which makes each ten times as
// long and looks at the code, which is the same in all of them.
inline int Rounds(int n) {
  return (kAddressSanitizer || kThreadSanitizer) && !LongTests() ? (n + 2) / 3 : n;
}

// Waits until `condition()` holds; looks each `interval`, for what a look itself disturbs. The
// limit only turns a hang into a failure; no test measures it.
template <typename Condition>
bool Eventually(Condition condition,
                std::chrono::microseconds interval = std::chrono::microseconds(200)) {
  const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (!condition()) {
    if (std::chrono::steady_clock::now() > limit) return false;
    std::this_thread::sleep_for(interval);  // sleep: between looks at a condition
  }
  return true;
}

// What `take()` comes to stay at: for `looks` looks, 2 ms apart. What changes later is missed, so a
// test expects nothing of it that an earlier value could break.
template <typename Take>
auto SettledValue(Take take, int looks = 20) {
  auto last = take();
  int same = 0;
  Eventually(
      [&] {
        const auto now = take();
        same = now == last ? same + 1 : 0;
        last = now;
        return same >= looks;
      },
      std::chrono::milliseconds(2));
  return last;
}

// Whether `condition()` holds for a moment that is long enough for what must not come to show
// itself mostly. On a slow machine it finds less; it never fails for nothing.
template <typename Condition>
bool Stays(Condition condition) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(150);
  while (std::chrono::steady_clock::now() < end) {
    if (!condition()) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));  // sleep: between looks
  }
  return condition();
}

// A pause of random length, so that a fault meets its subject in any state. Whatever the length,
// the test must hold.
template <typename Random>
void RandomPause(Random* random, std::chrono::microseconds most) {
  const auto micros = (*random)() % static_cast<uint64_t>(most.count());
  // sleep: the moment of a fault is drawn at random
  std::this_thread::sleep_for(std::chrono::microseconds(micros));
}

// In a forked child whose memory others read: never returns; the child ends with its parent.
[[noreturn]] inline void StayUntilKilled(pid_t parent) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(0);
  while (true) pause();
}

// A clock that a test moves (NanosClock).
class TestClock {
 public:
  static int64_t Now() { return now_; }
  static void Advance(std::chrono::nanoseconds by) { now_ += by.count(); }

 private:
  static inline std::atomic<int64_t> now_{1};
};

// Whether `future` has no value yet, after a time that is long enough for one that must not come to
// show itself mostly. On a slow machine it finds less; it never fails for nothing.
template <typename T>
bool StaysBlocked(const std::future<T>& future) {
  // sleep: for what must not come
  return future.wait_for(std::chrono::milliseconds(150)) == std::future_status::timeout;
}

inline size_t OpenDescriptors() {
  size_t n = 0;
  DIR* dir = opendir("/proc/self/fd");
  if (dir == nullptr) return 0;
  while (readdir(dir) != nullptr) ++n;
  closedir(dir);
  return n - 3;  // ".", ".." and the directory itself
}

// Mappings of this process whose line in /proc/self/maps contains `name`.
inline size_t MappingsNamed(const std::string& name) {
  std::ifstream maps("/proc/self/maps");
  std::string line;
  size_t n = 0;
  while (std::getline(maps, line)) n += line.find(name) != std::string::npos;
  return n;
}

// While it lives, this process may open no further descriptor.
class NoMoreFiles {
 public:
  NoMoreFiles() {
    getrlimit(RLIMIT_NOFILE, &before_);
    // No number is free below the lowest free one. Not 0: poll(2) takes no more entries than this.
    const int lowest = dup(0);
    close(lowest);
    rlimit none = before_;
    none.rlim_cur = static_cast<rlim_t>(lowest);
    setrlimit(RLIMIT_NOFILE, &none);
  }
  NoMoreFiles(const NoMoreFiles&) = delete;
  NoMoreFiles& operator=(const NoMoreFiles&) = delete;
  ~NoMoreFiles() { setrlimit(RLIMIT_NOFILE, &before_); }

 private:
  rlimit before_{};
};

// "VmHWM" and the like, in bytes.
inline uint64_t ProcessMemory(const std::string& name) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with(name + ":")) return std::stoull(line.substr(name.size() + 1)) << 10;
  }
  return 0;
}

// A path for a scratch file below the working directory (ctest's build directory: a real file
// system, where /tmp may be a tmpfs). Removed with the object.
class ScratchPath {
 public:
  explicit ScratchPath(const std::string& name) {
    static std::atomic<int> counter{0};
    path_ = "./scratch-" + std::to_string(getpid()) + "-" + std::to_string(counter++) + "-" + name;
  }
  ScratchPath(const ScratchPath&) = delete;
  ScratchPath& operator=(const ScratchPath&) = delete;
  ~ScratchPath() { unlink(path_.c_str()); }

  const std::string& get() const { return path_; }
  const char* c_str() const { return path_.c_str(); }

 private:
  std::string path_;
};

}  // namespace pulse::testing_util
