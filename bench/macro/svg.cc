#include "bench/macro/svg.h"

#include <algorithm>
#include <cmath>

namespace pulse::bench {

std::string EscapeXml(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      case '\'':
        out += "&#39;";
        break;
      default: {
        const auto byte = static_cast<unsigned char>(c);
        const bool control = byte < 0x20 && c != '\n' && c != '\t' && c != '\r';
        if (control || byte == 0x7f) {
          out += "\xEF\xBF\xBD";
        } else {
          out += c;
        }
      }
    }
  }
  return out;
}

double RoundUp(double value) {
  if (!(value > 0) || !std::isfinite(value)) return 1;
  const double power = std::pow(10.0, std::floor(std::log10(value)));
  for (const double step : {1.0, 2.0, 5.0}) {
    if (value <= step * power * (1 + 1e-9)) return step * power;
  }
  return 10 * power;
}

std::vector<double> Ticks(double most) {
  if (!(most > 0) || !std::isfinite(most)) most = 1;
  const double step = RoundUp(most / 6);
  const auto count = static_cast<int>(std::ceil(most / step * (1 - 1e-9)));
  std::vector<double> ticks;
  for (int i = 0; i <= count; ++i) ticks.push_back(i * step);
  return ticks;
}

std::vector<double> PowersOfTen(double least, double most) {
  if (!(least > 0) || !std::isfinite(least)) least = 1;
  if (!std::isfinite(most)) most = least;
  const auto from = static_cast<int>(std::floor(std::log10(least) + 1e-9));
  auto to = static_cast<int>(std::ceil(std::log10(std::max(most, least)) - 1e-9));
  if (to <= from) to = from + 1;
  std::vector<double> powers;
  for (int i = from; i <= to; ++i) powers.push_back(std::pow(10.0, i));
  return powers;
}

}  // namespace pulse::bench
