#include "module/chosen.h"

#include <string.h>

#include "module/held.h"
#include "module/monitor.h"

#if SPP_MONITORS

/* Whether a text is like a pattern: * stands for any characters, ? for one byte. The latest * takes more, if what follows does
 * not fit; so it ends after as many steps as the product of both lengths. */
static bool is_like(const char *text, const char *pattern) {
    const char *again = NULL, *from = NULL;
    while (*text != 0) {
        if (*pattern == '*') {
            again = ++pattern;
            from = text;
        } else if (*pattern == '?' || *pattern == *text) {
            pattern++;
            text++;
        } else if (again != NULL) {
            pattern = again;
            text = ++from;
        } else {
            return false;
        }
    }
    while (*pattern == '*') pattern++;
    return *pattern == 0;
}

int spp_chosen_set(spp_chosen *chosen, const char *what) {
    size_t n = strlen(what);
    chosen->patterns = PyMem_RawMalloc(n + 2);
    if (chosen->patterns == NULL) return PyErr_NoMemory(), -1;
    memcpy(chosen->patterns, what, n + 1);
    chosen->patterns[n + 1] = 0;
    for (char *at = chosen->patterns; *at != 0; at++) {
        if (*at == ',' || *at == ':') *at = 0;
    }
    return 0;
}

static bool matches(const spp_chosen *chosen, const char *module, const char *qualname) {
    for (const char *at = chosen->patterns; *at != 0;) {
        const char *function = at + strlen(at) + 1;
        if (is_like(module, at) && is_like(qualname, function)) return true;
        at = function + strlen(function) + 1;
    }
    return false;
}

bool spp_chosen_has(const spp_chosen *chosen, const PyCodeObject *code) {
    PyObject *name = spp_held(PyEval_GetGlobals(), "__name__");
    const char *module = name != NULL && PyUnicode_Check(name) ? PyUnicode_AsUTF8(name) : NULL;
    const char *qualname = module != NULL ? PyUnicode_AsUTF8(code->co_qualname) : NULL;
    bool has = qualname != NULL && matches(chosen, module, qualname);
    PyErr_Clear();
    Py_XDECREF(name);
    return has;
}

void spp_chosen_free(spp_chosen *chosen) {
    PyMem_RawFree(chosen->patterns);
    chosen->patterns = NULL;
}

#endif
