// What charts written as SVG have in common. Plain computation.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace pulse::bench {

// `text` for XML and HTML, within elements and quoted attributes. Control characters, which neither
// takes, become U+FFFD.
std::string EscapeXml(std::string_view text);

// The smallest of 1, 2, 5, 10, 20, ... times a power of ten that is at least `value`; 1 for none.
double RoundUp(double value);

// Round numbers from 0 to the first that is at least `most`: four to seven of them.
std::vector<double> Ticks(double most);

// The powers of ten from the last that is at most `least` to the first that is at least `most`: two
// at least.
std::vector<double> PowersOfTen(double least, double most);

}  // namespace pulse::bench
