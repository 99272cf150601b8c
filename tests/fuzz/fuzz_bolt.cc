// Bolt as a hostile client speaks it: the handshake, chunks, PackStream, and whole conversations
// with a connection on a graph in memory, before and behind the logon.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "services/graph/bolt/connection.h"
#include "services/graph/bolt/framing.h"
#include "services/graph/bolt/test_bolt_client.h"
#include "services/graph/model/test_memory_database.h"

namespace {

using pulse::bolt::AnswerHandshake;
using pulse::bolt::BoltConnection;
using pulse::bolt::BoltShared;
using pulse::bolt::ChunkSplitter;
using pulse::bolt::Inbox;
using pulse::bolt::JoinChunks;
using pulse::bolt::kNewest;
using pulse::bolt::Part;
using pulse::bolt::PartSink;
using pulse::bolt::ReadChoice;
using pulse::bolt::ReadMessage;
using pulse::bolt::Version;
namespace test = pulse::bolt::test;

// Answers go nowhere.
class Nowhere : public PartSink {
 public:
  void Deliver(std::vector<Part> parts) override {
    size_t size = 0;
    for (const Part& part : parts) size += part.bytes.size();
    inbox->Sent(size);
  }
  void CloseConnection() override {}
  Inbox* inbox = nullptr;
};

void Converse(std::string_view bytes, int minor, bool logged_on) {
  static pulse::WorkerPool pool(1, "fuzz", {});
  static const pulse::net::Users users = pulse::net::Users::WithPassword("");
  pulse::cypher::MemoryDatabase database;
  pulse::cypher::ServiceOptions options;
  options.query_memory_bytes = size_t{4} << 20;
  options.spill.limit_bytes = size_t{16} << 20;
  options.query_nanos = 20'000'000;
  pulse::cypher::GraphService service(&database, options);
  BoltShared shared;
  shared.service = &service;
  shared.users = &users;
  shared.pool = &pool;
  shared.limits.read_ahead_bytes = 1000;
  shared.limits.buffered_bytes = 100'000;
  shared.limits.stalled = std::chrono::milliseconds(0);
  auto sink = std::make_unique<Nowhere>();
  Nowhere* const nowhere = sink.get();
  const auto connection = std::make_shared<BoltConnection>(&shared, "fuzz", std::move(sink));
  nowhere->inbox = connection->inbox();
  connection->SetVersion({5, minor});
  pulse::net::Ticket ticket = 0;
  const auto say = [&](std::string message) {
    return connection->inbox()->Push({++ticket, std::move(message)});
  };
  bool work = logged_on && say(test::Hello());
  if (logged_on && minor > 0) work |= say(test::Logon());
  ChunkSplitter splitter;
  while (const size_t size = splitter.Next(bytes)) {
    work |= say(JoinChunks(bytes.substr(0, size)));
    bytes.remove_prefix(size);
    // One after the other, or several together.
    if (work && (size & 1) != 0) {
      connection->Work();
      work = false;
    }
  }
  if (work) connection->Work();
  if (connection->inbox()->Close()) connection->Work();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 1) return 0;
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  switch (data[0] % 4) {
    case 0: {
      AnswerHandshake(bytes).status().IgnoreError();  // any outcome will do, also below
      Version version;
      ReadChoice(bytes, &version).status().IgnoreError();
      break;
    }
    case 1: {
      const auto message = ReadMessage(bytes);
      if (!message.ok()) break;
      // What was read can be written, and is then read as the same.
      const auto again = ReadMessage(test::Packed(message->tag, message->fields));
      if (!again.ok() || again->fields.size() != message->fields.size()) __builtin_trap();
      for (size_t i = 0; i < message->fields.size(); ++i) {
        if (Order(again->fields[i], message->fields[i]) != 0) __builtin_trap();
      }
      break;
    }
    default:
      Converse(bytes, data[0] / 4 % (kNewest.minor + 1), data[0] % 4 == 3);
  }
  return 0;
}
