/* Writes the blocks of docs/file-format.md. One thread at a time; no lock. A failed write is remembered (errno), what is
 * to be written later is dropped, but the end of the file, and the program goes on. */
#ifndef SPPROF_CORE_FILE_WRITE_H
#define SPPROF_CORE_FILE_WRITE_H

#include <stdint.h>

#include "core/file/writer.h"
#include "core/resolve/resolve.h"
#include "core/resolve/store.h"
#include "os/files.h"

#define SPP_FILE_MAGIC "\x89SPPROF\n"

/* `file` belongs to it from now on, also on failure. What was in it is gone only when nothing but the write itself can fail. */
int spp_write_start(spp_os_file *file, const void *header, size_t n);
void spp_write_stop(void);
void spp_write_abandon(void); /* in a forked child: the file is the parent's */
void spp_write_block(char kind, const void *payload, size_t n);
void spp_write_last(char kind, const void *payload, size_t n); /* A or E: after a failure too, where the file was cut for them */
/* A block whose payload is not known yet: `make` changes that on the writer's thread, and seals the block. */
void spp_write_later(char kind, const void *payload, size_t n, bool (*make)(spp_block *block));
uint8_t *spp_write_payload(spp_block *block); /* with a zero byte after it */
void spp_write_seal(spp_block *block);
void spp_write_samples(const spp_resolved *definitions, const spp_columns *columns);
void spp_write_values(const spp_columns *columns); /* behind the samples' block, which has their stacks; nothing without any */
/* Block C: a column each, and the text of all its strings. */
enum {
    SPP_CALLS_STRING_LEN, /* the text comes behind it */
    SPP_CALLS_NAME, /* of a function: string, string of the qualified name, string of the file, first line, kind (1: in C) */
    SPP_CALLS_FUNCTION_WORDS = 5,
    SPP_CALLS_CALLEE = SPP_CALLS_NAME + SPP_CALLS_FUNCTION_WORDS, /* of a place: function, caller + 1, line, calls, resumes */
    SPP_CALLS_CALLS = SPP_CALLS_CALLEE + 3,
    SPP_CALLS_RESUMES,
    SPP_CALLS_EDGE_WORDS = 5,
    SPP_CALLS_ABOUT = SPP_CALLS_CALLEE + SPP_CALLS_EDGE_WORDS, /* calls not counted, threads that another profiler took */
    SPP_CALLS_COLUMNS
};
typedef struct {
    spp_bytes text;
    spp_vec64 of[SPP_CALLS_COLUMNS];
} spp_calls_columns;
void spp_write_calls(const spp_calls_columns *columns);
void spp_write_collections(const spp_resolved *definitions);
int spp_write_error(void); /* 0 or the errno of the first failure */

#endif
