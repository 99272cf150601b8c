// MessageBatch: what one connection has sent together, and the replies to it, which whoever carries
// the requests out appends to `out`, one end of each to `ends`.
//
// Threads: one at a time; Deliver on the connection's loop.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/cpu_profile.h"
#include "net/application.h"
#include "net/byte_budget.h"

namespace pulse::redis {

// A reply that needs no look at the room that there is, while there is much.
inline constexpr uint64_t kSmallReply = uint64_t{64} << 10;
// Replies that are delivered before more are made, the same.
inline constexpr size_t kFullBytes = size_t{256} << 10;

struct MessageBatch {
  struct Entry {
    net::Ticket ticket;
    size_t begin;
    size_t size;
    bool split = false;  // in the form of AppendSplit (codec.h)
  };
  std::string bytes;
  std::vector<Entry> entries;
  size_t next = 0;       // the first that has no reply
  size_t delivered = 0;  // the first whose reply has not been given to the connection
  std::string out;       // replies since `delivered`
  std::vector<size_t> ends;
  // Replies of all connections together have a bound. It has stopped, as its next one needs more
  // than there is room for: so much.
  uint64_t lacks = 0;
  bool may_exceed = false;  // for one large reply
  net::BudgetShare share;   // of `out`, if that is much

  // Whether the next reply, of `needed` bytes, has to wait for room. If not, it has the room.
  bool MustWait(const std::shared_ptr<net::ByteBudget>& budget, uint64_t needed) {
    if (needed <= Small(*budget) || share.TryAdd(budget, needed)) return false;
    if (may_exceed) {
      may_exceed = false;
      return false;
    }
    lacks = needed;
    return true;
  }
  // Whether it may go on now: there is room for what it lacks, or it is its turn.
  bool MayGoOn(net::Connection* connection, const std::shared_ptr<net::ByteBudget>& budget) {
    if (lacks == 0) return true;
    may_exceed = connection->MayExceed();
    if (!may_exceed && !budget->HasRoomFor(lacks)) return false;
    lacks = 0;
    return true;
  }
  // The reply that MustWait was asked about was not made: its room will be asked for again.
  // `may_exceed_before`: as it was before.
  void ForgetRoom(const std::shared_ptr<net::ByteBudget>& budget, bool may_exceed_before) {
    may_exceed = may_exceed_before;
    share.Set(nullptr, 0);
    CountReplies(budget);
  }
  void CountReplies(const std::shared_ptr<net::ByteBudget>& budget) {
    // What a command took for the value that it made is over with it.
    if (budget != nullptr && out.size() > Small(*budget)) {
      share.Set(budget, out.size());
    } else {
      share.Set(nullptr, 0);
    }
  }

  // Whether what there is has to be delivered before more is made. Where room is short, small
  // replies are made without a look at it: so there are few of them.
  bool IsFull(const std::shared_ptr<net::ByteBudget>& budget) const {
    return !out.empty() && out.size() >= MostOf(budget, kFullBytes);
  }
  // What a connection may have of something: as usual, or little where room is short.
  static size_t MostOf(const std::shared_ptr<net::ByteBudget>& budget, size_t usual) {
    return budget != nullptr && budget->IsTight() ? budget->small() : usual;
  }
  // Of small replies where room is short, until it is full.
  uint64_t SmallLeft(const net::ByteBudget& budget) const {
    return budget.small() - std::min<uint64_t>(budget.small(), out.size());
  }
  // Whether all that the client was given has to leave before more is made, as room is short. Its
  // flow is then as full as one whose client takes nothing, and goes on in OnRoom: at the end of
  // this turn, if all leaves then, and else when the socket has taken more (StreamEvents::OnSent).
  static bool MustSendFirst(const net::Connection& connection,
                            const std::shared_ptr<net::ByteBudget>& budget) {
    return budget != nullptr && budget->IsTight() && connection.unsent() > 0;
  }

  static uint64_t Small(const net::ByteBudget& budget) {
    return budget.IsTight() ? budget.small() : kSmallReply;
  }

  void Add(net::Ticket ticket, std::string_view request, bool split = false) {
    entries.push_back({ticket, bytes.size(), request.size(), split});
    bytes.append(request);
  }
  std::string_view At(size_t index) const {
    return std::string_view(bytes).substr(entries[index].begin, entries[index].size);
  }
  void Deliver(net::Connection* connection) {
    const CpuScope scope(CpuComponent::kRespond);
    size_t begin = 0;
    for (size_t i = 0; i < ends.size(); ++i) {
      connection->Reply(entries[delivered + i].ticket,
                        std::string_view(out).substr(begin, ends[i] - begin));
      begin = ends[i];
    }
    delivered = next;
    share.Set(nullptr, 0);
    // Who waits may do so with its batch for long, and there may be many.
    constexpr size_t kKept = size_t{16} << 10;
    if (out.capacity() > kKept) {
      std::string().swap(out);
    } else {
      out.clear();
    }
    ends.clear();
  }
};

}  // namespace pulse::redis
