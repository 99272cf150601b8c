#include "bench/macro/graph/merge_agent.h"

#include <fcntl.h>
#include <sys/mman.h>

#include <chrono>
#include <cstring>
#include <ctime>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/clock.h"
#include "base/errors.h"
#include "base/file_calls.h"
#include "base/private_memory.h"
#include "base/sibling_program.h"

namespace pulse::bench {

absl::StatusOr<std::unique_ptr<MergeAgentProcess>> MergeAgentProcess::Start(const std::string& dir,
                                                                            int cpu) {
  std::unique_ptr<MergeAgentProcess> agent(new MergeAgentProcess);
  agent->socket_ = absl::StrCat(dir, "/graph-agent.sock");
  std::vector<std::string> words = {"agent",   "--socket",       agent->socket_,
                                    "--graph", "--graph-memory", "4096"};
  if (cpu >= 0) words.insert(words.end(), {"--cpus", absl::StrCat(cpu)});
  const std::string log = absl::StrCat(dir, "/graph-agent.log");
  PULSE_RETURN_IF_ERROR(agent->process_.Start(words, {}, log, SiblingProgram("pulse")));
  agent->merger_ = std::make_unique<graph::engines::AgentMerger>(
      graph::engines::AgentMergerOptions{agent->socket_});
  const int64_t limit = NowNanos() + 30'000'000'000;
  while (true) {
    const absl::Status connected = agent->merger_->Connect();
    if (connected.ok()) return agent;
    if (NowNanos() > limit || !agent->process_.Runs()) {
      return absl::Status(connected.code(), absl::StrCat(connected.message(), "; see ", log));
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
}

int64_t MergeAgentProcess::CpuNanos() const {
  clockid_t clock;
  return clock_getcpuclockid(process_.pid(), &clock) == 0 ? ClockNanos(clock) : 0;
}

absl::StatusOr<SharedRun> ShareRun(const std::string& bytes) {
  SharedRun run;
  run.file = UniqueFd(memfd_create("pulse-bench-run", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!run.file.valid()) return ErrnoError(errno, "making memory for", "a run");
  PULSE_RETURN_IF_ERROR(WriteAt(run.file.get(), bytes, 0, "a run of the benchmark"));
  if (fcntl(run.file.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE) != 0) {
    return ErrnoError(errno, "sealing", "a run of the benchmark");
  }
  void* at = mmap(nullptr, bytes.size(), PROT_READ, MAP_SHARED | MAP_POPULATE, run.file.get(), 0);
  if (at == MAP_FAILED) return ErrnoError(errno, "mapping", "a run of the benchmark");
  auto memory = std::make_shared<MappedMemory>(static_cast<char*>(at), Unmap{bytes.size()});
  graph::RunBytes mapped;
  mapped.data = memory->get();
  mapped.size = bytes.size();
  mapped.name = "a run of the benchmark";
  mapped.owner = std::move(memory);
  PULSE_ASSIGN_OR_RETURN(run.reader, graph::RunReader::Open(std::move(mapped)));
  return run;
}

absl::StatusOr<std::unique_ptr<ArenaSink>> ArenaSink::Create(uint64_t bytes) {
  PULSE_ASSIGN_OR_RETURN(Region region, Region::CreateShared(bytes));
  region.Populate();
  return std::unique_ptr<ArenaSink>(new ArenaSink(std::move(region)));
}

char* ArenaSink::Window(uint64_t offset, uint64_t size) {
  return offset <= region_.size() && size <= region_.size() - offset ? region_.data() + offset
                                                                     : nullptr;
}

absl::Status ArenaSink::Append(absl::string_view bytes) {
  if (bytes.size() > region_.size() - used_) {
    return absl::ResourceExhaustedError("the benchmark's memory is too small for a run");
  }
  char* const to = region_.data() + used_;
  if (bytes.data() != to) std::memcpy(to, bytes.data(), bytes.size());
  used_ += bytes.size();
  return absl::OkStatus();
}

}  // namespace pulse::bench
