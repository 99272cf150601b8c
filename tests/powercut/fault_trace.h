// FaultTrace: one fixed life of a small database, with a fault at one position of it. Every step
// that fails is repaired as an operator would (the cause goes away, Resume, if need be a reopen)
// and done again, so that in the end all steps have succeeded and their effect is known.
//
// One at a time: it uses the simulated disk.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "powercut/faults.h"
#include "powercut/sim_disk.h"

namespace pulse::powercut {

struct Outcome {
  int hits = 0;
  std::string thread;  // that met the fault first
  std::vector<std::string> files;
  // What RocksDB said first, in order: failed operations, and errors that its listener heard of.
  std::vector<std::string> errors;
  int failed_steps = 0;
  int background_errors = 0;
  bool reopened = false;   // Resume did not do
  bool remounted = false;  // nor did opening the database anew: the pool had to be
  // "" or what must not be: a step that never succeeds, lost keys, a table that is named and
  // damaged.
  std::string problem;
  CallCount counts;

  template <typename Archive>
  void Visit(Archive& a) {
    a(hits, thread, files, errors, failed_steps, background_errors, reopened, remounted, problem);
    for (auto& row : counts.n) {
      for (int& n : row) a(n);
    }
  }
};

// Whose file system, and where its tables are.
enum class Setup { kStock, kFiles, kPool };
const char* NameOf(Setup setup);

// Runs it in `root`, which must exist and be empty.
Outcome RunFaultTrace(Setup setup, const Fault& fault, const std::string& root);

// The same in a child process and a directory of its own: a crash, or a hang, is then the problem
// of that outcome only. The caller must not have threads.
Outcome RunFaultTraceInChild(Setup setup, const Fault& fault);

}  // namespace pulse::powercut
