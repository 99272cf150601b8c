// What a server knows of one connection, and of all of them.
//
// A Session is used by one thread at a time: the connection's loop, or the pool's thread that its
// commands were given to. Clients and Fences are thread-safe; their critical sections are short.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "codec.h"
#include "commands.h"
#include "users.h"
#include "watch.h"

namespace pulse::resp {

// A connection as CLIENT LIST shows it.
struct ClientFacts {
  uint64_t id = 0;
  std::string peer;
  std::string name;
  std::string library;
  std::string library_version;
  std::string user;
  int64_t since_ms = 0;
  int protocol = 2;
};

class Clients {
 public:
  uint64_t Add(ClientFacts facts);
  void Set(const ClientFacts& facts);
  void Remove(uint64_t id);
  std::vector<ClientFacts> List() const;
  size_t size() const;

 private:
  mutable std::mutex mutex_;
  uint64_t last_id_ = 0;
  std::map<uint64_t, ClientFacts> clients_;
};

// Connections by the id that PULSE.HELLO gave them, and who waits for their end (PULSE.FENCE).
class Fences {
 public:
  // Present as long as it lives: with the connection, and with each piece of its work.
  class Token {
   public:
    Token(Fences* fences, std::string id) : fences_(fences), id_(std::move(id)) {}
    ~Token() { fences_->Leave(id_); }
    Token(const Token&) = delete;
    Token& operator=(const Token&) = delete;
    const std::string& id() const { return id_; }

   private:
    Fences* fences_;
    std::string id_;
  };
  // `end` is called when somebody waits for the end of connections of this id.
  std::shared_ptr<Token> Enter(std::string_view id, std::function<void()> end);
  // Calls `done`, here or on another thread, once there is no token of `id`. For "*", of any that
  // there is now; for "!PREFIX", of those that do not begin so: a new agent's own are not lost
  // ones.
  void Wait(std::string_view id, std::function<void()> done);

 private:
  void Leave(const std::string& id);
  void WaitForOthers(std::string_view prefix, std::function<void()> done);
  struct Entry {
    size_t tokens = 0;
    std::vector<std::function<void()>> ends;
    std::vector<std::function<void()>> waiters;
  };
  std::mutex mutex_;
  std::map<std::string, Entry, std::less<>> entries_;
};

struct Session {
  Session(WatchTable* table, bool is_private) : private_listener(is_private), watches(table) {}

  const bool private_listener;
  ClientFacts facts;
  const User* user = nullptr;  // null: AUTH comes first
  std::atomic<bool> authenticated{false};
  int protocol = 2;
  std::shared_ptr<Fences::Token> fence;
  std::function<void()> end;  // ends the connection; thread-safe

  struct Queued {
    std::string bytes;
    Request request;
    const CommandInfo* command;
  };
  bool in_multi = false;
  bool broken_multi = false;  // a command could not be queued
  std::vector<std::unique_ptr<Queued>> queue;
  size_t queued_bytes = 0;
  WatchTable::Set watches;

  void SetUser(const User* who) {
    user = who;
    facts.user = who == nullptr ? "" : who->name;
    authenticated.store(who != nullptr, std::memory_order_relaxed);
  }
  void EndMulti() {
    in_multi = broken_multi = false;
    queue.clear();
    queued_bytes = 0;
    watches.Clear();
  }
};

}  // namespace pulse::resp
