// The offload functions of `pages`, for the agent: the cache table has the LSN and the place of
// every page that was written since the agent has started; a GetPage whose LSN is no higher is
// answered there. DDS section 9.1.
//
// Why nothing has to be invalidated. A page may be answered if its LSN is at least the one asked
// for; that it is the newest is not promised. The host writes a page to the slot that the last
// version is not in. So between two Cache calls of a page the place in the table stays as it was
// said to be: whole, of that LSN. When the slot is written at last, the table has had the other one
// since the write before; a request that has looked before is still right, because either the read
// is refused (the file was being written there), or it finds the old version, whole, or a newer one
// of the same page, whole. `reply` looks at the header once more. A write that fails or is cut
// short hits the slot that the table does not name. And a host that reads a page changes nothing.
//
// What a client must know: two requests of different LSNs may see the page go back, as far as the
// lower of the LSNs allows. One that wants what it has seen asks for the LSN that it has seen.
#pragma once

#include "pulse/offload.h"

namespace pulse::pages {

const offload::Program& OffloadProgram();

}  // namespace pulse::pages
