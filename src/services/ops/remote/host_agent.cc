#include "services/ops/remote/host_agent.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <chrono>
#include <cmath>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/errors.h"
#include "base/log.h"
#include "services/ops/placement_report.h"
#include "services/ops/remote/check.h"
#include "services/ops/remote/wire.h"

namespace pulse::ops::remote {
namespace {

// Of an engine, however many threads the agent has.
constexpr int kMostLanes = 64;
constexpr uint64_t kLeastRing = uint64_t{1} << 20;
constexpr uint64_t kMostRing = uint64_t{64} << 20;
// Data are so many times as large as what they were compressed to, as rings are sized.
constexpr uint64_t kUsualRatio = 4;
// Of the chunks that an agent has compressed or filtered, one in so many is decompressed or
// filtered again, and the first.
constexpr uint64_t kSampleEach = 64;
// The last report of a stream is awaited for so long: then the host may leave.
constexpr std::chrono::milliseconds kReportWait{250};

uint64_t RingFor(uint64_t message, uint64_t count) {
  // A message is at most half as long as its ring.
  const uint64_t bytes = std::max(2 * message, count * message);
  return std::clamp(std::bit_ceil(bytes), kLeastRing, kMostRing);
}

class RemoteEngine : public Engine {
 public:
  RemoteEngine(RemoteAgent* agent, std::unique_ptr<Line> line, uint32_t number, EngineOrder order,
               EngineTraits traits, EngineSupplier::MakeLocal local)
      : Engine(std::move(traits)),
        agent_(agent),
        line_(std::move(line)),
        number_(number),
        order_(std::move(order)),
        make_local_(std::move(local)) {}

  ~RemoteEngine() override {
    Prepare drop{};
    drop.number = number_;
    // If it does not arrive, the operator stays until the session ends.
    line_->Tell(MessageKind::kDrop, &drop, sizeof(drop));
    agent_->GiveBack(std::move(line_));
  }

  void Begin() override {
    interrupted_ = false;
    // An engine is kept for the next file, of which the first result is a sample, too.
    taken_ = 0;
  }
  void Interrupt() override {
    interrupted_ = true;
    line_->Wake();
  }

  void Explain(const PlacementReport& report) override {
    PlacementReport all = report;
    all.AddCountsOf(untold_);
    const auto side = [](const PlacementReport::OfSide& of) {
      const auto count = [](uint64_t n) { return std::min(n, kMostReported); };
      return Report::OfSide{
          count(of.chunks),  count(of.bytes),     count(of.redone), Bounded(of.rate, kMostRate),
          count(of.refused), count(of.discarded), count(of.lost),   count(of.busy_nanos)};
    };
    Report told{};
    told.operator_number = number_;
    told.placement = static_cast<uint8_t>(all.placement);
    told.ended = all.ended ? 1 : 0;
    told.host = side(all.of(Side::kHost));
    told.agent = side(all.of(Side::kAgent));
    told.whole = Bounded(all.whole, kMostRate);
    told.before_nanos = Bounded(static_cast<double>(all.most_before_nanos), kMostSetUp);
    // Where there is no room, the next report has these counts.
    const bool waits = all.ended && agent_->AnswersReports();
    const Line::Told got = line_->Tell(MessageKind::kReport, &told, sizeof(told),
                                       waits ? kReportWait : std::chrono::milliseconds(0));
    if (waits && got == Line::Told::kSent) agent_->ReportWasNotAnswered();
    untold_ = got == Line::Told::kNotSent ? all : PlacementReport();
  }

  absl::Status Process(int, const Chunk& chunk, Result& result) override {
    ChunkRequest request{};
    const absl::string_view input = chunk.input.view();
    if (input.size() > line_->most() - sizeof(request)) {
      return absl::UnimplementedError(absl::StrCat(
          "chunk ", chunk.number, " has ", input.size(), " bytes; this agent is sent at most ",
          line_->most() - sizeof(request), "; give the host CPUs with --cpus, so that it does it"));
    }
    request.number = chunk.number;
    request.offset = chunk.offset;
    request.prefix = chunk.prefix;
    request.bytes = input.size();
    request.tag = chunk.tag;
    request.operator_number = number_;
    request.crc = Crc32(input);
    request.checksum = chunk.checksum;
    request.kind = chunk.kind;
    request.last = chunk.last ? 1 : 0;
    const auto got = line_->Ask(MessageKind::kChunk, &request, sizeof(request),
                                {input.data(), input.size()}, &interrupted_);
    if (absl::IsCancelled(got.status())) return got.status();
    if (!got.ok()) return agent_->LostError(got.status().message());
    const absl::Status taken = Take(*got, result);
    line_->Release(*got);
    if (absl::IsResourceExhausted(taken) || absl::IsUnimplemented(taken)) {
      return absl::UnimplementedError(
          absl::StrCat("the agent cannot do chunk ", chunk.number, ": ", taken.message()));
    }
    // The answer makes no sense.
    if (absl::IsAborted(taken)) return agent_->LostError(taken.message());
    if (!taken.ok()) return Confirm(taken, chunk, result);
    const bool sample = taken_.fetch_add(1, std::memory_order_relaxed) % kSampleEach == 0;
    absl::Status checked = CheckResult(order_, chunk, sample, result);
    if (checked.ok() && sample && order_.kind == EngineOrder::Kind::kFilter) {
      // No checksum covers the choice of records, so the host makes the choice again.
      Result again;
      PULSE_RETURN_IF_ERROR(ProcessHere(chunk, again));
      if (again.count != result.count || again.payload() != result.payload()) {
        checked = absl::DataLossError("other records than those that match");
      }
    }
    if (checked.ok()) return absl::OkStatus();
    const std::string what = absl::StrCat("the agent at ", agent_->socket(), " answered chunk ",
                                          chunk.number, " with ", checked.message());
    if (const uint64_t all = taken_.load(std::memory_order_relaxed); sample && all > 1) {
      Log(LogLevel::kWarn, absl::StrCat(what, "; up to ", all - 1,
                                        " chunks that it did were taken without such a look: run "
                                        "this again without that agent"));
    }
    return agent_->LostError(what);
  }

 private:
  static uint64_t Bounded(double value, uint64_t most) {
    return static_cast<uint64_t>(std::llround(std::clamp(value, 0.0, static_cast<double>(most))));
  }

  // Copies the answer, then checks it. Aborted: it makes no sense. Else what the agent says.
  absl::Status Take(const Line::Answer& answer, Result& result) const {
    const absl::Status senseless = absl::AbortedError(
        absl::StrCat("the agent at ", agent_->socket(), " gave an answer that makes no sense"));
    if (answer.result < 0) {
      // Compared before it is negated: INT64_MIN has no opposite.
      if (answer.result < -static_cast<int64_t>(absl::StatusCode::kUnauthenticated)) {
        return senseless;
      }
      const int64_t code = -answer.result;
      const std::string text(answer.data, std::min(answer.bytes, kMostText));
      const auto said = static_cast<absl::StatusCode>(code);
      // Of the chunk, and not of the agent.
      const bool unusual = said == absl::StatusCode::kAborted ||
                           said == absl::StatusCode::kCancelled ||
                           said == absl::StatusCode::kUnavailable;
      return absl::Status(unusual ? absl::StatusCode::kInternal : said, text);
    }
    ChunkAnswer header;
    const auto bytes = static_cast<uint64_t>(answer.result);
    if (bytes < sizeof(header) || bytes > answer.bytes) return senseless;
    std::memcpy(&header, answer.data, sizeof(header));
    if (header.bytes != bytes - sizeof(header)) return senseless;
    result.Clear();
    result.bytes.Append(answer.data + sizeof(header), header.bytes);
    if (Crc32(result.bytes.view()) != header.crc) {
      return absl::AbortedError(
          absl::StrCat("the agent at ", agent_->socket(), " gave a result with another checksum"));
    }
    result.checksum = header.checksum;
    result.count = header.count;
    return absl::OkStatus();
  }

  // The agent says that a chunk is damaged, or the like. It may be wrong.
  absl::Status Confirm(const absl::Status& said, const Chunk& chunk, Result& result) {
    result.Clear();
    PULSE_RETURN_IF_ERROR(ProcessHere(chunk, result));
    return agent_->LostError(absl::StrCat("the agent at ", agent_->socket(), " failed chunk ",
                                          chunk.number, ", which is good: ", said.message()));
  }

  absl::Status ProcessHere(const Chunk& chunk, Result& result) {
    const std::lock_guard lock(local_mu_);
    if (local_ == nullptr) {
      EngineTraits traits{"confirm", Side::kHost, 1, {}};
      PULSE_ASSIGN_OR_RETURN(local_, make_local_(std::move(traits)));
    }
    return local_->Process(0, chunk, result);
  }

  RemoteAgent* const agent_;
  std::unique_ptr<Line> line_;
  const uint32_t number_;
  const EngineOrder order_;
  const EngineSupplier::MakeLocal make_local_;
  PlacementReport untold_;  // counts
  std::atomic<bool> interrupted_{false};
  std::atomic<uint64_t> taken_{0};  // results, since Begin
  std::mutex local_mu_;
  std::unique_ptr<Engine> local_;
};

}  // namespace

RemoteAgent::RemoteAgent(std::string socket, std::unique_ptr<MessageChannel> channel)
    : socket_(std::move(socket)), channel_(std::move(channel)) {
  const uint64_t threads = channel_->fact(0) & ((uint64_t{1} << kThreadBits) - 1);
  threads_ = static_cast<int>(std::clamp<uint64_t>(threads, 1, kMostLanes - 1));
}

RemoteAgent::~RemoteAgent() {
  channel_->Close();
  free_lines_.clear();
}

absl::StatusOr<std::shared_ptr<RemoteAgent>> RemoteAgent::Connect(const std::string& socket) {
  const LinkOptions link{.service = {kServiceId, kServiceVersion}, .socket_path = socket};
  PULSE_ASSIGN_OR_RETURN(
      auto channel,
      MessageChannel::Open(link, absl::StrCat("pulse agent --socket ", socket, " --ops")));
  return std::shared_ptr<RemoteAgent>(new RemoteAgent(socket, std::move(channel)));
}

absl::Status RemoteAgent::LostError(absl::string_view why) const {
  return absl::UnavailableError(absl::StrCat(
      why, "; with CPUs of the host (--cpus, or a placement other than agent) the host goes on"));
}

absl::StatusOr<std::unique_ptr<Line>> RemoteAgent::TakeLine(const EngineOrder& order, int lanes) {
  const auto count = static_cast<uint64_t>(lanes);
  const bool inflates = order.kind == EngineOrder::Kind::kDecompress;
  const uint64_t request =
      std::max<uint64_t>(order.chunk_bytes, order.text.size()) + (uint64_t{64} << 10);
  const uint64_t response = order.chunk_bytes * (inflates ? kUsualRatio : 1) +
                            order.chunk_bytes / 8 + (uint64_t{64} << 10);
  // A chunk that was found wanting by its engine may be done again by another lane.
  const GroupShape shape{RingFor(request, count + 1), RingFor(response, count),
                         std::bit_ceil(static_cast<uint32_t>(2 * lanes + 2))};
  {
    const std::lock_guard lock(mu_);
    for (auto it = free_lines_.begin(); it != free_lines_.end(); ++it) {
      const GroupShape& has = (*it)->shape();
      if (has.request_bytes < shape.request_bytes || has.response_bytes < shape.response_bytes ||
          has.requests < shape.requests) {
        continue;
      }
      std::unique_ptr<Line> line = std::move(*it);
      free_lines_.erase(it);
      return line;
    }
  }
  auto line = Line::Open(channel_.get(), shape);
  if (!absl::IsResourceExhausted(line.status())) return line;
  // Those that are too small for this order take up the agent's room.
  std::vector<std::unique_ptr<Line>> too_small;
  {
    const std::lock_guard lock(mu_);
    too_small.swap(free_lines_);
  }
  if (too_small.empty()) return line;
  too_small.clear();
  return Line::Open(channel_.get(), shape);
}

void RemoteAgent::GiveBack(std::unique_ptr<Line> line) {
  const std::lock_guard lock(mu_);
  free_lines_.push_back(std::move(line));
}

absl::StatusOr<std::unique_ptr<Engine>> RemoteAgent::Make(const EngineOrder& order,
                                                          EngineTraits traits, MakeLocal local) {
  if ((channel_->fact(1) & EngineBit(order)) == 0) {
    return absl::UnimplementedError(absl::StrCat(
        "the agent at ", socket_, " does not do that; it does: ", EngineNames(channel_->fact(1))));
  }
  if (order.portable &&
      static_cast<uint32_t>(channel_->fact(0) >> kThreadBits) != CodecVersions()) {
    return absl::FailedPreconditionError(
        absl::StrCat("the agent at ", socket_,
                     " has other versions of the codecs, so that its bytes may differ; leave "
                     "--deterministic or --agent out"));
  }
  traits.side = Side::kAgent;
  traits.lanes = threads_ + 1;
  const auto lost = [&](const absl::Status& why) {
    return absl::IsAborted(why) || absl::IsUnavailable(why) || channel_->CheckLost()
               ? LostError(why.message())
               : why;
  };
  auto taken = TakeLine(order, traits.lanes);
  if (!taken.ok()) return lost(taken.status());
  std::unique_ptr<Line> line = *std::move(taken);
  Prepare request{};
  {
    const std::lock_guard lock(mu_);
    request.number = next_operator_++;
  }
  request.text_crc = Crc32(order.text);
  request.text_bytes = order.text.size();
  request.kind = static_cast<uint8_t>(order.kind);
  request.codec = order.codec;
  request.format = order.format;
  request.level = order.level;
  const auto answer = line->Ask(MessageKind::kPrepare, &request, sizeof(request),
                                {order.text.data(), order.text.size()}, nullptr);
  if (!answer.ok()) {
    GiveBack(std::move(line));
    return lost(answer.status());
  }
  absl::Status status;
  if (answer->result < 0) {
    const auto code = static_cast<int>(
        std::min<int64_t>(-std::max<int64_t>(answer->result, -1000),
                          static_cast<int64_t>(absl::StatusCode::kUnauthenticated)));
    status = absl::Status(
        static_cast<absl::StatusCode>(code),
        absl::StrCat("the agent at ", socket_, ": ",
                     absl::string_view(answer->data, std::min(answer->bytes, kMostText))));
  }
  line->Release(*answer);
  if (!status.ok()) {
    GiveBack(std::move(line));
    return status;
  }
  return std::make_unique<RemoteEngine>(this, std::move(line), request.number, order,
                                        std::move(traits), std::move(local));
}

}  // namespace pulse::ops::remote
