#include "services/offload/engine.h"

#include <algorithm>
#include <cstring>

#include "base/errors.h"
#include "services/offload/engine_flow.h"
#include "services/offload/loop_state.h"
#include "services/offload/program.h"

namespace pulse::offload {

absl::StatusOr<std::unique_ptr<Engine>> Engine::Open(const EngineOptions& options) {
  PULSE_RETURN_IF_ERROR(CheckProgram(*options.program));
  if (options.contexts == 0) return absl::InvalidArgumentError("offload engine: no contexts");
  std::unique_ptr<Engine> engine(new Engine(options));
  PULSE_ASSIGN_OR_RETURN(engine->runtime_, Runtime::Create(options.program, options.table_items));
  // The same way to the device as the file service's, so that both see the same bytes.
  PULSE_ASSIGN_OR_RETURN(engine->device_, options.store->OpenDevice());
  options.store->Watch(engine.get());
  engine->watches_ = true;
  return engine;
}

Engine::Engine(const EngineOptions& options) : options_(options) {}

Engine::~Engine() {
  if (watches_) options_.store->Watch(nullptr);
}

std::unique_ptr<net::Flow> Engine::NewFlow(net::Connection* connection) {
  if (runtime_->broken()) return nullptr;
  net::EventLoop* const loop = connection->loop();
  if (loop == nullptr) return nullptr;
  LoopState* state = nullptr;
  {
    std::lock_guard lock(mu_);
    for (const auto& s : loops_) {
      if (s->loop == loop) state = s.get();
    }
    if (state == nullptr) {
      loops_.push_back(std::make_unique<LoopState>(this, loop));
      state = loops_.back().get();
    }
  }
  return std::make_unique<EngineFlow>(state, connection);
}

EngineStats Engine::stats() const {
  EngineStats stats;
  std::lock_guard lock(mu_);
  for (const auto& s : loops_) {
    for (size_t i = 0; i < stats.values.size(); ++i) {
      stats.values[i] += s->counters[i].load(std::memory_order_relaxed);
    }
  }
  if (runtime_->table() != nullptr) stats.table = runtime_->table()->counts();
  stats.off = runtime_->off();
  return stats;
}

// --- LoopState

LoopState::LoopState(Engine* e, net::EventLoop* l)
    : engine(e),
      loop(l),
      unit(e->options().store->device_unit()),
      sorted(e->runtime()->program()),
      max_request_(e->runtime()->program().max_request),
      contexts_(e->options().contexts),
      requests_(size_t{e->options().contexts} * max_request_) {
  for (Context& c : contexts_) {
    c.next = free_;
    free_ = &c;
  }
}

Context* LoopState::NewContext() {
  Context* const c = free_;
  if (c != nullptr) free_ = c->next;
  return c;
}

void LoopState::FreeContext(Context* c) {
  c->flow = nullptr;
  c->buffer = {};
  c->copy.reset();
  c->failed = c->finished = c->good = false;
  c->next = free_;
  free_ = c;
}

void LoopState::Start(Context* c, const std::vector<store::Extent>& pieces, char* data) {
  c->ios = static_cast<uint32_t>(pieces.size());
  for (const store::Extent& e : pieces) {
    const auto index = static_cast<uint32_t>(c - contexts_.data());
    const auto length = static_cast<uint32_t>(e.length);
    // As small as a function object keeps without allocating.
    struct {
      LoopState* state;
      uint32_t index;
      uint32_t length;
      void operator()(int64_t result) const {
        state->Done(&state->contexts_[index], length, result);
      }
    } done{this, index, length};
    loop->Read(engine->device(), e.device_offset, data, e.length, done);
    data += e.length;
  }
}

void LoopState::Done(Context* c, uint64_t expected, int64_t result) {
  c->failed |= result != static_cast<int64_t>(expected);
  if (--c->ios > 0) return;
  c->finished = true;
  if (c->flow == nullptr) return FreeContext(c);
  c->flow->OnRead(c);
}

// --- Sorted

void Sorted::Add(To to, const void* data, size_t size, size_t most, uint32_t replies) {
  if (size > most || size == 0 || size > kBytes - used_ || items_.size() == kItems) {
    voided_ = true;
    return;
  }
  std::memcpy(bytes_.data() + used_, data, size);
  items_.push_back({to, static_cast<uint32_t>(used_), static_cast<uint32_t>(size), replies});
  used_ += size;
}

}  // namespace pulse::offload
