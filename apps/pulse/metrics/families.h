// What collectors of metrics put together. A Families is used by one thread; nothing blocks.
#pragma once

#include <prometheus/metric_family.h>
#include <time.h>

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"

namespace pulse::metrics {

using prometheus::ClientMetric;
using prometheus::MetricFamily;
using prometheus::MetricType;
using Labels = std::vector<ClientMetric::Label>;

inline double Seconds(uint64_t nanos) { return static_cast<double>(nanos) / 1e9; }

inline Labels With(Labels labels, const char* name, std::string value) {
  labels.push_back({name, std::move(value)});
  return labels;
}

inline uint64_t ProcessCpuNanos() {
  return static_cast<uint64_t>(ClockNanos(CLOCK_PROCESS_CPUTIME_ID));
}

// Families by name, each with its samples.
class Families {
 public:
  template <typename T>
  void Counter(const char* name, const char* help, const Labels& labels, T value) {
    ClientMetric m;
    m.label = labels;
    m.counter.value = static_cast<double>(value);
    Add(name, help, MetricType::Counter, std::move(m));
  }
  template <typename T>
  void Gauge(const char* name, const char* help, const Labels& labels, T value) {
    ClientMetric m;
    m.label = labels;
    m.gauge.value = static_cast<double>(value);
    Add(name, help, MetricType::Gauge, std::move(m));
  }
  void Add(const char* name, const char* help, MetricType type, ClientMetric metric) {
    const auto [it, fresh] = index_.emplace(name, families_.size());
    if (fresh) families_.push_back({name, help, type, {}});
    families_[it->second].metric.push_back(std::move(metric));
  }
  std::vector<MetricFamily> Take() { return std::move(families_); }

 private:
  std::vector<MetricFamily> families_;
  std::map<std::string, size_t> index_;
};

}  // namespace pulse::metrics
