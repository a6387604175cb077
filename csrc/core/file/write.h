/* Writes the blocks of docs/file-format.md. One thread at a time; no lock. After a failed write the
 * errno is kept and later blocks are dropped, except the end of the file; the program goes on. */
#ifndef SPPROF_CORE_FILE_WRITE_H
#define SPPROF_CORE_FILE_WRITE_H

#include <stdint.h>

#include "core/file/writer.h"
#include "core/resolve/resolve.h"
#include "core/resolve/store.h"
#include "os/files.h"

#define SPP_FILE_MAGIC "\x89SPPROF\n"

/* Takes over `file`, also on failure. Its old content is truncated only when nothing but the write
 * itself can still fail. */
int spp_write_start(spp_os_file *file, const void *header, size_t n);
void spp_write_stop(void);
void spp_write_abandon(void); /* in a forked child: the file is the parent's */
void spp_write_block(char kind, const void *payload, size_t n);
void spp_write_last(char kind, const void *payload, size_t n); /* A or E: also after a failure, in the space kept for them */
/* A block with a payload that is not complete yet: `make` completes it on the writer's thread, and
 * seals the block. */
void spp_write_later(char kind, const void *payload, size_t n, bool (*make)(spp_block *block));
uint8_t *spp_write_payload(spp_block *block); /* with a zero byte after it */
void spp_write_seal(spp_block *block);
void spp_write_samples(const spp_resolved *definitions, const spp_columns *columns);
void spp_write_values(const spp_columns *columns); /* behind the samples' block, which has their stacks; nothing without any */
/* A block of exact numbers (C, K, M): its columns, and behind the first the text of all strings. */
void spp_write_exact(char kind, const spp_bytes *text, const spp_vec64 *columns, size_t n);
/* A block of rows (G, R) of so many words, as columns; nothing without any. */
void spp_write_rows(char kind, const spp_vec64 *rows, size_t words);
int spp_write_error(void); /* 0 or the errno of the first failure */

#endif
