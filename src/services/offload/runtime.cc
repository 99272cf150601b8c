#include "services/offload/runtime.h"

#include <cstring>

#include "absl/strings/str_cat.h"
#include "base/errors.h"
#include "base/log.h"

namespace pulse::offload {

absl::StatusOr<std::unique_ptr<Runtime>> Runtime::Create(const Program* program, uint64_t items) {
  PULSE_RETURN_IF_ERROR(Containment::Install());
  std::unique_ptr<Runtime> runtime(new Runtime(program));
  if (program->key_size > 0) {
    PULSE_ASSIGN_OR_RETURN(runtime->table_, CacheTable::Create({.key_size = program->key_size,
                                                                .item_size = program->item_size,
                                                                .capacity = items}));
  }
  runtime->view_ = {runtime.get(), &Runtime::Find};
  runtime->changes_ = {runtime.get(), &Runtime::Put, &Runtime::Erase};
  return runtime;
}

void Runtime::Failed(const char* function, bool of_protocol, Containment::End end) {
  if (of_protocol) broken_.store(true);
  if (off_.exchange(true)) return;
  Log(LogLevel::kError,
      absl::StrCat("offload program ", program_->name, ": its function ", function, " ",
                   EndName(end), "; the program is off",
                   of_protocol ? ", and its connections are refused" : ", the host gets everything",
                   " until the agent is started again"));
}

// What `call` returns; `otherwise` when it has not come to its end.
template <typename T, typename Call>
T Runtime::Run(const char* function, bool of_protocol, T otherwise, Call&& call) {
  T answer = otherwise;
  const Containment::End end = Containment::Run([&] { answer = call(); });
  if (end == Containment::End::kReturned) return answer;
  Failed(function, of_protocol, end);
  return otherwise;
}

int64_t Runtime::SplitRequest(std::string_view bytes) {
  if (broken()) return -1;
  return Run<int64_t>("split_request", true, -1, [&] {
    return program_->split_request(program_->context, bytes.data(), bytes.size());
  });
}

int64_t Runtime::SplitReply(std::string_view bytes) {
  if (broken()) return -1;
  return Run<int64_t>("split_reply", true, -1, [&] {
    return program_->split_reply(program_->context, bytes.data(), bytes.size());
  });
}

uint32_t Runtime::Replies(std::string_view message) {
  if (program_->replies == nullptr || broken()) return 1;
  return Run<uint32_t>("replies", true, 1, [&] {
    return program_->replies(program_->context, message.data(), message.size());
  });
}

size_t Runtime::Error(std::string_view request, offload::Error error, char* out, size_t room) {
  if (program_->error == nullptr || broken()) return 0;
  const size_t size = Run<size_t>("error", true, 0, [&] {
    return program_->error(program_->context, request.data(), request.size(), error, out, room);
  });
  return size <= room ? size : 0;
}

bool Runtime::Predicate(std::string_view message, Requests* out) {
  return Run("predicate", false, false, [&] {
    program_->predicate(program_->context, message.data(), message.size(), &view_, out);
    return true;
  });
}

bool Runtime::Read(std::string_view request, ReadOp* op) {
  return Run("read", false, 0, [&] {
           return program_->read(program_->context, request.data(), request.size(), &view_, op);
         }) == 1;
}

bool Runtime::BuildReply(std::string_view request, const ReadOp& op, Reply* reply) {
  if (program_->reply == nullptr) return true;
  return Run("reply", false, 0, [&] {
           return program_->reply(program_->context, request.data(), request.size(), &op, reply);
         }) == 1;
}

void Runtime::Cache(const WriteOp& op) {
  if (program_->cache == nullptr || off()) return;
  Run("cache", false, true, [&] {
    program_->cache(program_->context, &op, &changes_);
    return true;
  });
}

void Runtime::Invalidate(const ReadOp& op) {
  if (program_->invalidate == nullptr || off()) return;
  Run("invalidate", false, true, [&] {
    program_->invalidate(program_->context, &op, &changes_);
    return true;
  });
}

// A pointer that is no good is met while the call is still contained. The table is looked at and
// changed when it is not: a change must come to its end, and a look may have to wait for one whose
// thread has lost its CPU, which is no fault of the program's.
int Runtime::Find(const Table* table, const void* key, void* item) {
  const auto* self = static_cast<const Runtime*>(table->self);
  if (self->table_ == nullptr) return 0;
  char key_copy[kMaxKeyBytes];
  char item_copy[kMaxItemBytes];
  std::memcpy(key_copy, key, self->program_->key_size);
  bool found = false;
  {
    const Containment::Own own;
    found = self->table_->Find(key_copy, item_copy);
  }
  if (found && self->program_->item_size > 0) {
    std::memcpy(item, item_copy, self->program_->item_size);
  }
  return found ? 1 : 0;
}

void Runtime::Put(Changes* out, const void* key, const void* item) {
  auto* self = static_cast<Runtime*>(out->self);
  char key_copy[kMaxKeyBytes];
  char item_copy[kMaxItemBytes];
  std::memcpy(key_copy, key, self->program_->key_size);
  if (self->program_->item_size > 0) std::memcpy(item_copy, item, self->program_->item_size);
  const Containment::Own own;
  self->table_->Put(key_copy, item_copy);
}

void Runtime::Erase(Changes* out, const void* key) {
  auto* self = static_cast<Runtime*>(out->self);
  char key_copy[kMaxKeyBytes];
  std::memcpy(key_copy, key, self->program_->key_size);
  const Containment::Own own;
  self->table_->Erase(key_copy);
}

}  // namespace pulse::offload
