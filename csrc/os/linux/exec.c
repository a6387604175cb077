/* Calls that replace the program or start another one. Signals that are pending at exec go to the new program, which does not
 * expect ticks. And closed interpreters (-I, -E, -S) are started with a preloaded library. */
#include <errno.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "os/linux/linux.h"
#include "os/process.h"

static void (*before_exec)(void);

void spp_os_exec_notify(void (*call)(void)) { before_exec = call; }

/* ---- interpreters that ignore PYTHONPATH, or find another sitecustomize there first. All of this is async-signal-safe, since it
 * runs in children that share our memory. */

#define VARIABLES_MOST 4096
#define PRELOAD "LD_PRELOAD="
#define FOLDERS "PYTHONPATH="

static const char *preloaded, *wanted_by, *looked_in;

void spp_os_exec_preload(const char *path, const char *samples_in, const char *folder) {
    preloaded = path;
    wanted_by = samples_in;
    looked_in = folder;
}

/* Whether the interpreter's options include -I, -E or -S. Options end with -c, -m or the script. */
static bool is_closed(char *const *argv) {
    for (size_t i = 1; argv[0] != NULL && argv[i] != NULL && argv[i][0] == '-' && argv[i][1] != 0; i++) {
        const char *option = argv[i] + 1;
        if (strcmp(option, "-") == 0) return false;
        if (*option == '-') {
            if (strcmp(option, "-check-hash-based-pycs") == 0 && argv[i + 1] != NULL) i++;
            continue;
        }
        for (; *option != 0; option++) {
            if (strchr("IES", *option) != NULL) return true;
            if (strchr("cm", *option) != NULL) return false;
            if (strchr("WX", *option) == NULL) continue;
            if (option[1] == 0 && argv[i + 1] != NULL) i++; /* its argument is the next word, or the rest of this one */
            break;
        }
    }
    return false;
}

static bool runs_python(const char *path) {
    const char *slash = strrchr(path, '/');
    return strncmp(slash != NULL ? slash + 1 : path, "python", 6) == 0;
}

/* Returns the index of `name` (with its =) in an environment; -1: not found. */
static long index_in_env(const char *name, char *const *env) {
    for (long i = 0; env[i] != NULL; i++)
        if (strncmp(env[i], name, strlen(name)) == 0) return i;
    return -1;
}

/* Whether our folder is the first in PYTHONPATH. */
static bool is_first(char *const *env) {
    long at = index_in_env(FOLDERS, env);
    size_t n = strlen(looked_in);
    const char *value = at >= 0 ? env[at] + sizeof FOLDERS - 1 : "";
    return strncmp(value, looked_in, n) == 0 && (value[n] == ':' || value[n] == 0);
}

/* Whether our library is preloaded already: the recorder keeps LD_PRELOAD if its own interpreter was closed. */
static bool is_preloaded(char *const *env) {
    long at = index_in_env(PRELOAD, env);
    size_t n = strlen(preloaded);
    const char *value = at >= 0 ? env[at] + sizeof PRELOAD - 1 : "";
    return strncmp(value, preloaded, n) == 0 && (value[n] == 0 || value[n] == ':' || value[n] == ' ');
}

/* Whether this is the variable that makes a program begin a profile. */
static bool is_our_variable(const char *variable) {
    size_t n = strlen(wanted_by);
    return strncmp(variable, wanted_by, n) == 0 && variable[n] == '=';
}

/* Returns the size of the environment for a program if it must be changed; 0: use the given one. The variable is removed if a
 * filter forbids what our threads call. */
static size_t bytes_of_env(const char *path, char *const *argv, char *const *env) {
    if (wanted_by == NULL || path == NULL || argv == NULL || env == NULL) return 0;
    if (!spp_linux_barred && (preloaded == NULL || !runs_python(path) || (!is_closed(argv) && is_first(env)))) return 0;
    size_t n = 0;
    bool has_variable = false;
    for (; env[n] != NULL; n++) has_variable = has_variable || is_our_variable(env[n]);
    if (spp_linux_barred) return has_variable && n < VARIABLES_MOST ? (n + 1) * sizeof *env : 0;
    if (is_preloaded(env)) return 0;
    long at = index_in_env(PRELOAD, env);
    size_t text = sizeof PRELOAD + strlen(preloaded) + (at >= 0 ? strlen(env[at]) : 0) + 1;
    return has_variable && n < VARIABLES_MOST ? (n + 2) * sizeof *env + text : 0;
}

/* Makes that environment at `at`. */
static char *const *make_env(void *at, char *const *env) {
    char **made = at;
    size_t n = 0;
    if (spp_linux_barred) {
        for (; *env != NULL; env++)
            if (!is_our_variable(*env)) made[n++] = *env;
        made[n] = NULL;
        return made;
    }
    for (; env[n] != NULL; n++) made[n] = env[n];
    long place = index_in_env(PRELOAD, env);
    char *text = (char *)&made[n + 2], *to = stpcpy(stpcpy(text, PRELOAD), preloaded);
    if (place >= 0 && env[place][sizeof PRELOAD - 1] != 0) strcpy(stpcpy(to, ":"), env[place] + sizeof PRELOAD - 1);
    made[place >= 0 ? (size_t)place : n++] = text;
    made[n] = NULL;
    return made;
}

/* Uses the caller's stack, and no more than needed, since it may be small. */
#define CHANGE_ENV(path, argv, env)                                   \
    do {                                                              \
        size_t bytes = bytes_of_env(path, argv, env);                 \
        if (bytes != 0) env = make_env(__builtin_alloca(bytes), env); \
    } while (0)

/* Before exec. In a child that shares our memory, only makes the kernel ignore what the program ignores. */
static void begin_exec(void) {
    int saved = errno;
    if (spp_linux_signals_own() && before_exec != NULL) before_exec();
    spp_linux_signals_exec(true);
    errno = saved;
}

/* After exec failed. */
static int exec_failed(void) {
    int saved = errno;
    if (spp_linux_signals_own()) spp_linux_signals_exec(false);
    errno = saved;
    return -1;
}

static int (*real_execv)(const char *, char *const *), (*real_execvp)(const char *, char *const *);
static int (*real_execve)(const char *, char *const *, char *const *),
    (*real_execvpe)(const char *, char *const *, char *const *);
static int (*real_fexecve)(int, char *const *, char *const *);
static int (*real_execveat)(int, const char *, char *const *, char *const *, int);

static int own_execv(const char *path, char *const *argv) {
    char *const *env = environ;
    CHANGE_ENV(path, argv, env);
    begin_exec();
    if (env == environ)
        real_execv(path, argv);
    else
        real_execve(path, argv, env);
    return exec_failed();
}

static int own_execvp(const char *file, char *const *argv) {
    char *const *env = environ;
    if (spp_linux_barred) CHANGE_ENV(file, argv, env);
    begin_exec();
    if (env == environ)
        real_execvp(file, argv);
    else
        real_execvpe(file, argv, env);
    return exec_failed();
}

static int own_execve(const char *path, char *const *argv, char *const *env) {
    CHANGE_ENV(path, argv, env);
    begin_exec();
    real_execve(path, argv, env);
    return exec_failed();
}

static int own_execvpe(const char *file, char *const *argv, char *const *env) {
    if (spp_linux_barred) CHANGE_ENV(file, argv, env);
    begin_exec();
    real_execvpe(file, argv, env);
    return exec_failed();
}

static int own_fexecve(int fd, char *const *argv, char *const *env) {
    if (spp_linux_barred) CHANGE_ENV("", argv, env);
    begin_exec();
    real_fexecve(fd, argv, env);
    return exec_failed();
}

static int own_execveat(int dir, const char *path, char *const *argv, char *const *env, int flags) {
    if (spp_linux_barred) CHANGE_ENV(path, argv, env);
    begin_exec();
    real_execveat(dir, path, argv, env, flags);
    return exec_failed();
}

/* Copy a list of arguments, and what follows it, to the caller's stack: async-signal-safe, as these calls are. */
static size_t count_arguments(va_list from) {
    size_t n = 1;
    while (va_arg(from, char *) != NULL) n++;
    return n;
}

static void copy_arguments(char **to, const char *first, va_list from, size_t n) {
    to[0] = (char *)(uintptr_t)first;
    for (size_t i = 1; i <= n; i++) to[i] = va_arg(from, char *);
}

#define LIST(name, call)                                              \
    static int own_##name(const char *path, const char *first, ...) { \
        va_list list, again;                                          \
        va_start(list, first);                                        \
        va_copy(again, list);                                         \
        size_t n = first != NULL ? count_arguments(again) : 0;        \
        char **argv = __builtin_alloca((n + 1) * sizeof *argv);       \
        va_end(again);                                                \
        copy_arguments(argv, first, list, n);                         \
        char *const *env = (char *const *)environ;                    \
        (void)env;                                                    \
        call;                                                         \
    }

LIST(execl, va_end(list); return own_execv(path, argv))
LIST(execlp, va_end(list); return own_execvp(path, argv))
LIST(execle, env = va_arg(list, char *const *); va_end(list); return own_execve(path, argv, env))

/* ---- children that the C library makes and that call exec without a call that we intercept. (system() is not here: it returns
 * when its child has ended, and in the child the signals of ticks have their default action.) */

typedef posix_spawn_file_actions_t files;
typedef posix_spawnattr_t attributes;
static int (*real_posix_spawn)(pid_t *, const char *, const files *, const attributes *, char *const *, char *const *);
static int (*real_posix_spawnp)(pid_t *, const char *, const files *, const attributes *, char *const *, char *const *);
static FILE *(*real_popen)(const char *, const char *);

static int own_posix_spawn(pid_t *pid, const char *path, const files *f, const attributes *a, char *const *argv,
                           char *const *env) {
    spp_linux_signals_spawn(true);
    CHANGE_ENV(path, argv, env);
    int error = real_posix_spawn(pid, path, f, a, argv, env);
    spp_linux_signals_spawn(false);
    return error;
}

static int own_posix_spawnp(pid_t *pid, const char *file, const files *f, const attributes *a, char *const *argv,
                            char *const *env) {
    spp_linux_signals_spawn(true);
    CHANGE_ENV(file, argv, env);
    int error = real_posix_spawnp(pid, file, f, a, argv, env);
    spp_linux_signals_spawn(false);
    return error;
}

static FILE *own_popen(const char *command, const char *type) {
    spp_linux_signals_spawn(true);
    FILE *made = real_popen(command, type);
    int saved = errno;
    spp_linux_signals_spawn(false);
    errno = saved;
    return made;
}

const spp_linux_import spp_linux_execs[] = {
    {"execv", (void *)(uintptr_t)own_execv, NULL, &real_execv},
    {"execvp", (void *)(uintptr_t)own_execvp, NULL, &real_execvp},
    {"execve", (void *)(uintptr_t)own_execve, NULL, &real_execve},
    {"execvpe", (void *)(uintptr_t)own_execvpe, NULL, &real_execvpe},
    {"fexecve", (void *)(uintptr_t)own_fexecve, NULL, &real_fexecve},
    {"execveat", (void *)(uintptr_t)own_execveat, NULL, &real_execveat},
    {"execl", (void *)(uintptr_t)own_execl, NULL, NULL},
    {"execlp", (void *)(uintptr_t)own_execlp, NULL, NULL},
    {"execle", (void *)(uintptr_t)own_execle, NULL, NULL},
    {"posix_spawn", (void *)(uintptr_t)own_posix_spawn, NULL, &real_posix_spawn},
    {"posix_spawnp", (void *)(uintptr_t)own_posix_spawnp, NULL, &real_posix_spawnp},
    {"popen", (void *)(uintptr_t)own_popen, NULL, &real_popen},
};
