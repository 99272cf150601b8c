// What check_test.cc sees of a build without NDEBUG.
#undef NDEBUG
#include "base/check.h"

namespace pulse {

void DebugCheck(bool condition, int* evaluated);

void DebugCheck(bool condition, int* evaluated) {
  PULSE_DCHECK((++*evaluated, condition), "said by the debug build");
}

}  // namespace pulse
