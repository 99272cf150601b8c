// LoadClients: the client threads of a load, each with a connection, a generator of random numbers
// and what it records of its own; and what they have recorded, together.
//
// Threads: Start and Stop are for one; what is recorded may be read after Stop.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "redis_connection.h"

namespace pulse::linear {

template <class Recorded>
class LoadClients {
 public:
  struct Client {
    uint32_t number = 0;
    std::mt19937_64 random;
    RedisConnection connection;
    std::vector<std::pair<std::string, Recorded>> done;
    std::vector<std::string> surprises;
    uint64_t values = 0;
    std::thread thread;
  };

  // `run(client)` on a thread of each, until stopping().
  template <class Run>
  void Start(uint64_t seed, int count, const Run& run) {
    std::mt19937_64 seeds(seed);
    for (int i = 0; i < count; ++i) {
      clients_.push_back(std::make_unique<Client>());
      Client* const client = clients_.back().get();
      client->number = static_cast<uint32_t>(i);
      client->random.seed(seeds());
      client->thread = std::thread([run, client] { run(client); });
    }
  }
  void Stop() {
    stop_.store(true);
    for (auto& client : clients_) {
      if (client->thread.joinable()) client->thread.join();
      client->connection.Close();
    }
  }
  bool stopping() const { return stop_.load(); }

  std::map<std::string, std::vector<Recorded>> history() const {
    std::map<std::string, std::vector<Recorded>> history;
    for (const auto& client : clients_) {
      for (const auto& [name, recorded] : client->done) history[name].push_back(recorded);
    }
    return history;
  }
  std::vector<std::string> surprises() const {
    std::vector<std::string> all;
    for (const auto& client : clients_) {
      all.insert(all.end(), client->surprises.begin(), client->surprises.end());
      if (client->connection.timed_out()) {
        all.push_back(absl::StrCat("client ", client->number, ": no answer within a minute"));
      }
    }
    return all;
  }

 private:
  std::atomic<bool> stop_{false};
  std::vector<std::unique_ptr<Client>> clients_;
};

}  // namespace pulse::linear
