// Web pages: one that a browser of this machine shows can make it send HTTP to a server on
// loopback, with commands as the body. Each line of the head would be an unknown command, and the
// body would be obeyed. So a connection ends at the first word that says it is HTTP, as Redis's do.
//
// Any thread; nothing blocks but the log.
#pragma once

#include <string_view>

namespace pulse::redis {

// Of a request's first word: no command, and what every form that a page posts has.
bool IsOfHttp(std::string_view name);

// Logs that `peer` was cut off; at most once a minute.
void NoteHttp(std::string_view peer);

}  // namespace pulse::redis
