// A lane of `pulse agent --serve-kv`, both ways: what an agent writes to a store, and what a store
// answers to an agent. Whatever it is, no session is left, no reply lies outside the memory, and no
// client of the agent is answered twice or forgotten.
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "fuzz_input.h"
#include "services/kv/agent/agent_flow.h"
#include "services/kv/agent/agent_lane.h"
#include "services/kv/agent/host_lane.h"
#include "services/kv/agent/reply_packer.h"
#include "services/kv/memcached/flow.h"
#include "services/kv/store.h"
#include "services/redis/serve.h"

namespace {

using pulse::Doorbell;
using pulse::Region;
using pulse::UniqueFd;
using pulse::fuzz::Input;
using pulse::kv::AgentFlow;
using pulse::kv::AgentLane;
using pulse::kv::HostLane;
using pulse::kv::LaneOp;
using pulse::kv::LaneShared;
using pulse::kv::LaneStatus;
using pulse::kv::QueuePair;
using pulse::kv::RequestWriter;
using pulse::kv::ResponseDescriptor;
using pulse::kv::ResponseReader;
namespace kv = pulse::kv;
namespace net = pulse::net;
namespace redis = pulse::redis;

constexpr uint64_t kMaxValue = 4096;

// The store's server without a port of its own; it stays for all inputs.
struct Host {
  Host() {
    options.listen_tcp = false;
    options.workers = 1;
    options.limits.max_bulk = kMaxValue;
    options.keyspace = [this](const redis::KeyspaceLimits& limits)
        -> absl::StatusOr<std::unique_ptr<redis::Keyspace>> {
      kv::KvStoreOptions store;
      store.memory_bytes = uint64_t{32} << 20;
      store.policy = kv::Policy::kLfu;
      store.limits = limits;
      store.clock = [] { return int64_t{1'700'000'000'000}; };
      store.ticks = false;
      auto opened = kv::KvStore::Open(store);
      if (!opened.ok()) return opened.status();
      kv::memcached::ExecutorOptions of_memcached;
      of_memcached.max_value = limits.max_value;
      memcached = std::make_unique<kv::memcached::Executor>(opened->get(), &counters, of_memcached);
      return opened;
    };
    options.other.make = [this](net::Connection* connection, pulse::WorkerPool* workers) {
      return std::make_unique<kv::memcached::MemcachedFlow>(memcached.get(), workers, nullptr,
                                                            connection);
    };
    server = *redis::Server::Open(options);
    shared.application = server->host_application();
    shared.most_sessions = 8;
    shared.lane_bytes = 1 << 20;
    shared.max_message = 64 << 10;
  }
  redis::ServeOptions options;
  kv::memcached::Counters counters;
  std::unique_ptr<kv::memcached::Executor> memcached;
  std::unique_ptr<redis::Server> server;
  LaneShared shared;
};

Host& TheHost() {
  static Host* const host = new Host;
  return *host;
}

std::pair<UniqueFd, UniqueFd> Sockets() {
  int fds[2];
  FUZZ_CHECK(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds) == 0);
  return {UniqueFd(fds[0]), UniqueFd(fds[1])};
}

// Changes some bytes of a transfer that was well-formed.
void Spoil(Input* in, char* buffer) {
  for (uint64_t left = in->Below(6); left > 0; --left) {
    buffer[in->Number<uint16_t>() % 700] = static_cast<char>(in->Byte());
  }
}

std::string Split(const std::vector<std::string_view>& words) {
  std::string bytes;
  redis::AppendSplit(words, &bytes);
  return bytes;
}

// A request of any kind for one of a few sessions.
void AddRequest(Input* in, RequestWriter* writer) {
  const uint64_t session = in->Below(4);
  const std::string key(in->Below(12), static_cast<char>('a' + in->Below(3)));
  const std::string value(in->Below(64) * in->Below(16), 'v');
  const bool marked = in->Byte() % 8 == 0;
  LaneOp op = static_cast<LaneOp>(in->Below(10));
  std::string bytes = value;
  if (op == LaneOp::kCommand) {
    constexpr std::array<const char*, 12> kNames = {"GET",   "MSET",   "APPEND", "MULTI",
                                                    "EXEC",  "WATCH",  "INCR",   "PING",
                                                    "HELLO", "CLIENT", "SCAN",   "SUBSCRIBE"};
    const char* name = kNames[in->Below(kNames.size())];
    bytes = in->Byte() % 4 == 0 ? Split({name}) : Split({name, key, value});
    if (in->Byte() % 4 == 0) bytes.resize(bytes.size() / 2);
  } else if (op == LaneOp::kMemcached) {
    bytes = in->Byte() % 2 == 0 ? "get " + key + "\r\n" : "set " + key + " 0 0 1\r\nx\r\n";
  }
  uint8_t flags = 0;
  if (marked) flags = op == LaneOp::kOpen ? kv::kOtherProtocol : kv::kMore;
  writer->Add(static_cast<kv::WireOp>(op), key, session, bytes, 0, flags);
}

// Takes what the host has sent.
void TakeReplies(const kv::LaneFacts& facts, QueuePair* replies) {
  const char* buffer = nullptr;
  while (replies->FindRequests(&buffer) == QueuePair::Found::kBatch) {
    const ResponseReader reader(buffer, facts.buffer_bytes);
    FUZZ_CHECK(reader.count() > 0 && reader.count() <= facts.batch);
    for (size_t i = 0; i < reader.count(); ++i) {
      ResponseDescriptor d;
      std::string_view value;
      FUZZ_CHECK(reader.Read(i, &d, &value));
      FUZZ_CHECK(d.session < kv::kMostSessions);
      FUZZ_CHECK(static_cast<LaneStatus>(d.status) <= LaneStatus::kClosed);
    }
    replies->Answer();
  }
}

// An agent that means harm, or is broken.
void AttackHost(Input* in) {
  Host& host = TheHost();
  const auto mailbox = std::make_shared<net::Mailbox>();
  FUZZ_CHECK(mailbox->Open());
  auto [socket, other] = Sockets();
  auto notify = *Doorbell::CreatePair();
  UniqueFd kick;
  auto made =
      HostLane::Create(&host.shared, mailbox, std::move(socket), std::move(notify.ring), &kick);
  FUZZ_CHECK(made.ok());
  HostLane* const lane = made->get();
  const kv::LaneFacts facts = lane->facts();
  auto memory = Region::Map(UniqueFd(fcntl(lane->memory(), F_DUPFD_CLOEXEC, 0)), facts.bytes());
  FUZZ_CHECK(memory.ok());
  QueuePair requests(facts.queue(), memory->data() + kv::LaneRequests());
  QueuePair replies(facts.queue(), memory->data() + kv::LaneReplies(facts));
  bool damaged = false;  // then what looks like the host's replies may be the harness's own work
  for (int transfer = 0; transfer < 6; ++transfer) {
    if (requests.HasRoom() || (requests.Reclaim() && requests.HasRoom())) {
      char* const buffer = requests.BufferToSubmit();
      RequestWriter writer = requests.BeginRequests();
      if (transfer == 0) {
        writer.Add(static_cast<kv::WireOp>(LaneOp::kOpen), "peer", 0, "", 0, 0);
        writer.Add(static_cast<kv::WireOp>(LaneOp::kOpen), "peer", 1, "", 0, kv::kOtherProtocol);
      }
      for (uint64_t left = in->Below(8); left > 0; --left) AddRequest(in, &writer);
      writer.Finish();
      Spoil(in, buffer);
      requests.Submit();
    }
    if (in->Byte() % 16 == 0) {
      damaged = true;
      const uint64_t evil = in->Evil(2);
      char* const counters =
          memory->data() + (in->Byte() % 2 == 0 ? kv::LaneRequests() : kv::LaneReplies(facts));
      std::memcpy(counters + in->Below(3) * 64, &evil, sizeof(evil));
    }
    lane->Serve();
    // What others have carried out.
    std::vector<std::function<void()>> work;
    std::vector<net::LocalEvent> events;
    mailbox->Take(&work, &events);
    for (const auto& each : work) each();
    if (in->Byte() % 4 != 0 && !damaged) TakeReplies(facts, &replies);
  }
  lane->Leave();
  mailbox->Close();
  FUZZ_CHECK(host.shared.sessions == 0);
}

// A loop that watches nothing.
class QuietLoop final : public net::EventLoop {
 public:
  void Read(int, uint64_t, char*, size_t, std::function<void(int64_t)> done) override { done(-1); }
  void Post(std::function<void()>) override {}
  std::shared_ptr<void> Watch(int, std::function<void()>) override {
    return std::make_shared<int>(0);
  }
  std::shared_ptr<net::Remote> remote() override { return nullptr; }
  net::BufferPool* buffers() override { return nullptr; }
  int index() const override { return 0; }
  void SetSpin(int64_t) override {}
  void LookUntil(int64_t) override {}
  int64_t now() const override { return now_; }
  void Advance() { now_ += 50'000; }

 private:
  int64_t now_ = 1;
};

// A client of the agent, each of whose requests is answered once at most.
class Client final : public net::Connection {
 public:
  explicit Client(AgentLane* lane) {
    redis::Limits limits;
    limits.max_bulk = kMaxValue;
    flow_.emplace(lane, limits, this);
  }
  void Say(const std::string& bytes) {
    in_ += bytes;
    while (!closed_ && !in_.empty()) {
      const auto size = flow_->SplitRequest(in_);
      if (!size.ok()) {
        closed_ = true;
        break;
      }
      if (*size == 0) break;
      const std::string request = in_.substr(0, *size);
      in_.erase(0, *size);
      open_.insert(++ticket_);
      flow_->OnRequest(ticket_, request);
    }
    if (closed_) flow_.reset();
  }
  void EndTurn() {
    if (flow_.has_value() && !closed_) flow_->OnRoom();
    if (closed_) flow_.reset();
  }
  void End() { flow_.reset(); }
  bool closed() const { return closed_; }
  bool ended() const { return !flow_.has_value(); }

  void Forward(net::Ticket, std::string_view, uint32_t) override { FUZZ_CHECK(false); }
  void Reply(net::Ticket ticket, std::string_view) override {
    FUZZ_CHECK(closed_ || open_.erase(ticket) == 1);
  }
  void Reply(net::Ticket ticket, net::Buffer) override { Reply(ticket, std::string_view()); }
  bool Push(std::string_view) override { return true; }
  void Close(std::string_view) override { closed_ = true; }
  std::shared_ptr<net::Remote> remote() override { return nullptr; }
  net::BufferPool* buffers() override { return nullptr; }
  size_t outstanding() const override { return open_.size(); }
  const std::string& peer() const override { return peer_; }

 private:
  const std::string peer_ = "127.0.0.1:1";
  std::optional<AgentFlow> flow_;
  std::string in_;
  net::Ticket ticket_ = 0;
  std::set<net::Ticket> open_;
  bool closed_ = false;
};

// A store that means harm.
void AttackAgent(Input* in) {
  kv::LaneFacts facts = HostLane::FactsOf(TheHost().shared);
  auto memory = Region::CreatePrivate(facts.bytes());
  FUZZ_CHECK(memory.ok());
  std::memcpy(memory->data(), &facts, sizeof(facts));
  auto link = std::make_shared<kv::LaneLink>();
  link->facts = facts;
  link->region = *std::move(memory);
  char* const data = link->region.data();
  auto [socket, other] = Sockets();
  link->socket = std::move(socket);
  auto notify = *Doorbell::CreatePair();
  auto kick = *Doorbell::CreatePair();
  kv::LaneHeader* const header = link->header();
  link->notify = Doorbell(std::move(notify.sleep), &header->agent_sleeping.value);
  link->kick = Doorbell(std::move(kick.ring), &header->host_sleeping.value);
  link->requests.emplace(facts.queue(), data + kv::LaneRequests());
  link->replies.emplace(facts.queue(), data + kv::LaneReplies(facts));
  QueuePair requests(facts.queue(), data + kv::LaneRequests());
  QueuePair replies(facts.queue(), data + kv::LaneReplies(facts));

  QuietLoop loop;
  kv::LaneCounters counters;
  AgentLane lane(&loop, &counters, 64 << 10, /*is_alone=*/in->Byte() % 2 == 1);
  lane.Attach(link);
  std::array<std::unique_ptr<Client>, 3> clients;
  for (auto& client : clients) client = std::make_unique<Client>(&lane);
  for (int turn = 0; turn < 8; ++turn) {
    loop.Advance();
    constexpr std::array<const char*, 8> kSaid = {"GET k\r\n",
                                                  "SET k v\r\n",
                                                  "MULTI\r\nGET k\r\nEXEC\r\n",
                                                  "CLIENT TRACKING ON\r\n",
                                                  "AUTH secret\r\n",
                                                  "get k\r\n",
                                                  "SUBSCRIBE c\r\n",
                                                  "CLIENT REPLY OFF\r\n"};
    Client& client = *clients[in->Below(clients.size())];
    if (in->Byte() % 16 == 0) {
      client.End();
    } else if (!client.closed() && !client.ended()) {
      client.Say(kSaid[in->Below(kSaid.size())]);
    }
    lane.EndTurn();
    const char* given = nullptr;
    while (requests.FindRequests(&given) == QueuePair::Found::kBatch) requests.Answer();
    if (replies.HasRoom() || (replies.Reclaim() && replies.HasRoom())) {
      char* const buffer = replies.BufferToSubmit();
      kv::ReplyPacker packer(buffer, facts.buffer_bytes, facts.batch);
      for (uint64_t left = in->Below(5); left > 0; --left) {
        const auto status = in->Byte() % 8 == 0 ? LaneStatus::kClosed : LaneStatus::kReply;
        constexpr std::array<uint8_t, 6> kFlags = {0, 0, 0, kv::kMore, kv::kPaused, kv::kPush};
        const std::string bytes = in->Byte() % 2 == 0 ? "+OK\r\n" : std::string(in->Byte(), 'r');
        packer.Add(static_cast<uint16_t>(in->Below(4)), static_cast<uint8_t>(status),
                   kFlags[in->Below(kFlags.size())], bytes);
      }
      packer.Finish();
      Spoil(in, buffer);
      replies.Submit();
    }
    if (in->Byte() % 16 == 0) {
      const uint64_t evil = in->Evil(2);
      char* const at = data + (in->Byte() % 2 == 0 ? kv::LaneRequests() : kv::LaneReplies(facts));
      std::memcpy(at + in->Below(3) * 64, &evil, sizeof(evil));
    }
    lane.Poll();
    lane.HasWork();
    for (auto& each : clients) each->EndTurn();
    lane.EndTurn();
  }
  // Who keeps the link sees its end. Then everybody has been told.
  lane.Lose();
  for (auto& client : clients) {
    FUZZ_CHECK(client->closed() || client->ended() || client->outstanding() == 0);
    client->End();
  }
  FUZZ_CHECK(counters.attached == 0);
}

}  // namespace

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  Input in(data, size);
  if (in.Byte() % 2 == 0) {
    AttackHost(&in);
  } else {
    AttackAgent(&in);
  }
  return 0;
}
