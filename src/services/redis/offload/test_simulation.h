// A simulated primary with clients, for tests of the offloading flow: hosts, catch-ups and losses
// in every order, and histories that the checker judges. The host, its log and the view are maps;
// what runs is the flow, the dirty table, the fence client and the pool. For tests only; one
// thread.
#pragma once

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <atomic>
#include <chrono>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "base/testing.h"
#include "base/unique_fd.h"
#include "net/address.h"
#include "services/redis/commands/codec.h"
#include "services/redis/offload/resp.h"
#include "tests/linear/checker.h"

namespace pulse::redis::sim {

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
      if (memory_only && !all_in_memory && random_() % 4 == 0) (*found)[i] = Found::kUnknown;
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
  std::atomic<bool> all_in_memory{false};

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
    const auto address = net::ParseAddress("unix:" + path);
    auto fd = net::Listen(*address, 16);
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
      if (!peer.valid()) continue;
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
class Client final : public net::Connection {
 public:
  struct Posts final : net::Remote {
    void Post(std::function<void()> work) override {
      std::lock_guard lock(mu);
      posts.push_back(std::move(work));
    }
    std::mutex mu;
    std::deque<std::function<void()>> posts;
  };
  struct AtHost {
    net::Ticket ticket;
    std::string bytes;
    int stage = 0;  // 1: in the log, 2: carried out
    std::string reply;
    uint64_t place = 0;  // in the log
  };

  Client(Simulation* simulation, uint32_t number) : simulation_(simulation), number_(number) {}

  void Forward(net::Ticket ticket, std::string_view bytes, uint32_t replies) override;
  void Reply(net::Ticket ticket, std::string_view bytes) override {
    // It has just been read: all before it must have taken effect.
    for (const auto& [before, op] : open_) {
      EXPECT_TRUE(before >= ticket || replies_.count(before) != 0) << before << " and " << ticket;
    }
    EXPECT_TRUE(replies_.emplace(ticket, bytes).second);
  }
  void Reply(net::Ticket, net::Buffer) override { FAIL(); }
  void Close(std::string_view) override { FAIL(); }
  std::shared_ptr<net::Remote> remote() override { return posts_; }
  net::BufferPool* buffers() override { return nullptr; }
  size_t outstanding() const override { return open_.size(); }
  const std::string& peer() const override { return peer_; }

  void Send(std::mt19937_64& random);
  // These, as they came together; the last ticket.
  net::Ticket Ask(const std::vector<std::vector<std::string_view>>& requests) {
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
  std::vector<net::Ticket> at_host() const {
    std::vector<net::Ticket> tickets;
    for (const AtHost& command : host_) tickets.push_back(command.ticket);
    return tickets;
  }
  size_t answered() const { return replies_.size(); }
  std::string reply(net::Ticket ticket) const { return replies_.at(ticket); }

  std::unique_ptr<net::Flow> flow;

 private:
  friend struct Simulation;
  Simulation* const simulation_;
  const uint32_t number_;
  const std::string peer_ = "test";
  std::shared_ptr<Posts> posts_ = std::make_shared<Posts>();
  net::Ticket last_ = 0;
  std::deque<std::pair<net::Ticket, std::pair<std::string, linear::Operation>>> open_;
  std::map<net::Ticket, std::string> replies_;
  std::deque<AtHost> host_;
  net::Ticket forwarded_ = 0;  // the last
  std::set<net::Ticket> sent_;
  std::string id_;
};

struct Simulation {
  Simulation(uint64_t seed, bool broken, const std::string& socket, bool values_known = true,
             size_t dirty_words = 4)  // collisions
      : random(seed), fences(socket) {
    OffloadOptions options;
    options.host = "unix:" + socket;
    options.dirty_words = dirty_words;
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
    EXPECT_TRUE(testing_util::Eventually([&] {
      const OffloadNumbers numbers = app->numbers();
      return numbers.fences == 1 && numbers.writes_in_flight == 0;
    }));
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

}  // namespace pulse::redis::sim
