// MessageBatch: what one connection has sent together, and the replies to it, which whoever carries
// the requests out appends to `out`, one end of each to `ends`.
//
// Threads: one at a time; Deliver on the connection's loop.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "base/cpu_profile.h"
#include "net/application.h"

namespace pulse::redis {

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
    out.clear();
    ends.clear();
  }
};

}  // namespace pulse::redis
