// Only in libpulse_rocksdb.so. Debian builds its static Abseil for executables: parts of it hold
// relocations that no shared object may contain, Cord first of all. Status mentions Cord, for
// payloads; PulseDB attaches none, so these definitions are never reached and the linker leaves
// Cord, its profiler and its locks out.
#include <cstdlib>
#include <new>
#include <stdexcept>

#include "absl/base/internal/throw_delegate.h"
#include "absl/strings/cord.h"
#include "absl/strings/internal/cordz_info.h"

namespace absl {
ABSL_NAMESPACE_BEGIN

void Cord::DestroyCordSlow() { std::abort(); }
bool Cord::EqualsImpl(const Cord&, size_t) const { std::abort(); }
Cord::operator std::string() const { std::abort(); }
void Cord::InlineRep::UnrefTree() { std::abort(); }

namespace cord_internal {
void CordzInfo::MaybeTrackCordImpl(InlineData&, const InlineData&, MethodIdentifier) {
  std::abort();
}
}  // namespace cord_internal

// Abseil's own throws, of types whose type information a shared object must reach differently.
namespace base_internal {
void ThrowStdLogicError(const char* what) { throw std::logic_error(what); }
void ThrowStdInvalidArgument(const char* what) { throw std::invalid_argument(what); }
void ThrowStdLengthError(const char* what) { throw std::length_error(what); }
void ThrowStdOutOfRange(const char* what) { throw std::out_of_range(what); }
void ThrowStdRuntimeError(const char* what) { throw std::runtime_error(what); }
void ThrowStdBadFunctionCall() { throw std::bad_function_call(); }
void ThrowStdBadAlloc() { throw std::bad_alloc(); }
}  // namespace base_internal

ABSL_NAMESPACE_END
}  // namespace absl
