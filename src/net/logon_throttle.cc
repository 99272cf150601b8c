#include "net/logon_throttle.h"

#include <arpa/inet.h>

#include <algorithm>
#include <random>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/clock.h"

namespace pulse::net {

LogonThrottle::LogonThrottle() : LogonThrottle({}, [] { return NowNanos(); }) {}

LogonThrottle::LogonThrottle(const LogonThrottleOptions& options, Clock clock)
    : options_(options),
      clock_(std::move(clock)),
      seed_(absl::StrCat(std::random_device()(), " ")) {}

size_t LogonThrottle::size() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return entries_.size();
}

std::string LogonThrottle::KeyOf(std::string_view peer) {
  // "1.2.3.4", "1.2.3.4:5", "[::1]:5" or "::1"; anything else is a key as it is.
  std::string_view host = peer;
  if (!host.empty() && host[0] == '[') {
    host = host.substr(1, host.find(']') - 1);
  } else if (std::count(host.begin(), host.end(), ':') == 1) {
    host = host.substr(0, host.find(':'));
  }
  const std::string text(host.substr(0, host.find('%')));
  in6_addr v6{};
  if (inet_pton(AF_INET6, text.c_str(), &v6) != 1) return text;
  const auto* bytes = reinterpret_cast<const char*>(v6.s6_addr);
  // An address of IPv4 in the dress of IPv6 is all in the last bytes.
  if (IN6_IS_ADDR_V4MAPPED(&v6)) {
    char v4[INET_ADDRSTRLEN];
    return inet_ntop(AF_INET, bytes + 12, v4, sizeof(v4));
  }
  return std::string(bytes, IN6_IS_ADDR_LOOPBACK(&v6) ? 16 : 8);
}

int64_t LogonThrottle::WaitAfter(uint32_t failures) const {
  if (failures < options_.free_tries) return 0;
  const uint32_t doublings = std::min(failures - options_.free_tries, 30u);
  return std::min(options_.first_wait_nanos << doublings, options_.longest_wait_nanos);
}

void LogonThrottle::MakeRoom(int64_t now) {
  if (entries_.size() < options_.addresses) return;
  std::erase_if(entries_, [&](const auto& item) {
    return now - item.second.last_failure >= options_.forget_nanos;
  });
  if (entries_.size() < options_.addresses) return;
  entries_.erase(std::min_element(
      entries_.begin(), entries_.end(),
      [](const auto& a, const auto& b) { return a.second.last_failure < b.second.last_failure; }));
}

void LogonThrottle::Failed(const std::string& key, size_t name, int64_t now) {
  if (!entries_.contains(key)) MakeRoom(now);
  Entry& entry = entries_[key];
  Place& place = entry.places[name % kPlaces];
  if (now - place.last_failure >= options_.forget_nanos) place = {};
  place.mixed = place.mixed || (place.failures > 0 && place.name != name);
  ++place.failures;
  place.name = name;
  place.last_failure = entry.last_failure = now;
  place.until = now + WaitAfter(place.failures);
}

absl::StatusOr<const User*> LogonThrottle::Check(const Users& users, std::string_view peer,
                                                 std::string_view name, std::string_view password) {
  const std::string key = KeyOf(peer);
  const size_t hash = std::hash<std::string>()(seed_ + std::string(name));
  const std::lock_guard<std::mutex> lock(mutex_);
  const int64_t now = clock_();
  const auto it = entries_.find(key);
  Place* const place = it == entries_.end() ? nullptr : &it->second.places[hash % kPlaces];
  if (place != nullptr && place->failures > 0 && now < place->until) {
    const int64_t seconds = (place->until - now + 999'999'999) / 1'000'000'000;
    return absl::ResourceExhaustedError(
        absl::StrCat("too many wrong passwords from this address; try again in ", seconds, " s"));
  }
  const User* user = users.Check(name, password);
  if (user == nullptr) {
    Failed(key, hash, now);
  } else if (place != nullptr && place->name == hash && !place->mixed) {
    // Who has a password of his own does not end the wait for another name.
    *place = {};
    const bool empty = std::all_of(it->second.places.begin(), it->second.places.end(),
                                   [](const Place& p) { return p.failures == 0; });
    if (empty) entries_.erase(it);
  }
  return user;
}

}  // namespace pulse::net
