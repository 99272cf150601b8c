// The command line of an example: `pulse-NAME serve` and `pulse-NAME load`, with the options that
// all examples have. Main thread only.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "examples/common/host.h"
#include "examples/common/load.h"

namespace pulse::examples {

class Program {
 public:
  // `name`: "blocks", of pulse-blocks.
  Program(const std::string& name, const std::string& description);

  // Add the options of the example's own to what these return. The options of all are in `options`,
  // which the functions may read and which live as long as the program.
  CLI::App* AddServe(const std::string& what, HostOptions* options,
                     std::function<absl::StatusOr<std::unique_ptr<Host>>()> open);
  // `writes`: the name of what is no read, in the output.
  CLI::App* AddLoad(const std::string& what, const char* writes, LoadOptions* options,
                    std::function<absl::StatusOr<LoadResult>()> run);

  // The exit code.
  int Run(int argc, char** argv);

 private:
  absl::Status Serve(HostOptions* options,
                     const std::function<absl::StatusOr<std::unique_ptr<Host>>()>& open) const;
  absl::Status Load(const LoadResult& result, const char* writes) const;
  void Finish(const absl::Status& status);

  const std::string name_;  // of the program
  CLI::App app_;
  uint16_t port_ = 0;
  std::string socket_;
  bool json_ = false;
  int exit_code_ = 0;
};

}  // namespace pulse::examples
