// A store, its server and an agent in front of it, which meet as two processes would. For tests
// only.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/testing.h"
#include "services/kv/agent/agent_front.h"
#include "services/kv/agent/host_server.h"
#include "services/kv/test_server.h"

namespace pulse::kv {

// As RESP has a text.
inline std::string Bulk(std::string_view text) {
  return absl::StrCat("$", text.size(), "\r\n", std::string(text), "\r\n");
}

// A request of these words.
inline std::string Array(const std::vector<std::string_view>& words) {
  std::string bytes;
  redis::AppendRequest(words, &bytes);
  return bytes;
}

class AgentTest : public KvServerTest {
 protected:
  using Client = redis::BlockingClient;

  void OpenHost(int partitions = 2) {
    options_.limits.max_bulk = max_value_;
    Open(partitions);
    StartAgentServer();
  }
  void StartAgentServer() {
    host_options_.path = socket_.get();
    auto host = AgentServer::Open(server_->host_application(), host_options_);
    ASSERT_TRUE(host.ok()) << host.status();
    host_ = *std::move(host);
  }
  void OpenAgent() {
    front_options_.host = socket_.get();
    front_options_.limits.max_bulk = max_value_;
    auto front = AgentFront::Open(front_options_);
    ASSERT_TRUE(front.ok()) << front.status();
    front_ = *std::move(front);
  }
  // As a host that is killed, and another one that has its keys.
  void LoseHost() {
    host_.reset();
    ASSERT_TRUE(testing_util::Eventually([&] { return front_->counters().attached == 0; }));
  }
  void BringHostBack() {
    StartAgentServer();
    WaitForLanes();
  }
  void WaitForLanes() {
    const auto lanes = static_cast<uint64_t>(front_options_.director.threads);
    ASSERT_TRUE(testing_util::Eventually([&] { return front_->counters().attached == lanes; }));
  }
  ~AgentTest() override {
    front_.reset();
    host_.reset();
  }
  uint16_t agent_port() const { return front_->director().port(); }

  uint64_t max_value_ = uint64_t{8} << 20;
  testing_util::ScratchPath socket_{"kv.agent"};
  AgentServerOptions host_options_;
  AgentFrontOptions front_options_;
  std::unique_ptr<AgentServer> host_;
  std::unique_ptr<AgentFront> front_;
};

}  // namespace pulse::kv
