/* Forks as C code does that reports it to Python (uvloop), and C code that calls the kernel itself. All in one call: between two
 * of them Python could give the GIL away, and in the child it would wait for a thread that is not there. */
#define _GNU_SOURCE
#include <sys/syscall.h>
#include <unistd.h>

void PyOS_BeforeFork(void);
void PyOS_AfterFork_Parent(void);
void PyOS_AfterFork_Child(void);

static int report(int pid) {
    if (pid == 0)
        PyOS_AfterFork_Child();
    else
        PyOS_AfterFork_Parent();
    return pid;
}

int by_c(void) {
    PyOS_BeforeFork();
    return report(fork());
}

#ifdef SYS_fork
int by_system_call(void) { /* no handler of the C library runs */
    PyOS_BeforeFork();
    return report((int)syscall(SYS_fork));
}
#endif
