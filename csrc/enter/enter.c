/* Preloaded (LD_PRELOAD) into an interpreter that is not to look at PYTHONPATH, or not to import `site`: begins the recorder
 * right before the first line of the program. An object of its own, without Python's headers: one for all versions. It needs
 * nothing but the C library, because other programs may get it too: those that a program under `spprof run` puts in its own
 * place.
 *
 * Python raises an audit event when it is ready and knows what to run. A C hook gets it, and nothing of Python shows the
 * hook. */

#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define VARIABLE "SPPROF_RECORD"
#define STARTUP "/startup"
#define FILE_INPUT 257 /* Py_file_input */

/* Of the process. Written before main and by the one call of `begin`. */
static struct {
    char options[16384], folder[4096], preload[4096];
    bool begun;
} entered;

/* A function of Python's, or NULL: the program has none. Any thread. */
static void *found(const char *name) { return dlsym(RTLD_DEFAULT, name); }

/* The interpreter's functions. Objects of Python are void here. */
static struct {
    int (*add_hook)(int (*)(const char *, void *, void *), void *);
    void *(*new_dict)(void);
    void *(*text)(const char *);
    int (*put)(void *, const char *, void *);
    void *(*run)(FILE *, const char *, int, void *, void *, int, void *);
    void (*forget_error)(void);
    void (*release)(void *);
} py;

/* Whether this process has a Python with all that is needed. Before main. */
static bool look_up(void) {
    const struct {
        const char *name;
        void *at;
    } wanted[] = {
        {"PySys_AddAuditHook", &py.add_hook}, {"PyDict_New", &py.new_dict},   {"PyUnicode_DecodeFSDefault", &py.text},
        {"PyDict_SetItemString", &py.put},    {"PyRun_FileExFlags", &py.run}, {"PyErr_Clear", &py.forget_error},
        {"Py_DecRef", &py.release},
    };
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
        void *function = found(wanted[i].name);
        if (function == NULL) return false;
        memcpy(wanted[i].at, &function, sizeof function);
    }
    return true;
}

/* With the GIL. Whether `value` is `text` now. */
static bool put(void *names, const char *name, const char *text) {
    void *value = py.text(text);
    bool done = value != NULL && py.put(names, name, value) == 0;
    if (value != NULL) py.release(value);
    return done;
}

/* Runs the sitecustomize that other interpreters import, under another name. The main thread, with the GIL, once. */
static void begin(void) {
    char path[sizeof entered.folder + 32];
    snprintf(path, sizeof path, "%s/sitecustomize.py", entered.folder);
    FILE *file = fopen(path, "re");
    void *names = py.new_dict(), *done = NULL;
    bool ready = file != NULL && names != NULL && put(names, "__name__", "spprof") && put(names, "__file__", path) &&
                 put(names, "OPTIONS", entered.options) && put(names, "PRELOAD", entered.preload);
    if (ready) done = py.run(file, path, FILE_INPUT, names, names, 0, NULL);
    if (done == NULL) fprintf(stderr, "spprof: process %ld is not profiled: %s does not run\n", (long)getpid(), path);
    if (done == NULL) py.forget_error();
    if (done != NULL) py.release(done);
    if (names != NULL) py.release(names);
    if (file != NULL) fclose(file);
}

/* The audit hook: any thread with the GIL; at its first events the interpreter is not ready yet. */
static int heard(const char *event, void *args, void *unused) {
    (void)args, (void)unused;
    static const char running[] = "cpython.run_";
    if (entered.begun || strncmp(event, running, sizeof running - 1) != 0) return 0;
    entered.begun = true;
    begin();
    return 0;
}

/* Takes `own`, and what separates it from the rest, out of a variable: others may have put theirs before it. Before main. */
static void take_away(const char *variable, const char *own, const char *separators) {
    const char *value = getenv(variable), *at = value;
    size_t n = strlen(own), part = 0;
    for (; at != NULL; at = at[part] != 0 ? at + part + 1 : NULL)
        if ((part = strcspn(at, separators)) == n && strncmp(at, own, n) == 0) break;
    if (at == NULL) return;
    char *rest = strdup(value);
    if (rest == NULL) return;
    char *to = rest + (at - value);
    if (at[n] != 0) memmove(to, at + n + 1, strlen(at + n + 1) + 1);
    if (at[n] == 0) to[at > value ? -1 : 0] = 0;     /* the last one: with what separates it from those before */
    if (*rest != 0) (void)setenv(variable, rest, 1); /* without ours */
    if (*rest == 0) (void)unsetenv(variable);
    free(rest);
}

/* Before main. In what is no Python the environment stays, for the Python that it may start. */
__attribute__((constructor)) static void enter(void) {
    Dl_info own;
    const char *options = getenv(VARIABLE);
    if (options == NULL || strlen(options) >= sizeof entered.options) return;
    if (dladdr(&entered, &own) == 0 || own.dli_fname == NULL || !look_up()) return;
    const char *end = strrchr(own.dli_fname, '/');
    if (end == NULL || strlen(own.dli_fname) + sizeof STARTUP > sizeof entered.folder) return;
    snprintf(entered.folder, sizeof entered.folder, "%.*s" STARTUP, (int)(end - own.dli_fname), own.dli_fname);
    snprintf(entered.preload, sizeof entered.preload, "%s", own.dli_fname);
    snprintf(entered.options, sizeof entered.options, "%s", options);
    (void)unsetenv(VARIABLE);
    take_away("LD_PRELOAD", own.dli_fname, ": ");
    take_away("PYTHONPATH", entered.folder, ":");
    (void)py.add_hook(heard, NULL);
}
