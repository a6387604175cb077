/* Interns stacks in a trie and lays samples out in the columns of a block. The drain thread alone; no lock. */
#ifndef SPPROF_CORE_RESOLVE_STORE_H
#define SPPROF_CORE_RESOLVE_STORE_H

#include "core/resolve/columns.h"
#include "core/resolve/resolve.h"

/* Frames that a new node's parent's frame was last followed by: docs/file-format.md, column node_frame. */
#define SPP_FOLLOWERS 16u
#define SPP_FOLLOWER_LISTS 65536u
#define SPP_FOLLOWERS_SIZE (SPP_FOLLOWER_LISTS * SPP_FOLLOWERS * sizeof(uint32_t)) /* 4 MiB */

int spp_store_start(uint64_t start_ns);
void spp_store_stop(void);
void spp_store_abandon(void); /* in a forked child: leaks what may be half done */
/* Appends all samples of `resolved` to `columns`, those of time to the ones of block S and all others to the ones of block V,
 * with the nodes that are new. */
void spp_store_add(const spp_resolved *resolved, spp_columns *columns);

#endif
