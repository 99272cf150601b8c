// DPDK's environment (EAL), of which a process has one: begun with the first device, never ended.
// Part of the module (module_api.h).
//
// It runs without huge pages, without files and sockets of its own, and without a claim on any CPU.
// What it would print is kept for messages instead.
//
// Thread-safe. Blocks.
#pragma once

#include <string>

#include "services/ops/dpdk/module_api.h"

namespace pulse::ops::dpdk {

// "0000:03:00.0", "03:00.0".
bool IsPciAddress(const std::string& name);

// Begins the environment unless it has begun. `first` is the device for which, and `device_class`
// what it is used as: "compress", "regex". If it is a card, it is named to the environment then,
// and no other card is touched. Not Ok: it cannot begin, now and later.
Outcome BeginEnvironment(const std::string& first, const std::string& device_class,
                         std::string& why);

// Brings the device to life, if that is not done.
Outcome AddDevice(const std::string& name, const std::string& device_class, std::string& why);

// What DPDK said last, and forgets it.
std::string TakeLog();

}  // namespace pulse::ops::dpdk
