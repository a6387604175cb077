/* The names of a profile's options, and the header of its file. */
#ifndef SPPROF_MODULE_HEADER_H
#define SPPROF_MODULE_HEADER_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "base/vec.h"
#include "core/run/run.h"
#include "os/ticks.h"

/* The options of a run as words, in this order: what `_core.start` and, under `spprof run`, the environment give. An X-macro of
 * the word and its name in src/spprof/recording/options.py, which says what each may be; a test compares the two. */
#define SPP_OPTION_WORDS(X)   \
    X(CLOCK, clock)           \
    X(MODE, mode)             \
    X(INTERVAL, interval_ns)  \
    X(DEPTH, max_depth)       \
    X(NATIVE, native)         \
    X(EVENTS, events)         \
    X(CALLS, calls)           \
    X(TIMES, times)           \
    X(LINES, lines)           \
    X(EXCEPTIONS, exceptions) \
    X(IMPORTS, imports)       \
    X(SPECIALIZATION, specialization)

enum {
#define SPP_OPTION_NUMBER(word, name) SPP_WORD_##word,
    SPP_OPTION_WORDS(SPP_OPTION_NUMBER)
#undef SPP_OPTION_NUMBER
        SPP_WORDS
};

/* GIL held, all of it; 0, or -1 with an exception. */
/* The clock that a run uses when asked for this one ("auto" or a name): ValueError, or an OSError whose filename says what the
 * system refused. */
int spp_clock_choose(const char *name, const spp_clock **clock);
/* Fills in what the words say, which must live as long as `options`: ValueError, or an OSError as of spp_clock_choose. */
int spp_options_of_words(spp_options *options, const char *const words[SPP_WORDS]);
/* Sources by their words; ValueError, or an OSError whose filename says what the system refused. */
int spp_events_choose(const char *events, spp_source_set *sources);
/* The JSON of block H (docs/file-format.md). `argv`: a list; NULL: sys.argv. `begun`: how the run was begun;
 * `run`: the number of the `spprof run` that it belongs to, or NULL. */
int spp_header(spp_bytes *to, const spp_options *options, const char *native, const char *begun, const char *run, PyObject *argv);

/* Appends a string of JSON, in ASCII. */
void spp_header_text(spp_bytes *to, PyObject *text);

#endif
