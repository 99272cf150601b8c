// TransactionLoad: clients of a real server that read and write groups of keys at once (MSET, MGET,
// MULTI/EXEC, WATCH) beside commands of one key, and the history of what they were answered, for
// CheckTransactions. Values are unique; the first key of a group is a counter. Nothing expires.
//
// Servers may be killed meanwhile, as with RedisLoad: see Loss.
//
// An EXEC behind a WATCH is recorded with the watched keys' values as the client read them after
// its WATCH: carried out, it may not have found others. One that was refused has no effect, and is
// left out.
//
// Threads: one for each client. The object is used by one thread. Memory: the history.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "checker.h"
#include "load_clients.h"

namespace pulse::linear {

// What may happen to connections, and to what was not answered on them.
enum class Loss {
  kNone,   // nothing: it would be a surprise
  kWhole,  // they are lost, the keys are not: it is there as a whole, or not at all
  kTorn,   // the server of the keys is killed: each part of it may be there or not
};

struct TransactionLoadOptions {
  uint64_t seed = 0;
  uint16_t port = 0;
  std::string prefix = "t";  // of the keys
  int clients = 6;
  int groups = 4;
  bool watches = true;
  Loss loss = Loss::kNone;
};

class TransactionLoad {
 public:
  static constexpr size_t kKeys = 4;  // of a group

  explicit TransactionLoad(const TransactionLoadOptions& options);
  ~TransactionLoad() { Stop(); }
  void PointTo(uint16_t port) { port_.store(port); }
  // Until then, clients go on.
  void Stop() { clients_.Stop(); }

  uint64_t answered() const { return answered_.load(); }    // EXECs and commands that took effect
  uint64_t committed() const { return committed_.load(); }  // EXECs behind a WATCH: carried out
  uint64_t aborted() const { return aborted_.load(); }      // and refused
  uint64_t unknown() const { return unknown_.load(); }      // outcomes
  uint64_t refused() const { return refused_.load(); }      // not carried out
  uint64_t lost() const { return lost_.load(); }            // connections

  // After Stop.
  std::map<std::string, std::vector<Transaction>> history() const {  // by group
    return clients_.history();
  }
  // What no server may say, and answers that never came.
  std::vector<std::string> surprises() const { return clients_.surprises(); }

 private:
  using Part = Transaction::Part;
  using Client = LoadClients<Transaction>::Client;
  // What a client has sent, of which `parts` are to be answered.
  struct Sent {
    std::string group;
    Transaction transaction;
    enum class Form { kOne, kMget, kMset, kExec } form = Form::kOne;
    size_t known = 0;       // parts at the beginning whose results are there: of watched keys
    size_t refusals = 0;    // replies that say so
    bool torn = false;      // its commands may have been carried out one by one
    bool answered = false;  // with all results
  };

  void Run(Client* client);
  void Round(Client* client);
  void WatchedRound(Client* client);
  std::string Group(Client* client) const;
  std::vector<size_t> Choose(Client* client, size_t least) const;
  Operation Write(Client* client, size_t key) const;
  void AddExec(Client* client, Sent* sent, std::string* bytes) const;
  Sent Plan(Client* client, std::string* bytes) const;
  // False: the connection is of no use any more.
  bool Receive(Client* client, Sent* sent);
  bool NotAnswered(Client* client, Sent* sent, const std::string& reply);
  void RecordUnknown(Client* client, const Sent& sent);
  bool Surprised(Client* client, const std::string& reply) const;

  const TransactionLoadOptions options_;
  std::atomic<uint16_t> port_;
  std::atomic<uint64_t> answered_{0}, committed_{0}, aborted_{0};
  std::atomic<uint64_t> unknown_{0}, refused_{0}, lost_{0};
  LoadClients<Transaction> clients_;
};

}  // namespace pulse::linear
