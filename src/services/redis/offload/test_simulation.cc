#include "services/redis/offload/test_simulation.h"

#include "services/redis/commands/value.h"

namespace pulse::redis::sim {

using linear::Kind;
using linear::Operation;
using testing_util::Eventually;

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

void Client::Forward(net::Ticket ticket, std::string_view bytes, uint32_t) {
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

}  // namespace pulse::redis::sim
