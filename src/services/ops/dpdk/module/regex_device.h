// Devices of DPDK's regexdev, behind module_api.h. mlx5 has the only driver in wide use, and needs
// its card: here this is compiled, and its errors are tested.
#pragma once

#include <cstdint>

#include "services/ops/dpdk/module_api.h"

namespace pulse::ops::dpdk {

// ModuleApi::open_regex, ModuleApi::scan.
Outcome OpenRegex(const char* name, const void* rules, uint32_t rule_bytes, void** device,
                  RegexFacts* facts, Error* error);
void ScanRegex(void* device, RegexJob* jobs, uint32_t count);

}  // namespace pulse::ops::dpdk
