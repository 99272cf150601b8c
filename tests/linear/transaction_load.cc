#include "transaction_load.h"

#include <algorithm>
#include <chrono>
#include <numeric>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"

namespace pulse::linear {
namespace {

// What a server says of a request that the one behind it may have carried out, or not.
constexpr std::string_view kHostLost = "-ERR the host was lost";
// It has not.
bool IsRefusal(std::string_view reply) {
  return StartsWith(reply, "-LOADING") || StartsWith(reply, "-ERR the host is not reachable");
}

std::string KeyOf(const std::string& group, size_t key) { return absl::StrCat(group, ".", key); }

void AppendCommand(const std::string& group, const Transaction::Part& part, std::string* bytes) {
  static constexpr std::string_view kNames[] = {"GET", "SET", "DEL", "INCR", "APPEND"};
  const std::string key = KeyOf(group, part.key);
  std::vector<std::string_view> words = {kNames[static_cast<size_t>(part.operation.kind)], key};
  if (!part.operation.argument.empty()) words.push_back(part.operation.argument);
  redis::AppendRequest(words, bytes);
}

// A reply to one command, taken from the beginning of `bytes`.
bool TakeResult(std::string_view* bytes, Operation* operation) {
  std::optional<std::string> result;
  if (!TakeScalar(bytes, &result)) return false;
  if (operation->kind == Kind::kSet) return result == "OK";
  operation->result = std::move(result);
  return true;
}

}  // namespace

TransactionLoad::TransactionLoad(const TransactionLoadOptions& options)
    : options_(options), port_(options.port) {
  clients_.Start(options.seed, options.clients, [this](Client* client) { Run(client); });
}

void TransactionLoad::Run(Client* client) {
  bool was_open = false;
  while (!clients_.stopping()) {
    if (!client->connection.is_open()) {
      if (was_open && options_.loss == Loss::kNone) return;
      was_open = client->connection.Open(port_.load());
      if (!was_open && options_.loss == Loss::kNone) {
        client->surprises.emplace_back("no connection");
        return;
      }
      if (!was_open) {
        // sleep: a server that starts needs a processor, too
        std::this_thread::sleep_for(std::chrono::milliseconds(2));
        continue;
      }
    }
    if (options_.watches && client->random() % 4 == 0) {
      WatchedRound(client);
    } else {
      Round(client);
    }
  }
}

std::string TransactionLoad::Group(Client* client) const {
  return absl::StrCat(options_.prefix, client->random() % static_cast<uint64_t>(options_.groups));
}

// Some keys of a group, in any order.
std::vector<size_t> TransactionLoad::Choose(Client* client, size_t least) const {
  std::vector<size_t> keys(kKeys);
  std::iota(keys.begin(), keys.end(), size_t{0});
  std::shuffle(keys.begin(), keys.end(), client->random);
  keys.resize(least + client->random() % (kKeys - least + 1));
  return keys;
}

Operation TransactionLoad::Write(Client* client, size_t key) const {
  Operation op;
  const uint64_t dice = client->random() % 10;
  const uint64_t unique =
      ++client->values * static_cast<uint64_t>(options_.clients) + client->number;
  if (dice < 2) {
    op.kind = Kind::kDel;
  } else if (dice < 6) {
    op.kind = Kind::kSet;
    // INCRs come nowhere near each other.
    op.argument = key == 0 ? absl::StrCat(unique * 1'000'000) : absl::StrCat("v", unique, ",");
  } else if (key == 0) {
    op.kind = Kind::kIncr;
  } else {
    op.kind = Kind::kAppend;
    op.argument = absl::StrCat("a", unique, ",");
  }
  return op;
}

// MULTI, two to six commands, EXEC.
void TransactionLoad::AddExec(Client* client, Sent* sent, std::string* bytes) const {
  sent->form = Sent::Form::kExec;
  redis::AppendRequest({"MULTI"}, bytes);
  for (uint64_t left = 2 + client->random() % 5; left > 0; --left) {
    const size_t key = client->random() % kKeys;
    const bool reads = client->random() % 3 == 0;
    sent->transaction.parts.push_back({key, reads ? Operation() : Write(client, key)});
    AppendCommand(sent->group, sent->transaction.parts.back(), bytes);
  }
  redis::AppendRequest({"EXEC"}, bytes);
}

TransactionLoad::Sent TransactionLoad::Plan(Client* client, std::string* bytes) const {
  Sent sent;
  sent.group = Group(client);
  sent.transaction.client = client->number;
  auto& parts = sent.transaction.parts;
  const uint64_t dice = client->random() % 10;
  if (dice < 4) {
    AddExec(client, &sent, bytes);
    return sent;
  }
  if (dice < 6) {
    const size_t key = client->random() % kKeys;
    parts.push_back({key, dice == 4 ? Operation() : Write(client, key)});
    AppendCommand(sent.group, parts[0], bytes);
    return sent;
  }
  const bool reads = dice < 8;
  sent.form = reads ? Sent::Form::kMget : Sent::Form::kMset;
  std::vector<std::string> words = {reads ? "MGET" : "MSET"};
  for (const size_t key : Choose(client, 2)) {
    Operation op;
    words.push_back(KeyOf(sent.group, key));
    if (!reads) {
      do op = Write(client, key);
      while (op.kind != Kind::kSet);
      words.push_back(op.argument);
    }
    parts.push_back({key, std::move(op)});
  }
  redis::AppendRequest({words.begin(), words.end()}, bytes);
  return sent;
}

bool TransactionLoad::Surprised(Client* client, const std::string& reply) const {
  client->surprises.push_back(reply.empty() ? "no answer" : reply);
  client->connection.Close();
  return false;
}

// Its writes, as far as they may have taken effect.
void TransactionLoad::RecordUnknown(Client* client, const Sent& sent) {
  unknown_.fetch_add(1);
  const Transaction& all = sent.transaction;
  Transaction writes;
  writes.begin = all.begin;
  writes.client = all.client;
  // Who was killed does nothing after its clients have heard of it.
  if (options_.loss == Loss::kTorn) writes.latest = WallNanos();
  for (size_t i = sent.known; i < all.parts.size(); ++i) {
    if (all.parts[i].operation.kind != Kind::kGet) writes.parts.push_back(all.parts[i]);
  }
  if (writes.parts.empty()) return;
  if (options_.loss != Loss::kTorn && !sent.torn) {
    client->done.emplace_back(sent.group, std::move(writes));
    return;
  }
  for (const Part& part : writes.parts) {
    Transaction one = writes;
    one.parts = {part};
    client->done.emplace_back(sent.group, std::move(one));
  }
}

// Takes what says that a server was killed. False: the connection is of no use any more.
bool TransactionLoad::NotAnswered(Client* client, Sent* sent, const std::string& reply) {
  if (options_.loss == Loss::kNone) return Surprised(client, reply);
  if (reply.empty()) {
    lost_.fetch_add(1);
    RecordUnknown(client, *sent);
    client->connection.Close();
    return false;
  }
  if (IsRefusal(reply) && sent->refusals == 0 && !sent->torn) {
    refused_.fetch_add(1);
  } else if (sent->torn || StartsWith(reply, kHostLost)) {
    RecordUnknown(client, *sent);
  } else {
    return Surprised(client, reply);
  }
  // sleep: what is started anew needs a processor, too
  std::this_thread::sleep_for(std::chrono::milliseconds(1));
  return true;
}

bool TransactionLoad::Receive(Client* client, Sent* sent) {
  auto& parts = sent->transaction.parts;
  const size_t asked = parts.size() - sent->known;
  if (sent->form == Sent::Form::kExec) {
    for (size_t i = 0; i <= asked; ++i) {
      const std::string queued = client->connection.Receive();
      if (queued == (i == 0 ? "+OK\r\n" : "+QUEUED\r\n")) continue;
      const bool tells = IsRefusal(queued) || StartsWith(queued, kHostLost) || sent->torn;
      if (options_.loss == Loss::kNone || queued.empty() || !tells) {
        return NotAnswered(client, sent, queued);
      }
      // What follows a MULTI that was refused is carried out if the server is there again.
      sent->torn = true;
      sent->refusals += IsRefusal(queued);
    }
  }
  const std::string reply = client->connection.Receive();
  if (sent->torn && IsRefusal(reply) && sent->refusals == asked + 1) {
    refused_.fetch_add(1);
    return true;
  }
  if (sent->torn || reply.empty() || (reply[0] == '-' && options_.loss != Loss::kNone)) {
    return NotAnswered(client, sent, reply);
  }
  sent->transaction.end = WallNanos();
  if (reply == "*-1\r\n" && sent->known > 0) {
    aborted_.fetch_add(1);
    return true;
  }
  std::string_view rest = reply;
  if (sent->form == Sent::Form::kMset) {
    if (reply != "+OK\r\n") return Surprised(client, reply);
    rest = {};
  } else {
    const std::string head = sent->form == Sent::Form::kOne ? "" : absl::StrCat("*", asked, "\r\n");
    if (!StartsWith(rest, head)) return Surprised(client, reply);
    rest.remove_prefix(head.size());
    for (size_t i = sent->known; i < parts.size(); ++i) {
      if (!TakeResult(&rest, &parts[i].operation)) return Surprised(client, reply);
    }
  }
  if (!rest.empty()) return Surprised(client, reply);
  if (sent->known > 0) committed_.fetch_add(1);
  answered_.fetch_add(1);
  sent->answered = true;
  client->done.emplace_back(sent->group, sent->transaction);
  return true;
}

// One to three, sent together.
void TransactionLoad::Round(Client* client) {
  std::vector<Sent> all;
  std::string bytes;
  for (uint64_t left = 1 + client->random() % 3; left > 0; --left) {
    all.push_back(Plan(client, &bytes));
  }
  // One after another, for the order within a connection.
  const int64_t begin = WallNanos();
  for (size_t i = 0; i < all.size(); ++i) {
    all[i].transaction.begin = begin + static_cast<int64_t>(i);
  }
  client->connection.Send(bytes);
  for (size_t i = 0; i < all.size(); ++i) {
    if (Receive(client, &all[i])) continue;
    if (options_.loss == Loss::kNone) return;
    for (++i; i < all.size(); ++i) RecordUnknown(client, all[i]);
  }
}

void TransactionLoad::WatchedRound(Client* client) {
  Sent read;
  read.group = Group(client);
  read.form = Sent::Form::kMget;
  read.transaction.client = client->number;
  std::vector<std::string> keys = {""};
  for (const size_t key : Choose(client, 1)) {
    keys.push_back(KeyOf(read.group, key));
    read.transaction.parts.push_back({key, Operation()});
  }
  std::string bytes;
  for (const char* name : {"WATCH", "MGET"}) {
    keys[0] = name;
    redis::AppendRequest({keys.begin(), keys.end()}, &bytes);
  }
  read.transaction.begin = WallNanos();
  client->connection.Send(bytes);
  const std::string watching = client->connection.Receive();
  if (watching != "+OK\r\n") {
    Sent nothing;
    if (NotAnswered(client, &nothing, watching)) client->connection.Close();
    return;
  }
  if (!Receive(client, &read)) return;
  if (!read.answered) {
    client->connection.Close();
    return;
  }
  Sent exec;
  exec.group = read.group;
  exec.transaction.client = client->number;
  exec.transaction.parts = read.transaction.parts;
  exec.known = exec.transaction.parts.size();
  bytes.clear();
  AddExec(client, &exec, &bytes);
  exec.transaction.begin = WallNanos();
  client->connection.Send(bytes);
  Receive(client, &exec);
}

}  // namespace pulse::linear
