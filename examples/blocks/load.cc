#include "examples/blocks/load.h"

#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <deque>
#include <memory>
#include <random>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/clock.h"
#include "base/errors.h"
#include "base/unique_fd.h"
#include "examples/blocks/stamps.h"
#include "examples/blocks/wire.h"

namespace pulse::blocks {
namespace {

constexpr size_t kReceive = size_t{256} << 10;
constexpr int64_t kSecond = 1'000'000'000;

// What the load knows of one block.
struct Known {
  uint64_t acked = 0;   // the least that a read sent now must see
  uint64_t issued = 0;  // the most that it can see
  bool writing = false;
};

struct Pending {
  uint64_t place = 0;
  uint64_t version = 0;  // of a write; of a read: the least that it must see
  int64_t due = 0;
  uint32_t message = 0;
  Op op = Op::kRead;
};

struct LoadConnection {
  UniqueFd fd;
  std::string out;
  size_t sent = 0;
  bool want_write = false;
  std::string in;
  std::unordered_map<uint64_t, Pending> pending;
  std::vector<uint32_t> left;  // requests of each message slot that have no answer
  std::vector<uint32_t> idle;  // message slots
};

class LoadRun {
 public:
  explicit LoadRun(const LoadOptions& options) : o_(options), dice_(options.seed) {}

  absl::StatusOr<LoadResult> Run() {
    PULSE_RETURN_IF_ERROR(Check());
    poll_.reset(epoll_create1(EPOLL_CLOEXEC));
    if (!poll_.valid()) return ErrnoError(errno, "creating", "an epoll set");
    connections_.resize(o_.connections);
    for (LoadConnection& c : connections_) PULSE_RETURN_IF_ERROR(Connect(&c));
    PULSE_RETURN_IF_ERROR(OpenFile());
    // Above every version of an earlier run.
    first_version_ = static_cast<uint64_t>(ClockNanos(CLOCK_REALTIME));
    next_version_ = first_version_;
    known_.resize(blocks_);
    const int64_t begin = NowNanos();
    begin_ = begin;
    end_ = o_.fill ? INT64_MAX : begin + static_cast<int64_t>(o_.seconds * 1e9);
    PULSE_RETURN_IF_ERROR(Drive());
    result_.seconds = static_cast<double>(NowNanos() - begin) / 1e9;
    if (o_.fill) PULSE_RETURN_IF_ERROR(Sync());
    return std::move(result_);
  }

 private:
  absl::Status Check() const {
    if (o_.block < kMinBlock || o_.block % 16 != 0 || o_.block > kMaxIo) {
      return absl::InvalidArgumentError(absl::StrCat(
          "the size of a block must be a multiple of 16, ", kMinBlock, " to ", kMaxIo));
    }
    if (o_.batch == 0 || o_.batch > kMaxRequests) {
      return absl::InvalidArgumentError(
          absl::StrCat("a batch has 1 to ", kMaxRequests, " requests"));
    }
    if (o_.connections == 0 || o_.outstanding == 0) {
      return absl::InvalidArgumentError("there must be a connection, and a message outstanding");
    }
    return absl::OkStatus();
  }

  absl::Status Connect(LoadConnection* c) {
    auto fd = examples::ConnectTcp(o_.host, o_.port);
    if (!fd.ok()) return fd.status();
    if (fcntl(fd->get(), F_SETFL, O_NONBLOCK) != 0) {
      return ErrnoError(errno, "setting up", "a connection");
    }
    c->fd = *std::move(fd);
    c->out.clear();
    c->in.clear();
    c->sent = 0;
    c->want_write = false;
    c->pending.clear();
    c->left.assign(o_.outstanding, 0);
    c->idle.clear();
    for (uint32_t i = 0; i < o_.outstanding; ++i) c->idle.push_back(o_.outstanding - 1 - i);
    epoll_event e{};
    e.events = EPOLLIN;
    e.data.ptr = c;
    if (epoll_ctl(poll_.get(), EPOLL_CTL_ADD, c->fd.get(), &e) != 0) {
      return ErrnoError(errno, "watching", "a connection");
    }
    return absl::OkStatus();
  }

  // One request on the first connection, waited for.
  absl::StatusOr<std::string> Ask(const RequestHeader& h, std::string_view data) {
    MessageBuilder b(kRequestMagic);
    b.Add(h, data);
    LoadConnection& c = connections_[0];
    c.out.append(b.Finish());
    PULSE_RETURN_IF_ERROR(Send(&c));
    while (true) {
      const auto size = SplitMessage(c.in, kReplyMagic);
      if (!size.ok()) return size.status();
      if (*size > 0) {
        std::vector<Reply> replies;
        PULSE_RETURN_IF_ERROR(DecodeReplies(std::string_view(c.in).substr(0, *size), &replies));
        const Reply& r = replies[0];
        absl::Status st = kCodes.ToStatus(r.header.code, r.data);
        std::string text(r.data);
        c.in.erase(0, *size);
        if (!st.ok()) return st;
        return text;
      }
      epoll_event events[8];
      epoll_wait(poll_.get(), events, 8, 1000);
      if (!c.out.empty()) PULSE_RETURN_IF_ERROR(Send(&c));
      PULSE_RETURN_IF_ERROR(Receive(&c));
    }
  }

  absl::Status OpenFile() {
    RequestHeader h{};
    h.op = Op::kOpen;
    h.id = 1;
    h.size = static_cast<uint32_t>(o_.file.size());
    const auto reply = Ask(h, o_.file);
    if (!reply.ok()) return reply.status();
    FileInfo info;
    if (reply->size() != sizeof(info)) return absl::InternalError("blocks: no FileInfo came back");
    std::memcpy(&info, reply->data(), sizeof(info));
    file_ = info.file;
    blocks_ = info.size / o_.block;
    if (blocks_ < 2) return absl::InvalidArgumentError("the file has not even two blocks");
    next_id_ = 2;
    return absl::OkStatus();
  }

  absl::Status Sync() {
    RequestHeader h{};
    h.op = Op::kSync;
    h.file = file_;
    h.id = next_id_++;
    return Ask(h, {}).status();
  }

  // --- The run.
  bool MoreToSend() const {
    if (o_.fill) return filled_ < blocks_;
    if (o_.requests > 0 && sent_ >= o_.requests) return false;
    return !over_;
  }

  absl::Status Drive() {
    std::vector<epoll_event> events(64);
    const auto gap = o_.rate > 0 ? static_cast<double>(kSecond) / o_.rate * o_.batch : 0.0;
    uint64_t scheduled = 0;
    int64_t give_up = INT64_MAX;
    for (LoadConnection& c : connections_) PULSE_RETURN_IF_ERROR(Refill(&c));
    while (true) {
      const int64_t now = NowNanos();
      if (now >= end_ && !over_) {
        over_ = true;
        give_up = now + 30 * kSecond;
      }
      while (gap > 0 && MoreToSend()) {
        const int64_t due = begin_ + static_cast<int64_t>(static_cast<double>(scheduled) * gap);
        if (due > now) break;
        due_.push_back(due);
        ++scheduled;
      }
      PULSE_RETURN_IF_ERROR(SendDue());
      if (!MoreToSend() && outstanding_ == 0) return absl::OkStatus();
      if (now > give_up) {
        return absl::DeadlineExceededError(
            absl::StrCat(outstanding_, " requests were not answered within 30 seconds"));
      }
      int wait = 100;
      if (gap > 0 && !over_) {
        const int64_t next = begin_ + static_cast<int64_t>(static_cast<double>(scheduled) * gap);
        wait = static_cast<int>(std::clamp<int64_t>((next - now) / 1'000'000, 0, 100));
      }
      const int n = epoll_wait(poll_.get(), events.data(), static_cast<int>(events.size()), wait);
      if (n < 0 && errno != EINTR) return ErrnoError(errno, "waiting for", "replies");
      for (int i = 0; i < n; ++i) {
        PULSE_RETURN_IF_ERROR(
            Serve(static_cast<LoadConnection*>(events[static_cast<size_t>(i)].data.ptr)));
      }
    }
  }

  absl::Status Serve(LoadConnection* c) {
    absl::Status st = Receive(c);
    PULSE_RETURN_IF_ERROR(TakeReplies(c));
    if (st.ok()) st = Refill(c);
    if (st.ok() && !c->out.empty()) st = Send(c);
    if (st.ok()) return st;
    if (!o_.reconnect || !absl::IsUnavailable(st)) return st;
    return Again(c);
  }

  // The connection ended; what was not answered may have been carried out, or may be still: so such
  // a block is not written again.
  absl::Status Again(LoadConnection* c) {
    result_.lost += c->pending.size();
    outstanding_ -= c->pending.size();
    ++result_.reconnects;
    PULSE_RETURN_IF_ERROR(examples::ConnectAgain([&] { return Connect(c); }));
    return Refill(c);
  }

  absl::Status Receive(LoadConnection* c) {
    while (true) {
      const size_t had = c->in.size();
      c->in.resize(had + kReceive);
      const ssize_t n = recv(c->fd.get(), c->in.data() + had, kReceive, 0);
      c->in.resize(had + static_cast<size_t>(std::max<ssize_t>(n, 0)));
      if (n == 0) return absl::UnavailableError("blocks: the server closed the connection");
      if (n < 0 && errno == EINTR) continue;
      if (n < 0 && errno == EAGAIN) return absl::OkStatus();
      if (n < 0) return absl::UnavailableError(ErrnoError(errno, "receiving", "replies").message());
      if (n < static_cast<ssize_t>(kReceive)) return absl::OkStatus();
    }
  }

  absl::Status Send(LoadConnection* c) {
    while (c->sent < c->out.size()) {
      const ssize_t n =
          send(c->fd.get(), c->out.data() + c->sent, c->out.size() - c->sent, MSG_NOSIGNAL);
      if (n < 0 && errno == EINTR) continue;
      if (n < 0 && errno == EAGAIN) return Watch(c, true);
      if (n < 0) return absl::UnavailableError(ErrnoError(errno, "sending", "requests").message());
      c->sent += static_cast<size_t>(n);
    }
    c->out.clear();
    c->sent = 0;
    return Watch(c, false);
  }

  absl::Status Watch(LoadConnection* c, bool write) {
    if (c->want_write == write) return absl::OkStatus();
    c->want_write = write;
    epoll_event e{};
    e.events = EPOLLIN | (write ? EPOLLOUT : 0u);
    e.data.ptr = c;
    if (epoll_ctl(poll_.get(), EPOLL_CTL_MOD, c->fd.get(), &e) != 0) {
      return ErrnoError(errno, "watching", "a connection");
    }
    return absl::OkStatus();
  }

  absl::Status TakeReplies(LoadConnection* c) {
    std::string_view in = c->in;
    while (true) {
      const auto size = SplitMessage(in, kReplyMagic);
      if (!size.ok()) return size.status();
      if (*size == 0) break;
      PULSE_RETURN_IF_ERROR(DecodeReplies(in.substr(0, *size), &replies_));
      for (const Reply& r : replies_) PULSE_RETURN_IF_ERROR(TakeReply(c, r));
      in.remove_prefix(*size);
    }
    c->in.erase(0, c->in.size() - in.size());
    return absl::OkStatus();
  }

  absl::Status TakeReply(LoadConnection* c, const Reply& r) {
    const auto it = c->pending.find(r.header.id);
    if (it == c->pending.end()) {
      if (r.header.code == Code::kOk) {
        return absl::DataLossError(
            absl::StrCat("blocks: request ", r.header.id, " was answered twice, or never asked"));
      }
      const absl::Status st = kCodes.ToStatus(r.header.code, r.data);
      result_.last_error = std::string(st.message());  // of the connection
      ++result_.errors;
      return absl::OkStatus();
    }
    const Pending p = it->second;
    c->pending.erase(it);
    --outstanding_;
    if (--c->left[p.message] == 0) c->idle.push_back(p.message);
    Known& k = known_[p.place];
    if (p.op == Op::kWrite && r.header.code != Code::kUnavailable) k.writing = false;
    if (r.header.code != Code::kOk) {
      ++result_.errors;
      result_.last_error = r.data.empty() ? absl::StrCat("code ", static_cast<int>(r.header.code))
                                          : std::string(r.data);
      return absl::OkStatus();
    }
    const auto nanos = static_cast<uint64_t>(std::max<int64_t>(NowNanos() - p.due, 0));
    if (p.op == Op::kWrite) {
      k.acked = p.version;
      ++result_.writes;
      result_.write_nanos.Record(nanos);
      return absl::OkStatus();
    }
    ++result_.reads;
    result_.read_nanos.Record(nanos);
    return CheckRead(p, k, r.data);
  }

  absl::Status CheckRead(const Pending& p, const Known& k, std::string_view data) {
    if (data.size() != o_.block) {
      return absl::DataLossError(
          absl::StrCat("blocks: block ", p.place, " came with ", data.size(), " bytes"));
    }
    if (!o_.verify) return absl::OkStatus();
    const auto version = VersionOf(data.data(), o_.block, p.place);
    if (!version.has_value()) {
      return absl::DataLossError(
          absl::StrCat("blocks: block ", p.place, " does not hold what was written there"));
    }
    const bool old = *version < first_version_;
    if (old ? p.version != 0 : (*version < p.version || *version > k.issued)) {
      return absl::DataLossError(absl::StrCat("blocks: block ", p.place, " has version ", *version,
                                              "; it must be within ", p.version, " and ",
                                              k.issued));
    }
    return absl::OkStatus();
  }

  absl::Status SendDue() {
    for (size_t tries = 0; !due_.empty() && tries < connections_.size(); ++tries) {
      LoadConnection* const c = &connections_[turn_++ % connections_.size()];
      if (c->idle.empty()) continue;
      AddMessage(c, due_.front());
      due_.pop_front();
      tries = 0;
      const absl::Status st = Send(c);
      if (st.ok()) continue;
      if (!o_.reconnect) return st;
      PULSE_RETURN_IF_ERROR(Again(c));
    }
    return absl::OkStatus();
  }

  absl::Status Refill(LoadConnection* c) {
    if (o_.rate > 0) return absl::OkStatus();
    bool any = false;
    while (!c->idle.empty() && MoreToSend()) {
      if (!AddMessage(c, 0)) break;
      any = true;
    }
    return any ? Send(c) : absl::OkStatus();
  }

  // False when nothing could be asked for now.
  bool AddMessage(LoadConnection* c, int64_t due) {
    builder_.Reset();
    const uint32_t slot = c->idle.back();
    const int64_t now = due != 0 ? due : NowNanos();
    for (uint32_t i = 0; i < o_.batch && MoreToSend(); ++i) AddRequest(c, slot, now);
    if (builder_.count() == 0) return false;
    c->idle.pop_back();
    c->left[slot] = builder_.count();
    c->out.append(builder_.Finish());
    return true;
  }

  // As many blocks as one request takes.
  void AddFill(LoadConnection* c, uint32_t slot, int64_t due) {
    const uint64_t count = std::min<uint64_t>(kMaxIo / o_.block, blocks_ - filled_);
    Pending p;
    p.place = filled_;
    p.due = due;
    p.message = slot;
    p.op = Op::kWrite;
    p.version = ++next_version_;
    RequestHeader h{};
    h.id = next_id_++;
    h.file = file_;
    h.offset = filled_ * o_.block;
    h.size = static_cast<uint32_t>(count) * o_.block;
    h.op = Op::kWrite;
    data_.resize(h.size);
    for (uint64_t i = 0; i < count; ++i) {
      Stamp(data_.data() + i * o_.block, o_.block, filled_ + i, p.version);
    }
    builder_.Add(h, data_);
    filled_ += count;
    c->pending.emplace(h.id, p);
    ++outstanding_;
  }

  void AddRequest(LoadConnection* c, uint32_t slot, int64_t due) {
    if (o_.fill) return AddFill(c, slot, due);
    Pending p;
    p.place = dice_() % blocks_;
    p.due = due;
    p.message = slot;
    const double coin = static_cast<double>(dice_() >> 11) * 0x1.0p-53;
    p.op = coin >= o_.read_share ? Op::kWrite : Op::kRead;
    // Another block rather than a second write of this one.
    for (int i = 0; i < 16 && p.op == Op::kWrite && known_[p.place].writing; ++i) {
      p.place = dice_() % blocks_;
    }
    Known& k = known_[p.place];
    if (p.op == Op::kWrite && k.writing) p.op = Op::kRead;
    RequestHeader h{};
    h.id = next_id_++;
    h.file = file_;
    h.offset = p.place * o_.block;
    h.size = o_.block;
    h.op = p.op;
    if (p.op == Op::kWrite) {
      p.version = ++next_version_;
      k.issued = p.version;
      k.writing = true;
      data_.resize(o_.block);
      Stamp(data_.data(), o_.block, p.place, p.version);
      builder_.Add(h, data_);
    } else {
      p.version = k.acked;
      builder_.Add(h);
    }
    c->pending.emplace(h.id, p);
    ++outstanding_;
    ++sent_;
  }

  const LoadOptions& o_;
  std::mt19937_64 dice_;
  UniqueFd poll_;
  std::vector<LoadConnection> connections_;
  std::vector<Known> known_;
  std::deque<int64_t> due_;  // messages of the open loop that are due and not sent
  std::vector<Reply> replies_;
  MessageBuilder builder_{kRequestMagic};
  std::string data_;
  uint64_t file_ = 0;
  uint64_t blocks_ = 0;
  uint64_t filled_ = 0;
  uint64_t next_id_ = 1;
  uint64_t first_version_ = 0;
  uint64_t next_version_ = 0;
  uint64_t outstanding_ = 0;
  uint64_t sent_ = 0;
  size_t turn_ = 0;
  int64_t begin_ = 0;
  int64_t end_ = 0;
  bool over_ = false;
  LoadResult result_;
};

}  // namespace

absl::StatusOr<LoadResult> RunLoad(const LoadOptions& options) { return LoadRun(options).Run(); }

}  // namespace pulse::blocks
