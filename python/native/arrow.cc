#include "python/native/arrow.h"

#include <memory>
#include <stdexcept>

#include "python/native/gil.h"

namespace nb = nanobind;

namespace pulse::python {
namespace {

constexpr char kCapsule[] = "arrow_array_stream";

void FreeCapsule(PyObject* capsule) {
  auto* stream = static_cast<ArrowArrayStream*>(PyCapsule_GetPointer(capsule, kCapsule));
  if (stream == nullptr) {
    PyErr_WriteUnraisable(capsule);
    return;
  }
  // Whoever took the stream has cleared it.
  if (stream->release != nullptr) stream->release(stream);
  delete stream;
}

// Releases a stream at the end.
class Taken {
 public:
  explicit Taken(ArrowArrayStream* stream) : stream_(stream) {}
  Taken(const Taken&) = delete;
  Taken& operator=(const Taken&) = delete;
  ~Taken() {
    if (stream_->release != nullptr) stream_->release(stream_);
  }

 private:
  ArrowArrayStream* const stream_;
};

[[noreturn]] void Throw(const absl::Status& status) {
  if (!cypher::InfoOf(status).kind.empty()) Raise(status, cypher::Doing::kQuery);
  const std::string message(status.message());
  if (absl::IsInvalidArgument(status)) throw nb::type_error(message.c_str());
  if (!absl::IsOutOfRange(status)) throw std::runtime_error(message);
  PyErr_SetString(PyExc_OverflowError, message.c_str());
  throw nb::python_error();
}

}  // namespace

nb::object ArrowStreamOf(const Result& result, nb::handle) {
  auto stream = std::make_unique<ArrowArrayStream>();
  absl::Status status;
  {
    const WithoutGil release;
    status = graph::ExportArrow(result.shared(), stream.get());
  }
  if (!status.ok()) Throw(status);
  PyObject* capsule = PyCapsule_New(stream.get(), kCapsule, FreeCapsule);
  if (capsule == nullptr) {
    stream->release(stream.get());
    throw nb::python_error();
  }
  (void)stream.release();  // the capsule's
  return nb::steal(capsule);
}

NamedColumns ColumnsFromArrow(nb::handle source, uint64_t* rows,
                              const graph::Interrupted* interrupted,
                              const graph::ArrowCheck& check) {
  const nb::object capsule = source.attr("__arrow_c_stream__")();
  auto* stream = static_cast<ArrowArrayStream*>(PyCapsule_GetPointer(capsule.ptr(), kCapsule));
  if (stream == nullptr) throw nb::python_error();
  // It gives its rows once: whoever reads it again is told so, and does not get the rest of them.
  const Taken taken(stream);
  absl::StatusOr<NamedColumns> columns;
  absl::Status refused;
  {
    // The source may read on threads of its own, which may need the interpreter.
    const WithoutGil release;
    columns = graph::ImportArrow(
        stream, rows, interrupted,
        [&](const NamedColumns& names, bool any) { return refused = check(names, any); });
  }
  // What the source raised within the stream goes first.
  if (PyErr_Occurred() != nullptr) throw nb::python_error();
  if (!refused.ok()) Raise(refused, cypher::Doing::kQuery);
  if (!columns.ok()) Throw(columns.status());
  return *std::move(columns);
}

}  // namespace pulse::python
