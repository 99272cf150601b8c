#include "apps/pulse/top/cpu_lines.h"

#include <numeric>

#include "apps/pulse/top/units.h"

namespace pulse::top {
namespace {

// In the order of a request's way.
constexpr std::array<CpuComponent, kCpuComponentNames.size()> kShown = {
    CpuComponent::kReceive, CpuComponent::kParse, CpuComponent::kStore, CpuComponent::kRespond,
    CpuComponent::kOther};

}  // namespace

double SumOf(const CpuShares& shares) { return std::accumulate(shares.begin(), shares.end(), 0.0); }

std::vector<std::string> CpuLines(const Look& look, std::string_view title, const CpuShares& shares,
                                  double requests, Style style) {
  std::vector<std::string> lines;
  const double all = SumOf(shares);
  ScreenLine total(look);
  total.Add("   ").Add(title).Add(" ").To(18).Bar(all, kBarCells, style);
  total.Add(fmt::format("{:>6}", Percent(all)), style).Add("  of one CPU");
  lines.push_back(total.text());
  for (const CpuComponent component : kShown) {
    const auto i = static_cast<size_t>(component);
    const double part = all > 0 ? shares[i] / all : 0;
    ScreenLine line(look);
    line.Add("     ").Add(kCpuComponentNames[i]).To(18).Bar(part, kBarCells, style);
    line.Add(fmt::format("{:>6}", Percent(part)), style);
    if (requests > 0) line.Add(fmt::format("  {:.3f} us a request", shares[i] / requests * 1e6));
    lines.push_back(line.text());
  }
  return lines;
}

}  // namespace pulse::top
