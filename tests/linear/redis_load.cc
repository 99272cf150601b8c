#include "redis_load.h"

#include <algorithm>
#include <chrono>
#include <thread>

#include "absl/strings/str_cat.h"

namespace pulse::linear {

RedisLoad::RedisLoad(const LoadOptions& options) : options_(options), port_(options.port) {
  clients_.Start(options.seed, options.clients, [this](Client* client) { Run(client); });
}

std::vector<std::string> RedisLoad::keys() const {
  std::vector<std::string> keys;
  for (int i = 0; i < options_.keys; ++i) keys.push_back(absl::StrCat(options_.prefix, i));
  return keys;
}

void RedisLoad::Run(Client* client) {
  while (!clients_.stopping()) {
    if (!client->connection.is_open() && !Connect(client)) {
      // sleep: a server that starts needs a processor, too
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
      continue;
    }
    Round(client);
  }
}

// Also says who it is.
bool RedisLoad::Connect(Client* client) {
  if (!client->connection.Open(port_.load())) return false;
  std::string reply = "+";
  if (options_.protocol == 3 && !options_.password.empty()) {
    reply = client->connection.Ask({"HELLO", "3", "AUTH", "default", options_.password});
  } else if (options_.protocol == 3) {
    reply = client->connection.Ask({"HELLO", "3"});
  } else if (!options_.password.empty()) {
    reply = client->connection.Ask({"AUTH", options_.password});
  }
  if (!reply.empty() && reply[0] != '-') return true;
  if (!reply.empty() && !StartsWith(reply, "-ERR the host") && !StartsWith(reply, "-LOADING")) {
    client->surprises.push_back(reply);
  }
  client->connection.Close();
  return false;
}

std::string RedisLoad::Key(Client* client, bool* counter) const {
  const auto number = client->random() % static_cast<uint64_t>(options_.keys);
  *counter = number % 3 == 0;
  return absl::StrCat(options_.prefix, number);
}

std::string RedisLoad::Value(Client* client, bool counter) const {
  const uint64_t unique = ++client->values * static_cast<uint64_t>(options_.clients) +
                          static_cast<uint64_t>(client->number);
  // INCRs come nowhere near each other.
  if (counter) return absl::StrCat(unique * 1'000'000);
  return absl::StrCat("v", unique, ",");
}

void RedisLoad::PlanWrite(Client* client, uint64_t dice, Planned* plan,
                          std::vector<std::string>* words) {
  bool counter = false;
  const std::string key = Key(client, &counter);
  plan->keys = {key};
  Operation& op = plan->operation;
  const auto soon = [&] {
    return WallNanos() / 1'000'000 + static_cast<int64_t>(client->random() % 40);
  };
  if (dice < 40) {
    op.kind = Kind::kSet;
    op.argument = Value(client, counter);
    *words = {"SET", key, op.argument};
    if (dice < 12) {
      op.expires_ms = soon();
      words->insert(words->end(), {"PXAT", absl::StrCat(op.expires_ms)});
    }
  } else if (dice < 52) {
    op.kind = Kind::kDel;
    *words = {"DEL", key};
  } else if (dice < 60) {
    op.kind = Kind::kExpire;
    op.expires_ms = soon();
    *words = {"PEXPIREAT", key, absl::StrCat(op.expires_ms)};
  } else if (counter || dice < 64) {
    op.kind = Kind::kIncr;
    *words = {"INCR", key};
  } else {
    op.kind = Kind::kAppend;
    op.argument = Value(client, false);
    *words = {"APPEND", key, op.argument};
  }
}

RedisLoad::Planned RedisLoad::Plan(Client* client, std::string* bytes) {
  Planned plan;
  std::vector<std::string> words;
  bool counter = false;
  plan.operation.client = client->number;
  const auto dice = client->random() % 100;
  if (dice < 78) {
    plan.operation.kind = Kind::kGet;
    plan.keys = {Key(client, &counter)};
    words = {"GET", plan.keys[0]};
  } else if (dice < 90) {
    plan.operation.kind = Kind::kGet;
    plan.several = true;
    words = {"MGET"};
    const uint64_t count = 2 + client->random() % 4;
    for (uint64_t i = 0; i < count; ++i) {
      plan.keys.push_back(Key(client, &counter));
      words.push_back(plan.keys.back());
    }
  } else if (dice < 92) {
    plan.operation.kind = Kind::kSet;
    plan.several = true;
    words = {"MSET"};
    for (int i = 0; i < 3; ++i) {
      const std::string key = Key(client, &counter);
      if (std::find(plan.keys.begin(), plan.keys.end(), key) != plan.keys.end()) continue;
      plan.keys.push_back(key);
      plan.values.push_back(Value(client, counter));
      words.insert(words.end(), {key, plan.values.back()});
    }
  } else {
    PlanWrite(client, client->random() % 100, &plan, &words);
  }
  redis::AppendRequest({words.begin(), words.end()}, bytes);
  return plan;
}

void RedisLoad::Round(Client* client) {
  const uint64_t pipeline = client->random() % 3 == 0 ? 2 + client->random() % 5 : 1;
  std::vector<Planned> plans;
  std::string bytes;
  for (uint64_t i = 0; i < pipeline; ++i) plans.push_back(Plan(client, &bytes));
  // One after another, for the order within a connection.
  const int64_t begin = WallNanos();
  for (uint64_t i = 0; i < pipeline; ++i) {
    plans[i].operation.begin = begin + static_cast<int64_t>(i);
  }
  const uint64_t refused = refused_.load();
  bool lost = !client->connection.Send(bytes);
  for (const Planned& plan : plans) {
    const std::string reply = lost ? "" : client->connection.Receive();
    lost = reply.empty();
    if (lost) {
      Record(client, plan, false, {});
    } else {
      Answered(client, plan, reply);
    }
  }
  if (lost) {
    lost_.fetch_add(1);
    client->connection.Close();
  } else if (refused_.load() != refused) {
    // sleep: what is started anew needs a processor, too
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

void RedisLoad::Answered(Client* client, const Planned& plan, std::string_view reply) {
  const Kind kind = plan.operation.kind;
  if (StartsWith(reply, "-ERR the host is not reachable") || StartsWith(reply, "-LOADING")) {
    refused_.fetch_add(1);
    return;
  }
  const bool no_number =
      kind == Kind::kIncr && StartsWith(reply, "-ERR value is not an integer or out of range");
  if (reply[0] == '-' && !no_number) {
    if (!StartsWith(reply, "-ERR the host was lost")) client->surprises.emplace_back(reply);
    Record(client, plan, false, {});
    return;
  }
  answered_.fetch_add(1);
  if (kind == Kind::kGet) reads_.fetch_add(1);
  std::vector<std::optional<std::string>> results(plan.keys.size());
  std::string_view rest = reply;
  bool understood = true;
  if (kind == Kind::kGet && plan.several) {
    const std::string head = absl::StrCat("*", plan.keys.size(), "\r\n");
    understood = StartsWith(rest, head);
    rest.remove_prefix(std::min(rest.size(), head.size()));
    for (auto& result : results) understood = understood && TakeScalar(&rest, &result);
  } else if (kind == Kind::kSet) {
    understood = rest == "+OK\r\n";
    rest = {};
  } else if (no_number) {
    rest = {};
  } else {
    understood = TakeScalar(&rest, &results[0]);
  }
  if (!understood || !rest.empty()) client->surprises.emplace_back(reply);
  Record(client, plan, understood, results);
}

void RedisLoad::Record(Client* client, const Planned& plan, bool known,
                       const std::vector<std::optional<std::string>>& results) {
  if (!known) {
    unknown_.fetch_add(1);
    if (plan.operation.kind == Kind::kGet) return;
  }
  const int64_t end = known ? WallNanos() : kNever;
  for (size_t i = 0; i < plan.keys.size(); ++i) {
    Operation op = plan.operation;
    op.end = end;
    if (known) op.result = results[i];
    if (!plan.values.empty()) op.argument = plan.values[i];
    client->done.emplace_back(plan.keys[i], std::move(op));
  }
}

}  // namespace pulse::linear
