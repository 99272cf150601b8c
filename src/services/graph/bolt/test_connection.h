// A client on a connection itself, without sockets: for tests alone.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <future>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "services/graph/bolt/connection.h"
#include "services/graph/bolt/test_bolt_client.h"
#include "services/graph/model/test_memory_database.h"

namespace pulse::bolt::test {

using Strings = std::vector<std::string>;

// Keeps answers.
class Answers : public PartSink {
 public:
  explicit Answers(std::string* bytes, bool* closed, std::vector<net::Ticket>* done, Inbox** inbox)
      : bytes_(*bytes), closed_(*closed), done_(*done), inbox_(*inbox) {}
  void Deliver(std::vector<Part> parts) override {
    size_t size = 0;
    for (const Part& part : parts) {
      bytes_ += part.bytes;
      size += part.bytes.size();
      if (part.last) done_.push_back(part.ticket);
    }
    inbox_->Sent(size);
  }
  void CloseConnection() override { closed_ = true; }

 private:
  std::string& bytes_;
  bool& closed_;
  std::vector<net::Ticket>& done_;
  Inbox*& inbox_;
};

// A client on the connection itself: messages are carried out by this thread.
class ConnectionFixture : public testing::Test {
 protected:
  ConnectionFixture() {
    shared_.service = &service_;
    shared_.users = &users_;
    shared_.pool = &pool_;
    shared_.address = "127.0.0.1:7687";
    shared_.limits.stalled = std::chrono::milliseconds(1);
    Connect(8);
  }
  ~ConnectionFixture() override {
    if (connection_->inbox()->Close()) connection_->Work();
  }

  void Connect(int minor, std::string client = "client") {
    auto sink = std::make_unique<Answers>(&bytes_, &closed_, &done_, &inbox_);
    connection_ = std::make_shared<BoltConnection>(&shared_, std::move(client), std::move(sink));
    inbox_ = connection_->inbox();
    connection_->SetVersion({5, minor});
    bytes_.clear();
    done_.clear();
    next_ = 1;
    closed_ = false;
    minor_ = minor;
  }
  // All at once, as a client that does not wait.
  std::vector<Message> Ask(const Strings& messages) {
    bytes_.clear();
    bool work = false;
    for (const std::string& message : messages) {
      work |= connection_->inbox()->Push({next_++, message});
    }
    if (work) connection_->Work();
    AwaitPool();
    return test::ReadAnswers(bytes_);
  }
  // Until its thread does nothing: it carries out what a termination posts, and what comes
  // meanwhile.
  void AwaitPool() {
    std::promise<void> idle;
    pool_.Post([&idle] { idle.set_value(); });
    idle.get_future().wait();
  }
  Strings Texts(const Strings& messages) {
    Strings texts;
    for (const Message& message : Ask(messages)) texts.push_back(AnswerText(message));
    return texts;
  }
  // Of results: little is made ahead and kept, and nobody is ended who does not ask for the rest.
  void KeepLittle() {
    shared_.limits.read_ahead_bytes = 1000;
    shared_.limits.buffered_bytes = 100'000;
    shared_.limits.stalled = std::chrono::minutes(1);
  }
  void LogOn() {
    ASSERT_EQ(Texts({test::Hello(), test::Logon({{"scheme", Text("none")}})}),
              (Strings{"SUCCESS", "SUCCESS"}));
  }
  // The metadata of the last answer.
  Value Last(const Strings& messages) {
    const auto answers = Ask(messages);
    return answers.empty() || answers.back().fields.empty() ? Value() : answers.back().fields[0];
  }
  static std::string TextOf(const Value& map, std::string_view key) {
    const Value* value = map.is_map() ? map.Find(key) : nullptr;
    return value != nullptr && value->is_string() ? value->as_string() : "";
  }
  int64_t Count(std::string_view label) {
    const auto answers =
        Ask({Query(cypher::Concat("MATCH (n:", label, ") RETURN count(n)")), Pull()});
    return answers.size() == 3 ? answers[1].fields[0].as_list()[0].as_int() : -1;
  }

  cypher::MemoryDatabase database_;
  cypher::GraphService service_{&database_, cypher::ServiceOptions()};
  net::Users users_ = net::Users::WithPassword("");
  WorkerPool pool_{1, "bolt-test", {}};
  BoltShared shared_;
  std::string bytes_;
  bool closed_ = false;
  std::vector<net::Ticket> done_;
  Inbox* inbox_ = nullptr;
  std::shared_ptr<BoltConnection> connection_;
  net::Ticket next_ = 1;
  int minor_ = 0;
};

}  // namespace pulse::bolt::test
