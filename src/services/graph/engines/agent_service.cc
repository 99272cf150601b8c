#include "services/graph/engines/agent_service.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <exception>
#include <functional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "agent/session.h"
#include "base/background.h"
#include "base/clock.h"
#include "base/cpu_list.h"
#include "base/errors.h"
#include "base/file_calls.h"
#include "base/log.h"
#include "channel/handshake.h"
#include "services/graph/engines/wire.h"
#include "services/graph/runs/merge.h"

namespace pulse::graph::engines {
namespace {

constexpr uint64_t kReadPiece = uint64_t{4} << 20;
constexpr uint64_t kMostBuffer = uint64_t{64} << 20;
constexpr int64_t kProgressNanos = 200'000'000;
// An output that is mapped has at most twice the bytes of its inputs, and so many.
constexpr uint64_t kOutputSpare = uint64_t{64} << 20;

absl::StatusOr<uint64_t> SizeOfFile(int fd, absl::string_view what) {
  struct stat st;
  if (fstat(fd, &st) != 0) return ErrnoError(errno, "looking at", what);
  if (!S_ISREG(st.st_mode)) {
    return absl::InvalidArgumentError(absl::StrCat(what, " is no regular file"));
  }
  return static_cast<uint64_t>(st.st_size);
}

// One compaction, as it was ordered.
struct Order {
  struct Input {
    UniqueFd fd;
    uint64_t bytes;
    std::string name;
  };
  std::vector<Input> inputs;
  MergeOptions options;
  UniqueFd output;
};

absl::StatusOr<wire::Message> TakeMessage(int socket, UniqueFd* fd) {
  auto received = ReceiveMessage(socket, /*wait=*/false);
  if (!received.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat("the order of a compaction is not whole: ", received.status().message()));
  }
  if (received->fds_lost) {
    return ErrnoError(EMFILE, "the agent cannot take", "the files of a compaction",
                      kRaiseOpenFiles);
  }
  if (received->message.type != static_cast<uint32_t>(wire::MessageType::kService) ||
      received->fds.size() != 1) {
    return absl::InvalidArgumentError("a message of a compaction's order has one descriptor");
  }
  *fd = std::move(received->fds[0]);
  return received->message;
}

absl::StatusOr<Order> TakeOrder(int socket) {
  Order order;
  PULSE_ASSIGN_OR_RETURN(const wire::Message first, TakeMessage(socket, &order.output));
  const auto inputs = static_cast<uint32_t>(first.args[0]);
  const auto flags = static_cast<uint32_t>(first.args[0] >> 32);
  if (inputs == 0 || inputs > kMostInputs || (flags & ~kAllFlags) != 0) {
    return absl::InvalidArgumentError(absl::StrCat("a compaction of ", inputs, " runs with flags ",
                                                   flags, "; 1 to ", kMostInputs, " runs"));
  }
  MergeOptions& options = order.options;
  options.bottom = (flags & kBottom) != 0;
  options.check_copied = (flags & kCheckCopied) != 0;
  options.oldest_snapshot = first.args[1];
  options.first_node = first.args[2];
  options.last_node = first.args[3];
  options.rows_per_segment = static_cast<uint32_t>(first.args[4]);  // MergeRuns checks it
  options.buffer_bytes = std::clamp<uint64_t>((first.args[4] >> 32) << 10, 4096, kMostBuffer);
  options.executor.min_engine_bytes = static_cast<uint32_t>(first.args[5]);
  options.executor.max_piece_bytes = std::max<uint64_t>((first.args[5] >> 32) << 10, 1024);
  if ((fcntl(order.output.get(), F_GETFL) & O_ACCMODE) == O_RDONLY) {
    return absl::InvalidArgumentError("the output of a compaction is open for reading only");
  }
  PULSE_RETURN_IF_ERROR(SizeOfFile(order.output.get(), "the output of a compaction").status());
  for (uint32_t i = 0; i < inputs; ++i) {
    Order::Input input;
    PULSE_ASSIGN_OR_RETURN(const wire::Message message, TakeMessage(socket, &input.fd));
    input.bytes = message.args[0];
    input.name = TextOf(message);
    PULSE_ASSIGN_OR_RETURN(const uint64_t size, SizeOfFile(input.fd.get(), input.name));
    if (size < input.bytes) {
      return absl::InvalidArgumentError(
          absl::StrCat(input.name, " has ", size, " bytes, and not ", input.bytes));
    }
    order.inputs.push_back(std::move(input));
  }
  return order;
}

// Tells the host that the compaction goes on, and hears whether it still wants it.
class Line {
 public:
  Line(int socket, const std::atomic<bool>* stop) : socket_(socket), stop_(*stop) {}

  // So many more bytes were read or written. Cancelled: nobody waits for them.
  absl::Status Moved(uint64_t bytes) {
    moved_ += bytes;
    if (stop_) return absl::CancelledError("the agent is stopping");
    const int64_t now = NowNanos();
    if (now - told_at_ < kProgressNanos) return absl::OkStatus();
    told_at_ = now;
    const Progress progress{moved_};
    // A host that does not read has enough of them.
    if (send(socket_, &progress, sizeof(progress), MSG_NOSIGNAL | MSG_DONTWAIT) < 0 &&
        errno != EAGAIN && errno != EINTR) {
      return absl::CancelledError("the host has given the compaction up");
    }
    return absl::OkStatus();
  }

 private:
  const int socket_;
  const std::atomic<bool>& stop_;
  int64_t told_at_ = 0;
  uint64_t moved_ = 0;
};

// The output: written, or mapped where it is sealed memory of a fixed size, which copies then go
// into directly.
class OutputFile : public RunSink {
 public:
  OutputFile(int fd, SharedMappings* mappings, uint64_t most, Line* line,
             const std::function<void()>& before_write)
      : fd_(fd),
        window_(mappings->ForWriting(fd, most)),
        line_(*line),
        before_write_(before_write) {}
  char* Window(uint64_t offset, uint64_t size) override {
    return offset <= window_.size && size <= window_.size - offset ? window_.data + offset
                                                                   : nullptr;
  }
  absl::Status Append(absl::string_view bytes) override {
    if (before_write_) before_write_();
    if (window_.data == nullptr || bytes.data() != window_.data + size_) {
      PULSE_RETURN_IF_ERROR(WriteAt(fd_, bytes, size_, "the output of a compaction"));
    }
    size_ += bytes.size();
    return line_.Moved(bytes.size());
  }
  absl::Status Continue() override { return line_.Moved(0); }
  bool streams() const { return window_.data != nullptr; }
  uint64_t size() const { return size_; }

 private:
  const int fd_;
  const SharedMappings::Mapping window_;
  Line& line_;
  const std::function<void()>& before_write_;
  uint64_t size_ = 0;
};

using MemoryTaker = std::function<absl::StatusOr<std::shared_ptr<PrivateMemory>>(uint64_t bytes)>;

absl::StatusOr<RunBytes> TakeRun(const Order::Input& input, SharedMappings* mappings,
                                 const MemoryTaker& take_memory, Line* line) {
  RunBytes out;
  out.size = input.bytes;
  out.name = input.name;
  if (SharedMappings::Mapping mapping = mappings->ForReading(input.fd.get(), input.bytes);
      mapping.data != nullptr) {
    out.data = mapping.data;
    out.owner = std::move(mapping.owner);
    return out;
  }
  PULSE_ASSIGN_OR_RETURN(auto memory, take_memory(std::max<uint64_t>(input.bytes, 1)));
  for (uint64_t at = 0; at < input.bytes; at += kReadPiece) {
    const uint64_t n = std::min(kReadPiece, input.bytes - at);
    PULSE_ASSIGN_OR_RETURN(const size_t got, ReadAt(input.fd.get(), memory->data() + at, n, at,
                                                    "reading", input.name));
    if (got < n) return absl::DataLossError(absl::StrCat(input.name, " was cut short"));
    PULSE_RETURN_IF_ERROR(line->Moved(n));
  }
  out.data = memory->data();
  out.owner = std::move(memory);
  return out;
}

// Gives memory back that a compaction was allowed.
class MemoryGrant {
 public:
  explicit MemoryGrant(std::atomic<uint64_t>* used) : used_(*used) {}
  ~MemoryGrant() { used_ -= taken_; }
  bool Take(uint64_t bytes, uint64_t most) {
    uint64_t used = used_;
    do {
      if (bytes > most || used > most - bytes) return false;
    } while (!used_.compare_exchange_weak(used, used + bytes));
    taken_ = bytes;
    return true;
  }

 private:
  std::atomic<uint64_t>& used_;
  uint64_t taken_ = 0;
};

class MergeService : public Service {
 public:
  explicit MergeService(MergeAgent* agent) : agent_(agent), host_(agent->NewHost()) {}
  void OnDescriptor(SessionQueue* queue, const wire::Descriptor& d) override {
    queue->Complete({d.tag, -EOPNOTSUPP, d.opcode, d.file, 0});
  }
  void OnFile(uint32_t, UniqueFd) override {}
  absl::Status OnMessage(const wire::Message& message, std::vector<UniqueFd> fds,
                         wire::Message* /*ack*/) override {
    if (message.type != static_cast<uint32_t>(wire::MessageType::kService)) {
      return absl::UnimplementedError("the graph service has no such message");
    }
    if (shutdown_) return absl::UnavailableError("the session is ending");
    if (fds.size() != 1) {
      return absl::InvalidArgumentError("a compaction takes one descriptor, its socket");
    }
    return agent_->Start(host_, std::move(fds[0]));
  }
  void BeginShutdown() override { shutdown_ = true; }
  // What is under way uses nothing of the session's, and ends when its host has hung up.
  bool Drained() const override { return true; }

 private:
  MergeAgent* const agent_;
  const std::shared_ptr<MergeAgent::Host> host_;
  bool shutdown_ = false;
};

}  // namespace

MergeAgent::MergeAgent(MergeAgentOptions options)
    : options_(std::move(options)),
      mappings_(std::make_shared<MappingBudget>(options_.most_memory)),
      pool_("pulse-ag-graph", options_.threads) {}

MergeAgent::~MergeAgent() { stop_ = true; }

ServiceFactory MergeAgent::Factory() {
  return [this](Session*, FileEngine*) -> std::unique_ptr<Service> {
    return std::make_unique<MergeService>(this);
  };
}

absl::Status MergeAgent::Start(std::shared_ptr<Host> host, UniqueFd socket) {
  int domain = 0;
  int type = 0;
  socklen_t length = sizeof(domain);
  if (getsockopt(socket.get(), SOL_SOCKET, SO_DOMAIN, &domain, &length) != 0 ||
      getsockopt(socket.get(), SOL_SOCKET, SO_TYPE, &type, &length) != 0 || domain != AF_UNIX ||
      type != SOCK_SEQPACKET) {
    ++counters_.refused;
    return absl::InvalidArgumentError("a compaction's descriptor is no socket of packets");
  }
  const uint64_t here = counters_.running + counters_.waiting;
  if (host->under_way >= kMostOfSession ||
      here >= kMostOfThread * static_cast<uint64_t>(options_.threads)) {
    ++counters_.refused;
    return absl::ResourceExhaustedError(absl::StrCat("the agent has ", here, " compactions, ",
                                                     host->under_way.load(), " of this host"));
  }
  ++host->under_way;
  ++counters_.waiting;
  // std::function copies.
  const auto shared = std::make_shared<UniqueFd>(std::move(socket));
  pool_.Post(host.get(), [this, host, shared] {
    thread_local bool ready = false;
    if (!ready) EnterBackground(options_.idle_only, options_.cpus, "graph threads");
    ready = true;
    --counters_.waiting;
    ++counters_.running;
    Run(shared->get(), &host->mappings);
    --counters_.running;
    --host->under_way;
    *shared = UniqueFd();  // the last that the host hears
  });
  return absl::OkStatus();
}

absl::StatusOr<std::shared_ptr<PrivateMemory>> MergeAgent::TakeMemory(uint64_t bytes) {
  PrivateMemory memory;
  {
    const std::lock_guard lock(spare_mu_);
    // The smallest that is large enough, and not much too large.
    size_t best = spare_.size();
    for (size_t i = 0; i < spare_.size(); ++i) {
      const size_t size = spare_[i].size();
      if (size < bytes || size / 4 > bytes) continue;
      if (best == spare_.size() || size < spare_[best].size()) best = i;
    }
    if (best < spare_.size()) {
      memory = std::move(spare_[best]);
      spare_.erase(spare_.begin() + static_cast<std::ptrdiff_t>(best));
      spare_bytes_ -= memory.size();
    }
  }
  if (memory.data() == nullptr) {
    // An eighth more, so that the next run, which is a little larger, finds room in it.
    PULSE_ASSIGN_OR_RETURN(memory, PrivateMemory::Create(bytes + bytes / 8));
  }
  return std::shared_ptr<PrivateMemory>(new PrivateMemory(std::move(memory)),
                                        [this](PrivateMemory* used) {
                                          {
                                            const std::lock_guard lock(spare_mu_);
                                            spare_bytes_ += used->size();
                                            spare_.push_back(std::move(*used));
                                            while (spare_bytes_ > kMostSpare) {
                                              spare_bytes_ -= spare_.front().size();
                                              spare_.erase(spare_.begin());
                                            }
                                          }
                                          delete used;
                                        });
}

void MergeAgent::Run(int socket, SharedMappings* mappings) {
  const int64_t cpu = ThreadCpuNanos();
  Report report{};
  report.magic = kReportMagic;
  ++counters_.merges;
  const auto merge = [&]() -> absl::Status {
    if (stop_) return absl::CancelledError("the agent is stopping");
    PULSE_ASSIGN_OR_RETURN(const Order order, TakeOrder(socket));
    uint64_t bytes = 0;
    for (const Order::Input& input : order.inputs) {
      bytes += std::min(input.bytes, ~bytes);
    }
    MemoryGrant grant(&memory_);
    if (!grant.Take(bytes, options_.most_memory)) {
      return absl::ResourceExhaustedError(
          absl::StrCat("the runs have ", bytes, " bytes; the agent has ", options_.most_memory,
                       ", of which ", memory_.load(), " are in use (--graph-memory)"));
    }
    Line line(socket, &stop_);
    std::vector<std::shared_ptr<const RunReader>> runs;
    for (const Order::Input& input : order.inputs) {
      PULSE_ASSIGN_OR_RETURN(
          RunBytes run, TakeRun(
                            input, mappings, [this](uint64_t n) { return TakeMemory(n); }, &line));
      PULSE_ASSIGN_OR_RETURN(runs.emplace_back(), RunReader::Open(std::move(run)));
    }
    MergeOptions options = order.options;
    options.most_node_bytes = options_.most_memory;
    OutputFile output(order.output.get(), mappings, 2 * bytes + kOutputSpare, &line,
                      options_.before_write);
    InlineCopyOptions copies;
    // What is written to a file is read again at once.
    if (output.streams()) copies.stream_bytes = uint64_t{16} << 10;
    PULSE_ASSIGN_OR_RETURN(const auto engine, CreateInlineCopyEngine(copies));
    PULSE_ASSIGN_OR_RETURN(const MergeResult result,
                           MergeRuns(runs, options, engine.get(), &output));
    const MergeStats& s = result.stats;
    report.bytes = output.size();
    report.nodes_copied = s.nodes_copied;
    report.nodes_merged = s.nodes_merged;
    report.bytes_copied = s.bytes_copied;
    report.bytes_encoded = s.bytes_encoded;
    report.column_bytes_copied = s.column_bytes_copied;
    report.column_bytes_encoded = s.column_bytes_encoded;
    report.records_in = s.records_in;
    report.records_out = s.records_out;
    report.versions_dropped = s.versions_dropped;
    report.tombstones_dropped = s.tombstones_dropped;
    report.waited_ns = s.waited_ns;
    report.pieces = s.copies.pieces;
    report.plan_bytes = s.copies.bytes;
    report.engine_bytes = s.copies.engine_bytes;
    report.small_bytes = s.copies.small_bytes;
    report.fallback_bytes = s.copies.fallback_bytes;
    counters_.bytes_in += bytes;
    counters_.bytes_out += output.size();
    counters_.bytes_copied += s.bytes_copied + s.column_bytes_copied;
    counters_.bytes_encoded += s.bytes_encoded + s.column_bytes_encoded;
    return absl::OkStatus();
  };
  absl::Status status;
  try {
    status = merge();
  } catch (const std::exception& e) {  // the machine's memory
    status = absl::ResourceExhaustedError(absl::StrCat("a compaction in the agent: ", e.what()));
  }
  if (!status.ok()) ++counters_.failed;
  report.code = static_cast<int32_t>(status.code());
  const absl::string_view text = status.message().substr(0, sizeof(report.text) - 1);
  if (!text.empty()) std::memcpy(report.text, text.data(), text.size());
  report.cpu_ns = static_cast<uint64_t>(ThreadCpuNanos() - cpu);
  counters_.cpu_nanos += report.cpu_ns;
  // A host that reads nothing, and has no room for it, is not waited for.
  (void)send(socket, &report, sizeof(report), MSG_NOSIGNAL | MSG_DONTWAIT);
}

NumberGroup MergeNumbers(const MergeCounters& c) {
  using Kind = NumberKind;
  static constexpr NumberSpec kSpecs[] = {
      {"merges", Unit::kCount, Kind::kCounter, "pulse_graph_merges_total",
       "Compactions of graphs that hosts have given to the agent."},
      {"failed", Unit::kCount, Kind::kCounter, "pulse_graph_merges_failed_total",
       "Of them, those that failed, or that their host gave up."},
      {"refused", Unit::kCount, Kind::kCounter, "pulse_graph_merges_refused_total",
       "Compactions that were not taken, for lack of room."},
      {"running", Unit::kCount, Kind::kGauge, "pulse_graph_merges_running",
       "Compactions that threads work on."},
      {"waiting", Unit::kCount, Kind::kGauge, "pulse_graph_merges_waiting",
       "Compactions that wait for a thread."},
      {"bytes_in", Unit::kBytes, Kind::kCounter, "pulse_graph_merge_input_bytes_total",
       "Bytes of runs that were merged."},
      {"bytes_out", Unit::kBytes, Kind::kCounter, "pulse_graph_merge_output_bytes_total",
       "Bytes of runs that merges have made."},
      {"bytes_copied", Unit::kBytes, Kind::kCounter, "pulse_graph_merge_copied_bytes_total",
       "Of them, bytes copied as they were."},
      {"bytes_encoded", Unit::kBytes, Kind::kCounter, "pulse_graph_merge_encoded_bytes_total",
       "Of them, bytes merged and encoded anew."},
      {"cpu", Unit::kNanos, Kind::kCounter, "pulse_graph_merge_cpu_seconds_total",
       "CPU time of the agent's threads on them."}};
  return {"graph",
          {{&kSpecs[0], c.merges},
           {&kSpecs[1], c.failed},
           {&kSpecs[2], c.refused},
           {&kSpecs[3], c.running},
           {&kSpecs[4], c.waiting},
           {&kSpecs[5], c.bytes_in},
           {&kSpecs[6], c.bytes_out},
           {&kSpecs[7], c.bytes_copied},
           {&kSpecs[8], c.bytes_encoded},
           {&kSpecs[9], c.cpu_nanos}}};
}

}  // namespace pulse::graph::engines
