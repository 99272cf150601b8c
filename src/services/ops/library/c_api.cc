// pulse/ops.h by the operators.
#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <memory>
#include <mutex>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/cpu_list.h"
#include "base/errors.h"
#include "pulse/ops.h"
#include "services/ops/buffer.h"
#include "services/ops/library/pool.h"
#include "services/ops/library/request.h"
#include "services/ops/remote/host_agent.h"

using pulse::ops::Buffer;
using pulse::ops::Processors;
using pulse::ops::Request;
using pulse::ops::Way;

struct pulse_ops {
  pulse_ops(Processors given, size_t most)
      : processors(std::move(given)), pool(processors, most, &numbers) {
    processors.rates = &rates;
    processors.numbers = &numbers;
  }

  pulse::ops::RateTable rates;
  pulse::ops::PlacementNumbers numbers;
  Processors processors;
  pulse::ops::Pool pool;
};

namespace {

constexpr size_t kStreamBytes = size_t{4} << 20;
constexpr size_t kMostUnderWay = 1024;

void Say(const absl::Status& status, char* why, size_t why_size) {
  if (why == nullptr || why_size == 0) return;
  const absl::string_view text = status.message().substr(0, why_size - 1);
  std::memcpy(why, text.data(), text.size());
  why[text.size()] = '\0';
}

absl::StatusOr<std::vector<int>> Cpus(const char* text, const char* what) {
  std::vector<int> cpus;
  if (text == nullptr) return cpus;
  PULSE_ASSIGN_OR_RETURN(cpus, pulse::ParseCpuList(text));
  const std::vector<int> mine = pulse::MyCpus();
  for (const int cpu : cpus) {
    if (!mine.empty() && std::find(mine.begin(), mine.end(), cpu) == mine.end()) {
      return absl::InvalidArgumentError(
          absl::StrCat(what, " ", text, ": CPU ", cpu, " is not one that this process may use"));
    }
  }
  return cpus;
}

absl::StatusOr<std::unique_ptr<pulse_ops>> Open(const pulse_ops_options* given) {
  pulse_ops_options options;
  pulse_ops_options_init(&options);
  if (given != nullptr) PULSE_RETURN_IF_ERROR(pulse::ops::CopyStruct(given, &options));
  Processors processors;
  PULSE_ASSIGN_OR_RETURN(processors.host_cpus, Cpus(options.cpus, "cpus"));
  PULSE_ASSIGN_OR_RETURN(processors.agent_cpus, Cpus(options.agent_cpus, "agent_cpus"));
  if (options.placement != nullptr) {
    PULSE_ASSIGN_OR_RETURN(processors.placement, pulse::ops::Placement::Parse(options.placement));
  }
  if (options.agent != nullptr && processors.agent_cpus.empty()) {
    auto agent = pulse::ops::remote::RemoteAgent::Connect(options.agent);
    if (!agent.ok()) return absl::UnavailableError(agent.status().message());
    processors.agent = *std::move(agent);
  } else if (options.agent != nullptr) {
    return absl::InvalidArgumentError("agent and agent_cpus: an agent is one of the two");
  }
  // What placement and CPUs say to each other.
  PULSE_RETURN_IF_ERROR(pulse::ops::EnginesFor(processors, "ops").status());
  const size_t most = options.most_under_way == 0 ? kMostUnderWay : options.most_under_way;
  return std::make_unique<pulse_ops>(std::move(processors), most);
}

int Give(const absl::Status& status, uint64_t tag, pulse_ops_result* result) {
  pulse_ops_result said = pulse::ops::ResultOf(status, tag);
  return pulse::ops::StoreResult(&said, result);
}

}  // namespace

// A stream's bytes on their way from the caller to the thread that works on them.
struct pulse_ops_stream : pulse::ops::ByteSource {
  absl::StatusOr<size_t> Read(void* to, size_t size) override {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return at < bytes.size() || ended || aborted; });
    if (aborted) return absl::CancelledError("the stream was aborted");
    const size_t n = std::min(size, bytes.size() - at);
    if (n > 0) std::memcpy(to, bytes.data() + at, n);
    at += n;
    if (at == bytes.size()) {
      bytes.Clear();
      at = 0;
      changed.notify_all();
    }
    return n;
  }

  // Joins the thread.
  void End(bool abort) {
    {
      const std::lock_guard lock(mutex);
      ended = true;
      aborted = abort;
    }
    changed.notify_all();
    thread.join();
  }

  Request request;
  std::mutex mutex;
  std::condition_variable changed;
  Buffer bytes;
  size_t at = 0;
  bool ended = false;
  bool aborted = false;
  bool done = false;
  pulse_ops_result result;
  std::thread thread;
};

extern "C" {

const char* pulse_ops_text(int code) {
  static constexpr const char* kTexts[] = {"ok",
                                           "an argument makes no sense",
                                           "reading or writing failed",
                                           "the input is damaged or cut off",
                                           "the input is in none of the compressed formats",
                                           "more output, or a longer record, than the limit",
                                           "cancelled",
                                           "as much is under way as may be",
                                           "nothing was done in time",
                                           "nothing is under way",
                                           "the system refused memory or threads"};
  return code >= 0 && code <= PULSE_OPS_FAILED ? kTexts[code] : "unknown code";
}

int pulse_ops_open(const pulse_ops_options* options, pulse_ops** ops, char* why, size_t why_size) {
  if (ops == nullptr) return PULSE_OPS_INVALID;
  *ops = nullptr;
  auto opened = Open(options);
  if (!opened.ok()) {
    Say(opened.status(), why, why_size);
    return absl::IsUnavailable(opened.status()) ? PULSE_OPS_IO : PULSE_OPS_INVALID;
  }
  *ops = opened->release();
  return PULSE_OPS_OK;
}

void pulse_ops_close(pulse_ops* ops) { delete ops; }

int pulse_ops_rules_compile(const char* const* texts, size_t count, uint32_t flags,
                            pulse_ops_rules** rules, char* why, size_t why_size) {
  if (rules == nullptr) return PULSE_OPS_INVALID;
  *rules = nullptr;
  constexpr uint32_t kFlags = PULSE_OPS_IGNORE_CASE | PULSE_OPS_LITERAL | PULSE_OPS_PREFIXED;
  if ((texts == nullptr && count != 0) || (flags & ~kFlags) != 0) {
    Say(absl::InvalidArgumentError("no texts, or flags that are not known"), why, why_size);
    return PULSE_OPS_INVALID;
  }
  std::vector<pulse::filter::Rule> given;
  for (size_t i = 0; i < count; ++i) {
    if (texts[i] == nullptr) {
      Say(absl::InvalidArgumentError(absl::StrCat("rule ", i, " is NULL")), why, why_size);
      return PULSE_OPS_INVALID;
    }
    given.push_back({texts[i], absl::StrCat("rule ", i)});
  }
  pulse::filter::RuleSetOptions options;
  options.ignore_case = (flags & PULSE_OPS_IGNORE_CASE) != 0;
  options.literal = (flags & PULSE_OPS_LITERAL) != 0;
  if ((flags & PULSE_OPS_PREFIXED) != 0) options.records = pulse::filter::Records::kPrefixed;
  auto set = pulse::filter::RuleSet::Compile(std::move(given), options);
  if (!set.ok()) {
    Say(set.status(), why, why_size);
    return absl::IsInvalidArgument(set.status()) ? PULSE_OPS_INVALID : PULSE_OPS_FAILED;
  }
  *rules = new pulse_ops_rules{*std::move(set)};
  return PULSE_OPS_OK;
}

void pulse_ops_rules_free(pulse_ops_rules* rules) { delete rules; }

int pulse_ops_run(pulse_ops* ops, const pulse_ops_request* request, pulse_ops_result* result) {
  if (ops == nullptr || !pulse::ops::IsResult(result)) return PULSE_OPS_INVALID;
  const auto checked = pulse::ops::CheckRequest(request, Way::kRun);
  if (!checked.ok()) return Give(checked.status(), 0, result);
  pulse_ops_result done = pulse::ops::Execute(*checked, ops->processors, nullptr, nullptr);
  return pulse::ops::StoreResult(&done, result);
}

void pulse_ops_release(pulse_ops_result* result) {
  if (!pulse::ops::IsResult(result)) return;
  delete static_cast<Buffer*>(result->reserved);
  result->reserved = nullptr;
  result->data = nullptr;
  result->size = 0;
}

void pulse_ops_move(pulse_ops_result* from, pulse_ops_result* to) {
  if (!pulse::ops::IsResult(from) || !pulse::ops::IsResult(to) || from == to) return;
  pulse_ops_result moved = *from;
  moved.struct_size = sizeof(moved);
  from->reserved = nullptr;
  pulse_ops_release(from);
  pulse::ops::StoreResult(&moved, to);
}

int pulse_ops_submit(pulse_ops* ops, const pulse_ops_request* request) {
  if (ops == nullptr) return PULSE_OPS_INVALID;
  auto checked = pulse::ops::CheckRequest(request, Way::kSubmit);
  if (!checked.ok()) return PULSE_OPS_INVALID;
  return ops->pool.Submit(*std::move(checked));
}

int pulse_ops_wait(pulse_ops* ops, pulse_ops_result* result, uint32_t timeout_ms) {
  if (ops == nullptr || !pulse::ops::IsResult(result)) return PULSE_OPS_INVALID;
  pulse_ops_result done;
  const int code = ops->pool.Wait(timeout_ms, &done);
  if (code == PULSE_OPS_OK) pulse::ops::StoreResult(&done, result);
  return code;
}

size_t pulse_ops_under_way(const pulse_ops* ops) {
  return ops == nullptr ? 0 : ops->pool.under_way();
}

int pulse_ops_get_counts(const pulse_ops* ops, pulse_ops_counts* counts) {
  // A newer header's may be longer; what this library does not count stays zero.
  if (ops == nullptr || counts == nullptr || counts->struct_size < sizeof(*counts)) {
    return PULSE_OPS_INVALID;
  }
  const pulse::ops::Pool::Counts now = ops->pool.counts();
  const size_t size = counts->struct_size;
  pulse_ops_counts_init(counts);
  counts->struct_size = size;
  counts->submitted = now.submitted;
  counts->done_by_host = now.done_by_host;
  counts->done_by_agent = now.done_by_agent;
  counts->agent_chunks = now.agent_chunks;
  counts->fallback_chunks = now.fallback_chunks;
  counts->agent_lost = now.agent_lost ? 1 : 0;
  return PULSE_OPS_OK;
}

size_t pulse_ops_get_metrics(const pulse_ops* ops, char* to, size_t size) {
  if (ops == nullptr) {
    if (to != nullptr && size > 0) *to = '\0';
    return 0;
  }
  const std::string text = pulse::ops::MetricsText(ops->numbers.Take());
  if (to != nullptr && size > 0) {
    const size_t n = std::min(text.size(), size - 1);
    std::memcpy(to, text.data(), n);
    to[n] = '\0';
  }
  return text.size();
}

int pulse_ops_stream_open(pulse_ops* ops, const pulse_ops_request* request,
                          pulse_ops_stream** stream) {
  if (stream == nullptr) return PULSE_OPS_INVALID;
  *stream = nullptr;
  if (ops == nullptr) return PULSE_OPS_INVALID;
  auto checked = pulse::ops::CheckRequest(request, Way::kStream);
  if (!checked.ok()) return PULSE_OPS_INVALID;
  auto made = std::make_unique<pulse_ops_stream>();
  made->request = *std::move(checked);
  pulse_ops_result_init(&made->result);
  try {
    made->thread = std::thread([raw = made.get(), processors = ops->processors] {
      const pulse_ops_result result = pulse::ops::Execute(raw->request, processors, raw, nullptr);
      const std::lock_guard lock(raw->mutex);
      raw->result = result;
      raw->done = true;
      raw->changed.notify_all();
    });
  } catch (const std::system_error&) {
    return PULSE_OPS_FAILED;
  }
  *stream = made.release();
  return PULSE_OPS_OK;
}

int pulse_ops_stream_write(pulse_ops_stream* stream, const void* data, size_t size) {
  if (stream == nullptr || (data == nullptr && size != 0)) return PULSE_OPS_INVALID;
  const auto* from = static_cast<const uint8_t*>(data);
  std::unique_lock lock(stream->mutex);
  while (true) {
    stream->changed.wait(lock, [&] { return stream->done || stream->bytes.size() < kStreamBytes; });
    // Done before its end: it failed, or ignores what follows.
    if (stream->done) return stream->result.code;
    if (size == 0) return PULSE_OPS_OK;
    const size_t n = std::min(size, kStreamBytes - stream->bytes.size());
    stream->bytes.Append(from, n);
    from += n;
    size -= n;
    stream->changed.notify_all();
  }
}

int pulse_ops_stream_finish(pulse_ops_stream* stream, pulse_ops_result* result) {
  if (stream == nullptr || !pulse::ops::IsResult(result)) return PULSE_OPS_INVALID;
  const std::unique_ptr<pulse_ops_stream> mine(stream);
  stream->End(false);
  return pulse::ops::StoreResult(&stream->result, result);
}

void pulse_ops_stream_abort(pulse_ops_stream* stream) {
  if (stream == nullptr) return;
  const std::unique_ptr<pulse_ops_stream> mine(stream);
  stream->End(true);
  pulse_ops_release(&stream->result);
}

}  // extern "C"
