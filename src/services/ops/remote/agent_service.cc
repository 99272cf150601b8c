#include "services/ops/remote/agent_service.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "base/background.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/cpu_list.h"
#include "base/errors.h"
#include "base/log.h"
#include "base/shortage.h"
#include "services/ops/codecs.h"
#include "services/ops/decoders.h"
#include "services/ops/filter/filter_engine.h"
#include "services/ops/filter/filter_order.h"
#include "services/ops/remote/check.h"

namespace pulse::ops::remote {
namespace {

constexpr size_t kRuleSetsKept = 4;
constexpr size_t kWorksKept = 16;
constexpr uint64_t kMostHeld = uint64_t{256} << 20;
constexpr size_t kKeptBytes = size_t{8} << 20;
// Captures can be many times as long as the records.
constexpr uint64_t kMostCaptured = uint64_t{256} << 20;

// What the result may become; more than the host's message group takes is not kept.
uint64_t MostResult(const EngineOrder& order, uint64_t captures, uint64_t bytes) {
  switch (order.kind) {
    case EngineOrder::Kind::kCompress:
      return bytes + bytes / 8 + (64 << 10);
    case EngineOrder::Kind::kDecompress:
      return kLargestPiece;
    case EngineOrder::Kind::kFilter:
      return captures > 0 ? std::min(captures * bytes, kMostCaptured) : bytes + 1;
  }
  return 0;
}

OpsAgentOptions WithDefaults(OpsAgentOptions options) {
  if (options.most_held == 0) {
    options.most_held = std::max(kMostHeld, static_cast<uint64_t>(options.threads) * kLargestPiece);
  }
  return options;
}

}  // namespace

// --- OpsAgent

OpsAgent::OpsAgent(OpsAgentOptions options)
    : options_(WithDefaults(std::move(options))), pool_("pulse-ag-ops", options_.threads) {
  counters_.threads = static_cast<uint64_t>(options_.threads);
}

ServiceFactory OpsAgent::Factory() {
  return [this](Session* session, FileEngine*) -> std::unique_ptr<Service> {
    return std::make_unique<OpsService>(this, session);
  };
}

void OpsAgent::Post(const void* owner, std::function<void()> work) {
  pool_.Post(owner, [this, work = std::move(work)] {
    // The pool's threads are this agent's alone.
    thread_local bool ready = false;
    if (!ready) EnterBackground(options_.idle_only, options_.cpus, "ops threads");
    ready = true;
    work();
  });
}

// --- what a session has

// An engine that the host has prepared. Its lanes are as many as there are threads, so that one is
// always free for a thread that has a chunk.
struct OpsService::Operator {
  EngineOrder order;
  std::shared_ptr<const filter::RuleSet> rules;
  uint64_t captures = 0;  // of the rule that has most, where captures are the result
  std::unique_ptr<Engine> engine;

  std::mutex mu;
  std::vector<int> free_lanes;
};

struct OpsService::Work {
  MessageGroup* group = nullptr;
  uint64_t ticket = 0;
  const char* from = nullptr;  // in the host's memory
  ChunkRequest request{};
  std::shared_ptr<Operator> of;
  Chunk chunk;
  Result result;
  absl::Status status;
  ChunkAnswer answer{};
  uint64_t charged = 0;
};

OpsService::OpsService(OpsAgent* agent, Session* session)
    : MessageService(session), agent_(agent) {}

OpsService::~OpsService() { agent_->counters().operators -= operators_.size(); }

absl::StatusOr<uint64_t> OpsService::OnAttach() {
  if (groups() >= kMostGroups) {
    return absl::ResourceExhaustedError(
        absl::StrCat("a session of operators has at most ", kMostGroups, " message groups"));
  }
  return uint64_t{8};
}

void OpsService::BeginShutdown() {
  stop_ = true;
  MessageService::BeginShutdown();
  Flush();
}

void OpsService::Refuse(MessageGroup* group, uint64_t id, MessageKind kind,
                        const absl::Status& why) {
  session()->counters().failed.Add(1);
  const absl::string_view text = why.message().substr(0, kMostText);
  group->Answer(id, KindOf(kind), -static_cast<int64_t>(why.code()), std::string(text));
}

bool OpsService::OnRequest(MessageGroup* group, const RingMessage& message, uint64_t ticket) {
  under_way_.emplace(group, 0);
  const auto kind = static_cast<MessageKind>(message.kind);
  if (kind == MessageKind::kChunk && message.length >= sizeof(ChunkRequest)) {
    return HandleChunk(group, message, ticket);
  }
  if (message.length < (kind == MessageKind::kReport ? sizeof(Report) : sizeof(Prepare))) {
    Break(absl::DataLossError("a request is shorter than a request"));
    group->Forget(ticket);
    return true;
  }
  if (kind == MessageKind::kPrepare) {
    HandlePrepare(group, message, ticket);
    return true;
  }
  if (kind == MessageKind::kReport) {
    HandleReport(group, message);
    group->Forget(ticket);
    return true;
  }
  Prepare request;
  std::memcpy(&request, message.data, sizeof(request));
  if (kind == MessageKind::kDrop) {
    const auto it = operators_.find(request.number);
    if (it != operators_.end() && it->second != nullptr) {
      operators_.erase(it);
      --agent_->counters().operators;
    }
    group->Answer(request.id, message.kind, 0, {});
  } else {
    Refuse(group, request.id, kind, absl::UnimplementedError("no such request of operators"));
  }
  group->Forget(ticket);
  return true;
}

// --- operators

void OpsService::HandlePrepare(MessageGroup* group, const RingMessage& message, uint64_t ticket) {
  Prepare request;
  std::memcpy(&request, message.data, sizeof(request));
  session()->counters().Take(0);
  auto made = std::make_shared<Operator>();
  EngineOrder& order = made->order;
  order.kind = static_cast<EngineOrder::Kind>(request.kind);
  order.codec = request.codec;
  order.format = request.format;
  order.level = request.level;
  absl::Status status;
  if (request.text_bytes != message.length - sizeof(request)) {
    status = absl::InvalidArgumentError("an operator whose text has another length");
  } else {
    order.text.assign(message.data + sizeof(request), request.text_bytes);
  }
  group->Forget(ticket);
  if (status.ok() && Crc32(order.text) != request.text_crc) {
    status = absl::InvalidArgumentError("an operator whose text has another checksum");
  }
  if (status.ok()) status = CheckOrder(order);
  if (status.ok() && operators_.count(request.number) != 0) {
    status = absl::AlreadyExistsError("the operator's number is in use");
  }
  if (status.ok() && operators_.size() >= kMostOperators) {
    status = absl::ResourceExhaustedError(
        absl::StrCat("a session has at most ", kMostOperators, " operators"));
  }
  if (!status.ok()) return Refuse(group, request.id, MessageKind::kPrepare, status);
  operators_.emplace(request.number, nullptr);
  ++agent_->counters().operators;
  BeginWork();
  const uint64_t id = request.id;
  const uint32_t number = request.number;
  agent_->Post(this, [this, group, id, number, made] {
    absl::Status of = stop_ ? absl::CancelledError("the session is over")
                            : CatchNoMemory([&] { return Make(made.get()); });
    session()->config().post([this, group, id, number, made, of = std::move(of)] {
      EndWork();
      if (!of.ok()) {
        operators_.erase(number);
        --agent_->counters().operators;
        if (!shutting_down()) Refuse(group, id, MessageKind::kPrepare, of);
        return;
      }
      operators_[number] = made;
      if (!shutting_down()) group->Answer(id, KindOf(MessageKind::kPrepare), 0, {});
    });
  });
}

void OpsService::HandleReport(MessageGroup* group, const RingMessage& message) {
  Report told;
  std::memcpy(&told, message.data, sizeof(told));
  const auto it = operators_.find(told.operator_number);
  if (it == operators_.end() || it->second == nullptr) {
    return Refuse(group, told.id, MessageKind::kReport,
                  absl::NotFoundError("there is no such operator"));
  }
  PlacementReport report;
  bool bounded = told.whole <= kMostRate && told.before_nanos <= kMostSetUp;
  for (const auto& [of, side] : {std::pair(told.host, Side::kHost), {told.agent, Side::kAgent}}) {
    for (const uint64_t n :
         {of.chunks, of.bytes, of.redone, of.refused, of.discarded, of.lost, of.busy_nanos}) {
      bounded &= n <= kMostReported;
    }
    bounded &= of.rate <= kMostRate;
    report.of(side) = {of.chunks,  of.bytes,     of.redone, static_cast<double>(of.rate),
                       of.refused, of.discarded, of.lost,   of.busy_nanos};
  }
  if (!bounded || told.placement > static_cast<uint8_t>(Placement::Kind::kPaper)) {
    return Refuse(group, told.id, MessageKind::kReport,
                  absl::InvalidArgumentError("a report of what cannot be"));
  }
  report.placement = static_cast<Placement::Kind>(told.placement);
  report.whole = static_cast<double>(told.whole);
  report.most_before_nanos = static_cast<int64_t>(told.before_nanos);
  report.ended = told.ended != 0;
  agent_->counters().placement.Add(TaskOf(it->second->order), report);
  group->Answer(told.id, KindOf(MessageKind::kReport), 0, {});
}

absl::StatusOr<std::shared_ptr<const filter::RuleSet>> OpsService::Compile(
    filter::OrderedFilter filter) {
  const OpsAgentOptions& most = agent_->options();
  const size_t count = filter.rules.size();
  uint64_t bytes = 0;
  for (const filter::Rule& rule : filter.rules) bytes += rule.text.size();
  if (count > most.most_rules || bytes > most.most_rule_bytes) {
    return absl::ResourceExhaustedError(absl::StrCat(count, " rules of ", bytes,
                                                     " bytes; this agent takes ", most.most_rules,
                                                     " of ", most.most_rule_bytes));
  }
  const filter::CompileLimits limits{most.most_instructions, [this] { return stop_.load(); }};
  PULSE_ASSIGN_OR_RETURN(std::shared_ptr<const filter::RuleSet> rules,
                         filter::RuleSet::Compile(std::move(filter.rules), filter.options, limits));
  agent_->counters().rules += count;
  return rules;
}

absl::Status OpsService::Make(Operator* made) {
  const EngineOrder& order = made->order;
  const int lanes = agent_->threads();
  EngineTraits traits{"ops", Side::kAgent, lanes, {}};
  for (int lane = 0; lane < lanes; ++lane) made->free_lanes.push_back(lane);
  switch (order.kind) {
    case EngineOrder::Kind::kCompress: {
      PULSE_ASSIGN_OR_RETURN(made->engine, MakeCompressor(static_cast<Codec>(order.codec),
                                                          static_cast<Format>(order.format),
                                                          order.level, std::move(traits)));
      return absl::OkStatus();
    }
    case EngineOrder::Kind::kDecompress:
      made->engine = MakeDecoder(static_cast<Piece>(order.format), std::move(traits));
      return absl::OkStatus();
    case EngineOrder::Kind::kFilter:
      break;
  }
  PULSE_ASSIGN_OR_RETURN(filter::OrderedFilter filter, filter::ReadFilterOrder(order.text));
  // Selection is in the text, too: the same rules with another one are compiled again.
  const filter::Selection selection = filter.selection;
  {
    const std::lock_guard lock(rules_mu_);
    const auto kept = std::find_if(rule_sets_.begin(), rule_sets_.end(),
                                   [&](const auto& one) { return one.first == order.text; });
    if (kept != rule_sets_.end()) made->rules = kept->second;
  }
  if (made->rules == nullptr) {
    PULSE_ASSIGN_OR_RETURN(made->rules, Compile(std::move(filter)));
    const std::lock_guard lock(rules_mu_);
    rule_sets_.emplace_front(order.text, made->rules);
    if (rule_sets_.size() > kRuleSetsKept) rule_sets_.pop_back();
  }
  if (selection.select == filter::Select::kCaptures) {
    for (const auto& rule : made->rules->rules()) {
      made->captures =
          std::max(made->captures, static_cast<uint64_t>(rule.re2->NumberOfCapturingGroups()) + 1);
    }
  }
  PULSE_ASSIGN_OR_RETURN(
      made->engine, filter::FilterEngine::Make(made->rules.get(), selection, std::move(traits)));
  return absl::OkStatus();
}

// --- chunks

std::unique_ptr<OpsService::Work> OpsService::NewWork() {
  if (free_works_.empty()) return std::make_unique<Work>();
  std::unique_ptr<Work> work = std::move(free_works_.back());
  free_works_.pop_back();
  return work;
}

bool OpsService::HandleChunk(MessageGroup* group, const RingMessage& message, uint64_t ticket) {
  size_t& under_way = under_way_[group];
  if (under_way >= kDepth * static_cast<size_t>(agent_->threads()) + 1) return false;
  ChunkRequest request;
  std::memcpy(&request, message.data, sizeof(request));
  const auto it = operators_.find(request.operator_number);
  absl::Status status;
  if (it == operators_.end() || it->second == nullptr) {
    status = absl::NotFoundError("there is no such operator");
  } else if (request.bytes != message.length - sizeof(request) || request.prefix > request.bytes) {
    status = absl::InvalidArgumentError("a chunk of another length");
  }
  uint64_t charge = 0;
  if (status.ok()) {
    charge = request.bytes +
             std::min(group->MaxData(8),
                      MostResult(it->second->order, it->second->captures, request.bytes));
    if (held_bytes_ > 0 && held_bytes_ + charge > agent_->options().most_held) return false;
  }
  session()->counters().Take(1);
  if (!status.ok()) {
    Refuse(group, request.id, MessageKind::kChunk, status);
    group->Forget(ticket);
    return true;
  }
  std::unique_ptr<Work> work = NewWork();
  work->request = request;
  if (!free_inputs_.empty()) {
    work->chunk.input = std::move(free_inputs_.back());
    free_inputs_.pop_back();
  }
  Charge(work.get(), charge);
  work->group = group;
  work->ticket = ticket;
  work->from = message.data + sizeof(request);
  work->of = it->second;
  ++under_way;
  ++agent_->counters().waiting;
  BeginWork();
  // std::function copies.
  auto* raw = work.release();
  agent_->Post(this, [this, raw] {
    --agent_->counters().waiting;
    ++agent_->counters().running;
    Process(raw);
    --agent_->counters().running;
    session()->config().post([this, raw] { Processed(std::unique_ptr<Work>(raw)); });
  });
  return true;
}

void OpsService::Process(Work* work) {
  work->result.Clear();
  work->answer = {};
  if (stop_) {
    work->status = absl::CancelledError("the session is over");
    return;
  }
  const int64_t start = NowNanos();
  const ChunkRequest& request = work->request;
  Chunk& chunk = work->chunk;
  chunk.number = request.number;
  chunk.offset = request.offset;
  chunk.prefix = request.prefix;
  chunk.last = request.last != 0;
  chunk.tag = request.tag;
  chunk.checksum = request.checksum;
  chunk.kind = request.kind;
  // From here on the host can change nothing of it.
  chunk.input.Clear();
  chunk.input.Append(work->from, request.bytes);
  Operator& of = *work->of;
  work->status = Crc32(chunk.input.view()) == request.crc
                     ? CheckChunk(of.order, chunk)
                     : absl::InvalidArgumentError("a chunk with another checksum");
  if (work->status.ok() && of.captures * request.bytes > kMostCaptured) {
    work->status = absl::ResourceExhaustedError(
        absl::StrCat("captures of up to ", of.captures * request.bytes, " bytes"));
  }
  if (work->status.ok()) {
    int lane = 0;
    {
      const std::lock_guard lock(of.mu);
      PULSE_CHECK(!of.free_lanes.empty());
      lane = of.free_lanes.back();
      of.free_lanes.pop_back();
    }
    work->status = CatchNoMemory([&] { return of.engine->Process(lane, chunk, work->result); });
    const std::lock_guard lock(of.mu);
    of.free_lanes.push_back(lane);
  }
  const absl::string_view bytes = work->result.payload();
  work->answer = {bytes.size(), work->result.count, NowNanos() - start, work->result.checksum,
                  work->status.ok() ? Crc32(bytes) : 0};
}

void OpsService::Charge(Work* work, uint64_t bytes) {
  held_bytes_ += bytes - work->charged;
  work->charged = bytes;
}

void OpsService::Processed(std::unique_ptr<Work> work) {
  work->group->Forget(work->ticket);
  // Until the host has room only the result is kept, if that can ever be delivered.
  Buffer input = std::move(work->chunk.input);
  if (free_inputs_.size() < kWorksKept && input.capacity() <= kKeptBytes) {
    free_inputs_.push_back(std::move(input));
  }
  if (work->status.ok() && sizeof(work->answer) + work->answer.bytes > work->group->MaxData(8)) {
    work->status = absl::ResourceExhaustedError(absl::StrCat(
        "a result of ", work->answer.bytes, " bytes, more than the message group takes"));
  }
  if (!work->status.ok()) work->result.bytes = Buffer();
  Charge(work.get(), work->result.bytes.capacity());
  OpsCounters::Task& task = agent_->counters().tasks[TaskOf(work->of->order)];
  // What nobody waited for any more was not begun.
  if (!absl::IsCancelled(work->status)) {
    ++task.chunks;
    task.failed += work->status.ok() ? 0 : 1;
    task.bytes_in += work->request.bytes;
    task.bytes_out += work->status.ok() ? work->answer.bytes : 0;
    task.busy_nanos += static_cast<uint64_t>(work->answer.busy_nanos);
  }
  work->of.reset();
  ++agent_->counters().undelivered;
  answers_.push_back(std::move(work));
  Flush();
}

bool OpsService::Answer(Work* work) {
  if (shutting_down()) return true;  // nothing is written to the host's memory any more
  MessageGroup* const group = work->group;
  const uint64_t size = sizeof(work->answer) + work->answer.bytes;
  if (group->closing()) {
    group->Answer(work->request.id, KindOf(MessageKind::kChunk), 0, {});  // dropped
    return true;
  }
  if (!work->status.ok()) {
    Refuse(group, work->request.id, MessageKind::kChunk, work->status);
    return true;
  }
  Reservation place;
  if (!group->Reserve(work->request.id, KindOf(MessageKind::kChunk), size, 8, &place)) return false;
  std::memcpy(place.data, &work->answer, sizeof(work->answer));
  const absl::string_view bytes = work->result.payload();
  if (!bytes.empty()) std::memcpy(place.data + sizeof(work->answer), bytes.data(), bytes.size());
  group->Finish(place, static_cast<int64_t>(size));
  return true;
}

bool OpsService::Flush() {
  bool any = false;
  // A group without room does not hold up the others.
  for (size_t i = 0; i < answers_.size();) {
    if (!Answer(answers_[i].get())) {
      ++i;
      continue;
    }
    std::unique_ptr<Work> work = std::move(answers_[i]);
    answers_.erase(answers_.begin() + static_cast<ptrdiff_t>(i));
    Charge(work.get(), 0);
    --under_way_[work->group];
    --agent_->counters().undelivered;
    // What was large is not kept.
    if (free_works_.size() < kWorksKept && work->result.bytes.capacity() <= kKeptBytes) {
      free_works_.push_back(std::move(work));
    }
    EndWork();
    any = true;
  }
  return any;
}

bool OpsService::Deliver() {
  const bool any = Flush();
  return MessageService::Deliver() || any;
}

}  // namespace pulse::ops::remote
