// The flow with hosts, catch-ups and losses in every order: many clients of a simulated primary,
// whose histories the checker judges. The host, its log and the view are maps here; what runs is
// the flow, the dirty table, the fencer and the pool.
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <random>
#include <set>
#include <thread>

#include "absl/strings/str_cat.h"
#include "base/testing.h"
#include "base/unique_fd.h"
#include "checker.h"
#include "director/address.h"
#include "offload_resp.h"
#include "value.h"

namespace pulse::resp {
namespace {

using linear::Kind;
using linear::Operation;
using testing_util::Eventually;
using Map = std::map<std::string, std::string>;

class SimView final : public ReadView {
 public:
  SimView(CatchUpClock* clock, uint64_t seed) : clock_(clock), random_(seed) {}
  void Read(const std::vector<std::string_view>& keys, std::vector<std::string>* values,
            std::vector<Found>* found) override {
    ReadSome(keys, false, values, found);
  }
  bool ReadNow(const std::vector<std::string_view>& keys, std::vector<std::string>* values,
               std::vector<Found>* found) override {
    ReadSome(keys, true, values, found);
    return false;
  }
  void ReadSome(const std::vector<std::string_view>& keys, bool memory_only,
                std::vector<std::string>* values, std::vector<Found>* found) {
    std::lock_guard lock(mu_);
    values->assign(keys.size(), "");
    found->assign(keys.size(), Found::kNo);
    for (size_t i = 0; i < keys.size(); ++i) {
      if (memory_only && random_() % 4 == 0) (*found)[i] = Found::kUnknown;
      const auto it = map_.find(std::string(keys[i]));
      if (it == map_.end() || (*found)[i] == Found::kUnknown) continue;
      (*values)[i] = it->second;
      (*found)[i] = Found::kYes;
    }
  }
  uint64_t Validity() const override { return validity; }
  uint64_t Generation() const override { return generation; }
  void Wake() override {}

  std::atomic<uint64_t> validity{1};
  std::atomic<uint64_t> generation{1};

  void Begin() { number_ = clock_->Begin(); }
  void Copy(const Map& log) {
    std::lock_guard lock(mu_);
    map_ = log;
  }
  void Finish() { clock_->Finish(number_); }

 private:
  CatchUpClock* const clock_;
  std::mutex mu_;
  std::mt19937_64 random_;
  Map map_;
  uint64_t number_ = 0;
};

// Answers PULSE.FENCE of an id when nothing of it is left.
class FenceServer {
 public:
  explicit FenceServer(const std::string& path) {
    const auto address = director::ParseAddress("unix:" + path);
    auto fd = director::Listen(*address, 16);
    EXPECT_TRUE(fd.ok()) << fd.status();
    fd_ = *std::move(fd);
    thread_ = std::thread([this] { Run(); });
  }
  ~FenceServer() {
    stop_ = true;
    shutdown(fd_.get(), SHUT_RDWR);
    thread_.join();
  }
  std::mutex mu;
  std::multiset<std::string> left;

 private:
  void Run() {
    while (!stop_) {
      const UniqueFd peer(accept4(fd_.get(), nullptr, nullptr, SOCK_CLOEXEC));
      if (!peer.valid()) {
        std::this_thread::sleep_for(std::chrono::microseconds(100));
        continue;
      }
      char bytes[512];
      const ssize_t n = recv(peer.get(), bytes, sizeof(bytes), 0);
      Request request;
      if (n <= 0 || !request.Parse({bytes, static_cast<size_t>(n)}).ok()) continue;
      std::lock_guard lock(mu);
      // Otherwise it hangs up, and is asked again.
      if (left.count(std::string(request[1])) != 0) continue;
      EXPECT_EQ(send(peer.get(), "$1\r\nr\r\n", 7, MSG_NOSIGNAL), 7);
    }
  }
  UniqueFd fd_;
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

struct Simulation;

// One client, and the director between it and the simulated host.
class Client final : public director::Connection {
 public:
  struct Posts final : director::Remote {
    void Post(std::function<void()> work) override {
      std::lock_guard lock(mu);
      posts.push_back(std::move(work));
    }
    std::mutex mu;
    std::deque<std::function<void()>> posts;
  };
  struct AtHost {
    director::Ticket ticket;
    std::string bytes;
    int stage = 0;  // 1: in the log, 2: carried out
    std::string reply;
    uint64_t place = 0;  // in the log
  };

  Client(Simulation* simulation, uint32_t number) : simulation_(simulation), number_(number) {}

  void Forward(director::Ticket ticket, std::string_view bytes, uint32_t replies) override;
  void Reply(director::Ticket ticket, std::string_view bytes) override {
    // It has just been read: all before it must have taken effect.
    for (const auto& [before, op] : open_) {
      EXPECT_TRUE(before >= ticket || replies_.count(before) != 0) << before << " and " << ticket;
    }
    EXPECT_TRUE(replies_.emplace(ticket, bytes).second);
  }
  void Reply(director::Ticket, director::Buffer) override { FAIL(); }
  void Close(std::string_view) override { FAIL(); }
  std::shared_ptr<director::Remote> remote() override { return posts_; }
  director::BufferPool* buffers() override { return nullptr; }
  size_t outstanding() const override { return open_.size(); }
  const std::string& peer() const override { return peer_; }

  void Send(std::mt19937_64& random);
  // These, as they came together; the last ticket.
  director::Ticket Ask(const std::vector<std::vector<std::string_view>>& requests) {
    for (const auto& words : requests) {
      std::string bytes;
      AppendRequest(words, &bytes);
      flow->OnRequest(++last_, bytes);
    }
    flow->OnRequestsEnd();
    return last_;
  }
  void HostStep(std::mt19937_64& random);
  void LoseHost(std::mt19937_64& random);
  // The host answers the first that it has, so.
  void Drop(const std::string& reply) {
    std::string out;
    const AtHost first = std::move(host_.front());
    host_.pop_front();
    flow->OnHostReply(first.ticket, reply, true, &out);
    replies_.emplace(first.ticket, out);
  }
  // The host is lost, and nothing that it had will run.
  void LoseAll(bool sent) {
    for (const AtHost& command : host_) {
      replies_.emplace(command.ticket, flow->OnHostLost(command.ticket, sent));
    }
    host_.clear();
    id_.clear();
    flow->OnHostClosed();
  }
  bool RunPost();
  void Deliver();
  std::vector<director::Ticket> at_host() const {
    std::vector<director::Ticket> tickets;
    for (const AtHost& command : host_) tickets.push_back(command.ticket);
    return tickets;
  }
  size_t answered() const { return replies_.size(); }
  std::string reply(director::Ticket ticket) const { return replies_.at(ticket); }

  std::unique_ptr<director::Flow> flow;

 private:
  friend struct Simulation;
  Simulation* const simulation_;
  const uint32_t number_;
  const std::string peer_ = "test";
  std::shared_ptr<Posts> posts_ = std::make_shared<Posts>();
  director::Ticket last_ = 0;
  std::deque<std::pair<director::Ticket, std::pair<std::string, Operation>>> open_;
  std::map<director::Ticket, std::string> replies_;
  std::deque<AtHost> host_;
  director::Ticket forwarded_ = 0;  // the last
  std::set<director::Ticket> sent_;
  std::string id_;
};

struct Simulation {
  Simulation(uint64_t seed, bool broken, const std::string& socket, bool values_known = true)
      : random(seed), fences(socket) {
    OffloadOptions options;
    options.host = "unix:" + socket;
    options.dirty_words = 4;  // collisions
    options.broken = broken;
    if (!values_known) options.value_cache_bytes = 0;
    options.readers = 1;
    options.view = [&](CatchUpClock* clock, std::function<uint64_t()>) {
      auto made = std::make_unique<SimView>(clock, random());
      view = made.get();
      return made;
    };
    auto opened = OffloadedResp::Open(options);
    EXPECT_TRUE(opened.ok()) << opened.status();
    app = *std::move(opened);
    // Until what was before is through, everything is the host's.
    EXPECT_TRUE(
        Eventually([&] { return app->Info().find("offload_fences:1") != std::string::npos; }));
    for (uint32_t i = 0; i < 5; ++i) {
      clients.push_back(std::make_unique<Client>(this, i));
      clients.back()->flow = app->NewFlow(clients.back().get());
    }
  }
  ~Simulation() {
    for (auto& client : clients) client->flow.reset();
    app.reset();
  }

  int64_t Now() { return ++now; }
  void CatchUpStep() {
    if (catch_up == 0) view->Begin();
    if (catch_up == 1) view->Copy(log);
    if (catch_up == 2) view->Finish();
    catch_up = (catch_up + 1) % 3;
  }
  // A whole one, from its beginning.
  void CatchUp() {
    for (int i = 0; i < 3; ++i) CatchUpStep();
  }
  std::string Apply(const std::string& bytes, Map* map);
  // What is in the log is carried out in its order.
  uint64_t Log(const std::string& bytes) {
    Apply(bytes, &log);
    return logged++;
  }
  bool Next(uint64_t place) {
    if (place != carried_out) return false;
    ++carried_out;
    return true;
  }
  void ZombieStep();
  linear::Verdict Run(int steps);

  std::mt19937_64 random;
  FenceServer fences;
  SimView* view = nullptr;
  std::unique_ptr<OffloadedResp> app;
  std::vector<std::unique_ptr<Client>> clients;
  Map log;
  Map memory;
  uint64_t logged = 0;
  uint64_t carried_out = 0;
  struct Zombie {
    std::string id, bytes;
    int stage;
    uint64_t place;
  };
  std::deque<Zombie> zombies;
  int catch_up = 0;
  int64_t now = 0;
  int values = 0;
  linear::History history;
};

// What the host does, to the log or to its memory.
std::string Simulation::Apply(const std::string& bytes, Map* map) {
  Request request;
  EXPECT_TRUE(request.Parse(bytes).ok());
  std::string reply;
  ReplyWriter writer(&reply, 2);
  const std::string key(request[1]);
  const auto it = map->find(key);
  Value value;
  const bool exists = it != map->end() && DecodeValue(it->second, &value);
  std::string data(value.data);
  const auto put = [&](const std::string& what) { EncodeValue(what, kNever, &(*map)[key]); };
  if (request[0] == "GET") {
    if (exists) {
      writer.Bulk(data);
    } else {
      writer.Null();
    }
  } else if (request[0] == "SET") {
    put(std::string(request[2]));
    writer.Ok();
  } else if (request[0] == "DEL") {
    map->erase(key);
    writer.Integer(exists);
  } else {
    put(std::to_string(atoll(data.c_str()) + 1));
    writer.Integer(atoll(data.c_str()) + 1);
  }
  return reply;
}

void Client::Forward(director::Ticket ticket, std::string_view bytes, uint32_t) {
  EXPECT_GT(ticket, forwarded_);
  // What is before it and was not forwarded either was answered.
  for (const auto& [before, op] : open_) {
    EXPECT_TRUE(before >= ticket || replies_.count(before) != 0 || sent_.count(before) != 0)
        << before << " and " << ticket;
  }
  forwarded_ = ticket;
  sent_.insert(ticket);
  if (id_.empty()) {
    const auto preface = flow->HostPreface();
    Request request;
    ASSERT_TRUE(request.Parse(preface.bytes).ok());
    id_ = std::string(request[1]);
    ASSERT_TRUE(flow->OnPreface("$1\r\nr\r\n").ok());
  }
  host_.push_back({ticket, std::string(bytes), 0, "", 0});
}

void Client::Send(std::mt19937_64& random) {
  if (open_.size() >= 4) return;
  const size_t pipeline = random() % 3 == 0 ? 1 + random() % 8 : 1;
  for (size_t i = 0; i < pipeline; ++i) {
    Operation op;
    op.client = number_;
    op.begin = simulation_->Now();
    const std::string key = "k" + std::to_string(random() % 3);
    std::string bytes;
    const auto dice = random() % 40;
    op.kind = dice < 36   ? Kind::kGet
              : dice < 38 ? Kind::kSet
              : dice < 39 ? Kind::kIncr
                          : Kind::kDel;
    if (op.kind == Kind::kSet) op.argument = std::to_string(++simulation_->values * 1000);
    const char* names[] = {"GET", "SET", "DEL", "INCR"};
    const char* name = names[static_cast<size_t>(op.kind)];
    if (op.kind == Kind::kSet) {
      AppendRequest({name, key, op.argument}, &bytes);
    } else {
      AppendRequest({name, key}, &bytes);
    }
    open_.push_back({++last_, {key, op}});
    flow->OnRequest(last_, bytes);
  }
  flow->OnRequestsEnd();
}

// The log before the memory, and that before the answer.
void Client::HostStep(std::mt19937_64& random) {
  if (host_.empty()) return;
  AtHost& command = host_.front();
  if (command.stage == 0) {
    command.place = simulation_->Log(command.bytes);
  } else if (command.stage == 1) {
    if (!simulation_->Next(command.place)) return;
    command.reply = simulation_->Apply(command.bytes, &simulation_->memory);
  } else {
    const AtHost done = std::move(command);
    host_.pop_front();
    std::string out;
    flow->OnHostReply(done.ticket, done.reply, true, &out);
    replies_.emplace(done.ticket, out);
    return;
  }
  ++command.stage;
}

// What the host had not begun may still run later, or never.
void Client::LoseHost(std::mt19937_64& random) {
  if (id_.empty()) return;
  const std::deque<AtHost> lost = std::move(host_);
  host_.clear();
  for (const AtHost& command : lost) {
    if (command.stage == 1 || (command.stage == 0 && random() % 2 == 0)) {
      std::lock_guard lock(simulation_->fences.mu);
      simulation_->fences.left.insert(id_);
      simulation_->zombies.push_back({id_, command.bytes, command.stage, command.place});
    }
  }
  for (const AtHost& command : lost) {
    replies_.emplace(command.ticket, flow->OnHostLost(command.ticket, true));
  }
  id_.clear();
  flow->OnHostClosed();
}

void Simulation::ZombieStep() {
  if (zombies.empty()) return;
  const size_t which = random() % zombies.size();
  Zombie& zombie = zombies[which];
  if (zombie.stage == 0) {
    zombie.place = Log(zombie.bytes);
    zombie.stage = 1;
    return;
  }
  if (!Next(zombie.place)) return;
  Apply(zombie.bytes, &memory);
  std::lock_guard lock(fences.mu);
  fences.left.erase(fences.left.find(zombie.id));
  zombies.erase(zombies.begin() + static_cast<ptrdiff_t>(which));
}

bool Client::RunPost() {
  std::function<void()> work;
  {
    std::lock_guard lock(posts_->mu);
    if (posts_->posts.empty()) return false;
    work = std::move(posts_->posts.front());
    posts_->posts.pop_front();
  }
  work();
  return true;
}

// In the order of the requests, as the director does it.
void Client::Deliver() {
  while (!open_.empty()) {
    const auto reply = replies_.find(open_.front().first);
    if (reply == replies_.end()) return;
    auto& [key, op] = open_.front().second;
    const std::string& text = reply->second;
    op.end = simulation_->Now();
    if (text[0] == '-') {
      op.end = linear::kNever;
    } else if (text[0] == ':') {
      op.result = text.substr(1, text.size() - 3);
    } else if (text[0] == '$' && text[1] != '-') {
      const size_t line = text.find('\n') + 1;
      op.result = text.substr(line, text.size() - line - 2);
    }
    simulation_->history[key].push_back(op);
    replies_.erase(reply);
    open_.pop_front();
  }
}

linear::Verdict Simulation::Run(int steps) {
  const auto step = [&](Client& client) {
    switch (random() % 10) {
      case 0:
      case 1:
        client.Send(random);
        break;
      case 2:
      case 3:
      case 4:
        client.HostStep(random);
        break;
      case 5:
      case 6:
        client.RunPost();
        break;
      case 7:
        for (int i = 0; i < 4; ++i) CatchUpStep();
        break;
      case 8:
        ZombieStep();
        break;
      default:
        if (random() % 100 == 0) client.LoseHost(random);
    }
    // The end of a turn.
    if (random() % 2 == 0) client.flow->OnRoom();
    client.Deliver();
  };
  for (int i = 0; i < steps; ++i) step(*clients[random() % clients.size()]);
  // To the end: all are answered.
  EXPECT_TRUE(Eventually([&] {
    bool idle = true;
    for (auto& client : clients) {
      client->HostStep(random);
      client->RunPost();
      client->flow->OnRoom();
      client->Deliver();
      idle = idle && client->open_.empty();
    }
    CatchUp();
    ZombieStep();
    return idle;
  }));
  return linear::Check(history);
}

std::string Socket() { return absl::StrCat("/tmp/pulse-flow-test-", getpid(), ".sock"); }

TEST(OffloadFlowTest, HistoriesAreLinearizableAndInProgramOrder) {
  std::mt19937_64 seeds(testing_util::TestSeed());
  uint64_t offloaded = 0, known = 0, forwarded = 0, order = 0, fences = 0, operations = 0;
  for (int round = 0; round < (testing_util::kThreadSanitizer ? 5 : 20); ++round) {
    Simulation simulation(seeds(), false, Socket(), round % 2 == 0);
    const auto verdict = simulation.Run(20'000);
    ASSERT_TRUE(verdict.ok()) << verdict.report;
    offloaded += simulation.app->counters().offloaded;
    known += simulation.app->counters().known;
    forwarded += simulation.app->counters().forwarded;
    order += simulation.app->counters().order;
    fences += simulation.app->counters().lost;
    for (const auto& [key, ops] : simulation.history) operations += ops.size();
  }
  printf("%llu operations, %llu offloaded, %llu known, %llu forwarded, %llu for order, %llu lost\n",
         static_cast<unsigned long long>(operations), static_cast<unsigned long long>(offloaded),
         static_cast<unsigned long long>(known), static_cast<unsigned long long>(forwarded),
         static_cast<unsigned long long>(order), static_cast<unsigned long long>(fences));
  // How many depends on how soon the fencer, which has a thread of its own, gets an answer.
  EXPECT_GT(offloaded, 100u);
  EXPECT_GT(known, 100u);
  EXPECT_GT(forwarded, 0u);
}

// What was written is answered here as soon as the host has answered, without a catch-up, where the
// key was asked for before, and nobody else wrote it.
TEST(OffloadFlowTest, WhatWasWrittenIsKnown) {
  Simulation simulation(1, false, Socket());
  Client& client = *simulation.clients[0];
  simulation.CatchUp();
  director::Ticket ticket = 0;
  const auto send = [&](const std::vector<std::string_view>& words) {
    ticket = client.Ask({words});
  };
  const auto finish = [&] {
    EXPECT_TRUE(Eventually([&] {
      client.HostStep(simulation.random);
      client.RunPost();
      return client.answered() == ticket;
    }));
  };
  const auto reply = [&] {
    const std::string text = client.reply(ticket);
    const size_t line = text.find('\n') + 1;
    return text.substr(line, text.size() - line - 2);
  };
  const auto& counters = simulation.app->counters();
  send({"SET", "a", "1"});  // nobody has asked for it
  finish();
  send({"GET", "a"});
  finish();
  EXPECT_EQ(counters.dirty, 1u);
  send({"SET", "a", "2"});
  finish();
  send({"GET", "a"});
  finish();
  EXPECT_EQ(reply(), "2");
  EXPECT_EQ(counters.known, 1u);
  EXPECT_EQ(counters.dirty, 1u);
  // What the host makes of these is not known here.
  for (const std::vector<std::string_view>& words :
       {std::vector<std::string_view>{"INCR", "a"}, {"DEL", "a"}}) {
    send(words);
    finish();
    send({"GET", "a"});
    finish();
  }
  EXPECT_EQ(counters.known, 1u);
  EXPECT_EQ(counters.dirty, 3u);
  // What was read is known, too, also that there is none.
  simulation.CatchUp();
  send({"GET", "a"});
  finish();
  send({"EXISTS", "a"});
  finish();
  EXPECT_EQ(client.reply(ticket), ":0\r\n");
  EXPECT_EQ(counters.known, 2u);
  EXPECT_EQ(counters.dirty, 3u);
}

// What ends what is known, and what does not.
TEST(OffloadFlowTest, WhatIsKnownHoldsUntilItMayHaveChanged) {
  Simulation simulation(1, false, Socket());
  Client& client = *simulation.clients[0];
  const auto send = [&](const std::vector<std::string_view>& words) {
    const director::Ticket ticket = client.Ask({words});
    client.RunPost();
    return ticket;
  };
  const auto& counters = simulation.app->counters();
  // Whether a read of "a" is answered at once, from what is known.
  const auto is_known_to = [&](Client& who) {
    const uint64_t before = counters.known;
    who.Ask({{"GET", "a"}});
    who.RunPost();
    if (counters.known > before) return true;
    if (!who.at_host().empty()) who.Drop("$-1\r\n");
    return false;
  };
  const auto is_known = [&] { return is_known_to(client); };
  const auto learn_by = [&](Client& who) {
    ASSERT_TRUE(Eventually([&] {
      simulation.CatchUp();
      return is_known_to(who);
    }));
  };
  const auto learn = [&] { learn_by(client); };
  const auto host_says = [&](const std::vector<std::string_view>& words, const std::string& reply) {
    send(words);
    ASSERT_EQ(client.at_host().size(), 1u);
    client.Drop(reply);
  };
  EncodeValue("1", kNever, &simulation.log["a"]);
  learn();
  // Unknown there, too, and malformed: nothing has happened.
  host_says({"NONSENSE", "a"}, "-ERR unknown command 'NONSENSE'\r\n");
  EXPECT_TRUE(is_known());
  host_says({"SET", "a"}, "-ERR wrong number of arguments for 'set' command\r\n");
  EXPECT_TRUE(is_known());
  // Not while it is under way, for anybody.
  send({"NONSENSE"});
  Client& other = *simulation.clients[1];
  other.Ask({{"GET", "a"}});
  ASSERT_EQ(other.at_host().size(), 1u);
  other.Drop("$1\r\n1\r\n");
  client.Drop("-ERR unknown command 'NONSENSE'\r\n");
  EXPECT_TRUE(is_known());
  // Nor what was not allowed, or not sent at all.
  host_says({"FLUSHALL"}, "-NOAUTH Authentication required.\r\n");
  EXPECT_TRUE(is_known());
  send({"FLUSHALL"});
  client.LoseAll(/*sent=*/false);
  EXPECT_TRUE(is_known());
  // A host that knows more commands than the agent.
  host_says({"NONSENSE", "a"}, "+OK\r\n");
  EXPECT_FALSE(is_known());
  learn();
  host_says({"FLUSHALL"}, "+OK\r\n");
  EXPECT_FALSE(is_known());
  learn();
  // Without a view, what is known stays known, until there may be other files.
  simulation.view->validity = 0;
  EXPECT_TRUE(is_known());
  simulation.view->generation = 2;
  EXPECT_FALSE(is_known());
  simulation.view->validity = 2;
  learn();
  send({"FLUSHALL"});
  client.LoseAll(/*sent=*/true);
  EXPECT_FALSE(is_known());
  learn();
  // A transaction, with what only the host knows; and one that is not carried out.
  host_says({"MULTI"}, "+OK\r\n");
  host_says({"NONSENSE", "a"}, "+QUEUED\r\n");
  learn_by(other);
  host_says({"EXEC"}, "*1\r\n+OK\r\n");
  EXPECT_FALSE(is_known());
  learn();
  host_says({"MULTI"}, "+OK\r\n");
  host_says({"NONSENSE", "a"}, "-ERR unknown command 'NONSENSE'\r\n");
  host_says({"EXEC"}, "-EXECABORT Transaction discarded because of previous errors.\r\n");
  EXPECT_TRUE(is_known());
  // In a transaction nothing is.
  host_says({"MULTI"}, "+OK\r\n");
  host_says({"SET", "a", "2"}, "+QUEUED\r\n");
  host_says({"EXEC"}, "*1\r\n+OK\r\n");
  EXPECT_FALSE(is_known());
  learn();
  // A SET that the host refuses leaves what was there before.
  host_says({"SET", "a", "3"}, "-ERR no\r\n");
  EXPECT_FALSE(is_known());
  learn();
  // Its outcome is not known: until the host says that it is over.
  send({"SET", "a", "4"});
  client.LoseAll(/*sent=*/true);
  EXPECT_FALSE(is_known());
  learn();
  // Some of several keys.
  EncodeValue("5", kNever, &simulation.log["b"]);
  simulation.CatchUp();
  const uint64_t offloaded = counters.offloaded;
  const director::Ticket ticket = send({"MGET", "a", "b", "a"});
  ASSERT_TRUE(Eventually([&] {
    client.RunPost();
    return counters.offloaded == offloaded + 1;
  }));
  EXPECT_EQ(client.reply(ticket), "*3\r\n$1\r\n1\r\n$1\r\n5\r\n$1\r\n1\r\n");
}

// What is known of a key ends with the key.
TEST(OffloadFlowTest, WhatIsKnownExpires) {
  // Again, and longer, where the key was gone before it was read.
  bool late = true;
  for (int64_t lasts_ms = 1500; late; lasts_ms *= 2) {
    Simulation simulation(1, false, Socket());
    Client& client = *simulation.clients[0];
    const int64_t expires = WallMillis() + lasts_ms;
    EncodeValue("1", expires, &simulation.log["a"]);
    simulation.CatchUp();
    const auto get = [&] {
      const director::Ticket ticket = client.Ask({{"GET", "a"}});
      EXPECT_TRUE(Eventually([&] {
        client.RunPost();
        return client.answered() == ticket;
      }));
      return client.reply(ticket);
    };
    const std::string first = get();
    late = first == "$-1\r\n" && WallMillis() >= expires && lasts_ms < 40'000;
    if (late) continue;
    EXPECT_EQ(first, "$1\r\n1\r\n");
    EXPECT_TRUE(Eventually([&] { return get() == "$-1\r\n"; }));
    EXPECT_GT(simulation.app->counters().known, 0u);
    EXPECT_EQ(simulation.app->counters().forwarded, 0u);
  }
}

// The test above can fail.
TEST(OffloadFlowTest, ATableThatForgetsIsFoundOut) {
  std::mt19937_64 seeds(testing_util::TestSeed());
  int found = 0;
  for (int round = 0; round < 50 && found == 0; ++round) {
    Simulation simulation(seeds(), true, Socket());
    found += simulation.Run(40'000).outcome == linear::Verdict::Outcome::kViolation;
  }
  EXPECT_GT(found, 0);
}

// Reads between two writes are answered here once the first is, and the second waits for that; few
// go with it to the host, which would be waited for else.
TEST(OffloadFlowTest, AWriteWaitsForReadsThatWaitForAWrite) {
  Simulation simulation(1, false, Socket());
  Client& client = *simulation.clients[0];
  // All of it clean, and in memory or not.
  simulation.CatchUp();
  const auto send = [&](const std::vector<std::vector<std::string_view>>& requests) {
    client.Ask(requests);
  };
  using Tickets = std::vector<director::Ticket>;
  send({{"SET", "a", "1"}, {"GET", "b"}, {"GET", "c"}, {"GET", "d"}, {"SET", "e", "1"}});
  EXPECT_EQ(client.at_host(), (Tickets{1}));
  for (int i = 0; i < 3; ++i) client.HostStep(simulation.random);
  ASSERT_EQ(client.answered(), 1u);
  // What shares the words of the table with "a" is clean then.
  simulation.CatchUp();
  ASSERT_TRUE(Eventually([&] {
    client.RunPost();
    client.flow->OnRoom();
    return client.at_host() == Tickets{5};
  }));
  EXPECT_EQ(client.answered(), 4u);
  EXPECT_EQ(simulation.app->counters().offloaded, 3u);
  EXPECT_EQ(simulation.app->counters().order, 0u);
  // Few go along; and something that concerns the connection takes all along.
  send({{"GET", "b"},
        {"SET", "f", "1"},
        {"GET", "b"},
        {"GET", "c"},
        {"GET", "d"},
        {"SET", "g", "1"}});
  EXPECT_EQ(client.at_host(), (Tickets{5, 6, 7}));
  EXPECT_EQ(simulation.app->counters().order, 1u);
  send({{"MULTI"}});
  EXPECT_EQ(client.at_host(), (Tickets{5, 6, 7, 8, 9, 10, 11, 12}));
  EXPECT_EQ(simulation.app->counters().order, 4u);
}

// A new connection to the host is told who the client is, in the order in which it became that.
TEST(OffloadFlowTest, TheNextConnectionIsWhoTheClientIs) {
  Simulation simulation(1, false, Socket());
  Client& client = *simulation.clients[0];
  director::Ticket ticket = 0;
  const auto say = [&](const std::vector<std::string_view>& words, const std::string& reply) {
    std::string bytes, out;
    AppendRequest(words, &bytes);
    client.flow->OnRequest(++ticket, bytes);
    client.flow->OnHostReply(ticket, reply, true, &out);
    EXPECT_EQ(out, reply);
    return bytes;
  };
  const auto expect = [&](const std::vector<std::string>& requests) {
    const std::string bytes = client.flow->HostPreface().bytes;
    size_t at = bytes.find("PULSE.HELLO");
    for (const std::string& request : requests) {
      at = bytes.find(request, at + 1);
      EXPECT_NE(at, std::string::npos) << request << " not in its place in " << bytes;
    }
    EXPECT_EQ(std::count(bytes.begin(), bytes.end(), '*'),
              static_cast<ptrdiff_t>(requests.size()) + 1)
        << bytes;
  };
  const std::string a = say({"HELLO", "3", "AUTH", "a", "pa"}, "%0\r\n");
  expect({a});
  const std::string b = say({"AUTH", "b", "pb"}, "+OK\r\n");
  expect({a, b});
  say({"AUTH", "c", "wrong"}, "-WRONGPASS\r\n");
  const std::string name = say({"CLIENT", "SETNAME", "n"}, "+OK\r\n");
  expect({a, b, name});
  const std::string two = say({"HELLO", "2"}, "*0\r\n");
  expect({b, name, two});
  say({"RESET"}, "+RESET\r\n");
  expect({});
}

}  // namespace
}  // namespace pulse::resp
