// Who runs queries, and what they may do. Constant while a transaction lives; no threads of its
// own.
#pragma once

#include <string>

namespace pulse::cypher {

struct Caller {
  std::string user;        // empty: nobody has to say
  std::string connection;  // "bolt-12"; empty: none
  std::string client;      // "127.0.0.1:4711"
  bool may_read = true;
  bool may_write = true;
  bool may_admin = true;  // see and end what others run
};

// Before somebody has said who it is.
inline const Caller kNobody = {{}, {}, {}, false, false, false};

}  // namespace pulse::cypher
