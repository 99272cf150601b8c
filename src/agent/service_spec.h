// ServiceSpec: what an agent and those who watch it must know of a service to offer it: its name
// and numbers, and how a session of it is made. A service defines one constant of this type in its
// spec.cc; the agent, the host's half and the status know services by nothing else.
//
// Constants, and plain data of an agent's options. Any thread.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "agent/service.h"
#include "base/numbers.h"
#include "uring/io_class.h"

namespace pulse {

// An I/O class of the scheduler as the service calls it.
struct IoClassSpec {
  IoClass io_class;
  const char* name;
};

struct ServiceSpec {
  const char* name;  // in messages, the status and metrics
  // In the hello. Host and agent of different releases work together if both agree on `version`; it
  // is raised by every change to the service's wire.h.
  uint32_t id;
  uint32_t version;
  const char* start_hint;  // how an agent is started that offers it
  std::span<const IoClassSpec> io_classes = {};
  // Names of the kinds that the service counts requests by (SessionCounters::Take), in order; at
  // most kMaxRequestKinds.
  std::span<const char* const> request_kinds = {};
  // The agent's half records how long syncs take (SessionCounters::syncs).
  bool counts_syncs = false;
  // What hosts publish on their control page (channel/host_numbers.h), in order; the first is the
  // time of the writing. Empty: nothing.
  std::span<const NumberSpec> host_numbers = {};
  // The agent's half can be a thread of the host's process.
  bool embeddable = false;
  // All sessions are served by one worker, so that what they share needs no locks.
  bool one_worker = false;
};

// A service as one agent offers it.
struct OfferedService {
  const ServiceSpec* spec;
  ServiceFactory factory;
  // What the hello's answer tells the host's half (AgentLink::fact); the service says what it is.
  std::array<uint64_t, 2> facts{};
};
using ServiceTable = std::vector<OfferedService>;

}  // namespace pulse
