// EngineOrder: an engine, as an operation describes it to whoever makes it in another process or on
// a device; and EngineSupplier, which does. So operations use an agent without knowing how it is
// reached.
//
// Plain data. A supplier is thread-safe, and outlives its engines; Make blocks for the other side's
// answer.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "services/ops/engine.h"

namespace pulse::ops {

struct EngineOrder {
  enum class Kind : uint8_t { kCompress = 1, kDecompress = 2, kFilter = 3 };
  Kind kind = Kind::kCompress;
  uint8_t codec = 0;   // kCompress: a Codec
  uint8_t format = 0;  // kCompress: a Format; kDecompress: a Piece (decoders.h)
  uint8_t level = 0;   // kCompress
  std::string text;    // kFilter: selection and rules (filter/filter_order.h)
  // The bytes must be those that this process would write: the codecs of both have to be of one
  // version.
  bool portable = false;
  uint64_t chunk_bytes = 0;  // of input, as they usually come
};

class EngineSupplier {
 public:
  // The same engine in this process, with one lane: it has the last word on a chunk of which the
  // other side says that it is damaged.
  using MakeLocal = std::function<absl::StatusOr<std::unique_ptr<Engine>>(EngineTraits)>;

  virtual ~EngineSupplier() = default;
  // On which the other side processes chunks; at least one.
  virtual int threads() const = 0;
  // `traits`: its name, and the CPUs of the lanes' threads; the rest is the supplier's. `local` is
  // kept as long as the engine.
  // Unavailable: the other side is lost. ResourceExhausted: it has no room for another engine, or
  // for this one. Unimplemented: it makes no such engine, and says which it does.
  virtual absl::StatusOr<std::unique_ptr<Engine>> Make(const EngineOrder& order,
                                                       EngineTraits traits, MakeLocal local) = 0;
};

}  // namespace pulse::ops
