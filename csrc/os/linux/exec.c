/* A thread that replaces the program: what it still has pending is the new one's, which knows nothing of ticks. */
#include <errno.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "os/linux/linux.h"
#include "os/os.h"

static void (*told)(void);

void spp_os_exec_tell(void (*call)(void)) { told = call; }

/* In a child that shares our memory, only the signals that the program ignores matter: they stay ignored. */
static void begin(void) {
    int saved = errno;
    if (spp_linux_signals_own() && told != NULL) told();
    spp_linux_signals_exec(true);
    errno = saved;
}

/* It has failed. */
static int fail(void) {
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
    begin();
    real_execv(path, argv);
    return fail();
}

static int own_execvp(const char *file, char *const *argv) {
    begin();
    real_execvp(file, argv);
    return fail();
}

static int own_execve(const char *path, char *const *argv, char *const *env) {
    begin();
    real_execve(path, argv, env);
    return fail();
}

static int own_execvpe(const char *file, char *const *argv, char *const *env) {
    begin();
    real_execvpe(file, argv, env);
    return fail();
}

static int own_fexecve(int fd, char *const *argv, char *const *env) {
    begin();
    real_fexecve(fd, argv, env);
    return fail();
}

static int own_execveat(int dir, const char *path, char *const *argv, char *const *env, int flags) {
    begin();
    real_execveat(dir, path, argv, env, flags);
    return fail();
}

/* Copies a list of arguments, and what follows it, to where the caller made room: async-signal-safe, as these calls are. */
static size_t count(va_list from) {
    size_t n = 1;
    while (va_arg(from, char *) != NULL) n++;
    return n;
}

static void copy(char **to, const char *first, va_list from, size_t n) {
    to[0] = (char *)(uintptr_t)first;
    for (size_t i = 1; i <= n; i++) to[i] = va_arg(from, char *);
}

#define LIST(name, call)                                              \
    static int own_##name(const char *path, const char *first, ...) { \
        va_list list, again;                                          \
        va_start(list, first);                                        \
        va_copy(again, list);                                         \
        size_t n = first != NULL ? count(again) : 0;                  \
        char **argv = __builtin_alloca((n + 1) * sizeof *argv);       \
        va_end(again);                                                \
        copy(argv, first, list, n);                                   \
        char *const *env = (char *const *)environ;                    \
        (void)env;                                                    \
        call;                                                         \
    }

LIST(execl, va_end(list); return own_execv(path, argv))
LIST(execlp, va_end(list); return own_execvp(path, argv))
LIST(execle, env = va_arg(list, char *const *); va_end(list); return own_execve(path, argv, env))

/* ---- children that the C library makes and has call exec, unseen. system() makes one too, but lasts as long as its child: there
 * the signals that ticks come by have their default action. */

typedef posix_spawn_file_actions_t files;
typedef posix_spawnattr_t attributes;
static int (*real_posix_spawn)(pid_t *, const char *, const files *, const attributes *, char *const *, char *const *);
static int (*real_posix_spawnp)(pid_t *, const char *, const files *, const attributes *, char *const *, char *const *);
static FILE *(*real_popen)(const char *, const char *);

static int own_posix_spawn(pid_t *pid, const char *path, const files *f, const attributes *a, char *const *argv,
                           char *const *env) {
    spp_linux_signals_spawn(true);
    int error = real_posix_spawn(pid, path, f, a, argv, env);
    spp_linux_signals_spawn(false);
    return error;
}

static int own_posix_spawnp(pid_t *pid, const char *file, const files *f, const attributes *a, char *const *argv,
                            char *const *env) {
    spp_linux_signals_spawn(true);
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
