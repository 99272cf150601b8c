// Where LOAD CSV gets its records: whoever runs queries says which files there are. The engine
// opens none itself.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace pulse::cypher {

class CsvRecords {
 public:
  struct Field {
    std::string_view text;
    bool null = false;  // nothing stands there, not even quotes
  };
  virtual ~CsvRecords() = default;
  // The next record, whose fields are valid until the next call; false at the end. Errors name the
  // line.
  virtual absl::StatusOr<bool> Next(std::vector<Field>* fields) = 0;
  // Of the last record, from 1, for messages.
  virtual uint64_t line() const = 0;
};

// `where` is the URL or name that the query has. Errors of the file system, and PermissionDenied
// for what may not be read.
using OpenCsv = std::function<absl::StatusOr<std::unique_ptr<CsvRecords>>(std::string_view where,
                                                                          char separator)>;

}  // namespace pulse::cypher
