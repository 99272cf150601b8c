// The report as one HTML page that needs nothing else. Plain computation.
#pragma once

#include <string>

#include "bench/macro/paper/report.h"

namespace pulse::bench {

std::string RenderHtml(const Report& report);

}  // namespace pulse::bench
