// The numbers that a host publishes on its control page for those who watch (wire::HostNumbers).
// The host's one writer and any number of readers never wait for each other: a copy is taken
// between two equal even counts, or tried again.
//
// Reading: any thread; does not block. The host is untrusted: a copy has cleaned text, and at most
// kHostNames bytes of it; its numbers may be any.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "channel/wire.h"

namespace pulse {

struct HostNumbersCopy {
  static constexpr size_t kTime = 0;

  std::array<uint64_t, wire::kHostNumbers> numbers{};
  std::vector<std::string> names;

  // By the service's own enumeration.
  template <typename Index>
  uint64_t& operator[](Index n) {
    return numbers[static_cast<size_t>(n)];
  }
  template <typename Index>
  uint64_t operator[](Index n) const {
    return numbers[static_cast<size_t>(n)];
  }
};

// Writes `copy`; one thread at a time. `page` is a whole one, of wire::kPage bytes.
void WriteHostNumbers(wire::ControlPage* page, const HostNumbersCopy& copy);

// False when the host has never written any, or was writing in each of several attempts.
bool ReadHostNumbers(const wire::ControlPage* page, HostNumbersCopy* copy);

}  // namespace pulse
