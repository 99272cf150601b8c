#include "services/redis/offload_choice.h"

#include <algorithm>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "base/cpu_list.h"

namespace pulse::redis {
namespace {

// The agent reads the database's files as plain ones.
bool TablesAreInPool(const std::string& uri) {
  return uri.find("layout=pool") != std::string::npos;
}

std::vector<int> InBoth(std::vector<int> a, std::vector<int> b) {
  std::sort(a.begin(), a.end());
  std::sort(b.begin(), b.end());
  std::vector<int> both;
  std::set_intersection(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(both));
  return both;
}

OffloadChoice ChooseByCpus(const OffloadFacts& facts) {
  if (facts.agent_cpus.empty()) {
    return {false, "the agent has no CPUs of its own: --agent-cpus is not given"};
  }
  const bool given = !facts.server_cpus.empty();
  const std::vector<int>& server = given ? facts.server_cpus : facts.process_cpus;
  if (server.empty()) return {false, "the server's CPUs are not known: --cpus is not given"};
  const std::vector<int> shared = InBoth(server, facts.agent_cpus);
  if (!shared.empty()) {
    return {false, absl::StrCat("the agent has no CPUs of its own: the server may use ",
                                FormatCpuList(shared), ", too (",
                                given ? "--cpus" : "--cpus is not given", ")")};
  }
  return {true, absl::StrCat("the agent has CPUs of its own: ", FormatCpuList(facts.agent_cpus))};
}

}  // namespace

absl::StatusOr<OffloadChoice> ChooseOffload(const OffloadFacts& facts) {
  if (facts.mode == OffloadMode::kOff) return OffloadChoice{false, "--offload off"};
  const bool asked = facts.mode == OffloadMode::kOn;
  if (TablesAreInPool(facts.uri)) {
    if (!asked) return OffloadChoice{false, "an agent cannot read tables in a pool"};
    return absl::InvalidArgumentError(
        absl::StrCat("--offload on: the agent cannot read tables in a pool (--uri ", facts.uri,
                     "); leave layout=pool out, or give --offload off"));
  }
  if (facts.separate_agent) {
    if (!asked) return OffloadChoice{false, "--host-socket is for an agent of its own"};
    return absl::InvalidArgumentError(
        "--host-socket is for an agent of its own, and --offload on is another one: neither would "
        "know what is written through the other; give one of the two");
  }
  if (asked) return OffloadChoice{true, "--offload on"};
  return ChooseByCpus(facts);
}

std::string DescribeDefaultOffload(const std::vector<int>& process_cpus) {
  if (process_cpus.size() < 2) {
    return "off by default: there is no second CPU for an agent in front of the server";
  }
  const std::vector<int> server(process_cpus.begin(), process_cpus.end() - 1);
  return absl::StrCat("off by default, on where the agent has CPUs of its own, as with --cpus ",
                      FormatCpuList(server), " --agent-cpus ", process_cpus.back());
}

}  // namespace pulse::redis
