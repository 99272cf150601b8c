#include "services/offload/test_bench.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>

#include "absl/strings/str_cat.h"
#include "base/testing.h"

namespace pulse::offload::test {
namespace {

sockaddr_in Loopback(uint16_t port) {
  sockaddr_in a = {};
  a.sin_family = AF_INET;
  a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  a.sin_port = htons(port);
  return a;
}

}  // namespace

Wire::Wire(uint16_t port) : fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  const sockaddr_in a = Loopback(port);
  EXPECT_EQ(connect(fd_.get(), reinterpret_cast<const sockaddr*>(&a), sizeof(a)), 0);
  const int on = 1;
  setsockopt(fd_.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
}

TestHost::TestHost(files::Library* library)
    : library_(library), listener_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  sockaddr_in a = Loopback(0);
  EXPECT_EQ(bind(listener_.get(), reinterpret_cast<sockaddr*>(&a), sizeof(a)), 0);
  EXPECT_EQ(listen(listener_.get(), 64), 0);
  socklen_t length = sizeof(a);
  getsockname(listener_.get(), reinterpret_cast<sockaddr*>(&a), &length);
  port_ = ntohs(a.sin_port);
  accepting_ = std::thread([this] {
    while (true) {
      UniqueFd fd(accept(listener_.get(), nullptr, nullptr));
      if (!fd.valid()) return;
      const int on = 1;
      setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
      std::lock_guard lock(mu_);
      if (stop_) return;
      wires_.push_back(std::make_unique<Wire>(std::move(fd)));
      threads_.emplace_back([this, wire = wires_.back().get()] { Serve(wire); });
    }
  });
}

TestHost::~TestHost() {
  {
    std::lock_guard lock(mu_);
    stop_ = true;
    for (auto& w : wires_) w->EndBoth();
  }
  shutdown(listener_.get(), SHUT_RDWR);
  accepting_.join();
  for (std::thread& t : threads_) t.join();
}

void TestHost::Serve(Wire* wire) {
  files::Client client(library_, {.request_bytes = 256 << 10, .response_bytes = 256 << 10});
  const files::File file = client.Open("d", "f").file;
  while (true) {
    const std::string message = wire->Take(&SplitRequest);
    if (message.empty()) return;
    messages.fetch_add(1);
    testing_util::Eventually([&] { return !held || stop_; });
    for (uint32_t i = 0; i < CountOf(message.data()); ++i) {
      requests.fetch_add(1);
      Carry(&client, file, wire, RequestAt(message.data(), i));
    }
  }
}

void TestHost::Carry(files::Client* client, files::File file, Wire* wire, const Request& r) {
  ReplyHeader h{sizeof(h), 0, r.id, 0};
  std::string data;
  if (r.op == Op::kWrite || r.op == Op::kSilent) {
    const auto c = client->Write(file, r.offset, Stamped(r.id, r.size));
    EXPECT_EQ(c.status, absl::OkStatus());
  } else if ((r.op == Op::kRead || r.op == Op::kReadOnHost) && r.size <= (1 << 20)) {
    data = client->Read(file, r.offset, r.size);
  }
  if (r.op == Op::kSilent) return;
  h.bytes += static_cast<uint32_t>(data.size());
  std::string bytes(reinterpret_cast<const char*>(&h), sizeof(h));
  wire->Send(bytes + data);
}

Setting::Setting(const Options& o) {
  auto store = files::FileStore::Open(agent.store_path());
  EXPECT_TRUE(store.ok()) << store.status();
  EngineOptions options;
  options.program = o.program;
  options.store = store->get();
  options.table_items = 1000;
  options.contexts = o.contexts;
  options.copying = o.copying;
  auto opened = Engine::Open(options);
  EXPECT_TRUE(opened.ok()) << opened.status();
  engine = *std::move(opened);
  agent.agent_options.limits.max_queues = 1024;
  agent.agent_options.backend_factory = o.backend;
  if (o.hooks != nullptr) (*store)->Watch(o.hooks);
  agent.Start(*std::move(store));
  library = agent.Connect();
  files = std::make_unique<files::Client>(library.get());
  EXPECT_EQ(files->CreateDirectory("d"), absl::OkStatus());
  const files::Completion created = files->Create("d", "f");
  file = created.file;
  file_id = created.attributes.id;
  EXPECT_NE(file_id, 0u);
  for (uint64_t at = 0; at < o.file_bytes; at += 64 << 10) {
    std::string data;
    for (uint64_t b = 0; b < 16; ++b) data += Stamped(1000 + at / 4096 + b, 4096);
    EXPECT_EQ(files->Write(file, at, data).status, absl::OkStatus());
  }
  EXPECT_EQ(files->Sync(file), absl::OkStatus());
  if (o.host) {
    host = std::make_unique<TestHost>(library.get());
  }
  net::DirectorOptions d;
  // Without a host, one that cannot be reached.
  d.host = absl::StrCat("127.0.0.1:", o.host ? host->port() : 1);
  d.application = engine.get();
  d.buffers.blocks = o.buffers;
  auto started = net::Director::Open(std::move(d));
  EXPECT_TRUE(started.ok()) << started.status();
  director = *std::move(started);
}

Setting::~Setting() {
  director.reset();
  host.reset();
  files.reset();
  library.reset();
  // The sessions end before what they tell; the store goes last.
  agent.StopSessions();
  engine.reset();
  agent.Stop();
}

}  // namespace pulse::offload::test
