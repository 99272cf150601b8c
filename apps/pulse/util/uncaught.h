// What ends a program when an exception is caught by nobody: no memory is left, or no thread can be
// started. One line says so, with the remedy, an unfinished output file is removed, and the exit
// code is that of an error. Anything else is a defect, and ends it as before (SIGABRT).
#pragma once

namespace pulse {

// From now on, on every thread. `exit_code`: that of an error. Before other threads start.
void ReportUncaught(int exit_code);

}  // namespace pulse
