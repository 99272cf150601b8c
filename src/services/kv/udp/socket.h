// Datagrams to and from a socket, many with one system call: received by recvmmsg, several of one
// sender in one buffer (UDP_GRO); sent by sendmmsg, those of one size to one address as segments of
// one message (UDP_SEGMENT). Where the kernel or the path has no such segments, one by one.
//
// Threads: each object belongs to one thread. Nothing here waits but UdpSender::Send, a millisecond
// at most for room. Errors are losses, as of any datagram; they are counted.
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>

#include <cstdint>
#include <cstring>
#include <memory>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "base/unique_fd.h"
#include "net/address.h"

namespace pulse::kv {

// An address as a socket tells it.
struct UdpPeer {
  sockaddr_in6 address{};  // room for IPv4's, too
  socklen_t size = 0;      // 0: of a connected socket
  // The address that it has sent to, where the socket takes all: it expects answers from there.
  in6_addr local{};      // IPv4's in its first bytes
  int local_family = 0;  // 0: the socket's own

  std::string_view bytes() const { return {reinterpret_cast<const char*>(&address), size}; }
  bool operator==(const UdpPeer& other) const { return bytes() == other.bytes(); }
};

// Sockets that do not block, with UDP_GRO where there is such a thing.
absl::StatusOr<UniqueFd> BindUdp(const net::Address& address);
absl::StatusOr<UniqueFd> ConnectUdp(const net::Address& address);

class UdpReceiver {
 public:
  static constexpr size_t kMessages = 32;
  static constexpr size_t kMessageBytes = size_t{64} << 10;
  UdpReceiver();

  // What is there, at most kMessages; views of what was received before end. Returns how many
  // messages there are, or -errno.
  int Receive(int socket);
  // The next datagram of these; false when there is none.
  bool Next(const UdpPeer** peer, std::string_view* datagram);

 private:
  struct Message {
    mmsghdr header;
    iovec buffer;
    UdpPeer peer;
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int)) + CMSG_SPACE(sizeof(in6_pktinfo))];
  };
  // What the kernel says of the message: the size of its segments, and where it was sent to.
  void ReadControl(msghdr* header, UdpPeer* peer);

  std::unique_ptr<char[]> bytes_;  // not touched before the kernel does
  std::unique_ptr<Message[]> messages_;
  std::unique_ptr<mmsghdr[]> headers_;
  size_t count_ = 0;
  size_t next_ = 0;  // message
  size_t at_ = 0;    // in it
  size_t segment_ = 0;
};

class UdpSender {
 public:
  // The bytes, and the peer, have to stay until Send. A peer of size 0: the socket is connected.
  void Add(const UdpPeer* peer, const char* bytes, size_t size);
  // Sends what was added. Returns how many datagrams were lost.
  size_t Send(int socket);

 private:
  static constexpr size_t kMostSegments = 64;  // the kernel's UDP_MAX_SEGMENTS
  static constexpr size_t kMostGroupBytes = 65'000;
  struct Group {
    const UdpPeer* peer;
    size_t first;  // iovec
    size_t count;  // datagrams
    size_t pieces;
    size_t segment;
    size_t bytes;
    bool closed;
  };
  bool Continues(const Group& group, const UdpPeer* peer, size_t size) const;
  // What the kernel is told of a message: `segmented`, the size of its segments; and where it comes
  // from.
  static void SetControl(const Group& group, bool segmented, char* space, msghdr* header);
  size_t SendSingly(int socket, const Group& group);
  static bool WaitForRoom(int socket);

  std::vector<Group> groups_;
  std::vector<iovec> pieces_;
  std::vector<mmsghdr> messages_;
  std::vector<char> controls_;
  // Segments of more bytes than this are refused by the kernel, or by the path.
  size_t most_segment_ = SIZE_MAX;
};

}  // namespace pulse::kv
