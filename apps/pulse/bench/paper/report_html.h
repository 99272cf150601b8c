// The report as one HTML page that needs nothing else. Plain computation.
#pragma once

#include <string>

#include "bench/paper/report.h"

namespace pulse::bench {

std::string RenderHtml(const Report& report);

}  // namespace pulse::bench
