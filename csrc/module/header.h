/* The names of a profile's options, and the header of its file. */
#ifndef SPPROF_MODULE_HEADER_H
#define SPPROF_MODULE_HEADER_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "base/vec.h"
#include "core/run/run.h"
#include "os/ticks.h"

/* GIL held, all of it; 0, or -1 with an exception. */
/* The clock that a run uses when asked for this one ("auto" or a name): ValueError, or an OSError whose filename says what the
 * system refused. */
int spp_clock_choose(const char *name, const spp_clock **clock);
/* Fills in the clock, `wall`, the sources (as spp_source_parse has them) and what `native` ("", "leaf", "yes" or "full"),
 * `calls` ("", "python" or "c") and `exceptions` and `imports` ("" or "yes") mean. */
int spp_options_of_words(spp_options *options, const char *clock, const char *mode, const char *native, const char *events,
                         const char *calls, const char *exceptions, const char *imports);
/* Sources by their words; ValueError, or an OSError whose filename says what the system refused. */
int spp_events_choose(const char *events, spp_source_set *sources);
/* The JSON of block H (docs/file-format.md). `argv`: a list; NULL: sys.argv. `begun`: how the run was begun;
 * `run`: the number of the `spprof run` that it belongs to, or NULL. */
int spp_header(spp_bytes *to, const spp_options *options, const char *native, const char *begun, const char *run, PyObject *argv);

/* Appends a string of JSON, in ASCII. */
void spp_header_text(spp_bytes *to, PyObject *text);

#endif
