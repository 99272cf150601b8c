// An agent that breaks the protocol is cut off or answered with errors, and its host serves others;
// a host that does costs its agent the link, and no more.
#include <cstring>
#include <deque>
#include <functional>
#include <mutex>
#include <random>

#include "absl/strings/str_cat.h"
#include "services/kv/agent/test_agent.h"

namespace pulse::kv {
namespace {

using testing_util::Eventually;

// An agent's lane, spoken by hand.
class RawLane {
 public:
  explicit RawLane(const std::string& path) {
    auto link = AttachLane(path, 60'000);
    EXPECT_TRUE(link.ok()) << link.status();
    if (link.ok()) link_ = *std::move(link);
  }
  LaneLink& link() { return *link_; }
  bool IsCutOff() {
    return Eventually([&] {
      const auto got = ReceiveMessage(link_->socket.get(), /*wait=*/false);
      return !got.ok() && !IsNoMessage(got.status());
    });
  }
  bool IsCutOffNow() {
    const auto got = ReceiveMessage(link_->socket.get(), /*wait=*/false);
    return !got.ok() && !IsNoMessage(got.status());
  }
  void Add(LaneOp op, uint64_t session, std::string_view key, std::string_view value,
           uint8_t flags = 0) {
    if (!writer_.has_value()) {
      EXPECT_TRUE(
          Eventually([&] { return link_->requests->Reclaim() && link_->requests->HasRoom(); }));
      writer_.emplace(link_->requests->BeginRequests());
    }
    EXPECT_TRUE(writer_->Add(static_cast<WireOp>(op), key, session, value, 0, flags));
  }
  void Submit() {
    writer_->Finish();
    writer_.reset();
    link_->requests->Submit();
    link_->kick.Kick();
  }
  // The next reply's bytes, with its pieces; nothing when the link ends, or none comes.
  std::string Reply(uint8_t* flags = nullptr, LaneStatus* status = nullptr) {
    std::string whole;
    while (true) {
      while (replies_.empty()) {
        const char* buffer = nullptr;
        if (!Eventually([&] {
              return link_->replies->FindRequests(&buffer) == QueuePair::Found::kBatch;
            })) {
          return "";
        }
        const ResponseReader reader(buffer, link_->facts.buffer_bytes);
        for (size_t i = 0; i < reader.count(); ++i) {
          ResponseDescriptor d;
          std::string_view value;
          EXPECT_TRUE(reader.Read(i, &d, &value));
          replies_.push_back({d, std::string(value)});
        }
        link_->replies->Answer();
        link_->kick.Kick();
      }
      const auto [d, bytes] = replies_.front();
      replies_.pop_front();
      whole += bytes;
      if (flags != nullptr) *flags = d.flags;
      if (status != nullptr) *status = static_cast<LaneStatus>(d.status);
      if ((d.flags & kMore) == 0) return whole;
    }
  }
  static std::string Split(const std::vector<std::string_view>& words) {
    std::string bytes;
    redis::AppendSplit(words, &bytes);
    return bytes;
  }

 private:
  std::shared_ptr<LaneLink> link_;
  std::optional<RequestWriter> writer_;
  std::deque<std::pair<ResponseDescriptor, std::string>> replies_;
};

class HostileAgentTest : public AgentTest {
 protected:
  void SetUp() override { OpenHost(); }
  // Which another client sees, by the store's own port and by an honest agent.
  void ExpectOthersAreServed() {
    EXPECT_EQ(Client(port()).Ask("PING"), "+PONG\r\n");
    if (front_ == nullptr) OpenAgent();
    Client client(agent_port());
    EXPECT_EQ(client.Ask("SET honest v"), "+OK\r\n");
    EXPECT_EQ(client.Ask("GET honest"), "$1\r\nv\r\n");
  }
};

TEST_F(HostileAgentTest, WhatMakesNoSense_CutsTheAgentOff) {
  struct Case {
    const char* what;
    std::function<void(RawLane*)> send;
  };
  const std::string get = RawLane::Split({"GET", "k"});
  const Case cases[] = {
      {"a session that was not opened", [&](RawLane* l) { l->Add(LaneOp::kGet, 0, "k", ""); }},
      {"a number out of range", [&](RawLane* l) { l->Add(LaneOp::kOpen, 70'000, "p", ""); }},
      {"a number far out of range",
       [&](RawLane* l) { l->Add(LaneOp::kOpen, uint64_t{1} << 60, "p", ""); }},
      {"opened twice",
       [&](RawLane* l) {
         l->Add(LaneOp::kOpen, 3, "p", "");
         l->Add(LaneOp::kOpen, 3, "p", "");
       }},
      {"closed twice",
       [&](RawLane* l) {
         l->Add(LaneOp::kOpen, 3, "p", "");
         l->Add(LaneOp::kClose, 3, "", "");
         l->Add(LaneOp::kClose, 3, "", "");
       }},
      {"used after its end",
       [&](RawLane* l) {
         l->Add(LaneOp::kOpen, 3, "p", "");
         l->Add(LaneOp::kClose, 3, "", "");
         l->Add(LaneOp::kGet, 3, "k", "");
       }},
      {"no op",
       [&](RawLane* l) {
         l->Add(LaneOp::kOpen, 0, "p", "");
         l->Add(static_cast<LaneOp>(99), 0, "k", "");
       }},
      {"of another protocol",
       [&](RawLane* l) {
         l->Add(LaneOp::kOpen, 0, "p", "");
         l->Add(LaneOp::kMemcached, 0, "", "get k\r\n");
       }},
      {"a plain request between pieces",
       [&](RawLane* l) {
         l->Add(LaneOp::kOpen, 0, "p", "");
         l->Add(LaneOp::kCommand, 0, "", get, kMore);
         l->Add(LaneOp::kGet, 0, "k", "");
       }},
      {"a plain request in pieces",
       [&](RawLane* l) {
         l->Add(LaneOp::kOpen, 0, "p", "");
         l->Add(LaneOp::kSet, 0, "k", "v", kMore);
       }},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.what);
    RawLane lane(socket_.get());
    c.send(&lane);
    lane.Submit();
    EXPECT_TRUE(lane.IsCutOff());
  }
  EXPECT_TRUE(
      Eventually([&] { return host_->numbers().loops == 0 && host_->numbers().clients == 0; }));
  ExpectOthersAreServed();
}

TEST_F(HostileAgentTest, DescriptorsAndCounters_OutOfRange_CutTheAgentOff) {
  for (int i = 0; i < 4; ++i) {
    RawLane lane(socket_.get());
    LaneLink& link = lane.link();
    char* buffer = link.requests->BufferToSubmit();
    RequestDescriptor d{};
    d.op = static_cast<WireOp>(LaneOp::kOpen);
    BatchHeader header{1, {}};
    if (i == 0) d.key = ~uint64_t{0};
    if (i == 1) {
      d.key = link.facts.buffer_bytes - 1;
      d.key_size = 2;
    }
    if (i == 2) {
      d.flags = kInline;
      d.key_size = 9;
    }
    if (i == 3) header.count = static_cast<uint16_t>(link.facts.batch + 1);
    std::memcpy(buffer, &header, sizeof(header));
    std::memcpy(buffer + sizeof(header), &d, sizeof(d));
    link.requests->Submit();
    link.kick.Kick();
    EXPECT_TRUE(lane.IsCutOff()) << i;
  }
  for (const size_t queue : {LaneRequests(), LaneReplies(HostLane::FactsOf(LaneShared()))}) {
    RawLane lane(socket_.get());
    // Batches submitted, and those taken back.
    auto* lines = reinterpret_cast<std::atomic<uint64_t>*>(lane.link().region.data() + queue);
    lines[queue == LaneRequests() ? 0 : 8].store(uint64_t{1} << 40);
    lane.link().kick.Kick();
    EXPECT_TRUE(lane.IsCutOff()) << queue;
  }
  ExpectOthersAreServed();
}

TEST_F(HostileAgentTest, ArgumentsThatMakeNoSense_AreAnErrorOfTheSession) {
  RawLane lane(socket_.get());
  const std::string good = RawLane::Split({"GET", "key"});
  std::vector<std::string> bad = {"",
                                  "x",
                                  std::string(4, '\xff'),
                                  good + "x",
                                  good.substr(0, good.size() - 1),
                                  std::string(4, '\xff') + good};
  std::string long_size = good;
  long_size[4] = '\x7f';
  bad.push_back(long_size);
  uint64_t session = 0;
  for (const std::string& request : bad) {
    lane.Add(LaneOp::kOpen, session, "peer", "");
    lane.Add(LaneOp::kCommand, session, "", request);
    lane.Submit();
    if (request.empty()) {
      // As an empty request: no arguments.
      EXPECT_EQ(lane.Reply(), "");
      lane.Add(LaneOp::kClose, session, "", "");
      lane.Submit();
    } else {
      EXPECT_EQ(lane.Reply().substr(0, 20), "-ERR Protocol error:") << session;
    }
    LaneStatus status{};
    EXPECT_EQ(lane.Reply(nullptr, &status), "");
    EXPECT_EQ(status, LaneStatus::kClosed);
    ++session;
  }
  EXPECT_FALSE(lane.IsCutOffNow());
  ExpectOthersAreServed();
}

TEST_F(HostileAgentTest, RequestsThatNeverEnd_AreBounded) {
  RawLane lane(socket_.get());
  const std::string piece(kFragment, 'x');
  constexpr uint64_t kSessions = 8;
  for (uint64_t s = 0; s < kSessions; ++s) {
    lane.Add(LaneOp::kOpen, s, "peer", "", s == 0 ? uint8_t{kOtherProtocol} : uint8_t{0});
    lane.Submit();
  }
  // More than all of them may have together, and then more than one may have.
  std::vector<bool> open(kSessions, true);
  const uint64_t pieces = 4 * max_value_ / kFragment;
  for (uint64_t i = 0; i < pieces; ++i) {
    for (uint64_t s = 0; s < kSessions; ++s) {
      lane.Add(s == 0 ? LaneOp::kMemcached : LaneOp::kCommand, s, "", piece, kMore);
      if (s % 4 == 3) lane.Submit();
    }
  }
  size_t ended = 0;
  size_t of_memcached = 0;
  for (uint64_t s = 0; s < kSessions; ++s) {
    LaneStatus status{};
    const std::string reply = lane.Reply(nullptr, &status);
    EXPECT_EQ(status, LaneStatus::kClosed);
    of_memcached += reply.starts_with("SERVER_ERROR ") ? 1 : 0;
    EXPECT_TRUE(reply.starts_with("SERVER_ERROR ") || reply.starts_with("-ERR ")) << reply;
    ended += status == LaneStatus::kClosed ? 1 : 0;
  }
  EXPECT_EQ(ended, kSessions);
  EXPECT_EQ(of_memcached, 1u);
  EXPECT_FALSE(lane.IsCutOffNow());
  ExpectOthersAreServed();
}

TEST_F(HostileAgentTest, RepliesThatAreNotTaken_StopTheRequests_OfThisAgentAlone) {
  RawLane lane(socket_.get());
  Client own(port());
  std::string set;
  redis::AppendRequest({"SET", "k", std::string(1 << 20, 'v')}, &set);
  own.Send(set);
  EXPECT_EQ(own.Receive(), "+OK\r\n");
  lane.Add(LaneOp::kOpen, 0, "peer", "");
  uint64_t submitted = 0;
  // It takes no replies, and does not say that there is room: 4 buffers of requests and no more.
  for (int i = 0; i < 100; ++i) {
    if (!lane.link().requests->Reclaim() || !lane.link().requests->HasRoom()) break;
    for (int n = 0; n < 100; ++n) lane.Add(LaneOp::kGet, 0, "k", "");
    lane.Submit();
    ++submitted;
  }
  ExpectOthersAreServed();
  uint8_t flags = 0;
  EXPECT_EQ(lane.Reply(&flags).size(), (1u << 20) + 12);
  EXPECT_NE(flags & kPaused, 0);
  // One for each that it says.
  lane.Add(LaneOp::kResume, 0, "", "");
  lane.Submit();
  EXPECT_EQ(lane.Reply(&flags).size(), (1u << 20) + 12);
  EXPECT_NE(flags & kPaused, 0);
  EXPECT_FALSE(lane.IsCutOffNow());
}

TEST_F(HostileAgentTest, RandomTransfers_HarmNobody) {
  std::mt19937_64 random(testing_util::TestSeed());
  for (int round = 0; round < 60; ++round) {
    RawLane lane(socket_.get());
    LaneLink& link = lane.link();
    for (int batch = 0; batch < 20; ++batch) {
      if (!link.requests->Reclaim() || !link.requests->HasRoom()) break;
      RequestWriter writer = link.requests->BeginRequests();
      const uint64_t count = 1 + random() % 30;
      for (uint64_t i = 0; i < count; ++i) {
        std::string value = RawLane::Split(
            {random() % 2 == 0 ? "GET" : "MULTI", std::string_view("keykeykey").substr(0, 3)});
        if (random() % 4 == 0) value[random() % value.size()] = static_cast<char>(random());
        const auto op = static_cast<WireOp>(random() % 3 == 0 ? random() % 10 : 4);
        const uint8_t flags = random() % 8 == 0 ? static_cast<uint8_t>(random() & ~uint64_t{1}) : 0;
        // Each round begins with sessions, or would not get far.
        if (i < 6 && batch == 0) {
          writer.Add(static_cast<WireOp>(LaneOp::kOpen), "peer", i, "", 0, 0);
        } else {
          writer.Add(op, "k", random() % 6, value, 0, flags);
        }
      }
      writer.Finish();
      if (random() % 8 == 0) {
        char* buffer = link.requests->BufferToSubmit();
        for (int n = 0; n < 4; ++n) buffer[random() % 2048] = static_cast<char>(random());
      }
      link.requests->Submit();
      link.kick.Kick();
      const char* replies = nullptr;
      if (link.replies->FindRequests(&replies) == QueuePair::Found::kBatch) link.replies->Answer();
    }
  }
  EXPECT_TRUE(
      Eventually([&] { return host_->numbers().loops == 0 && host_->numbers().clients == 0; }));
  ExpectOthersAreServed();
}

TEST_F(HostileAgentTest, MoreLoopsThanTheStoreTakes_AreRefusedWithAReason) {
  host_.reset();
  host_options_.max_lanes = 1;
  StartAgentServer();
  RawLane lane(socket_.get());
  const auto second = AttachLane(socket_.get(), 60'000);
  EXPECT_NE(std::string(second.status().message()).find("--agent-loops"), std::string::npos)
      << second.status();
}

// ---- A host that breaks the protocol.

class EvilHost final : private PeerHost {
 public:
  class Peer final : public ShmPeer {
   public:
    explicit Peer(UniqueFd socket) : ShmPeer(std::move(socket)) {
      facts.max_bulk = 1 << 20;
      auto region = Region::CreateShared(facts.bytes());
      EXPECT_TRUE(region.ok());
      memory = *std::move(region);
      auto* header = new (memory.data()) LaneHeader{};
      header->facts = facts;
      requests = std::make_unique<QueuePair>(facts.queue(), memory.data() + LaneRequests());
      replies = std::make_unique<QueuePair>(facts.queue(), memory.data() + LaneReplies(facts));
      auto ends = Doorbell::CreatePair();
      kick_ = Doorbell(std::move(ends->sleep), &header->host_sleeping.value);
      ring = std::move(ends->ring);
    }
    Doorbell& kick(uint32_t) override { return kick_; }
    LaneFacts facts = HostLane::FactsOf(LaneShared());
    Region memory;
    std::unique_ptr<QueuePair> requests;
    std::unique_ptr<QueuePair> replies;
    Doorbell kick_;
    Doorbell notify;
    UniqueFd ring;
  };
  explicit EvilHost(const std::string& path) {
    ListenerOptions options;
    options.path = path;
    options.thread = "evil";
    options.service = kLaneService;
    options.version = kLaneVersion;
    auto listener = PeerListener::Open(this, options);
    EXPECT_TRUE(listener.ok()) << listener.status();
    listener_ = *std::move(listener);
  }
  // The one that came last, once it has sent something.
  std::shared_ptr<Peer> Await(uint64_t number) {
    EXPECT_TRUE(Eventually([&] { return accepted_.load() >= number; }));
    std::shared_ptr<Peer> peer;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      peer = last_;
    }
    const char* requests = nullptr;
    EXPECT_TRUE(Eventually(
        [&] { return peer->requests->FindRequests(&requests) == QueuePair::Found::kBatch; }));
    return peer;
  }
  uint64_t accepted() const { return accepted_.load(); }

 private:
  absl::StatusOr<std::shared_ptr<ShmPeer>> Welcome(UniqueFd* socket,
                                                   std::vector<UniqueFd> fds) override {
    const int fd = socket->get();
    auto peer = std::make_shared<Peer>(std::move(*socket));
    auto* header = reinterpret_cast<LaneHeader*>(peer->memory.data());
    peer->notify = Doorbell(std::move(fds[0]), &header->agent_sleeping.value);
    EXPECT_TRUE(
        SendMessage(fd,
                    MakeMessage(wire::MessageType::kHelloAck, {peer->facts.bytes(), kLaneVersion}),
                    {peer->memory.fd()})
            .ok());
    EXPECT_TRUE(
        SendMessage(fd, MakeMessage(wire::MessageType::kServiceAck, {0}), {peer->ring.get()}).ok());
    const std::lock_guard<std::mutex> lock(mutex_);
    last_ = peer;
    ++accepted_;
    return peer;
  }
  void SetPeers(const ShmPeers&) override {}

  std::mutex mutex_;
  std::shared_ptr<Peer> last_;
  std::atomic<uint64_t> accepted_{0};
  std::unique_ptr<PeerListener> listener_;
};

TEST_F(AgentTest, Listener_SuccessorHasThePath_LeavesItsSocket) {
  auto former = std::make_unique<EvilHost>(socket_.get());
  ASSERT_EQ(unlink(socket_.c_str()), 0);
  const EvilHost successor(socket_.get());
  former.reset();
  EXPECT_TRUE(ConnectUnix(socket_.get()).ok());
}

TEST_F(AgentTest, HostThatMakesNoSense_IsLeft_AndClientsAreTold) {
  EvilHost host(socket_.get());
  OpenAgent();
  using Peer = EvilHost::Peer;
  const auto add = [](Peer* peer, uint16_t session, uint8_t status, uint8_t flags,
                      std::string_view bytes) {
    ReplyPacker packer(peer->replies->BufferToSubmit(), peer->facts.buffer_bytes,
                       peer->facts.batch);
    packer.Add(session, status, flags, bytes);
    packer.Finish();
    peer->replies->Submit();
  };
  const std::function<void(Peer*)> lies[] = {
      [&](Peer* p) { add(p, 7, 0, 0, "+OK\r\n"); },  // nobody's
      [&](Peer* p) { add(p, 0, 9, 0, "+OK\r\n"); },  // no status
      [&](Peer* p) { add(p, 3, 1, 0, ""); },         // the end of nobody
      [&](Peer* p) {                                 // two replies to one request
        add(p, 0, 0, 0, "+OK\r\n");
        add(p, 0, 0, 0, "+OK\r\n");
      },
      [&](Peer* p) {  // a reply within a message
        add(p, 0, 0, kPush | kMore, ">1\r\n+");
        add(p, 0, 0, 0, "+OK\r\n");
      },
      [&](Peer* p) {  // a message behind the last one
        ReplyPacker packer(p->replies->BufferToSubmit(), p->facts.buffer_bytes, p->facts.batch);
        packer.Add(0, 0, kPush | kPaused, "+OK\r\n");
        packer.Add(0, 0, kPush, "+OK\r\n");
        packer.Finish();
        p->replies->Submit();
      },
      [&](Peer* p) {  // messages without end
        const std::string piece(kFragment, 'x');
        for (size_t sent = 0; sent <= kMostPushed; sent += kFragment) {
          if (!Eventually([&] { return p->replies->Reclaim() && p->replies->HasRoom(); })) return;
          add(p, 0, 0, kPush | kMore, piece);
          p->notify.Kick();
        }
      },
      [&](Peer* p) {  // nothing in it
        ReplyPacker packer(p->replies->BufferToSubmit(), p->facts.buffer_bytes, p->facts.batch);
        packer.Finish();
        p->replies->Submit();
      },
      [&](Peer* p) {  // beyond its buffer
        char* buffer = p->replies->BufferToSubmit();
        ReplyPacker packer(buffer, p->facts.buffer_bytes, p->facts.batch);
        packer.Add(0, 0, 0, "+longer than eight\r\n");
        packer.Finish();
        const uint64_t far = p->facts.buffer_bytes;
        std::memcpy(buffer + sizeof(BatchHeader), &far, sizeof(far));
        p->replies->Submit();
      },
      [&](Peer* p) {  // its counter
        reinterpret_cast<std::atomic<uint64_t>*>(p->memory.data() + LaneReplies(p->facts))
            ->store(1000);
      },
      [&](Peer* p) {  // the count of requests that it has answered
        reinterpret_cast<std::atomic<uint64_t>*>(p->memory.data() + LaneRequests())[8].store(1000);
      },
  };
  uint64_t number = 0;
  for (const auto& lie : lies) {
    SCOPED_TRACE(number);
    ++number;
    Client client(agent_port());
    // Until the agent has come back to the host.
    const LaneCounters& counters = front_->counters();
    ASSERT_TRUE(Eventually([&] { return counters.lost == number - 1 && counters.attached == 1; }));
    client.Send("GET k\r\n");
    const auto peer = host.Await(number);
    lie(peer.get());
    peer->notify.Kick();
    // Which is looked at when all buffers are away.
    const auto* submitted =
        reinterpret_cast<std::atomic<uint64_t>*>(peer->memory.data() + LaneRequests());
    for (uint64_t n = 1; number == std::size(lies) && n < peer->facts.slots; ++n) {
      client.Send("GET k\r\n");
      ASSERT_TRUE(Eventually([&] { return submitted->load() > n; }));
    }
    if (number == std::size(lies)) client.Send("GET k\r\n");
    // Where the first of two replies was taken, nothing is under way that could be lost. A request
    // now may reach the next link, which answers nobody.
    const std::string reply = client.Receive();
    EXPECT_TRUE(reply == "+OK\r\n" || reply.starts_with("-ERR the host was lost") ||
                reply.starts_with("-LOADING"))
        << reply;
    ASSERT_TRUE(Eventually([&] { return host.accepted() > number; }));
  }
}

}  // namespace
}  // namespace pulse::kv
