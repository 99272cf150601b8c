// The release of PulseDB that these headers are of. The version of the libraries at run time may be
// another: pulse --version tells it.
#pragma once

#define PULSE_VERSION_MAJOR 0
#define PULSE_VERSION_MINOR 1
#define PULSE_VERSION_PATCH 0
#define PULSE_VERSION_STRING "0.1.0"
