#include "examples/blocks/load.h"

#include <fcntl.h>
#include <sys/epoll.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <deque>
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

using examples::Written;

constexpr int64_t kSecond = 1'000'000'000;

struct Pending {
  uint64_t place = 0;
  uint64_t version = 0;  // of a write; of a read: the least that it must see
  int64_t due = 0;
  uint32_t message = 0;
  Op op = Op::kRead;
};

struct LoadConnection {
  examples::MessageStream stream{"blocks"};
  bool want_write = false;
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
    if (o_.fill) PULSE_RETURN_IF_ERROR(Ask(Op::kSync, {}).status());
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
    PULSE_RETURN_IF_ERROR(c->stream.Connect(o_.host, o_.port));
    if (fcntl(c->stream.fd(), F_SETFL, O_NONBLOCK) != 0) {
      return ErrnoError(errno, "setting up", "a connection");
    }
    c->want_write = false;
    c->pending.clear();
    c->left.assign(o_.outstanding, 0);
    c->idle.clear();
    for (uint32_t i = 0; i < o_.outstanding; ++i) c->idle.push_back(o_.outstanding - 1 - i);
    return SetEvents(c, EPOLL_CTL_ADD);
  }

  absl::Status SetEvents(LoadConnection* c, int operation) {
    epoll_event e{};
    e.events = EPOLLIN | (c->want_write ? EPOLLOUT : 0u);
    e.data.ptr = c;
    if (epoll_ctl(poll_.get(), operation, c->stream.fd(), &e) != 0) {
      return ErrnoError(errno, "watching", "a connection");
    }
    return absl::OkStatus();
  }

  // One request, on a connection of its own, which blocks.
  absl::StatusOr<std::string> Ask(Op op, std::string_view data) {
    RequestHeader h{};
    h.id = 1;
    h.file = file_;
    h.size = static_cast<uint32_t>(data.size());
    h.op = op;
    MessageBuilder b(kRequestMagic);
    b.Add(h, data);
    examples::MessageStream stream("blocks");
    PULSE_RETURN_IF_ERROR(stream.Connect(o_.host, o_.port));
    stream.Queue(b.Finish());
    PULSE_RETURN_IF_ERROR(stream.Send());
    PULSE_ASSIGN_OR_RETURN(const auto message, stream.WaitForNext<MessageHeader>(kReplyMagic));
    PULSE_RETURN_IF_ERROR(DecodeReplies(message, &replies_));
    const Reply& r = replies_[0];
    PULSE_RETURN_IF_ERROR(kCodes.ToStatus(r.header.code, r.data));
    return std::string(r.data);
  }

  absl::Status OpenFile() {
    PULSE_ASSIGN_OR_RETURN(const auto reply, Ask(Op::kOpen, o_.file));
    FileInfo info;
    if (reply.size() != sizeof(info)) return absl::InternalError("blocks: no FileInfo came back");
    std::memcpy(&info, reply.data(), sizeof(info));
    file_ = info.file;
    blocks_ = info.size / o_.block;
    if (blocks_ < 2) return absl::InvalidArgumentError("the file has not even two blocks");
    return absl::OkStatus();
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
    absl::Status st = c->stream.Receive();
    if (st.ok()) PULSE_RETURN_IF_ERROR(TakeReplies(c));
    if (st.ok()) st = Refill(c);
    if (st.ok() && !c->stream.all_sent()) st = Send(c);
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

  absl::Status Send(LoadConnection* c) {
    PULSE_RETURN_IF_ERROR(c->stream.Send());
    if (c->want_write != c->stream.all_sent()) return absl::OkStatus();
    c->want_write = !c->stream.all_sent();
    return SetEvents(c, EPOLL_CTL_MOD);
  }

  absl::Status TakeReplies(LoadConnection* c) {
    while (true) {
      PULSE_ASSIGN_OR_RETURN(const auto message, c->stream.Next<MessageHeader>(kReplyMagic));
      if (message.empty()) return absl::OkStatus();
      PULSE_RETURN_IF_ERROR(DecodeReplies(message, &replies_));
      for (const Reply& r : replies_) PULSE_RETURN_IF_ERROR(TakeReply(c, r));
    }
  }

  absl::Status TakeReply(LoadConnection* c, const Reply& r) {
    const auto it = c->pending.find(r.header.id);
    if (it == c->pending.end()) {
      if (r.header.code == Code::kOk) {
        return absl::DataLossError(
            absl::StrCat("blocks: request ", r.header.id, " was answered twice, or never asked"));
      }
      // Of the connection.
      result_.Refused(examples::TextOf(kCodes.ToStatus(r.header.code, r.data)));
      return absl::OkStatus();
    }
    const Pending p = it->second;
    c->pending.erase(it);
    --outstanding_;
    if (--c->left[p.message] == 0) c->idle.push_back(p.message);
    Written& k = known_[p.place];
    if (p.op == Op::kWrite && r.header.code != Code::kUnavailable) k.writing = false;
    if (r.header.code != Code::kOk) {
      result_.Refused(r.data.empty() ? absl::StrCat("code ", static_cast<int>(r.header.code))
                                     : std::string(r.data));
      return absl::OkStatus();
    }
    result_.Answered(p.op == Op::kRead, NowNanos() - p.due);
    if (p.op == Op::kWrite) {
      k.acked = p.version;
      return absl::OkStatus();
    }
    return CheckRead(p, k, r.data);
  }

  absl::Status CheckRead(const Pending& p, const Written& k, std::string_view data) {
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
    if (!k.Allows(*version, p.version, first_version_)) {
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
    c->stream.Queue(builder_.Finish());
    return true;
  }

  void AddRequest(LoadConnection* c, uint32_t slot, int64_t due) {
    Pending p;
    p.due = due;
    p.message = slot;
    uint64_t count = 1;
    if (o_.fill) {
      p.place = filled_;
      p.op = Op::kWrite;
      count = std::min<uint64_t>(kMaxIo / o_.block, blocks_ - filled_);  // as one request takes
      filled_ += count;
    } else {
      p.place = dice_() % blocks_;
      p.op = examples::Coin(dice_()) >= o_.read_share ? Op::kWrite : Op::kRead;
      // Another block rather than a second write of this one.
      for (int i = 0; i < 16 && p.op == Op::kWrite && known_[p.place].writing; ++i) {
        p.place = dice_() % blocks_;
      }
      if (known_[p.place].writing) p.op = Op::kRead;
    }
    Written& k = known_[p.place];
    RequestHeader h{};
    h.id = next_id_++;
    h.file = file_;
    h.offset = p.place * o_.block;
    h.size = static_cast<uint32_t>(count) * o_.block;
    h.op = p.op;
    if (p.op == Op::kWrite) {
      p.version = k.issued = ++next_version_;
      k.writing = true;
      data_.resize(h.size);
      for (uint64_t i = 0; i < count; ++i) {
        Stamp(data_.data() + i * o_.block, o_.block, p.place + i, p.version);
      }
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
  std::vector<Written> known_;
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
