#include "module/header.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#ifdef MS_WINDOWS
#include <windows.h>
#elif defined(__APPLE__)
#include <sys/sysctl.h>
#endif

#include "core/capture.h"
#include "core/tick_stats.h"
#include "module/held.h"
#include "module/session.h"
#include "os/os.h"

/* ---- options */

int spp_clock_choose(const char *name, spp_clock *clock) {
    const char *why = NULL;
    int error = 0, chosen = -1;
    bool automatic = strcmp(name, "auto") == 0;
    if (spp_os_barred()) {
        errno = EPERM;
        PyErr_SetFromErrnoWithFilename(PyExc_OSError, "a filter of the program's does not allow the calls of spprof's threads");
        return -1;
    }
    for (int i = 0; i < SPP_CLOCK_COUNT; i++) {
        if (strcmp(name, spp_clock_names[i]) == 0) chosen = i;
    }
    if (!automatic && chosen < 0) {
        PyErr_Format(PyExc_ValueError, "no clock '%s': auto, signal, perf, perf-user, perf-trap, timer, suspend, gil", name);
        return -1;
    }
    for (int i = 0; i < (automatic ? spp_os_clock_automatic_n : 1); i++) {
        *clock = automatic ? spp_os_clock_automatic[i] : (spp_clock)chosen;
        if (spp_os_clock_probe(*clock, &why, &error) == 0) return 0;
    }
    errno = error;
    PyErr_SetFromErrnoWithFilename(PyExc_OSError, why);
    return -1;
}

int spp_options_of_words(spp_options *options, const char *clock, const char *mode, const char *native) {
    bool off = *native == 0, leaf = strcmp(native, "leaf") == 0, full = strcmp(native, "full") == 0;
    options->wall = strcmp(mode, "wall") == 0;
    options->native = off ? SPP_NATIVE_OFF : leaf ? SPP_NATIVE_LEAF : SPP_NATIVE_ALL;
    options->native_full = full;
    if ((!options->wall && strcmp(mode, "cpu") != 0) || !(off || leaf || full || strcmp(native, "yes") == 0)) {
        PyErr_Format(PyExc_ValueError, "no mode '%s', or no native frames '%s'", mode, native);
        return -1;
    }
    return spp_clock_choose(clock, &options->clock);
}

/* ---- the header. No memory: a part is missing, which the start of the run notices, for the header then ends with no brace */

static void put(spp_bytes *to, const char *text) { (void)spp_bytes_append(to, text, strlen(text)); }

void spp_header_text(spp_bytes *to, PyObject *text) {
    Py_ssize_t n = PyUnicode_GetLength(text);
    put(to, "\"");
    for (Py_ssize_t i = 0; i < n; i++) {
        Py_UCS4 c = PyUnicode_ReadChar(text, i);
        char escaped[16];
        if (c >= ' ' && c <= '~' && c != '"' && c != '\\')
            snprintf(escaped, sizeof escaped, "%c", (char)c);
        else if (c < 0x10000)
            snprintf(escaped, sizeof escaped, "\\u%04x", (unsigned)c);
        else
            snprintf(escaped, sizeof escaped, "\\u%04x\\u%04x", (unsigned)(0xD800 + ((c - 0x10000) >> 10)),
                     (unsigned)(0xDC00 + ((c - 0x10000) & 0x3FF)));
        put(to, escaped);
    }
    put(to, "\"");
}

static void put_argv(spp_bytes *to, PyObject *argv) {
    PyObject *list = argv != NULL ? PySequence_List(argv) : NULL;
    put(to, "[");
    for (Py_ssize_t i = 0; list != NULL && i < PyList_GET_SIZE(list); i++) {
        PyObject *text = PyObject_Str(PyList_GET_ITEM(list, i));
        if (i > 0) put(to, ", ");
        if (text != NULL) spp_header_text(to, text);
        if (text == NULL) put(to, "\"\"");
        Py_XDECREF(text);
        PyErr_Clear();
    }
    put(to, "]");
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

/* What os.uname calls it; Windows tells it in the environment. */
static void put_machine(spp_bytes *to) {
#ifdef MS_WINDOWS
    const char *machine = getenv("PROCESSOR_ARCHITECTURE");
    for (; machine != NULL && *machine != 0; machine++) {
        char lower[2] = {(char)Py_TOLOWER(*machine), 0};
        put(to, lower);
    }
#else
    PyObject *os = PyImport_ImportModule("posix"); /* built in */
    PyObject *names = os != NULL ? PyObject_CallMethod(os, "uname", NULL) : NULL;
    PyObject *machine = names != NULL ? PyObject_GetAttrString(names, "machine") : NULL;
    const char *text = machine != NULL ? PyUnicode_AsUTF8(machine) : NULL;
    if (text != NULL) put(to, text);
    Py_XDECREF(machine);
    Py_XDECREF(names);
    Py_XDECREF(os);
    PyErr_Clear();
#endif
}

static void put_python(spp_bytes *to) {
    const char *version = Py_GetVersion();
    (void)spp_bytes_append(to, version, strcspn(version, " "));
    PyObject *flags = of_sys("abiflags", NULL); /* Windows has none */
    if (flags != NULL && PyUnicode_Check(flags) && PyUnicode_FindChar(flags, 't', 0, PyUnicode_GetLength(flags), 1) >= 0)
        put(to, "t");
    Py_XDECREF(flags);
}

/* The number by which the system knows this machine, as text; "" if it has none. */
static void read_host(char id[64]) {
    id[0] = 0;
#ifdef MS_WINDOWS
    DWORD size = 64;
    if (RegGetValueA(HKEY_LOCAL_MACHINE, "SOFTWARE\\Microsoft\\Cryptography", "MachineGuid", RRF_RT_REG_SZ, NULL, id, &size) != 0)
        id[0] = 0;
#elif defined(__APPLE__)
    size_t size = 64;
    if (sysctlbyname("kern.uuid", id, &size, NULL, 0) != 0) id[0] = 0;
#else
    static const char *const files[] = {"/etc/machine-id", "/proc/sys/kernel/random/boot_id"};
    for (size_t i = 0; i < 2 && id[0] == 0; i++) {
        FILE *file = fopen(files[i], "re");
        size_t n = file != NULL ? fread(id, 1, 32, file) : 0;
        id[n == 32 ? 32 : 0] = 0;
        if (file != NULL) (void)fclose(file);
    }
#endif
}

void spp_header_host(spp_bytes *to) {
    char id[64], text[17];
    uint64_t hash = 0xcbf29ce484222325u;
    read_host(id);
    for (const char *at = id; *at != 0; at++) hash = (hash ^ (uint8_t)*at) * 0x100000001b3u;
    snprintf(text, sizeof text, "%016llx", (unsigned long long)hash);
    if (id[0] != 0) put(to, text);
}

int spp_header(spp_bytes *to, const spp_options *o, const char *native, const char *begun, const char *run, PyObject *argv) {
    char text[256];
    struct timespec now;
    PyObject *name = of_sys("implementation", "name"), *told = argv == NULL ? of_sys("argv", NULL) : Py_NewRef(argv);
    (void)timespec_get(&now, TIME_UTC);
    snprintf(text, sizeof text, "{\"version\": 1, \"pid\": %ld, \"python\": \"", (long)getpid());
    put(to, text);
    put_python(to);
    put(to, "\", \"implementation\": ");
    if (name != NULL) spp_header_text(to, name);
    if (name == NULL) put(to, "\"cpython\"");
    put(to, ", \"platform\": \"");
    put(to, Py_GetPlatform());
    put(to, "-");
    put_machine(to);
    put(to, "\", \"host\": \"");
    spp_header_host(to);
    put(to, "\", \"argv\": ");
    put_argv(to, told);
    snprintf(text, sizeof text,
             ", \"mode\": \"%s\", \"clock\": \"%s\", \"interval_ns\": %llu, \"start_unix_ns\": %llu, \"max_depth\": %u, ",
             o->wall ? "wall" : "cpu", spp_clock_names[o->clock], (unsigned long long)o->interval_ns,
             (unsigned long long)now.tv_sec * 1000000000u + (unsigned long long)now.tv_nsec, (unsigned)o->max_depth);
    put(to, text);
    snprintf(text, sizeof text, "\"native\": \"%s\", \"spprof\": \"%.32s\", \"begun\": \"%s\"", native, SPP_VERSION, begun);
    put(to, text);
    if (run != NULL) {
        snprintf(text, sizeof text, ", \"run\": \"%.32s\"", run);
        put(to, text);
    }
    put(to, "}");
    Py_XDECREF(name);
    Py_XDECREF(told);
    PyErr_Clear();
    if (to->n > 2 && to->at[to->n - 1] == '}') return 0;
    PyErr_NoMemory();
    return -1;
}
