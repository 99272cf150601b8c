// The rules of the barrier (docs/internals/lsm.md), apart from waiting and bookkeeping: pure, so
// that OutputRegistry applies, and barrier_model_test.cc exhausts, the same ones. `homes`: the
// directories of open databases, those whose LOCK is held.
#pragma once

#include <algorithm>
#include <set>
#include <string>

namespace pulse::lsm::barrier {

using Homes = std::set<std::string>;

// The barrier of directory `dir` waits for an output in directory `at`.
inline bool InScope(const Homes& homes, const std::string& dir, const std::string& at) {
  return at == dir || homes.count(at) == 0;
}

// The databases one of which is about to create an output in directory `at`. Empty: not known. A
// database creates outputs only while it is open.
inline Homes OwnersOf(const Homes& homes, const std::string& at) {
  return homes.count(at) != 0 ? Homes{at} : homes;
}

// Metadata in `dir` could name an output in `at` that one of `owners` created.
inline bool CouldBeNamed(const Homes& homes, const std::string& dir, const std::string& at,
                         const Homes& owners) {
  return homes.count(dir) == 0 || at == dir || owners.count(dir) != 0;
}

// The database in `dir` has just been closed, or is being opened, and is not in `homes`: nobody is
// left who could name an output that failed.
inline bool IsOrphan(const Homes& homes, const std::string& dir, const std::string& at,
                     const Homes& owners) {
  const auto open = [&](const std::string& home) { return homes.count(home) != 0; };
  return at == dir || (!owners.empty() && std::none_of(owners.begin(), owners.end(), open));
}

}  // namespace pulse::lsm::barrier
