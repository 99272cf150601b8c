// What a graph store can use here: Intel's DSA as a copy engine; and a database's directory.
#include "apps/pulse/doctor/check.h"
#include "fmt/format.h"
#include "mover/dsa_copy_engine.h"
#include "services/graph/core/files.h"
#include "services/graph/core/manifest.h"

namespace pulse::doctor {

// Nobody needs it: that it is not there is no shortcoming.
Check CheckDsa(const DsaPaths& paths) {
  const char* const name = "graph: DSA";
  const auto device = OpenDsaDevice(paths);
  if (device.ok()) return Ok(name, device->portal->Describe());
  if (absl::IsNotFound(device.status())) {
    return Ok(name, "none on this machine; not needed: threads or an agent copy");
  }
  return Warn(name, std::string(device.status().message()),
              "give this user a work queue of type user (accel-config), or leave the copies to "
              "threads or an agent");
}

Checks CheckGraph(const std::string& dir) {
  Checks checks = CheckDirectory(dir);
  for (Check& check : checks) check.name = "graph: " + check.name;
  const char* const name = "graph: database";
  const std::string path = dir + "/" + graph::kManifestFile;
  const auto bytes = graph::SystemFiles()->Read(path);
  if (absl::IsNotFound(bytes.status())) {
    checks.push_back(Ok(name, dir + " has none yet; `pulse graph load` or `serve` makes one"));
    return checks;
  }
  if (!bytes.ok()) {
    checks.push_back(Fail(name, std::string(bytes.status().message()),
                          "let this user read the files, or run as their owner"));
    return checks;
  }
  const auto manifest = graph::Manifest::Decode(*bytes, path);
  if (!manifest.ok()) {
    checks.push_back(
        Fail(name, std::string(manifest.status().message()),
             absl::IsDataLoss(manifest.status())
                 ? "`pulse graph check DB` names the damage, `pulse graph salvage` saves the rest"
                 : "use the release of PulseDB that wrote it, or a later one"));
    return checks;
  }
  checks.push_back(Ok(
      name, fmt::format("{}: format {}, {} runs", dir, manifest->format, manifest->runs.size())));
  return checks;
}

}  // namespace pulse::doctor
