// Control messages as either side receives them, with any number and kind of descriptors: raw from
// the socket, as a hello, and within a session.
#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstring>
#include <memory>
#include <new>
#include <utility>
#include <vector>

#include "agent/hello.h"
#include "agent/session.h"
#include "channel/handshake.h"
#include "channel/queue_pair.h"
#include "fuzz_input.h"
#include "services/lsm/core/agent_service.h"

namespace pulse {
namespace {

using fuzz::Input;

// Descriptors that a host might pass, made once.
struct Descriptors {
  Descriptors() {
    control = Region::CreateShared(wire::kPage).value();
    auto* page = new (control.data()) wire::ControlPage();
    page->magic = wire::kRegionMagic;
    page->version = wire::kProtocolVersion;
    queue = Region::CreateShared(QueueRegionBytes(wire::kMinArenaBytes)).value();
    // Laid out and taken apart by the targets: every attachment starts from the same cursors.
    HostQueue::Init(queue, 0, wire::kMinArenaBytes).value();
    bell = Doorbell::CreatePair().value();
    unsealed.reset(memfd_create("unsealed", MFD_CLOEXEC | MFD_ALLOW_SEALING));
    (void)!ftruncate(unsealed.get(), 1 << 21);
    event.reset(eventfd(0, EFD_CLOEXEC));
    file.reset(memfd_create("file", MFD_CLOEXEC));
  }
  int Any(uint64_t i) const {
    const int all[] = {control.fd(),   queue.fd(),  bell.ring.get(), bell.sleep.get(),
                       unsealed.get(), event.get(), file.get(),      STDERR_FILENO};
    return all[i % std::size(all)];
  }
  Region control, queue;
  Doorbell::Ends bell;
  UniqueFd unsealed, event, file;
};

struct Pair {
  Pair() {
    int fds[2];
    FUZZ_CHECK(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds) == 0);
    host.reset(fds[0]);
    agent.reset(fds[1]);
  }
  UniqueFd host, agent;
};

void SendRaw(int socket, const void* data, size_t n, const std::vector<int>& fds) {
  iovec iov{const_cast<void*>(data), n};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int) * 8)] = {};
  msghdr msg{};
  msg.msg_iov = &iov;
  msg.msg_iovlen = 1;
  if (!fds.empty()) {
    msg.msg_control = control;
    msg.msg_controllen = CMSG_SPACE(sizeof(int) * fds.size());
    cmsghdr* c = CMSG_FIRSTHDR(&msg);
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(sizeof(int) * fds.size());
    std::memcpy(CMSG_DATA(c), fds.data(), sizeof(int) * fds.size());
  }
  (void)!sendmsg(socket, &msg, MSG_NOSIGNAL | MSG_DONTWAIT);
}

// One message: mostly of the right form, so that what lies behind the form is reached.
void SendOne(Input& in, const Descriptors& known, int socket) {
  const uint8_t how = in.Byte();
  wire::Message m{};
  in.Bytes(&m, how & 1 ? sizeof(m) : 0);
  if ((how & 2) == 0) m.magic = wire::kMessageMagic;
  if ((how & 4) == 0) m.version = wire::kProtocolVersion;
  if ((how & 1) == 0) {
    m.type = in.Byte() % 8;
    m.args[0] = in.Evil(1);
    m.args[1] = in.Evil(wire::kMinArenaBytes);
    m.args[2] = in.Evil(1);
  }
  std::vector<int> fds;
  for (uint64_t n = in.Below(6); n > 0; --n) fds.push_back(known.Any(in.Byte()));
  const size_t size = (how & 8) == 0 ? sizeof(m) : in.Below(255) + 1;
  SendRaw(socket, &m, size, fds);
}

void InASession(Input& in, const Descriptors& known, FileEngine* engine) {
  Pair pair;
  auto usage = std::make_shared<AgentUsage>();
  auto page = std::make_unique<wire::ControlPage>();
  {
    Session::Config config;
    config.usage = usage;
    config.name = "of the fuzzer";
    config.limits.max_queues = 4;
    config.limits.max_session_files = 4;
    config.limits.max_total_files = 6;
    config.limits.max_total_bytes = 3 * wire::kMinArenaBytes;
    Doorbell::Ends kick = Doorbell::CreatePair().value();
    Session session(std::move(config), page.get(), Region(), std::move(kick.sleep),
                    known.bell.ring.Dup(), std::move(pair.agent), engine, &lsm::CreateAgentService);
    for (int i = 0; i < 16 && !in.empty(); ++i) {
      SendOne(in, known, pair.host.get());
      const bool goes_on = session.HandleSocket();
      FUZZ_CHECK(session.queue_count() <= 4);
      FUZZ_CHECK(usage->files <= 6 && usage->arena_bytes <= 3 * wire::kMinArenaBytes);
      // Its answers are well-formed, and name a reason when they refuse.
      for (auto r = ReceiveMessage(pair.host.get(), false); r.ok();
           r = ReceiveMessage(pair.host.get(), false)) {
        FUZZ_CHECK(r->message.version == wire::kProtocolVersion);
        FUZZ_CHECK((r->message.status == 0) == TextOf(r->message).empty());
      }
      if (!goes_on) break;
    }
    session.BeginShutdown();
    FUZZ_CHECK(session.Drained());
  }
  FUZZ_CHECK(usage->files == 0 && usage->arena_bytes == 0);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const Descriptors* const known = new Descriptors;
  static FileEngine* const engine = new FileEngine(CreateThreadBackend({}).value());
  fuzz::Input in(data, size);
  if (in.Byte() % 2 == 0) {
    Pair pair;
    SendOne(in, *known, pair.host.get());
    auto r = ReceiveMessage(pair.agent.get(), /*wait=*/false);
    if (r.ok()) {
      FUZZ_CHECK(r->fds.size() <= kMaxMessageFds && !r->fds_lost);
      FUZZ_CHECK(TextOf(r->message).size() <= sizeof(r->message.text));
      if (!ReadAskedService(r->message).ok()) return 0;
      const auto hello = CheckHello(*std::move(r), MoverKind::kShared);
      FUZZ_CHECK(!hello.ok() || (hello->control != nullptr && hello->notify.valid()));
    }
  } else {
    InASession(in, *known, engine);
  }
  return 0;
}

}  // namespace pulse
