// A network that loses, doubles, delays and reorders datagrams between clients and the endpoints of
// a server, by the seed of the test. For tests only.
#pragma once

#include <gtest/gtest.h>
#include <poll.h>

#include <atomic>
#include <cstring>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/testing.h"
#include "base/wake_event.h"
#include "services/kv/udp/codec.h"
#include "services/kv/udp/socket.h"

namespace pulse::kv {

struct BadNetwork {
  double lost = 0;
  double doubled = 0;
  double late = 0;      // comes after up to `most_late` later ones
  int most_late = 100;  // datagrams
  std::atomic<uint64_t> losses{0};
  std::atomic<uint64_t> copies{0};
  std::atomic<uint64_t> delays{0};
};

// One client in front of all endpoints of a server: it tells the client its own ports.
class BadProxy {
 public:
  // `port`: of any endpoint.
  BadProxy(BadNetwork* network, uint16_t port) : network_(*network) {
    lanes_.push_back(MakeLane(port));
    thread_ = std::thread([this] { Run(); });
  }
  ~BadProxy() {
    stop_.Set();
    thread_.join();
  }
  std::string address() const { return absl::StrCat("127.0.0.1:", first_port_); }

 private:
  // Of an endpoint.
  struct Lane {
    UniqueFd client;  // which it listens on
    UniqueFd server;
    uint16_t port = 0;
    uint16_t server_port = 0;
    UdpPeer peer;  // the client that was heard last
  };
  struct Delayed {
    size_t lane;
    bool to_server;
    std::string bytes;
  };

  std::unique_ptr<Lane> MakeLane(uint16_t server_port) {
    auto lane = std::make_unique<Lane>();
    lane->client = *BindUdp(*net::ParseAddress("127.0.0.1:0"));
    lane->server = *ConnectUdp(*net::ParseAddress(absl::StrCat("127.0.0.1:", server_port)));
    lane->port = net::LocalAddress(lane->client.get()).port();
    lane->server_port = server_port;
    if (first_port_ == 0) first_port_ = lane->port;
    return lane;
  }

  // Clients are told to come here.
  void Rewrite(std::string* bytes) {
    UdpHeader h;
    UdpWelcome w;
    if (!ReadUdpHeader(*bytes, &h) || h.type != UdpType::kWelcome || !ReadUdpBody(*bytes, &w)) {
      return;
    }
    for (uint32_t p = 0; p < w.partitions; ++p) {
      const Lane* found = nullptr;
      for (const auto& lane : lanes_) {
        if (lane->server_port == w.ports[p]) found = lane.get();
      }
      if (found == nullptr) {
        lanes_.push_back(MakeLane(w.ports[p]));
        found = lanes_.back().get();
      }
      w.ports[p] = found->port;
    }
    std::memcpy(bytes->data() + sizeof(h), &w, sizeof(w));
  }

  void Forward(size_t lane, bool to_server, const std::string& bytes) {
    Lane& l = *lanes_[lane];
    if (to_server) {
      sendto(l.server.get(), bytes.data(), bytes.size(), 0, nullptr, 0);
    } else {
      sendto(l.client.get(), bytes.data(), bytes.size(), 0,
             reinterpret_cast<const sockaddr*>(&l.peer.address), l.peer.size);
    }
  }

  void Pass(size_t lane, bool to_server, std::string bytes) {
    if (!to_server) Rewrite(&bytes);
    if (Chance(network_.lost)) {
      ++network_.losses;
      return;
    }
    if (Chance(network_.doubled)) {
      ++network_.copies;
      delayed_.push_back({lane, to_server, bytes});
    }
    if (Chance(network_.late)) {
      ++network_.delays;
      delayed_.push_back({lane, to_server, std::move(bytes)});
    } else {
      Forward(lane, to_server, bytes);
    }
    // Some that were kept back, in any order.
    while (!delayed_.empty() &&
           (delayed_.size() > static_cast<size_t>(network_.most_late) || Chance(0.2))) {
      const size_t i = random_() % delayed_.size();
      Forward(delayed_[i].lane, delayed_[i].to_server, delayed_[i].bytes);
      delayed_[i] = std::move(delayed_.back());
      delayed_.pop_back();
    }
  }
  bool Chance(double share) { return std::uniform_real_distribution<>(0, 1)(random_) < share; }

  void Run() {
    while (true) {
      std::vector<pollfd> fds = {{stop_.fd(), POLLIN, 0}};
      for (const auto& lane : lanes_) {
        fds.push_back({lane->client.get(), POLLIN, 0});
        fds.push_back({lane->server.get(), POLLIN, 0});
      }
      poll(fds.data(), fds.size(), -1);
      if (fds[0].revents != 0) return;
      for (size_t i = 1; i < fds.size(); ++i) {
        if (fds[i].revents == 0) continue;
        const size_t lane = (i - 1) / 2;
        const bool to_server = i % 2 == 1;
        if (receiver_.Receive(fds[i].fd) <= 0) continue;
        const UdpPeer* peer = nullptr;
        std::string_view datagram;
        while (receiver_.Next(&peer, &datagram)) {
          if (to_server) lanes_[lane]->peer = *peer;
          Pass(lane, to_server, std::string(datagram));
        }
      }
    }
  }

  BadNetwork& network_;
  std::mt19937_64 random_{testing_util::TestSeed()};
  uint16_t first_port_ = 0;
  std::vector<std::unique_ptr<Lane>> lanes_;  // the thread's, but for the first port
  std::vector<Delayed> delayed_;
  UdpReceiver receiver_;
  WakeEvent stop_ = *WakeEvent::Create();
  std::thread thread_;
};

}  // namespace pulse::kv
