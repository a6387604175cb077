/* SIGTERM, if the program does not handle it: finishes the file before the process ends. */
#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "os/posix/posix.h"
#include "os/signals.h"
#include "os/worker.h"

static spp_os_bell *term_bell;
static _Atomic int *term_asked;
static _Atomic int term_caught;
static pid_t term_owner;

/* A child gets here between its fork and the restoring of the default action, or if it shares our memory until it calls exec. It
 * must end, without touching the parent's run. (Otherwise a pool that ends its workers as soon as they are created waits
 * forever.) */
static void on_term(int signum) {
    int saved = errno;
    if (getpid() != term_owner) {
        signal(signum, SIG_DFL);
        kill(getpid(), signum);
        return;
    }
    atomic_store(term_asked, 1);
    spp_os_bell_ring(term_bell);
    errno = saved;
}

void spp_os_term_catch(spp_os_bell *bell, _Atomic int *asked) {
    struct sigaction old, action;
    if (getpid() == 1) return; /* the first process of a container gets no SIGTERM unless it has a handler */
    if (sigaction(SIGTERM, NULL, &old) != 0 || (old.sa_flags & SA_SIGINFO) || old.sa_handler != SIG_DFL) return;
    term_bell = bell;
    term_asked = asked;
    term_owner = getpid();
    memset(&action, 0, sizeof action);
    action.sa_handler = on_term;
    action.sa_flags = SA_RESTART | SA_ONSTACK; /* it may be delivered on one of Go's threads */
    if (sigaction(SIGTERM, &action, NULL) == 0) term_caught = 1;
}

bool spp_posix_term_is(uintptr_t handler) { return handler == (uintptr_t)on_term; }

void spp_os_term_restore(void) {
    struct sigaction now;
    if (!atomic_exchange(&term_caught, 0)) return;
    if (sigaction(SIGTERM, NULL, &now) != 0) return;
    if (now.sa_handler == on_term) signal(SIGTERM, SIG_DFL);
}

void spp_os_term_now(void) {
    spp_os_term_restore();
    kill(getpid(), SIGTERM);
}
