#include "module/header.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/json.h"
#include "core/capture/capture.h"
#include "core/run/events.h"
#include "core/run/tick_stats.h"
#include "module/calls.h"
#include "module/compat.h"
#include "module/held.h"
#include "os/process.h"

/* ---- options */

static const spp_clock *clock_of(const char *name) {
    const spp_clock *const *at = spp_os_clocks;
    while (*at != NULL && strcmp((*at)->name, name) != 0) at++;
    return *at;
}

/* ValueError: no clock of this system has that name. */
static int refuse(const char *name) {
    spp_bytes names = {0};
    for (const spp_clock *const *at = spp_os_clocks; *at != NULL; at++) {
        (void)spp_bytes_append(&names, ", ", 2);
        (void)spp_bytes_append(&names, (*at)->name, strlen((*at)->name));
    }
    (void)spp_bytes_append(&names, "", 1);
    PyErr_Format(PyExc_ValueError, "no clock '%s': auto%s", name, names.at != NULL ? (const char *)names.at : "");
    spp_bytes_free(&names);
    return -1;
}

int spp_clock_choose(const char *name, const spp_clock **clock) {
    const char *why = NULL;
    bool automatic = strcmp(name, "auto") == 0;
    if (spp_os_barred()) {
        errno = EPERM;
        PyErr_SetFromErrnoWithFilename(PyExc_OSError, "a filter of the program's does not allow the calls of spprof's threads");
        return -1;
    }
    const spp_clock *const asked[] = {clock_of(name), NULL};
    if (!automatic && asked[0] == NULL) return refuse(name);
    for (const spp_clock *const *at = automatic ? spp_os_clocks_automatic : asked; *at != NULL; at++) {
        *clock = *at;
        if ((*at)->probe(&why) == 0) return 0;
    }
    PyErr_SetFromErrnoWithFilename(PyExc_OSError, why);
    return -1;
}

int spp_events_choose(const char *events, spp_source_set *sources) {
    const char *why;
    if (!spp_source_parse(sources, events, &why)) {
        PyErr_SetString(PyExc_ValueError, why);
        return -1;
    }
    if (spp_events_probe(sources, &why) == 0) return 0;
    PyErr_SetFromErrnoWithFilename(PyExc_OSError, why);
    return -1;
}

static const char *const call_kinds[] = {
    [SPP_CALLS_NO] = "", [SPP_CALLS_OF_PYTHON] = "python", [SPP_CALLS_OF_ALL] = "c", [SPP_CALLS_HOT] = "hot"};

static spp_calls_which call_kind(const char *text) {
    size_t kind = sizeof call_kinds / sizeof *call_kinds - 1;
    while (kind > 0 && strcmp(text, call_kinds[kind]) != 0) kind--;
    return (spp_calls_which)kind;
}

int spp_options_of_words(spp_options *options, const char *const words[SPP_WORDS]) {
    const char *mode = words[SPP_WORD_MODE], *native = words[SPP_WORD_NATIVE];
    bool off = *native == 0, leaf = strcmp(native, "leaf") == 0, full = strcmp(native, "full") == 0;
    options->wall = strcmp(mode, "wall") == 0;
    options->native = off ? SPP_NATIVE_OFF : leaf ? SPP_NATIVE_LEAF : SPP_NATIVE_ALL;
    options->native_full = full;
    options->interval_ns = strtoull(words[SPP_WORD_INTERVAL], NULL, 10);
    options->max_depth = (uint32_t)strtoul(words[SPP_WORD_DEPTH], NULL, 10);
    options->calls = (int)call_kind(words[SPP_WORD_CALLS]);
    options->times = words[SPP_WORD_TIMES];
    options->lines = words[SPP_WORD_LINES];
    options->exceptions = *words[SPP_WORD_EXCEPTIONS] != 0;
    options->imports = *words[SPP_WORD_IMPORTS] != 0;
    options->specialization = *words[SPP_WORD_SPECIALIZATION] != 0;
    if ((!options->wall && strcmp(mode, "cpu") != 0) || !(off || leaf || full || strcmp(native, "yes") == 0)) {
        PyErr_Format(PyExc_ValueError, "no mode '%s', or no native frames '%s'", mode, native);
        return -1;
    }
    if (spp_events_choose(words[SPP_WORD_EVENTS], &options->sources) != 0) return -1;
    if (options->sources.period[SPP_SOURCE_TASKS] != 0 && !options->wall) {
        PyErr_SetString(PyExc_ValueError, "the event 'tasks' is of tasks that do not run: it needs the mode 'wall'");
        return -1;
    }
    return spp_clock_choose(words[SPP_WORD_CLOCK], &options->clock);
}

/* ---- the header. No memory: a part is missing, which the start of the run notices, for the header then ends with no brace */

void spp_header_text(spp_bytes *to, PyObject *text) {
    Py_ssize_t n = PyUnicode_GetLength(text);
    spp_json_raw(to, "\"");
    for (Py_ssize_t i = 0; i < n; i++) spp_json_letter(to, PyUnicode_ReadChar(text, i));
    spp_json_raw(to, "\"");
}

static void put_argv(spp_bytes *to, PyObject *argv) {
    PyObject *list = argv != NULL ? PySequence_List(argv) : NULL;
    spp_json_raw(to, "[");
    for (Py_ssize_t i = 0; list != NULL && i < PyList_GET_SIZE(list); i++) {
        PyObject *text = PyObject_Str(PyList_GET_ITEM(list, i));
        spp_json_next(to);
        if (text != NULL) spp_header_text(to, text);
        if (text == NULL) spp_json_string(to, "");
        Py_XDECREF(text);
        PyErr_Clear();
    }
    spp_json_raw(to, "]");
    Py_XDECREF(list);
    PyErr_Clear();
}

/* sys.NAME, a new reference; or NULL without an exception. */
static PyObject *of_sys(const char *name, const char *part) {
    PyObject *value = spp_held_by_module("sys", name);
    if (value != NULL && part != NULL) Py_SETREF(value, PyObject_GetAttrString(value, part));
    if (value != NULL && part != NULL && !PyUnicode_Check(value)) Py_CLEAR(value);
    PyErr_Clear();
    return value;
}

static void put_python(spp_bytes *to) {
    const char *version = Py_GetVersion();
    (void)spp_bytes_append(to, version, strcspn(version, " "));
    PyObject *flags = of_sys("abiflags", NULL); /* Windows has none */
    if (flags != NULL && PyUnicode_Check(flags) && PyUnicode_FindChar(flags, 't', 0, PyUnicode_GetLength(flags), 1) >= 0)
        spp_json_raw(to, "t");
    Py_XDECREF(flags);
}

static void number(spp_bytes *to, const char *key, uint64_t value) {
    spp_json_key(to, key);
    spp_json_number(to, value);
}

static void word(spp_bytes *to, const char *key, const char *value) {
    spp_json_key(to, key);
    spp_json_string(to, value);
}

static void truth(spp_bytes *to, const char *key) {
    spp_json_key(to, key);
    spp_json_raw(to, "true");
}

/* What is sampled; nothing is said where it is time alone. */
static void put_events(spp_bytes *to, const spp_options *o) {
    if (!spp_source_others(&o->sources)) return;
    spp_json_key(to, "events");
    spp_json_raw(to, "[");
    for (int i = 0; i < SPP_SOURCE_COUNT; i++) {
        if (o->sources.period[i] == 0) continue;
        spp_json_next(to);
        spp_json_raw(to, "{");
        number(to, "type", (uint64_t)i);
        word(to, "name", spp_source_key(&o->sources, (uint32_t)i));
        word(to, "unit", spp_sources[i].unit);
        number(to, "period", i == SPP_SOURCE_TIME ? o->interval_ns : o->sources.period[i]);
        if (spp_sources[i].event != SPP_EVENT_NONE) {
            if (!o->sources.fixed[i]) truth(to, "grows");
            if (spp_os_event_in_user(spp_sources[i].event)) truth(to, "user");
        }
        spp_json_raw(to, "}");
    }
    spp_json_raw(to, "]");
}

int spp_header(spp_bytes *to, const spp_options *o, const char *native, const char *begun, const char *run, PyObject *argv) {
    char machine[128];
    struct timespec now;
    PyObject *name = of_sys("implementation", "name"), *words = argv == NULL ? of_sys("argv", NULL) : Py_NewRef(argv);
    (void)timespec_get(&now, TIME_UTC);
    spp_json_raw(to, "{");
    number(to, "version", 1);
    number(to, "pid", (uint64_t)getpid());
    spp_json_key(to, "python");
    spp_json_raw(to, "\"");
    put_python(to);
    spp_json_raw(to, "\"");
    spp_json_key(to, "implementation");
    if (name != NULL) spp_header_text(to, name);
    if (name == NULL) spp_json_string(to, "cpython");
    spp_json_key(to, "platform");
    spp_json_raw(to, "\"");
    spp_json_raw(to, Py_GetPlatform());
    spp_json_raw(to, "-");
    spp_os_host_machine(machine, sizeof machine);
    spp_json_raw(to, machine);
    spp_json_raw(to, "\"");
    spp_json_key(to, "argv");
    put_argv(to, words);
    word(to, "mode", o->wall ? "wall" : "cpu");
    word(to, "clock", o->clock->name);
    number(to, "interval_ns", o->interval_ns);
    number(to, "start_unix_ns", (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec);
    number(to, "max_depth", o->max_depth);
    word(to, "native", native);
    word(to, "spprof", SPP_VERSION);
    word(to, "begun", begun);
    put_events(to, o);
    if (o->calls != SPP_CALLS_NO) word(to, "calls", call_kinds[o->calls]);
    if (*o->times != 0) word(to, "times", o->times);
    if (*o->lines != 0) word(to, "lines", o->lines);
    if (o->exceptions) word(to, "exceptions", "yes");
    if (o->imports) word(to, "imports", "yes");
    if (o->specialization) word(to, "specialization", "yes");
    if (run != NULL) word(to, "run", run);
    spp_json_raw(to, "}");
    Py_XDECREF(name);
    Py_XDECREF(words);
    PyErr_Clear();
    if (to->n > 2 && to->at[to->n - 1] == '}') return 0;
    PyErr_NoMemory();
    return -1;
}
