// What is read, and what waits for that.
#include <algorithm>
#include <utility>

#include "base/clock.h"
#include "net/ring.h"
#include "services/redis/offload/flow.h"

namespace pulse::redis {

using net::FreeBytes;
using Found = ReadView::Found;
using Slot = DirtyTable::Slot;

namespace {

constexpr size_t kMostKeys = 512;     // of a read here
constexpr size_t kMostWaiting = 256;  // of one connection; then the host answers
constexpr size_t kMostWaitingBytes = size_t{64} << 10;
// As many reads before a write are not worth the host's round trip for which it would have to wait.
constexpr size_t kFewReads = 2;
// A client that takes its replies slower than they are made has more made when these have left.
constexpr size_t kMostUnsent = size_t{256} << 10;
// What one connection's reads have at a time, but for one that has more by itself.
constexpr size_t kMostBatchBytes = size_t{4} << 20;
// Of a connection between its requests, for the next ones: each of a reply, a request and a read.
constexpr size_t kMostKept = size_t{16} << 10;

}  // namespace

bool IsOffloadable(Command command) {
  switch (command) {
    case Command::kGet:
    case Command::kMget:
    case Command::kExists:
    case Command::kTouch:
    case Command::kStrlen:
    case Command::kTtl:
    case Command::kPttl:
    case Command::kExpiretime:
    case Command::kPexpiretime:
    case Command::kType:
      return true;
    default:
      return false;
  }
}

Outcome CheckedRead::Begin(const std::vector<std::string_view>& keys) {
  const DirtyTable& table = shared_->table;
  check_.hashes.clear();
  check_.versions.clear();
  check_.words.clear();
  missing_.clear();
  values_.resize(keys.size());
  found_.resize(keys.size());
  // The versions come before all else.
  for (size_t i = 0; i < keys.size(); ++i) {
    const uint64_t hash = table.Hash(keys[i]);
    check_.hashes.push_back(hash);
    check_.versions.push_back(shared_->VersionOf(table.SlotOfHash(hash)));
    if (shared_->values->Find(hash, keys[i], check_.versions[i], &values_[i])) {
      found_[i] = values_[i].empty() ? Found::kNo : Found::kYes;
    } else {
      missing_.push_back(i);
    }
  }
  if (!missing_.empty()) {
    check_.validity = shared_->view->Validity();
    if (check_.validity == 0) return Outcome::kNoView;
    const auto everything = table.Check(table.everything());
    if (!everything) {
      shared_->view->NoteMiss();
      return Outcome::kDirty;
    }
    check_.everything = *everything;
    bool dirty = false;
    for (const size_t i : missing_) {
      const auto word = table.Check(table.SlotOfHash(check_.hashes[i]));
      check_.words.push_back(word.value_or(0));
      if (!word) shared_->values->Want(check_.hashes[i], keys[i]);
      dirty = dirty || !word;
    }
    if (dirty) {
      shared_->view->NoteMiss();
      return Outcome::kDirty;
    }
  }
  check_.now_ms = WallMillis();
  return Outcome::kAnswered;
}

// Reads the keys that the cache lacks.
bool CheckedRead::Fetch(const std::vector<std::string_view>& keys, bool now) {
  if (missing_.empty()) return false;
  const auto fetch = [&](const std::vector<std::string_view>& from,
                         std::vector<std::string>* values, std::vector<Found>* found) {
    if (now) return shared_->view->ReadNow(from, values, found);
    shared_->view->Read(from, values, found);
    return false;
  };
  if (missing_.size() == keys.size()) return fetch(keys, &values_, &found_);
  std::vector<std::string_view> some;
  for (const size_t i : missing_) some.push_back(keys[i]);
  std::vector<std::string> values;
  std::vector<Found> found;
  const bool from_files = fetch(some, &values, &found);
  for (size_t i = 0; i < missing_.size(); ++i) {
    values_[missing_[i]] = std::move(values[i]);
    found_[missing_[i]] = found[i];
  }
  return from_files;
}

// Puts the values that were read into the cache.
void CheckedRead::CacheResults(const std::vector<std::string_view>& keys) const {
  for (const size_t i : missing_) {
    if (!check_.versions[i].known()) continue;
    shared_->values->Put(check_.hashes[i], keys[i], check_.versions[i],
                         found_[i] == Found::kYes ? std::string_view(values_[i]) : "");
  }
}

Outcome CheckedRead::End(const std::vector<std::string_view>& keys, Command command, int protocol,
                         std::string* reply) {
  if (std::count(found_.begin(), found_.end(), Found::kUnknown) > 0) return Outcome::kNotInMemory;
  if (!Unchanged()) return Outcome::kChanged;
  entries_.resize(values_.size());
  for (size_t i = 0; i < values_.size(); ++i) {
    entries_[i] = Entry();
    if (found_[i] != Found::kYes) continue;
    // Not ours: the host says what is wrong.
    if (!DecodeValue(values_[i], &entries_[i].value)) return Outcome::kNoView;
    const int64_t expires = entries_[i].value.expires_ms;
    if (expires != kNever && shared_->options.skew_ms > 0 &&
        std::abs(expires - check_.now_ms) <= shared_->options.skew_ms) {
      return Outcome::kHostsClock;
    }
    entries_[i].exists = !entries_[i].value.ExpiredAt(check_.now_ms);
  }
  CacheResults(keys);
  ReplyWriter writer(reply, protocol);
  Write(command, &writer);
  return Outcome::kAnswered;
}

bool CheckedRead::Unchanged() const {
  const DirtyTable& table = shared_->table;
  const auto slot = [&](size_t i) { return table.SlotOfHash(check_.hashes[i]); };
  if (missing_.size() < check_.hashes.size()) {
    for (size_t i = 0; i < check_.hashes.size(); ++i) {
      if (shared_->VersionOf(slot(i)) != check_.versions[i]) return false;
    }
  }
  if (missing_.empty()) return true;
  for (size_t i = 0; i < missing_.size(); ++i) {
    if (!table.Unchanged(slot(missing_[i]), check_.words[i])) return false;
  }
  return table.Unchanged(table.everything(), check_.everything) &&
         shared_->view->Validity() == check_.validity;
}

void CheckedRead::Write(Command command, ReplyWriter* reply) const {
  const Entry& first = entries_[0];
  switch (command) {
    case Command::kMget:
      reply->Array(entries_.size());
      [[fallthrough]];
    case Command::kGet:
      for (const Entry& entry : entries_) {
        if (entry.exists) {
          reply->Bulk(entry.value.data);
        } else {
          reply->Null();
        }
      }
      break;
    case Command::kExists:
    case Command::kTouch:
      reply->Integer(std::count_if(entries_.begin(), entries_.end(),
                                   [](const Entry& entry) { return entry.exists; }));
      break;
    case Command::kStrlen:
      reply->Integer(first.exists ? static_cast<int64_t>(first.value.data.size()) : 0);
      break;
    case Command::kType:
      reply->Simple(first.exists ? "string" : "none");
      break;
    default:
      reply->Integer(ExpiryReply(command, first));
  }
}

int64_t CheckedRead::ExpiryReply(Command command, const Entry& entry) const {
  if (!entry.exists) return -2;
  if (entry.value.expires_ms == kNever) return -1;
  const bool left = command == Command::kTtl || command == Command::kPttl;
  const int64_t ms = entry.value.expires_ms - (left ? check_.now_ms : 0);
  const bool seconds = command == Command::kTtl || command == Command::kExpiretime;
  return seconds ? RoundedSeconds(ms) : ms;
}

size_t CheckedRead::ValueBytes() const {
  size_t bytes = 0;
  for (size_t i = 0; i < values_.size(); ++i) {
    if (found_[i] == Found::kYes) bytes += values_[i].size();
  }
  return bytes;
}

size_t CheckedRead::MemoryHeld() const {
  size_t bytes = check_.hashes.capacity() * sizeof(check_.hashes[0]) +
                 check_.versions.capacity() * sizeof(check_.versions[0]) +
                 check_.words.capacity() * sizeof(check_.words[0]) +
                 missing_.capacity() * sizeof(missing_[0]) +
                 values_.capacity() * sizeof(values_[0]) + found_.capacity() * sizeof(found_[0]) +
                 entries_.capacity() * sizeof(entries_[0]);
  for (const std::string& value : values_) bytes += value.capacity();
  return bytes;
}

void CheckedRead::Free() {
  check_ = Check();
  FreeBytes(&missing_);
  FreeBytes(&values_);
  FreeBytes(&found_);
  FreeBytes(&entries_);
}

size_t OffloadFlow::MemoryKept() const {
  return reply_.capacity() + request_.MemoryHeld() + reader_.MemoryHeld() +
         keys_.capacity() * sizeof(keys_[0]);
}

// Buffers that large requests and replies have grown are not kept for small ones.
void OffloadFlow::ReleaseExcessMemory() {
  if (MemoryKept() <= kMostKept) return;
  if (reply_.capacity() > kMostKept) FreeBytes(&reply_);
  if (request_.MemoryHeld() > kMostKept) request_ = Request();
  if (reader_.MemoryHeld() + keys_.capacity() * sizeof(keys_[0]) > kMostKept) {
    reader_.Free();
    FreeBytes(&keys_);
  }
}

bool OffloadFlow::CanAnswer(const CommandInfo* command) {
  if (command == nullptr || !IsOffloadable(command->id) || multi_) return false;
  if (!command->ArityFits(request_.size()) || request_.size() > kMostKeys) return false;
  if (MayRead()) return true;
  shared_->Count(&shared_->counters.not_permitted);
  return false;
}

// A command on keys alone, which leaves the connection's state as it is, so that it may be
// forwarded later.
bool OffloadFlow::CanWait(const CommandInfo* command) const {
  return command != nullptr && !multi_ && command->first_key != 0 &&
         (command->flags & ~uint32_t{kRead | kWrite}) == 0 && command->ArityFits(request_.size());
}

Outcome OffloadFlow::TryAnswer(const CommandInfo& command, const Request& request,
                               std::string* reply) {
  keys_.clear();
  ForEachKey(command, request.arguments(), [&](std::string_view key) { keys_.push_back(key); });
  Outcome outcome = reader_.Begin(keys_);
  if (outcome != Outcome::kAnswered) return outcome;
  const bool from_page_cache = reader_.ReadNow(keys_);
  reply->clear();
  outcome = reader_.End(keys_, command.id, protocol_, reply);
  if (outcome == Outcome::kAnswered) {
    shared_->Count(&shared_->counters.offloaded);
    if (reader_.known()) shared_->Count(&shared_->counters.known);
    if (from_page_cache) shared_->Count(&shared_->counters.from_page_cache);
  }
  return outcome;
}

void OffloadFlow::CountReason(Outcome outcome) {
  OffloadCounters& counters = shared_->counters;
  shared_->Count(outcome == Outcome::kDirty     ? &counters.dirty
                 : outcome == Outcome::kChanged ? &counters.changed
                                                : &counters.no_view);
}

// Handles the read, or the command that may wait, in request_.
void OffloadFlow::HandleKeyCommand(Ticket ticket, std::string_view bytes,
                                   const CommandInfo* command, bool read) {
  if (waiting_.empty() && !read) {
    if (!ForwardCommand(ticket, bytes, command)) connection_->Close(kTooManyWrites);
    return;
  }
  if (waiting_.empty() && forwarded_.empty()) {
    const Outcome outcome = TryAnswer(*command, request_, &reply_);
    if (outcome == Outcome::kAnswered) {
      connection_->Reply(ticket, reply_);
    } else if (outcome == Outcome::kNotInMemory) {
      EnqueueWaiting(ticket, bytes, command, read);
      front_missed_ = true;
    } else {
      CountReason(outcome);
      ForwardRead(ticket, bytes, command);
    }
    return;
  }
  EnqueueWaiting(ticket, bytes, command, read);
  if (waiting_.size() > kMostWaiting || waiting_bytes_ > kMostWaitingBytes) {
    ForwardAllWaiting(&shared_->counters.full);
  } else {
    DrainWaiting();
  }
}

void OffloadFlow::EnqueueWaiting(Ticket ticket, std::string_view bytes, const CommandInfo* command,
                                 bool read) {
  waiting_.push_back({ticket, std::string(bytes), command, read});
  waiting_bytes_ += bytes.size();
}

OffloadFlow::Waiting OffloadFlow::PopFront() {
  Waiting front = std::move(waiting_.front());
  waiting_.pop_front();
  waiting_bytes_ -= front.bytes.size();
  return front;
}

void OffloadFlow::OnRoom() {
  DrainWaiting();
  SubmitBatch();
  ReleaseExcessMemory();
}

// Answers or forwards waiting commands, from the front, until one has to wait on. Uses request_.
void OffloadFlow::DrainWaiting() {
  while (!waiting_.empty() && !front_missed_) {
    const Waiting& front = waiting_.front();
    if (!front.read) {
      if (!ForwardWaitingWrite()) return;
    } else if (connection_->unsent() > kMostUnsent) {
      return;  // OnRoom comes
    } else if (!forwarded_.empty()) {
      const size_t few = CountReadsBeforeWrite();
      if (few == 0) return;
      shared_->Count(&shared_->counters.order, few);
      for (size_t i = 0; i < few; ++i) ForwardWaitingRead();
    } else if (!MayRead()) {
      // As of when it came; what it waited for has changed the user.
      shared_->Count(&shared_->counters.not_permitted);
      ForwardWaitingRead();
    } else {
      request_.Parse(front.bytes).IgnoreError();
      const Outcome outcome = TryAnswer(*front.command, request_, &reply_);
      if (outcome == Outcome::kAnswered) {
        connection_->Reply(front.ticket, reply_);
        PopFront();
      } else if (outcome == Outcome::kNotInMemory) {
        front_missed_ = true;
      } else {
        CountReason(outcome);
        ForwardWaitingRead();
      }
    }
  }
}

// Reads before the first waiting write, if they are few; else 0.
size_t OffloadFlow::CountReadsBeforeWrite() const {
  for (size_t i = 0; i < waiting_.size() && i <= kFewReads; ++i) {
    if (!waiting_[i].read) return i;
  }
  return 0;
}

// Gives the first waiting read, which is not in memory, and the reads behind it, up to a write, to
// a thread that may wait.
void OffloadFlow::SubmitBatch() {
  if (!front_missed_ || batch_ != 0) return;
  auto batch = std::make_shared<Batch>();
  const Outcome outcome = FillBatch(batch.get());
  const size_t reads = batch->reads.size();
  if (reads == 0) {
    // Written since it was missed.
    front_missed_ = false;
    CountReason(outcome);
    ForwardWaitingRead();
    DrainWaiting();
    return;
  }
  if (shared_->queued.fetch_add(1) >= shared_->options.queue) {
    shared_->queued.fetch_sub(1);
    front_missed_ = false;
    shared_->Count(&shared_->counters.full, reads);
    for (size_t i = 0; i < reads; ++i) ForwardWaitingRead();
    DrainWaiting();
    return;
  }
  batch->id = batch_ = ++last_batch_;
  shared_->pool->Post([shared = shared_, batch, this, remote = connection_->remote()] {
    shared->queued.fetch_sub(1);
    std::vector<std::string_view> keys;
    size_t done = 0;
    for (size_t bytes = 0; done < batch->reads.size() && bytes < kMostBatchBytes; ++done) {
      BatchRead& read = batch->reads[done];
      keys.assign(read.keys.begin(), read.keys.end());
      read.reader.Read(keys);
      bytes += read.reader.ValueBytes();
    }
    // They wait still, and are first when the others have been answered.
    while (batch->reads.size() > done) batch->reads.pop_back();
    remote->Post([this, batch] { FinishBatch(batch.get()); });
  });
}

// Fills the batch with waiting reads. Returns why the first one that is left out cannot be read.
Outcome OffloadFlow::FillBatch(Batch* batch) {
  size_t known_bytes = 0;
  for (const Waiting& read : waiting_) {
    if (!read.read || known_bytes >= kMostBatchBytes) break;
    request_.Parse(read.bytes).IgnoreError();
    std::vector<std::string> keys;
    ForEachKey(*read.command, request_.arguments(),
               [&](std::string_view key) { keys.emplace_back(key); });
    CheckedRead reader(shared_.get());
    const std::vector<std::string_view> views(keys.begin(), keys.end());
    if (const Outcome outcome = reader.Begin(views); outcome != Outcome::kAnswered) return outcome;
    known_bytes += reader.ValueBytes();
    batch->reads.push_back({read.ticket, read.command->id, std::move(keys), std::move(reader)});
  }
  return Outcome::kAnswered;
}

// Delivers a batch that the pool has read. Its reads are the first waiting ones, unless they were
// forwarded meanwhile.
void OffloadFlow::FinishBatch(Batch* batch) {
  if (batch->id != batch_) return;
  batch_ = 0;
  front_missed_ = false;
  for (BatchRead& done : batch->reads) {
    reply_.clear();
    keys_.assign(done.keys.begin(), done.keys.end());
    const Outcome outcome = done.reader.End(keys_, done.command, protocol_, &reply_);
    if (outcome == Outcome::kAnswered) {
      shared_->Count(&shared_->counters.offloaded);
      shared_->Count(done.reader.known() ? &shared_->counters.known
                                         : &shared_->counters.from_device);
      connection_->Reply(done.ticket, reply_);
      PopFront();
      continue;
    }
    // The others are to come later than this one at the host.
    CountReason(outcome);
    ForwardWaitingRead();
    break;
  }
  DrainWaiting();
  SubmitBatch();
  ReleaseExcessMemory();
}

// Forwards all waiting commands, so that another may be forwarded behind them, and drops what the
// pool reads for them. False when that has closed the connection. Uses request_.
bool OffloadFlow::ForwardAllWaiting(std::atomic<uint64_t>* reason) {
  front_missed_ = false;
  batch_ = 0;
  while (!waiting_.empty()) {
    if (waiting_.front().read) {
      shared_->Count(reason);
      ForwardWaitingRead();
      continue;
    }
    if (!ForwardWaitingWrite()) return false;
  }
  return true;
}

// Forwards the first waiting command, which is a write. False when that has closed the connection:
// it and the commands behind it have been answered by errors then.
bool OffloadFlow::ForwardWaitingWrite() {
  const Waiting write = PopFront();
  request_.Parse(write.bytes).IgnoreError();  // as it was before
  if (ForwardCommand(write.ticket, write.bytes, write.command)) return true;
  connection_->Reply(write.ticket, kTooManyWrites);
  while (!waiting_.empty()) {
    connection_->Reply(PopFront().ticket,
                       "-ERR a command before this one was refused; this was not carried out\r\n");
  }
  front_missed_ = false;
  batch_ = 0;
  connection_->Close({});
  return false;
}

void OffloadFlow::ForwardWaitingRead() {
  const Waiting read = PopFront();
  ForwardRead(read.ticket, read.bytes, read.command);
}

void OffloadFlow::ForwardRead(Ticket ticket, std::string_view bytes, const CommandInfo* command) {
  shared_->Count(&shared_->counters.forwarded);
  forwarded_.push_back({});
  forwarded_.back().ticket = ticket;
  forwarded_.back().command = command;
  connection_->Forward(ticket, bytes);
}

}  // namespace pulse::redis
