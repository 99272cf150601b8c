#include "services/ops/dpdk/module/environment.h"

#include <rte_bus_vdev.h>
#include <rte_dev.h>
#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_log.h>
#include <sched.h>

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

namespace pulse::ops::dpdk {
namespace {

// Of the buffers of all devices, whose pages are touched when they are used only.
constexpr char kMegabytes[] = "512";

std::mutex log_mutex;
std::string log_text;

ssize_t KeepLog(void*, const char* text, size_t n) {
  const std::lock_guard lock(log_mutex);
  constexpr size_t kMost = 4096;
  if (log_text.size() > kMost) log_text.erase(0, log_text.size() - kMost / 2);
  log_text.append(text, n);
  return static_cast<ssize_t>(n);
}

int FirstCpu() {
  cpu_set_t mine;
  CPU_ZERO(&mine);
  if (sched_getaffinity(0, sizeof(mine), &mine) != 0) return 0;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(cpu, &mine)) return cpu;
  }
  return 0;
}

// DPDK binds the thread that calls this to a CPU: it is one that ends then.
int Initialise(std::vector<std::string> arguments) {
  int got = -1;
  std::thread([&] {
    std::vector<char*> pointers;
    pointers.reserve(arguments.size() + 1);
    for (std::string& argument : arguments) pointers.push_back(argument.data());
    const int count = static_cast<int>(pointers.size());
    pointers.push_back(nullptr);
    got = rte_eal_init(count, pointers.data());
  }).join();
  return got;
}

struct State {
  std::mutex mutex;
  bool begun = false;
  Outcome outcome = Outcome::kOk;
  std::string why;
  std::set<std::string> added;
};

State& TheState() {
  static State* const state = new State;  // as long as DPDK's own threads
  return *state;
}

}  // namespace

bool IsPciAddress(const std::string& name) {
  // [domain:]bus:device.function
  return name.find(':') != std::string::npos && name.find('.') != std::string::npos &&
         std::all_of(name.begin(), name.end(),
                     [](unsigned char c) { return std::isxdigit(c) != 0 || c == ':' || c == '.'; });
}

std::string TakeLog() {
  const std::lock_guard lock(log_mutex);
  std::string text;
  text.swap(log_text);
  std::replace(text.begin(), text.end(), '\n', ' ');
  while (!text.empty() && text.back() == ' ') text.pop_back();
  return text;
}

Outcome BeginEnvironment(const std::string& first, const std::string& device_class,
                         std::string& why) {
  State& state = TheState();
  const std::lock_guard lock(state.mutex);
  if (!state.begun) {
    state.begun = true;
    cookie_io_functions_t functions{};
    functions.write = KeepLog;
    FILE* const log = fopencookie(nullptr, "w", functions);
    if (log != nullptr) {
      setvbuf(log, nullptr, _IONBF, 0);
      rte_openlog_stream(log);
    }
    std::vector<std::string> arguments = {"pulse",
                                          "--no-huge",
                                          "--no-shconf",
                                          "--no-telemetry",
                                          "--iova-mode=va",
                                          "--log-level=*:error",
                                          "-m",
                                          kMegabytes,
                                          "--lcores=0@" + std::to_string(FirstCpu())};
    if (IsPciAddress(first)) {
      // Only what is named is touched. If its driver does not take it, its class has no device.
      arguments.insert(arguments.end(), {"-a", first + ",class=" + device_class});
      state.added.insert(first);
    } else {
      arguments.emplace_back("--no-pci");
    }
    if (Initialise(std::move(arguments)) < 0) {
      state.outcome = Outcome::kNoDevice;
      state.why = std::string("DPDK does not start: ") + rte_strerror(rte_errno);
      const std::string said = TakeLog();
      if (!said.empty()) state.why += " (" + said + ")";
    }
  }
  why = state.why;
  return state.outcome;
}

Outcome AddDevice(const std::string& name, const std::string& device_class, std::string& why) {
  State& state = TheState();
  const std::lock_guard lock(state.mutex);
  if (state.added.count(name) != 0) return Outcome::kOk;
  TakeLog();
  const int got = IsPciAddress(name)
                      ? rte_eal_hotplug_add("pci", name.c_str(), ("class=" + device_class).c_str())
                      : rte_vdev_init(name.c_str(), "");
  if (got != 0 && got != -EEXIST) {
    // -1 says nothing.
    why = std::string("DPDK has no driver for it") +
          (got == -1 ? "" : std::string(": ") + rte_strerror(-got));
    const std::string said = TakeLog();
    if (!said.empty()) why += " (" + said + ")";
    return Outcome::kNoDevice;
  }
  state.added.insert(name);
  return Outcome::kOk;
}

}  // namespace pulse::ops::dpdk
