// Neighbours: processes that keep a processor busy and do nothing else, as whoever shares it would.
//
// One thread's. Make them before there is any other thread: they are forked. They end with this
// object, or with the process.
#pragma once

#include <sys/types.h>

#include <vector>

#include "absl/status/status.h"
#include "nlohmann/json.hpp"

namespace pulse::bench {

class Neighbours {
 public:
  Neighbours() = default;
  ~Neighbours();
  Neighbours(const Neighbours&) = delete;
  Neighbours& operator=(const Neighbours&) = delete;

  // They stand still until they are wanted.
  absl::Status Make(int number, const std::vector<int>& cpus);
  // The first `number` of them work, the others stand still.
  void Work(int number) const;
  // Those that a job's parent wants for all of it: "neighbours" at work on "neighbours_cpus".
  absl::Status WorkAsAsked(const nlohmann::json& spec);

 private:
  std::vector<pid_t> pids_;
};

}  // namespace pulse::bench
