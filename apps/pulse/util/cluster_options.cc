#include "apps/pulse/util/cluster_options.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/errors.h"

namespace pulse {
namespace {

using redis::Cluster;
using redis::kSlots;
using redis::SlotRange;

constexpr int kMostParts = 1024;
constexpr int kMostNodes = 256;  // of a process: threads

// One process of --cluster-members.
struct Process {
  std::string host;
  int port = 0;
  int nodes = 1;
};

absl::Status BadMember(absl::string_view text, absl::string_view why) {
  return absl::InvalidArgumentError(absl::StrCat("--cluster-members '", text, "': ", why,
                                                 "; expected HOST:PORT or HOST:PORT/NODES"));
}

bool IsHost(absl::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) {
    return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '.' || c == '-' || c == '_' ||
           c == ':';
  });
}

absl::StatusOr<Process> ReadProcess(absl::string_view text) {
  Process process;
  const std::vector<absl::string_view> parts = absl::StrSplit(text, '/');
  const size_t colon = parts[0].rfind(':');
  if (parts.size() > 2 || colon == absl::string_view::npos) return BadMember(text, "no address");
  absl::string_view host = parts[0].substr(0, colon);
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') {
    host = host.substr(1, host.size() - 2);
  }
  if (!IsHost(host)) return BadMember(text, "no host");
  process.host = std::string(host);
  if (parts.size() == 2 && (!absl::SimpleAtoi(parts[1], &process.nodes) || process.nodes < 1 ||
                            process.nodes > kMostNodes)) {
    return BadMember(text, absl::StrCat("a process has 1 to ", kMostNodes, " nodes"));
  }
  if (!absl::SimpleAtoi(parts[0].substr(colon + 1), &process.port) || process.port < 1 ||
      process.port + process.nodes - 1 > UINT16_MAX) {
    return BadMember(text, "no port");
  }
  return process;
}

absl::StatusOr<ClusterShare> ReadMembers(const std::string& list, const std::string& host,
                                         uint16_t port, int nodes) {
  std::vector<Process> processes;
  for (const absl::string_view text : absl::StrSplit(list, ',')) {
    PULSE_ASSIGN_OR_RETURN(const Process process, ReadProcess(text));
    processes.push_back(process);
  }
  const int count = static_cast<int>(processes.size());
  if (count < 2 || count > kMostParts) {
    return absl::InvalidArgumentError(
        absl::StrCat("--cluster-members: ", count, " processes; expected 2 to ", kMostParts));
  }
  ClusterShare share;
  bool own = false;
  for (int i = 0; i < count; ++i) {
    const Process& process = processes[static_cast<size_t>(i)];
    const SlotRange slots = SlotRange{}.Piece(i, count);
    if (process.nodes > slots.size()) return BadMember(process.host, "more nodes than slots");
    for (int node = 0; node < process.nodes; ++node) {
      const SlotRange piece = slots.Piece(node, process.nodes);
      Cluster::Member member;
      member.host = process.host;
      member.port = static_cast<uint16_t>(process.port + node);
      member.id = redis::NodeIdOf(member.host, member.port);
      member.first_slot = piece.first;
      member.last_slot = piece.last;
      for (const Cluster::Member& other : share.members) {
        if (other.id != member.id) continue;
        return absl::InvalidArgumentError(
            absl::StrCat("--cluster-members: ", member.host, ":", member.port, " is there twice"));
      }
      share.members.push_back(std::move(member));
    }
    if (process.host != host || process.port != port) continue;
    own = true;
    share.slots = slots;
    if (process.nodes != nodes) {
      return absl::InvalidArgumentError(
          absl::StrCat("--cluster-members: ", host, ":", port, " has ", process.nodes,
                       process.nodes == 1 ? " node" : " nodes", ", and this is it, with --threads ",
                       nodes, ": they have to be the same"));
    }
  }
  if (own) return share;
  return absl::InvalidArgumentError(
      absl::StrCat("--cluster-members: this process, ", host, ":", port,
                   ", is not in it; see --announce-host, --bind and --port"));
}

absl::StatusOr<SlotRange> ReadPart(const std::string& text, int nodes) {
  const std::vector<absl::string_view> numbers = absl::StrSplit(text, '/');
  int part = 0;
  int parts = 0;
  if (numbers.size() != 2 || !absl::SimpleAtoi(numbers[0], &part) ||
      !absl::SimpleAtoi(numbers[1], &parts) || part < 1 || part > parts || parts > kMostParts) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--cluster-part '", text, "': expected K/N, such as 2/3, with N of at most ", kMostParts));
  }
  const SlotRange slots = SlotRange{}.Piece(part - 1, parts);
  if (nodes > slots.size()) {
    return absl::InvalidArgumentError(absl::StrCat("--cluster-part ", text, ": it has ",
                                                   slots.size(), " slots, too few for --threads ",
                                                   nodes));
  }
  return slots;
}

}  // namespace

void AddClusterOptions(CLI::App* cmd, ClusterArgs* args) {
  cmd->add_flag("--cluster", args->cluster,
                "each thread is a node of a Redis Cluster: it has a part of the slots, and a TCP\n"
                "port, the first --port and the others those that follow");
  cmd->add_option("--cluster-part", args->part,
                  "as K/N: this process has the Kth of N parts of the slots; processes with the\n"
                  "other parts are found in etcd (--etcd), below the same --etcd-prefix");
  cmd->add_option("--cluster-members", args->members,
                  "instead, without etcd: all processes of the cluster, as HOST:PORT/THREADS,...,\n"
                  "in the same order for each of them; they have equal parts of the slots");
  cmd->add_option("--announce-host", args->announce_host,
                  "where clients are told to find this server (default: --bind)");
}

absl::StatusOr<ClusterShare> ReadClusterShare(const ClusterArgs& args, const std::string& host,
                                              uint16_t port, int nodes, bool has_etcd) {
  if (args.part.empty() && args.members.empty()) return ClusterShare{};
  const char* given = args.part.empty() ? "--cluster-members" : "--cluster-part";
  if (!args.cluster) {
    return absl::InvalidArgumentError(absl::StrCat(given, ": it needs --cluster"));
  }
  if (!args.part.empty() && !args.members.empty()) {
    return absl::InvalidArgumentError(
        "--cluster-part and --cluster-members: the one finds the other processes in etcd, the "
        "other one lists them; leave one of them out");
  }
  if (!args.members.empty()) return ReadMembers(args.members, host, port, nodes);
  if (!has_etcd) {
    return absl::InvalidArgumentError(
        "--cluster-part: the other processes are found in etcd: give --etcd, or list them all by "
        "--cluster-members");
  }
  PULSE_ASSIGN_OR_RETURN(const SlotRange slots, ReadPart(args.part, nodes));
  return ClusterShare{slots, {}};
}

}  // namespace pulse
