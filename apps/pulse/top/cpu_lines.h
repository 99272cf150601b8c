// How `pulse top` shows CPU time by component: a total, and a line for each part in the order of a
// request's way. DPU-KV paper, Table 1. Pure; any thread.
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "apps/pulse/top/screen_line.h"
#include "base/cpu_profile.h"

namespace pulse::top {

// By CpuComponent, of one CPU.
using CpuShares = std::array<double, kCpuComponentNames.size()>;

double SumOf(const CpuShares& shares);

// `requests`: a second; 0: no time of a request is shown.
std::vector<std::string> CpuLines(const Look& look, std::string_view title, const CpuShares& shares,
                                  double requests, Style style);

}  // namespace pulse::top
