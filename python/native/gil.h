// What runs without the GIL, so that other threads of Python go on.
#pragma once

#include <Python.h>
#include <unistd.h>

namespace pulse::python {

// Gives the GIL back while it lives. Python before 3.14 ends a daemon thread that wants it once the
// interpreter is being finalized, by unwinding its stack: that must not pass through C++, where it
// would end the process. Such a thread waits here for the process's end, as newer ones do.
class WithoutGil {
 public:
  WithoutGil() : state_(PyEval_SaveThread()) {}
  ~WithoutGil() {
    try {
      PyEval_RestoreThread(state_);
    } catch (...) {  // never left: who catches this has to throw it on
      while (true) pause();
    }
  }
  WithoutGil(const WithoutGil&) = delete;
  WithoutGil& operator=(const WithoutGil&) = delete;

 private:
  PyThreadState* const state_;
};

}  // namespace pulse::python
