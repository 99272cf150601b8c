// The seam between PulseDB and DPDK: what the module pulse-ops-dpdk.so offers to a program that
// loads it. DPDK's libraries are behind it, so that a program which does not ask for a device of
// DPDK neither needs nor loads them. The program's half is device.h.
//
// Plain data and functions of C: both sides are of one build, which `version` and `size` confirm,
// but have different run-time libraries' internals (Abseil is inside each program). Texts are
// written to arrays of the caller's and end with a zero. Functions are thread-safe, and do not
// throw. The environment of DPDK (EAL) begins with the first device and lasts as long as the
// process: the module must not be unloaded.
#pragma once

#include <cstddef>
#include <cstdint>

namespace pulse::ops::dpdk {

inline constexpr uint32_t kModuleVersion = 1;
inline constexpr char kModuleFile[] = "pulse-ops-dpdk.so";
inline constexpr char kModuleEntry[] = "pulse_ops_dpdk_module";

enum class Outcome : int32_t {
  kOk = 0,
  kNoDevice,     // there is none of this name, or its driver is not installed
  kUnsupported,  // the device is there and cannot do this
  kFull,         // no room for another one
  kTooSmall,     // of a job: its output did not fit
  kRefused,      // of a job: the device calls its input or its arguments invalid
  kLost,         // the device does not answer any more
};

struct Error {
  char text[512];
};

// What a device says of itself.
struct DeviceFacts {
  char driver[64];
  uint32_t queues;          // jobs, or bursts of jobs, that are in it at the same time
  uint32_t queues_limit;    // what the device has; 0: it names no limit
  uint32_t burst;           // jobs of one call of `run` that are in it at the same time
  uint32_t hardware;        // 1: it is not a driver that uses this CPU
  uint32_t chained;         // 1: buffers may be several pieces, so that they can be large
  uint32_t final_on_flush;  // 1: it ends what was to be a full flush with a final block
  uint64_t largest_buffer;  // of a job's input, and of its output
};

struct Job {
  const uint8_t* input;
  uint64_t input_bytes;
  uint8_t* output;
  uint64_t room;
  uint64_t produced;  // by the module
  Outcome outcome;    // likewise
  int32_t status;     // DPDK's number for it, for messages
};

struct WorkSpec {
  uint32_t compress;  // 0: decompress
  int32_t level;      // 1 to 9
  // Compress: 1: with a final block; 0: the blocks end with a full flush, as far as the device can.
  uint32_t whole;
};

// Whether one of a device's rules matches.
struct RegexJob {
  const uint8_t* input;
  uint64_t input_bytes;
  uint32_t matched;  // by the module: 1: one does; 0: none does
  // kRefused: the device reached a limit of its own, and does not know. kUnsupported: too large.
  Outcome outcome;
};

struct RegexFacts {
  char driver[64];
  uint64_t largest_input;
};

struct ModuleApi {
  uint32_t version;
  uint32_t size;  // of this structure

  // A device for compression: a software driver's name ("compress_isal", "compress_zlib"), or the
  // PCI address of a card ("0000:03:00.0"). A device is opened once in a process: another call for
  // it finds it, and `queues` does not count. It stays open. Blocks for what its driver needs.
  Outcome (*open)(const char* name, uint32_t queues, void** device, DeviceFacts* facts,
                  Error* error);
  // What jobs have in common, for several threads. kFull: too many at a time.
  Outcome (*open_work)(void* device, const WorkSpec* spec, void** work, Error* error);
  void (*close_work)(void* work);
  // Does `count` jobs of the work's device, and says of each what came of it. Blocks: for a free
  // queue, and until the device is done with all.
  void (*run)(void* work, Job* jobs, uint32_t count);
  // The name of a job's status.
  const char* (*status_name)(int32_t status);

  // A card's device for regular expressions, with a database of rules that the vendor's compiler
  // made; they are of its group 1. It stays open; with other rules it cannot be opened again.
  Outcome (*open_regex)(const char* name, const void* rules, uint32_t rule_bytes, void** device,
                        RegexFacts* facts, Error* error);
  // As `run`.
  void (*scan)(void* regex_device, RegexJob* jobs, uint32_t count);
};

using ModuleEntry = const ModuleApi* (*)();

}  // namespace pulse::ops::dpdk
