// RedisLoad: random commands of several clients of a real server, each with a connection of its
// own, and the history of what they were answered, for the checker. Servers may be killed
// meanwhile: a client whose connection is lost connects again, to wherever it is pointed then.
//
// What is recorded: an operation for each key of each command. A command without an answer, or with
// the one that says that its outcome is not known, is recorded as such; one that was answered "not
// carried out" is left out, so that its effect would be a violation. Values are unique.
//
// Threads: one for each client. The object is used by one thread. Memory: the history.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "checker.h"
#include "load_clients.h"

namespace pulse::linear {

struct LoadOptions {
  uint64_t seed = 0;
  uint16_t port = 0;
  std::string prefix;  // of the keys
  int clients = 12;
  int keys = 40;
  int protocol = 2;
  std::string password;
};

class RedisLoad {
 public:
  explicit RedisLoad(const LoadOptions& options);
  ~RedisLoad() { Stop(); }

  void PointTo(uint16_t port) { port_.store(port); }
  // Until then, clients go on.
  void Stop() { clients_.Stop(); }

  uint64_t answered() const { return answered_.load(); }  // commands, errors left out
  uint64_t reads() const { return reads_.load(); }        // of these
  uint64_t unknown() const { return unknown_.load(); }    // outcomes
  uint64_t refused() const { return refused_.load(); }    // not carried out
  uint64_t lost() const { return lost_.load(); }          // connections
  std::vector<std::string> keys() const;

  // After Stop.
  History history() const { return clients_.history(); }
  // What no server may say, and answers that never came.
  std::vector<std::string> surprises() const { return clients_.surprises(); }

 private:
  struct Planned {
    std::vector<std::string> keys;
    Operation operation;  // of each key, but for values of MSET
    std::vector<std::string> values;
    bool several = false;  // MGET or MSET
  };
  using Client = LoadClients<Operation>::Client;

  void Run(Client* client);
  bool Connect(Client* client);
  void Round(Client* client);
  Planned Plan(Client* client, std::string* bytes);
  std::string Key(Client* client, bool* counter) const;
  std::string Value(Client* client, bool counter) const;
  void PlanWrite(Client* client, uint64_t dice, Planned* plan, std::vector<std::string>* words);
  void Answered(Client* client, const Planned& plan, std::string_view reply);
  void Record(Client* client, const Planned& plan, bool known,
              const std::vector<std::optional<std::string>>& results);

  const LoadOptions options_;
  std::atomic<uint16_t> port_;
  std::atomic<uint64_t> answered_{0}, reads_{0}, unknown_{0}, refused_{0}, lost_{0};
  LoadClients<Operation> clients_;
};

}  // namespace pulse::linear
