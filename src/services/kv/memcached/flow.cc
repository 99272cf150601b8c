#include "services/kv/memcached/flow.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/cpu_profile.h"

namespace pulse::kv::memcached {

absl::StatusOr<size_t> MemcachedFlow::SplitReply(std::string_view bytes) {
  return absl::InternalError("there is no host");
}

std::string MemcachedFlow::OnHostLost(net::Ticket ticket, bool sent) {
  return "SERVER_ERROR there is no host\r\n";
}

std::string MemcachedFlow::ErrorReply(const absl::Status& error) {
  const absl::string_view whose =
      absl::IsInvalidArgument(error) ? "CLIENT_ERROR " : "SERVER_ERROR ";
  return absl::StrCat(whose, error.message(), "\r\n");
}

void MemcachedFlow::OnRequest(net::Ticket ticket, std::string_view bytes) {
  if (splitter_.skipped()) {
    // Of a block whose line has been answered, or will be.
    connection_->Reply(ticket, std::string_view());
    return;
  }
  if (incoming_ == nullptr) incoming_ = std::make_shared<Batch>();
  incoming_->Add(ticket, bytes);
  incoming_bytes_ += bytes.size();
}

void MemcachedFlow::OnRequestsEnd() {
  if (state_ == State::kIdle) StartBatch();
}

void MemcachedFlow::OnRoom() {
  // Otherwise there is another turn once the client has taken more.
  if (state_ != State::kFull || connection_->unsent() > redis::kFullBytes) return;
  if (batch_->lacks == 0 && Batch::MustSendFirst(*connection_, batch_->budget)) return;
  if (!batch_->MayGoOn(connection_, batch_->budget)) return;
  RunBatch();
}

void MemcachedFlow::StartBatch() {
  if (incoming_ == nullptr) return;
  batch_ = std::move(incoming_);
  batch_bytes_ = std::exchange(incoming_bytes_, 0);
  batch_->budget = connection_->budget();
  batch_->may_exceed = connection_->MayExceed();
  if (connection_->unsent() > redis::kFullBytes ||
      Batch::MustSendFirst(*connection_, batch_->budget)) {
    state_ = State::kFull;
  } else {
    RunBatch();
  }
}

MemcachedFlow::Stop MemcachedFlow::Run(const Executor& executor, Batch* batch, bool may_block) {
  while (batch->next < batch->entries.size()) {
    if (batch->IsFull(batch->budget)) return Stop::kFull;
    {
      const CpuScope scope(CpuComponent::kParse);
      batch->request.Parse(batch->At(batch->next));
    }
    if (batch->request.closes()) return Stop::kClose;
    const CpuScope scope(CpuComponent::kStore);
    const bool may_exceed = batch->may_exceed;
    // Of several threads, all at once would find that there is room: each takes it first.
    if (batch->budget != nullptr &&
        (batch->budget->IsTight() || executor.MayBeLarge(batch->request))) {
      uint64_t bytes = 0;
      if (!executor.SizeOfReply(batch->request, may_block, &bytes)) return Stop::kWouldBlock;
      if (batch->MustWait(batch->budget, bytes)) return Stop::kFull;
    }
    if (!executor.Run(batch->request, may_block, &batch->out)) {
      batch->ForgetRoom(batch->budget, may_exceed);
      return Stop::kWouldBlock;
    }
    batch->ends.push_back(batch->out.size());
    ++batch->next;
    batch->CountReplies(batch->budget);
  }
  return Stop::kEnd;
}

void MemcachedFlow::RunBatch() {
  // A connection without a loop is carried out where it arrives.
  if (net::EventLoop* loop = connection_->loop(); designs_ != nullptr && loop != nullptr) {
    // What goes on was counted when it began.
    const size_t begun = batch_->next == 0 ? batch_->entries.size() : 0;
    if (auto* worker = designs_->WorkerFor(loop, begun); worker != nullptr) {
      return RunBatchOnPool(worker);
    }
  }
  HandleStop(Run(*executor_, batch_.get(), false));
}

// The batch belongs to the pool until it is back.
void MemcachedFlow::RunBatchOnPool(WorkerPool* pool) {
  state_ = State::kWaiting;
  // A thread of the design has others to serve, too.
  const bool may_block = pool == pool_;
  pool->Post([this, executor = executor_, batch = std::move(batch_), may_block,
              remote = connection_->remote()]() mutable {
    const Stop stop = Run(*executor, batch.get(), may_block);
    remote->Post([this, batch = std::move(batch), stop] {
      batch_ = batch;
      HandleStop(stop);
    });
  });
}

void MemcachedFlow::HandleStop(Stop stop) {
  batch_->Deliver(connection_);
  switch (stop) {
    case Stop::kEnd:
      batch_.reset();
      batch_bytes_ = 0;
      state_ = State::kIdle;
      StartBatch();
      break;
    case Stop::kWouldBlock:
      RunBatchOnPool(pool_);
      break;
    case Stop::kFull:
      state_ = State::kFull;
      // Nothing else may happen to the connection: it takes its place among those that wait for
      // room.
      if (batch_->lacks > 0) connection_->remote()->Post([] {});
      break;
    case Stop::kClose:
      state_ = State::kClosed;
      batch_.reset();
      incoming_.reset();
      incoming_bytes_ = batch_bytes_ = 0;
      connection_->Close({});
      break;
  }
}

}  // namespace pulse::kv::memcached
