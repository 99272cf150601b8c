// The numbers of Bolt's messages.
#pragma once

#include <cstdint>

namespace pulse::bolt {

enum Request : uint8_t {
  kHello = 0x01,
  kGoodbye = 0x02,
  kReset = 0x0F,
  kRun = 0x10,
  kBegin = 0x11,
  kCommit = 0x12,
  kRollback = 0x13,
  kDiscard = 0x2F,
  kPull = 0x3F,
  kTelemetry = 0x54,
  kRoute = 0x66,
  kLogon = 0x6A,
  kLogoff = 0x6B,
};
enum Response : uint8_t { kSuccess = 0x70, kRecord = 0x71, kIgnored = 0x7E, kFailure = 0x7F };

}  // namespace pulse::bolt
