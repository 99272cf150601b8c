// The options of an agent's network front, which all services with one share (--serve,
// --serve-host, --match, ...), and what its director counts. An agent has one front.
//
// Any thread; nothing blocks, but for the resolution of a name in an address.
#pragma once

#include <span>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "agent/front_status.h"
#include "agent/service_module.h"
#include "net/director.h"

namespace pulse::front {

// Adds the options to the table of services; it opens nothing.
extern const ServiceEntry kEntry;

// InvalidArgument when the options ask for two of `entries`' fronts, or for none and yet give
// options of this one.
absl::Status CheckFronts(std::span<const ServiceEntry* const> entries, const OptionValues& options);

// A director's options, without an application. InvalidArgument names the option that is missing or
// wrong.
absl::StatusOr<net::DirectorOptions> DirectorOptionsOf(const OptionValues& options);

// The same of a front whose service knows another way to its host; --serve-host is an error.
absl::StatusOr<net::DirectorOptions> DirectorOptionsWithoutHost(const OptionValues& options);

// As given, for messages.
std::string FirstServe(const OptionValues& options);
std::string HostOf(const OptionValues& options);

// What the director counts, and how it is called.
FrontStatus DirectorStatus(const net::Director& director, std::string service);

}  // namespace pulse::front
