#include "module/record.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/heap.h"
#include "core/capture/capture.h"
#include "core/run/run.h"
#include "module/beside.h"
#include "module/compat.h"
#include "module/header.h"
#include "module/held.h"
#include "module/names.h"
#include "module/output.h"
#include "module/session.h"
#include "os/beside.h"
#include "os/clock.h"
#include "os/process.h"
#include "os/threads.h"

/* ---- the options, as one line of text in an environment variable */

#define SEPARATOR '\x1f'
#define PID_PLACE '\x1e' /* in a path: the process id */
#define ESCAPE '\x1d'    /* in a path: the next character stands for the one that is less by 64: one of these three */
#define VARIABLE "SPPROF_RECORD"
#define TEXT_MOST 16384

/* src/spprof/launching/recorder.py writes the same. */
enum {
    VERSION,
    OWNER,
    LINK,
    HOW,
    WORDS, /* of spp_options_of_words */
    RESUME = WORDS + SPP_WORDS,
    END,
    MAIN,
    RUN,
    PATH,
    STEM,
    FIELDS
};

/* Of the process: there is one run. */
static struct {
    char text[TEXT_MOST];
    const char *field[FIELDS]; /* into the text */
    char folder[4096];         /* of the sitecustomize that called us */
    char preload[4096];        /* csrc/enter, if that called us; else empty */
    char childrens[4096];      /* csrc/enter, for children whose interpreters look at no PYTHONPATH */
    PyObject *module;
    PyObject *argv, *first; /* of `expect_program`, or NULL */
    uint64_t resume_at_ns, end_at_ns;
    bool fork_hooked;
} record;

/* 0, or -1 with an exception. */
static int parse(const char *text) {
    size_t n = strlen(text);
    if (n >= sizeof record.text) return PyErr_Format(PyExc_ValueError, "%s is too long", VARIABLE), -1;
    memcpy(record.text, text, n + 1);
    char *at = record.text;
    for (int i = 0; i < FIELDS; i++) {
        record.field[i] = at;
        at = i + 1 < FIELDS ? strchr(at, SEPARATOR) : NULL;
        if (at != NULL) *at++ = 0;
        if (at == NULL && i + 1 < FIELDS) break;
        if (i + 1 == FIELDS && strcmp(record.field[VERSION], SPP_VERSION) == 0) return 0;
    }
    return PyErr_Format(PyExc_ValueError, "%s is another version's", VARIABLE), -1;
}

/* An instant, or, after a plus, a duration from another instant. */
static uint64_t instant(const char *text, uint64_t from) {
    uint64_t ns = strtoull(text, NULL, 10); /* takes the plus */
    return ns == 0 ? 0 : *text == '+' ? from + ns : ns;
}

/* The same options for another program. */
static int describe(char *to, size_t size, long owner, int link, const char *how, const char *path) {
    char number[4][24]; /* of a process, of a descriptor, of two instants */
    const char *field[FIELDS];
    size_t n = 0;
    memcpy(field, record.field, sizeof field);
    snprintf(number[0], sizeof *number, "%ld", owner);
    snprintf(number[1], sizeof *number, "%d", link);
    snprintf(number[2], sizeof *number, "%llu", (unsigned long long)record.resume_at_ns);
    snprintf(number[3], sizeof *number, "%llu", (unsigned long long)record.end_at_ns);
    field[OWNER] = number[0];
    field[LINK] = number[1];
    field[HOW] = how;
    field[RESUME] = number[2];
    field[END] = number[3];
    field[MAIN] = "";
    field[PATH] = path;
    for (int i = 0; i < FIELDS; i++) {
        int put = snprintf(to + n, size - n, "%s%c", field[i], i + 1 < FIELDS ? SEPARATOR : 0);
        if (put < 0 || (size_t)put >= size - n) return -1;
        n += (size_t)put;
    }
    return 0;
}

/* ---- the name of the program */

/* The words after the interpreter's own, as they were given. `sys.argv` has no name of a module yet. A new reference. */
static PyObject *words(void) {
    int argc = 0;
    wchar_t **argv = NULL;
    Py_GetArgcArgv(&argc, &argv);
    PyObject *given = spp_held_by_module("sys", "argv"), *list = given != NULL ? PySequence_List(given) : NULL;
    Py_XDECREF(given);
    if (list == NULL || PyList_GET_SIZE(list) == 0) return list;
    PyObject *first = PyList_GET_ITEM(list, 0);
    Py_ssize_t at = (Py_ssize_t)argc - PyList_GET_SIZE(list);
    if (PyUnicode_Check(first) && PyUnicode_CompareWithASCIIString(first, "-m") == 0 && at > 0) {
        const wchar_t *name = argv[at], *joined = name[0] == L'-' ? wcschr(name, L'm') : NULL; /* -mNAME, -ImNAME */
        PyObject *text = PyUnicode_FromWideChar(joined != NULL ? joined + 1 : name, -1);
        if (text == NULL || PyList_Insert(list, 1, text) != 0) PyErr_Clear();
        Py_XDECREF(text);
    }
    return list;
}

/* Keeps what shows at the end whether there was a program: the first word of `sys.argv`, "-m", which `runpy` replaces with the
 * module's file right before it runs the program. A program cannot put this very string there again: it never sees it. */
static void expect_program(void) {
    PyObject *argv = *record.field[MAIN] != 0 ? spp_held_by_module("sys", "argv") : NULL;
    PyObject *first = argv != NULL && PyList_CheckExact(argv) ? PySequence_GetItem(argv, 0) : NULL;
    if (first == NULL) PyErr_Clear(); /* an empty list */
    if (first != NULL) {
        Py_XSETREF(record.argv, Py_NewRef(argv));
        Py_XSETREF(record.first, Py_NewRef(first));
    }
    Py_XDECREF(first);
    Py_XDECREF(argv);
}

/* Whether there should have been a program and was none: `python -m NAME` without such a module. A package that raises an
 * exception while it is imported has run. */
static bool missed(void) {
    PyObject *first = record.argv != NULL ? PySequence_GetItem(record.argv, 0) : NULL;
    if (first == NULL && record.argv != NULL) PyErr_Clear(); /* an empty list */
    bool same = first != NULL && first == record.first;
    Py_XDECREF(first);
    return same;
}

/* Call at the end of the program. */
static const char *reason(void) {
    PyObject *raised = spp_held_by_module("sys", "last_type");
    if (raised != NULL) spp_os_beside_failed();
    Py_XDECREF(raised);
    if (raised != NULL || !missed()) return NULL;
    PyObject *given = words(), *name = given != NULL ? PySequence_GetItem(given, 1) : NULL;
    PyObject *module = name != NULL ? PyImport_GetModule(name) : NULL; /* one that exits while it is imported is not kept */
    PyErr_Clear();
    const char *found = module != NULL ? "no program" : "no module";
    Py_XDECREF(given);
    Py_XDECREF(name);
    Py_XDECREF(module);
    return found;
}

/* ---- begin */

static void *before_exec(PyObject **env);
static void after_exec(void *kept);
static const spp_session_calls calls = {before_exec, after_exec, reason};

static PyObject *forked(PyObject *module, PyObject *none);

static PyMethodDef forked_def = {"spprof", forked, METH_NOARGS, "In a forked child."};

/* Registers this interpreter's calls around a fork and in the child. */
static int hook_forks(PyObject *module) {
    if (record.fork_hooked || !spp_os_forks) return 0;
    PyObject *os = PyImport_ImportModule(spp_os_family); /* built in */
    PyObject *hook = os != NULL ? PyObject_GetAttrString(os, "register_at_fork") : NULL;
    PyObject *call = PyCFunction_New(&forked_def, module), *none = PyTuple_New(0);
    PyObject *rest = PyObject_GetAttrString(module, "rest"), *wake = PyObject_GetAttrString(module, "wake");
    PyObject *named = call != NULL && rest != NULL && wake != NULL
                          ? Py_BuildValue("{sOsOsO}", "before", rest, "after_in_parent", wake, "after_in_child", call)
                          : NULL;
    PyObject *done = hook != NULL && none != NULL && named != NULL ? PyObject_Call(hook, none, named) : NULL;
    record.fork_hooked = done != NULL;
    Py_XDECREF(done);
    Py_XDECREF(named);
    Py_XDECREF(none);
    Py_XDECREF(wake);
    Py_XDECREF(rest);
    Py_XDECREF(call);
    Py_XDECREF(hook);
    Py_XDECREF(os);
    return record.fork_hooked ? 0 : -1;
}

/* Called by the main thread when it gets to it. The file is complete already. */
static int end_later(void *unused) {
    (void)unused;
    spp_session_end();
    return 0;
}

static void ended(void) { (void)Py_AddPendingCall(end_later, NULL); }

/* The path asked for, with our process id in its place, or the path for a child. */
static PyObject *path_of(const char *how) {
    char path[TEXT_MOST + 64], pid[24];
    bool child = strcmp(how, "child") == 0 || *record.field[PATH] == 0;
    size_t n = 0, pid_n = (size_t)snprintf(pid, sizeof pid, "%ld", (long)getpid());
    for (const char *at = record.field[child ? STEM : PATH]; *at != 0 && n < TEXT_MOST; at++) {
        if (*at != PID_PLACE) {
            path[n++] = *at == ESCAPE && at[1] != 0 ? (char)(*++at - 64) : *at;
        } else {
            memcpy(path + n, pid, pid_n);
            n += pid_n;
        }
    }
    path[n] = 0;
    if (child) snprintf(path + n, sizeof path - n, ".%s.spprof", pid);
    return PyUnicode_DecodeFSDefault(path);
}

/* 0, or -1 with an exception. */
static int begin(PyObject *module, const char *how) {
    const char *const *f = record.field;
    uint64_t now = spp_os_now_ns();
    spp_options options = {.ended = ended};
    options.resume_at_ns = record.resume_at_ns = instant(f[RESUME], now);
    options.end_at_ns = record.end_at_ns = instant(f[END], record.resume_at_ns > now ? record.resume_at_ns : now);
    if (*f[RESUME] == '+' || *f[END] == '+') options.counted_ns = now;
    if (options.end_at_ns != 0 && options.end_at_ns <= now) return 0; /* the time was up before this program began */
    if (spp_os_barred()) {                                            /* before any call that the filter may not allow */
        PyErr_SetString(PyExc_RuntimeError, "a filter of its own (seccomp) does not allow the system calls of spprof's threads");
        return -1;
    }
    spp_bytes header = {0};
    PyObject *argv = NULL, *path = NULL, *output = NULL, *session = NULL;
    int begun = -1;
    if (spp_options_of_words(&options, f + WORDS) != 0) return -1;
    if ((argv = words()) == NULL || spp_header(&header, &options, f[WORDS + SPP_WORD_NATIVE], how, f[RUN], argv) != 0) goto done;
    options.header = header.at;
    options.header_n = header.n;
    if ((path = path_of(how)) == NULL || (output = spp_output_first_free(module, &path)) == NULL) goto done;
    session = Py_BuildValue("(OO)", output, path);
    if (session == NULL || hook_forks(module) != 0) goto done;
    begun = spp_session_begin(module, session, &options, output, &calls);
    record.resume_at_ns = options.resume_at_ns; /* the run's start has moved them */
    record.end_at_ns = options.end_at_ns;
    if (begun > 0) spp_output_keep(output);
    if (begun > 0) spp_run_name(spp_os_tid(), "MainThread"); /* if `threading` names it too, either may be first */
done:
    spp_bytes_free(&header);
    Py_XDECREF(argv);
    Py_XDECREF(path);
    Py_XDECREF(output);
    Py_XDECREF(session);
    return begun < 0 ? -1 : 0;
}

static void say_why(void) {
    PyObject *kind, *value, *traceback;
    PyErr_Fetch(&kind, &value, &traceback);
    PyErr_NormalizeException(&kind, &value, &traceback);
    PyObject *text = value != NULL ? PyObject_Str(value) : NULL;
    const char *utf8 = text != NULL ? PyUnicode_AsUTF8(text) : NULL;
    PySys_WriteStderr("spprof: process %ld is not profiled: %.500s\n", (long)getpid(), utf8 != NULL ? utf8 : "unknown error");
    Py_XDECREF(text);
    Py_XDECREF(kind);
    Py_XDECREF(value);
    Py_XDECREF(traceback);
    PyErr_Clear();
}

/* The loader takes a blank or colon for the end of a path. With the GIL. */
static void preload_in_children(void) {
    static const char startup[] = "/startup";
    spp_os_exec_preload(NULL, VARIABLE, "");
    size_t n = strlen(record.folder), own = sizeof startup - 1;
    if (n < own || strcmp(record.folder + n - own, startup) != 0) return;
    n = (size_t)snprintf(record.childrens, sizeof record.childrens, "%.*s/enter.so", (int)(n - own), record.folder);
    if (n < sizeof record.childrens && strpbrk(record.childrens, " :") == NULL && access(record.childrens, R_OK) == 0)
        spp_os_exec_preload(record.childrens, VARIABLE, record.folder);
}

/* Errors are printed, and the program goes on. */
static PyObject *run_record(PyObject *module, PyObject *args) {
    PyObject *text, *folder, *preload;
    if (!PyArg_ParseTuple(args, "O&O&O&", PyUnicode_FSConverter, &text, PyUnicode_FSConverter, &folder, PyUnicode_FSConverter,
                          &preload))
        return NULL;
    snprintf(record.folder, sizeof record.folder, "%s", PyBytes_AS_STRING(folder));
    snprintf(record.preload, sizeof record.preload, "%s", PyBytes_AS_STRING(preload));
    int failed = parse(PyBytes_AS_STRING(text));
    Py_DECREF(text);
    Py_DECREF(folder);
    Py_DECREF(preload);
    char next[TEXT_MOST];
    bool children = !failed && *record.field[STEM] != 0;
    long owner = failed ? 0 : strtol(record.field[OWNER], NULL, 10);
    int link = failed ? -1 : (int)strtol(record.field[LINK], NULL, 10);
    /* Another process is the program. */
    bool another = owner != 0 ? owner != (long)getpid() : link >= 0 && !spp_os_beside_claim(link);
    record.module = Py_NewRef(module);
    if (!failed) expect_program();
    if (!failed && !another) spp_beside_take(link);
    if (!failed && (!another || children)) failed = begin(module, another ? "child" : record.field[HOW]);
    if (failed) say_why();
    if (!failed) preload_in_children(); /* also of one that takes this program's place */
    if (!children || describe(next, sizeof next, 0, -1, "child", "") != 0) Py_RETURN_NONE;
    return PyUnicode_DecodeFSDefault(next);
}

/* The command line as the interpreter got it (sys.orig_argv is of 3.10). */
static PyObject *arguments(PyObject *module, PyObject *none) {
    int argc = 0;
    wchar_t **argv = NULL;
    (void)module, (void)none;
    Py_GetArgcArgv(&argc, &argv);
    PyObject *list = PyList_New(0);
    for (int i = 0; i < argc && list != NULL; i++) {
        PyObject *text = PyUnicode_FromWideChar(argv[i], -1);
        if (text == NULL || PyList_Append(list, text) != 0) Py_CLEAR(list);
        Py_XDECREF(text);
    }
    return list;
}

PyMethodDef spp_record_methods[] = {
    {"arguments", arguments, METH_NOARGS, "The interpreter's command line."},
    {"record", run_record, METH_VARARGS, "Begins the recorder of `spprof run`."},
    {NULL, NULL, 0, NULL},
};

/* ---- processes that follow */

/* subprocess with a preexec_fn: another program takes this one's place at once. */
static bool is_about_to_exec(void) {
    PyFrameObject *frame = PyEval_GetFrame();
    PyObject *code = frame != NULL ? (PyObject *)PyFrame_GetCode(frame) : NULL;
    PyObject *name = code != NULL ? PyObject_GetAttrString(code, "co_name") : NULL;
    bool is = name != NULL && PyUnicode_CompareWithASCIIString(name, "_execute_child") == 0;
    Py_XDECREF(name);
    Py_XDECREF(code);
    PyErr_Clear();
    return is;
}

static PyObject *forked(PyObject *module, PyObject *none) {
    PyObject *parents = spp_session_forget(module, none);
    spp_os_beside_forget();
    if (parents == NULL) return NULL;
    bool was = PyTuple_Check(parents) && PyTuple_GET_SIZE(parents) == 2; /* the program may have begun one of its own */
    if (was) spp_output_close(PyTuple_GET_ITEM(parents, 0));
    Py_DECREF(parents);
    record.field[HOW] = "child"; /* also of a program that takes its place */
    if (*record.field[STEM] != 0 && !is_about_to_exec() && begin(module, "child") != 0) say_why();
    Py_RETURN_NONE;
}

/* What the next program gets: the options, and the way in which the recorder is loaded there. */
enum { OPTIONS, FOLDERS, PRELOADS, VARIABLES };
static const char *const variables[VARIABLES] = {VARIABLE, "PYTHONPATH", "LD_PRELOAD"};

static char *copy(const char *text) { return text != NULL ? strdup(text) : NULL; }

/* A list of paths with `own` first; NULL: no memory. */
static char *with_own(const char *own, const char *path) {
    size_t n = strlen(own);
    if (path != NULL && strncmp(path, own, n) == 0 && (path[n] == spp_os_path_separator || path[n] == 0)) return copy(path);
    size_t size = n + (path != NULL ? strlen(path) : 0) + 2;
    char *made = malloc(size);
    if (made != NULL && path != NULL && *path != 0) snprintf(made, size, "%s%c%s", own, spp_os_path_separator, path);
    if (made != NULL && (path == NULL || *path == 0)) snprintf(made, size, "%s", own);
    return made;
}

/* What a variable is for the next program, if it is `old` in this one; NULL: as it is. */
static char *next_value(int variable, const char *options, const char *old) {
    if (variable == OPTIONS) return copy(options);
    if (variable == PRELOADS && *record.preload == 0) return NULL;
    return with_own(variable == PRELOADS ? record.preload : record.folder, old);
}

/* Removes a str or bytes key and returns its value: a new reference to bytes, or NULL without an
 * exception. */
static PyObject *taken_away(PyObject *dict, const char *name) {
    PyObject *keys[2] = {PyUnicode_FromString(name), PyBytes_FromString(name)}, *bytes = NULL;
    for (int i = 0; i < 2; i++) {
        PyObject *value = keys[i] != NULL ? PyDict_GetItem(dict, keys[i]) : NULL, *made = NULL;
        if (value != NULL && PyUnicode_FSConverter(value, &made)) Py_XSETREF(bytes, made);
        if (value != NULL) (void)PyDict_DelItem(dict, keys[i]);
        Py_XDECREF(keys[i]);
    }
    PyErr_Clear();
    return bytes;
}

static bool put_in(PyObject *dict, const char *name, const char *text) {
    PyObject *key = PyBytes_FromString(name), *value = text != NULL ? PyBytes_FromString(text) : NULL;
    bool done = key != NULL && value != NULL && PyDict_SetItem(dict, key, value) == 0;
    Py_XDECREF(key);
    Py_XDECREF(value);
    PyErr_Clear();
    return done;
}

/* Of another run: the program is `spprof run` itself, and the next one that one's. */
static bool is_anothers(const char *options) { return options != NULL && strstr(options, record.field[RUN]) == NULL; }

/* A copy of the program's own mapping; what is wrong with that is for the call to say. */
static void change(PyObject **env, const char *text) {
    PyObject *dict = PyDict_New();
    if (dict == NULL || PyDict_Update(dict, *env) != 0) {
        PyErr_Clear();
        Py_XDECREF(dict);
        return;
    }
    bool done = true;
    for (int i = 0; i < VARIABLES && done; i++) {
        if (i == PRELOADS && *record.preload == 0) continue;
        PyObject *old = taken_away(dict, variables[i]);
        char *now = old != NULL ? PyBytes_AS_STRING(old) : NULL, *next = next_value(i, text, now);
        done = !(i == OPTIONS && is_anothers(now)) && put_in(dict, variables[i], next);
        Py_XDECREF(old);
        free(next);
    }
    if (done) Py_SETREF(*env, Py_NewRef(dict));
    Py_DECREF(dict);
}

/* Call before os.exec*: writes the samples to the file, and makes the next program go on, by its
 * environment (*env if given). Returns the argument for `after_exec`, which undoes it if the call
 * returns. */
static void *before_exec(PyObject **env) {
    PyObject *session = spp_session_now();
    bool ours = session != NULL && PyTuple_Check(session);
    char text[TEXT_MOST];
    Py_XDECREF(session);
    if (!spp_os_forks || !ours || !spp_run_active() || record.module == NULL) return NULL;
    if (spp_run_is_over() || spp_os_barred()) return NULL;
    spp_names_all(false);
    Py_BEGIN_ALLOW_THREADS;
    (void)spp_run_flush();
    Py_END_ALLOW_THREADS;
    const char *path = *record.field[HOW] == 'c' ? "" : record.field[PATH];
    if (describe(text, sizeof text, (long)getpid(), spp_os_beside_hand_on(), *path != 0 ? "run" : "child", path) != 0)
        return NULL;
    if (env != NULL) {
        change(env, text);
        return NULL;
    }
    char **kept = calloc(VARIABLES, sizeof *kept); /* NULL: not set */
    for (int i = 0; i < VARIABLES && kept != NULL; i++) {
        kept[i] = copy(getenv(variables[i]));
        char *next = next_value(i, text, kept[i]);
        if (next != NULL) (void)spp_os_setenv(variables[i], next);
        free(next);
    }
    return kept;
}

static void after_exec(void *given) {
    char **kept = given;
    spp_os_beside_keep();
    if (kept == NULL) return;
    int saved = errno;
    for (int i = 0; i < VARIABLES; i++) {
        (void)spp_os_setenv(variables[i], kept[i]);
        free(kept[i]);
    }
    free(kept);
    errno = saved;
}
