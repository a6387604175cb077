#include "module/beside.h"

#include "os/beside.h"
#include "os/process.h"

void spp_beside_take(int fd) {
    if (spp_os_beside_take(fd)) (void)Py_AtExit(spp_os_beside_end); /* exit() is not called after an uncaught KeyboardInterrupt */
}

static PyObject *fork_unseen(PyObject *module, PyObject *none) {
    (void)module, (void)none;
#ifdef HAVE_FORK
    if (spp_os_reaps()) {
        PyOS_BeforeFork();
        int pid = spp_os_fork_quietly();
        if (pid == 0) PyOS_AfterFork_Child();
        if (pid != 0) PyOS_AfterFork_Parent();
        return pid >= 0 ? PyLong_FromLong(pid) : PyErr_SetFromErrno(PyExc_OSError);
    }
#endif
    Py_RETURN_NONE;
}

PyMethodDef spp_beside_methods[] = {
    {"fork_unseen", fork_unseen, METH_NOARGS, "A fork that wait() does not see, where an orphan would be this process's own."},
    {NULL, NULL, 0, NULL},
};
