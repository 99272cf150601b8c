// ServiceModule: one service of one agent process: what its sessions share, opened from the agent's
// command line, and closed after the sessions have ended. And OptionSpec: that command line as
// data, so that `pulse agent` adds, documents and checks the options of services that it does not
// know.
//
// Threads: an agent opens, starts and stops its modules on one thread. Numbers() may be called by
// any thread while the module lives. Open may block on disk I/O; errors name the option that was
// wrong.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "agent/network_front.h"
#include "agent/service_spec.h"

namespace pulse {

struct OptionSpec {
  enum class Kind : uint8_t { kText, kFlag, kInteger };
  const char* name;  // "--store"
  Kind kind = Kind::kText;
  const char* help = "";
  const char* value = "";  // the default, which help shows; of an integer without one: not given
  bool repeated = false;
  int64_t least = 0, most = 0;            // of an integer
  std::array<const char*, 3> needs = {};  // the options without which it has no effect
};

// What a command line gave for a service's options.
class OptionValues {
 public:
  void Set(const std::string& name, std::vector<std::string> values) {
    values_[name] = std::move(values);
  }
  bool given(const std::string& name) const { return values_.count(name) != 0; }
  // The last that was given, or the default.
  std::string Text(const OptionSpec& spec) const;
  std::vector<std::string> List(const OptionSpec& spec) const;
  bool Flag(const OptionSpec& spec) const { return given(spec.name); }
  // Digits only: whoever fills this has checked them. Nothing without a default.
  std::optional<int64_t> Integer(const OptionSpec& spec) const;

 private:
  std::map<std::string, std::vector<std::string>> values_;
};

struct ServiceEntry;
class ServiceModule;

// What an agent tells its modules of itself.
struct AgentFacts {
  std::vector<int> cpus;    // that it may use; empty: all
  double core_speed = 1.0;  // of one of its cores, a host's being 1
  // The modules that are open, in the order of opening: they close after the one that is told.
  std::vector<std::pair<const ServiceEntry*, ServiceModule*>> opened;

  // Null: it is not open.
  ServiceModule* Opened(const ServiceEntry& entry) const {
    for (const auto& [its, module] : opened) {
      if (its == &entry) return module;
    }
    return nullptr;
  }
};

class ServiceModule {
 public:
  virtual ~ServiceModule() = default;
  // How sessions are made, or nothing where hosts do not attach to the service. Valid while the
  // module lives.
  virtual std::optional<OfferedService> Offer() = 0;
  // What remote clients connect to; null: none do. Lives as long as the module.
  virtual NetworkFront* front() { return nullptr; }
  // What remote clients connect to beside it ends. Before the agent's sessions do; no effect later.
  virtual void Stop() {}
  // What is counted for the agent as a whole; an empty name: nothing.
  virtual NumberGroup Numbers() const { return {"", {}}; }
  // For the line with which an agent says that it runs, such as ", store /data/pool"; may be empty.
  virtual std::string Describe() const { return ""; }
};

// A service as `pulse agent` opens it.
struct ServiceEntry {
  const ServiceSpec* spec;  // null: hosts never attach to it
  std::span<const OptionSpec> options;
  // Returns null: with these options this agent does not offer it. Itself null: options that other
  // services share, and no service.
  absl::StatusOr<std::unique_ptr<ServiceModule>> (*open)(const OptionValues& options,
                                                         const AgentFacts& facts);
  // With a network front: the option that asks for it. An agent has one front.
  const OptionSpec* front_option = nullptr;
};

}  // namespace pulse
