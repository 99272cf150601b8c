#include "net/local_stream.h"

#include <algorithm>
#include <cerrno>

#include "net/loop.h"
#include "net/ring.h"

namespace pulse::net {
namespace {

// What an idle connection keeps for what comes next.
constexpr size_t kKeptBytes = 512;

}  // namespace

class LocalStream final : public Stream {
 public:
  LocalStream(LocalEnds* ends, std::shared_ptr<LocalConnection> connection, int side,
              StreamEvents* events)
      : Stream(UniqueFd(), ends->cache_),
        ends_(ends),
        connection_(std::move(connection)),
        side_(side),
        events_(events) {}
  void SetReading(bool on) override;
  void Flush() override;
  void EndSending() override;
  void Close() override;
  void Deliver();

 private:
  LocalConnection::End& mine() { return connection_->ends[side_]; }
  LocalConnection::End& other() { return connection_->ends[1 - side_]; }
  void Tell(std::unique_lock<std::mutex> lock, int side) {
    connection_->Tell(std::move(lock), side);
  }
  bool TakeArrived(bool* ended);
  void Retry();

  LocalEnds* const ends_;
  const std::shared_ptr<LocalConnection> connection_;
  const int side_;
  StreamEvents* const events_;
  bool reading_ = false;
  bool blocked_ = false;  // the other end has no room
  bool ended_ = false;    // it has ended, and that was said
  bool closed_ = false;
  int error_ = 0;
  bool reported_ = false;
};

void LocalConnection::Tell(std::unique_lock<std::mutex> lock, int side) {
  End& end = ends[side];
  const bool tell = !end.gone && !std::exchange(end.told, true);
  lock.unlock();
  if (tell) end.mailbox->Tell({shared_from_this(), side});
}

void LocalStream::SetReading(bool on) {
  if (reading_ == on || error_ != 0) return;
  reading_ = on;
  if (!on) return;
  std::unique_lock lock(connection_->mutex);
  const bool over = (mine().no_more || other().gone) && !ended_;
  if (!mine().in.empty() || over) Tell(std::move(lock), side_);
}

void LocalStream::Flush() {
  if (blocked_ || error_ != 0 || out_.empty()) return;
  std::unique_lock lock(connection_->mutex);
  LocalConnection::End& to = other();
  if (to.gone) {
    error_ = EPIPE;
    return Tell(std::move(lock), side_);
  }
  size_t room = kLocalRoom - std::min(kLocalRoom, to.in.size());
  while (room > 0 && !out_.empty()) {
    iovec first;
    out_.Peek(&first, 1);
    const size_t bytes = std::min(room, first.iov_len);
    to.in.append(static_cast<const char*>(first.iov_base), bytes);
    handed_over_ += bytes;
    out_.Consume(bytes);
    room -= bytes;
  }
  blocked_ = to.waited = !out_.empty();
  Tell(std::move(lock), 1 - side_);
}

void LocalStream::EndSending() {
  std::unique_lock lock(connection_->mutex);
  other().no_more = true;
  Tell(std::move(lock), 1 - side_);
}

void LocalStream::Close() {
  std::unique_lock lock(connection_->mutex);
  closed_ = true;
  mine().gone = true;
  FreeBytes(&mine().in);
  Tell(std::move(lock), 1 - side_);
  mine().stream = nullptr;
  out_.Clear();
  ends_->graves_.emplace_back(this);
}

// Whether something has arrived: it is in ends_->arrived_. `ended`: it was the last.
bool LocalStream::TakeArrived(bool* ended) {
  std::unique_lock lock(connection_->mutex);
  LocalConnection::End& end = mine();
  ends_->arrived_.assign(end.in);
  end.in.clear();
  if (end.in.capacity() > kKeptBytes) FreeBytes(&end.in);
  *ended = end.no_more || other().gone;
  if (std::exchange(end.waited, false)) Tell(std::move(lock), 1 - side_);
  return !ends_->arrived_.empty();
}

// There may be room again, or nobody any more.
void LocalStream::Retry() {
  {
    const std::lock_guard lock(connection_->mutex);
    if (other().waited && !other().gone) return;
  }
  blocked_ = false;
  const size_t before = out_.size();
  Flush();
  if (out_.size() < before && error_ == 0) events_->OnSent();
}

void LocalStream::Deliver() {
  if (blocked_) Retry();
  if (closed_) return;
  const bool reads = reading_ && !ended_;
  bool last = false;
  if (reads && TakeArrived(&last)) {
    events_->OnBytes(ends_->arrived_);
    if (closed_) return;
  }
  // What had arrived before counts.
  if (error_ != 0) {
    if (!std::exchange(reported_, true)) events_->OnError(error_);
    return;
  }
  if (!reads || !last) return;
  ended_ = true;
  reading_ = false;
  events_->OnEnd();
}

LocalEnds::LocalEnds(ChunkCache* cache) : cache_(cache) {}
LocalEnds::~LocalEnds() = default;

StreamPtr LocalEnds::Take(std::shared_ptr<LocalConnection> connection, int side,
                          StreamEvents* events) {
  LocalConnection::End& end = connection->ends[side];
  end.stream = new LocalStream(this, std::move(connection), side, events);
  return StreamPtr(end.stream);
}

void LocalEnds::Deliver(const LocalEvent& event) {
  LocalConnection::End& end = event.connection->ends[event.side];
  {
    const std::lock_guard lock(event.connection->mutex);
    end.told = false;
  }
  // It may be closed, or not taken yet: then reading tells of what is there.
  if (end.stream != nullptr) end.stream->Deliver();
}

void LocalEnds::BuryDead() { graves_.clear(); }

LocalOffer::~LocalOffer() {
  if (connection_ == nullptr) return;
  std::unique_lock lock(connection_->mutex);
  connection_->ends[1].gone = true;
  connection_->Tell(std::move(lock), 0);
}

StreamPtr LocalOffer::Take(LocalEnds* ends, StreamEvents* events) {
  return ends->Take(std::exchange(connection_, nullptr), 1, events);
}

void LocalPort::Add(Loop* loop) { loops_.push_back({loop, loop->mailbox()}); }

StreamPtr LocalPort::Connect(Loop* from, StreamEvents* events) const {
  if (closed_) return nullptr;
  const Entry& to = loops_[static_cast<size_t>(from->index()) % loops_.size()];
  auto connection = std::make_shared<LocalConnection>();
  connection->ends[0].mailbox = from->mailbox();
  connection->ends[1].mailbox = to.mailbox;
  auto offer = std::make_shared<LocalOffer>(connection);
  StreamPtr stream = from->local()->Take(std::move(connection), 0, events);
  if (!to.mailbox->Push([loop = to.loop, offer] { loop->WelcomeLocal(offer.get()); }))
    return nullptr;
  return stream;
}

}  // namespace pulse::net
