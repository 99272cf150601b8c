// `pulse bench files`: the file library against raw io_uring and pread on the same bytes, and with
// a further copy on the agent.
#include <signal.h>

#include <algorithm>

#include "base/errors.h"
#include "bench/macro/benchmarks.h"
#include "bench/macro/description.h"
#include "bench/macro/soak_agent.h"
#include "store/store.h"

namespace pulse::bench {
namespace {

// A new store, and the file in it, written through the library. Returns where its data lie: the raw
// readers read as many bytes from there on.
absl::StatusOr<uint64_t> PrepareFile(Session* session, const BenchArgs& args, uint64_t bytes) {
  const std::string path = session->dir().Sub("store");
  PULSE_RETURN_IF_ERROR(MakeStore(*session, bytes));
  PULSE_ASSIGN_OR_RETURN(auto agent, StartAgent(*session, {"--store", path}));
  PULSE_ASSIGN_OR_RETURN(
      auto filled, session->Step("writing the file",
                                 {{"job", "files-fill"},
                                  {"socket", agent->socket()},
                                  {"io", kStoreSegment},
                                  {"depth", 1},
                                  {"bytes", bytes},
                                  {"seed", args.common.seed}},
                                 session->host_cpus(),
                                 [](const nlohmann::json&) { return std::string("written"); }));
  agent->Signal(SIGTERM);
  agent->WaitForEnd();
  store::OpenOptions open;
  open.read_only = true;
  auto store = store::Store::Open(path, open);
  if (!store.ok()) return store.status();
  PULSE_ASSIGN_OR_RETURN(const auto id, (*store)->Lookup("bench", "data"));
  std::vector<store::Extent> extents;
  PULSE_RETURN_IF_ERROR((*store)->MapRead(id, 0, bytes, &extents));
  if (extents.size() != 1) return absl::InternalError("the file is in pieces on a new store");
  return extents.front().device_offset;
}

}  // namespace

absl::Status RunFilesBench(BenchArgs args) {
  PULSE_ASSIGN_OR_RETURN(
      const auto size,
      SizeOf(args.common, args.common.tiny ? uint64_t{8} << 20 : uint64_t{1} << 30));
  const uint64_t bytes = size / kStoreSegment * kStoreSegment;
  PULSE_ASSIGN_OR_RETURN(auto session, Session::Open(args, bytes * 5 / 4 + (uint64_t{64} << 20)));
  Session& s = *session;
  PULSE_RETURN_IF_ERROR(s.dir().Remove("agent.log"));
  const nlohmann::json& data = DataOf("files");
  const std::vector<Variant> readers = VariantsOf(data, s);
  PULSE_ASSIGN_OR_RETURN(auto parts, PartsOf(data, {}, readers));
  const std::string only = args.Get<std::string>("part");
  std::erase_if(parts, [&](const Part& part) {
    return (only != "all" && (only == "reads") != (part.name == "reads")) ||
           (args.common.tiny && part.data.value("full", false));
  });
  s.Say(Legend(s, readers));
  s.ExpectSteps(1 + RunsOf(parts) * s.rounds());
  const auto begin = PrepareFile(&s, args, bytes);
  if (!begin.ok()) return begin.status();
  s.report()["settings"]["bytes"] = bytes;
  uint64_t seed = args.common.seed;
  const auto run = [&](const Part& part, const Variant& o,
                       const std::string& label) -> absl::StatusOr<nlohmann::json> {
    const auto io = part.data.at("io").get<uint64_t>();
    const auto most = args.Get<uint64_t>("depth");
    // As many bytes outstanding as the rings hold well.
    const uint64_t depth =
        part.name == "reads" ? most : std::clamp<uint64_t>((uint64_t{4} << 20) / io, 4, most);
    nlohmann::json spec = {{"job", "files-read"},
                           {"how", o.name},
                           {"path", s.dir().Sub("store")},
                           {"begin", *begin},
                           {"bytes", bytes},
                           {"io", io},
                           {"depth", depth},
                           {"seconds", args.own.at("seconds")},
                           {"mover", args.own.at("mover")},
                           {"seed", ++seed}};
    std::unique_ptr<SoakAgent> agent;
    if (o.name.starts_with("library")) {
      std::vector<std::string> more = {"--store", s.dir().Sub("store")};
      if (o.name == "library-copying") more.push_back("--copy-payload");
      PULSE_ASSIGN_OR_RETURN(agent, StartAgent(s, std::move(more)));
      spec["socket"] = agent->socket();
      spec["agent_pid"] = agent->pid();
    }
    return s.Step(label, spec, s.host_cpus(), OpsAndHostCpu);
  };
  PULSE_RETURN_IF_ERROR(RunParts(&s, data, parts, run));
  return RemoveUnlessKept(s, {"store"});
}

}  // namespace pulse::bench
