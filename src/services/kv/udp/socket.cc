#include "services/kv/udp/socket.h"

#include <netinet/udp.h>
#include <poll.h>

#include <algorithm>
#include <cerrno>

#include "base/errors.h"

namespace pulse::kv {
namespace {

// What a burst may have until the thread comes to it; the kernel gives what it allows.
constexpr int kSocketBytes = 8 << 20;
constexpr size_t kControl = CMSG_SPACE(sizeof(uint16_t)) + CMSG_SPACE(sizeof(in6_pktinfo));

absl::StatusOr<UniqueFd> OpenUdp(const net::Address& address) {
  UniqueFd fd(socket(address.get()->sa_family, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd.valid()) return ErrnoError(errno, "making a UDP socket for", address.ToString());
  setsockopt(fd.get(), SOL_SOCKET, SO_RCVBUF, &kSocketBytes, sizeof(kSocketBytes));
  setsockopt(fd.get(), SOL_SOCKET, SO_SNDBUF, &kSocketBytes, sizeof(kSocketBytes));
  const int on = 1;
  setsockopt(fd.get(), IPPROTO_UDP, UDP_GRO, &on, sizeof(on));
  return fd;
}

}  // namespace

absl::StatusOr<UniqueFd> BindUdp(const net::Address& address) {
  PULSE_ASSIGN_OR_RETURN(UniqueFd fd, OpenUdp(address));
  const int on = 1;
  if (address.get()->sa_family == AF_INET6) {
    // It serves IPv4, too, as TCP does there: the kernel takes and gives its addresses as mapped
    // ones.
    setsockopt(fd.get(), IPPROTO_IPV6, IPV6_RECVPKTINFO, &on, sizeof(on));
  } else {
    setsockopt(fd.get(), IPPROTO_IP, IP_PKTINFO, &on, sizeof(on));
  }
  if (bind(fd.get(), address.get(), address.size) != 0) {
    return ErrnoError(errno, "listening for datagrams on", address.ToString(),
                      errno == EADDRINUSE ? "another program has this port; choose another one"
                      : errno == EINVAL
                          ? "a link-local address is one of several interfaces; choose another one"
                          : "");
  }
  return fd;
}

absl::StatusOr<UniqueFd> ConnectUdp(const net::Address& address) {
  PULSE_ASSIGN_OR_RETURN(UniqueFd fd, OpenUdp(address));
  if (connect(fd.get(), address.get(), address.size) != 0) {
    return ErrnoError(errno, "choosing a way to", address.ToString());
  }
  return fd;
}

UdpReceiver::UdpReceiver()
    : bytes_(new char[kMessages * kMessageBytes]),
      messages_(std::make_unique<Message[]>(kMessages)),
      headers_(std::make_unique<mmsghdr[]>(kMessages)) {
  for (size_t i = 0; i < kMessages; ++i) {
    messages_[i].buffer = {bytes_.get() + i * kMessageBytes, kMessageBytes};
  }
}

int UdpReceiver::Receive(int socket) {
  for (size_t i = 0; i < kMessages; ++i) {
    Message& m = messages_[i];
    msghdr& h = headers_[i].msg_hdr;
    h.msg_name = &m.peer.address;
    h.msg_namelen = sizeof(m.peer.address);
    h.msg_iov = &m.buffer;
    h.msg_iovlen = 1;
    h.msg_control = m.control;
    h.msg_controllen = sizeof(m.control);
    h.msg_flags = 0;
  }
  next_ = at_ = segment_ = 0;
  const int count = recvmmsg(socket, headers_.get(), kMessages, MSG_DONTWAIT, nullptr);
  count_ = static_cast<size_t>(std::max(count, 0));
  if (count < 0) return -errno;
  for (size_t i = 0; i < count_; ++i) messages_[i].peer.size = headers_[i].msg_hdr.msg_namelen;
  return count;
}

void UdpReceiver::ReadControl(msghdr* header, UdpPeer* peer) {
  segment_ = kMessageBytes;
  peer->local_family = 0;
  for (cmsghdr* c = CMSG_FIRSTHDR(header); c != nullptr; c = CMSG_NXTHDR(header, c)) {
    if (c->cmsg_level == IPPROTO_UDP && c->cmsg_type == UDP_GRO) {
      int size = 0;
      std::memcpy(&size, CMSG_DATA(c), sizeof(size));
      if (size > 0) segment_ = static_cast<size_t>(size);
    } else if (c->cmsg_level == IPPROTO_IP && c->cmsg_type == IP_PKTINFO) {
      in_pktinfo info;
      std::memcpy(&info, CMSG_DATA(c), sizeof(info));
      std::memcpy(&peer->local, &info.ipi_spec_dst, sizeof(info.ipi_spec_dst));
      peer->local_family = AF_INET;
    } else if (c->cmsg_level == IPPROTO_IPV6 && c->cmsg_type == IPV6_PKTINFO) {
      in6_pktinfo info;
      std::memcpy(&info, CMSG_DATA(c), sizeof(info));
      peer->local = info.ipi6_addr;
      // Nothing comes from where many listen.
      peer->local_family = IN6_IS_ADDR_MULTICAST(&info.ipi6_addr) ? 0 : AF_INET6;
    }
  }
}

bool UdpReceiver::Next(const UdpPeer** peer, std::string_view* datagram) {
  while (next_ < count_) {
    mmsghdr& m = headers_[next_];
    if (at_ == 0) ReadControl(&m.msg_hdr, &messages_[next_].peer);
    // An empty datagram is nobody's.
    if (at_ >= m.msg_len || (m.msg_hdr.msg_flags & MSG_TRUNC) != 0) {
      at_ = 0;
      ++next_;
      continue;
    }
    const size_t size = std::min<size_t>(segment_, m.msg_len - at_);
    *peer = &messages_[next_].peer;
    *datagram = {static_cast<const char*>(messages_[next_].buffer.iov_base) + at_, size};
    at_ += size;
    return true;
  }
  return false;
}

bool UdpSender::Continues(const Group& group, const UdpPeer* peer, size_t size) const {
  return !group.closed && size <= group.segment && group.segment <= most_segment_ &&
         group.count < kMostSegments && group.bytes + size <= kMostGroupBytes &&
         (peer == group.peer ||
          (*peer == *group.peer && peer->local_family == group.peer->local_family &&
           std::memcmp(&peer->local, &group.peer->local, sizeof(peer->local)) == 0));
}

void UdpSender::SetControl(const Group& group, bool segmented, char* space, msghdr* header) {
  size_t used = 0;
  const auto put = [&](int level, int type, const auto& what) {
    auto* c = reinterpret_cast<cmsghdr*>(space + used);
    c->cmsg_level = level;
    c->cmsg_type = type;
    c->cmsg_len = CMSG_LEN(sizeof(what));
    std::memcpy(CMSG_DATA(c), &what, sizeof(what));
    used += CMSG_SPACE(sizeof(what));
  };
  if (segmented) put(IPPROTO_UDP, UDP_SEGMENT, static_cast<uint16_t>(group.segment));
  if (group.peer->local_family == AF_INET) {
    in_pktinfo info{};
    std::memcpy(&info.ipi_spec_dst, &group.peer->local, sizeof(info.ipi_spec_dst));
    put(IPPROTO_IP, IP_PKTINFO, info);
  } else if (group.peer->local_family == AF_INET6) {
    in6_pktinfo info{};
    info.ipi6_addr = group.peer->local;
    put(IPPROTO_IPV6, IPV6_PKTINFO, info);
  }
  header->msg_control = used == 0 ? nullptr : space;
  header->msg_controllen = used;
}

void UdpSender::Add(const UdpPeer* peer, const char* bytes, size_t size) {
  const iovec piece = {const_cast<char*>(bytes), size};
  if (groups_.empty() || !Continues(groups_.back(), peer, size)) {
    groups_.push_back({peer, pieces_.size(), 1, 1, size, size, false});
    pieces_.push_back(piece);
    return;
  }
  Group& group = groups_.back();
  ++group.count;
  group.bytes += size;
  group.closed = size < group.segment;  // a shorter one is the last
  iovec& last = pieces_.back();
  if (static_cast<char*>(last.iov_base) + last.iov_len == bytes) {
    last.iov_len += size;
  } else {
    ++group.pieces;
    pieces_.push_back(piece);
  }
}

bool UdpSender::WaitForRoom(int socket) {
  pollfd p = {socket, POLLOUT, 0};
  return poll(&p, 1, 1) == 1;
}

// Each datagram of a group by itself. Returns how many were lost.
size_t UdpSender::SendSingly(int socket, const Group& group) {
  size_t lost = 0;
  alignas(cmsghdr) char control[kControl] = {};
  iovec one{};
  msghdr h{};
  if (group.peer->size != 0) h.msg_name = const_cast<sockaddr_in6*>(&group.peer->address);
  h.msg_namelen = group.peer->size;
  h.msg_iov = &one;
  h.msg_iovlen = 1;
  SetControl(group, /*segmented=*/false, control, &h);
  for (size_t i = 0; i < group.pieces; ++i) {
    const iovec& piece = pieces_[group.first + i];
    for (size_t at = 0; at < piece.iov_len; at += group.segment) {
      one = {static_cast<char*>(piece.iov_base) + at, std::min(group.segment, piece.iov_len - at)};
      ssize_t sent = -1;
      for (int tries = 0; tries < 2 && sent < 0; ++tries) {
        // The first error may be an earlier datagram's (ECONNREFUSED of a connected socket).
        if (tries > 0 && (errno == EAGAIN || errno == ENOBUFS) && !WaitForRoom(socket)) break;
        sent = sendmsg(socket, &h, MSG_DONTWAIT | MSG_NOSIGNAL);
      }
      lost += sent < 0 ? 1 : 0;
    }
  }
  return lost;
}

size_t UdpSender::Send(int socket) {
  messages_.assign(groups_.size(), {});
  controls_.assign(groups_.size() * kControl, 0);
  for (size_t i = 0; i < groups_.size(); ++i) {
    const Group& group = groups_[i];
    msghdr& h = messages_[i].msg_hdr;
    if (group.peer->size != 0) h.msg_name = const_cast<sockaddr_in6*>(&group.peer->address);
    h.msg_namelen = group.peer->size;
    h.msg_iov = &pieces_[group.first];
    h.msg_iovlen = group.pieces;
    SetControl(group, group.count > 1, &controls_[i * kControl], &h);
  }
  size_t lost = 0;
  bool waited = false;
  for (size_t done = 0; done < messages_.size();) {
    const int sent =
        sendmmsg(socket, &messages_[done], static_cast<unsigned>(messages_.size() - done),
                 MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent > 0) {
      done += static_cast<size_t>(sent);
      waited = false;
      continue;
    }
    const int error = errno;
    if (error == EINTR) continue;
    const Group& group = groups_[done];
    if ((error == EAGAIN || error == ENOBUFS) && !waited) {
      waited = true;
      if (WaitForRoom(socket)) continue;
    }
    if (error == EAGAIN || error == ENOBUFS) {
      lost += group.count;
    } else {
      const size_t singly = SendSingly(socket, group);
      // Singly they go: it was the segments, and not, say, an address that is gone.
      if (group.count > 1 && singly < group.count && error != ECONNREFUSED) {
        most_segment_ = std::min(most_segment_, group.segment - 1);
      }
      lost += singly;
    }
    ++done;
  }
  groups_.clear();
  pieces_.clear();
  return lost;
}

}  // namespace pulse::kv
