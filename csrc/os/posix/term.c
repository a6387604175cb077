/* SIGTERM, while nobody handles it: the file is finished before the process ends. Or while a handler in Python does that is ours
 * (`spprof run`): that comes only when the main thread runs Python code, which may be never. */
#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "os/os.h"
#include "os/posix/posix.h"

static spp_os_bell *term_bell;
static _Atomic int *term_asked;
static _Atomic int term_caught;
static pid_t term_owner;
static struct sigaction behind;           /* Python's, where it is ours that it calls */
static _Atomic uint64_t behind_called_ns; /* first; 0: not yet */
static const char *behind_text;

/* A child is between its fork and the restoring of its handler, or shares our memory until it calls exec: it is to end, and the
 * run is not its own. (A pool that ended its workers as soon as they were made waited for one for ever.) */
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
    if (getpid() == 1) return; /* the first process of a container: the kernel keeps SIGTERM from it unless it has a handler */
    if (sigaction(SIGTERM, NULL, &old) != 0 || (old.sa_flags & SA_SIGINFO) || old.sa_handler != SIG_DFL) return;
    term_bell = bell;
    term_asked = asked;
    term_owner = getpid();
    memset(&action, 0, sizeof action);
    action.sa_handler = on_term;
    action.sa_flags = SA_RESTART | SA_ONSTACK; /* a thread of Go's may take it */
    if (sigaction(SIGTERM, &action, NULL) == 0) term_caught = 1;
}

static void on_term_before(int signum) {
    uint64_t none = 0;
    if (getpid() == term_owner) atomic_compare_exchange_strong(&behind_called_ns, &none, spp_os_now_ns());
    behind.sa_handler(signum);
}

int spp_os_term_before(const char *text) {
    struct sigaction action;
    if (getpid() == 1 || sigaction(SIGTERM, NULL, &behind) != 0) return -1;
    if ((behind.sa_flags & SA_SIGINFO) || behind.sa_handler == SIG_DFL || behind.sa_handler == SIG_IGN) return -1;
    if (behind.sa_handler == on_term_before) return -1;
    char *copy = strdup(text); /* kept for good: it may be about to be written */
    if (copy == NULL) return -1;
    behind_text = copy;
    behind_called_ns = 0;
    term_owner = getpid();
    action = behind;
    action.sa_handler = on_term_before;
    if (sigaction(SIGTERM, &action, NULL) != 0) return -1;
    term_caught = 1;
    return 0;
}

bool spp_os_term_waits(uint64_t now_ns, uint64_t limit_ns) {
    uint64_t called = atomic_load(&behind_called_ns);
    return called != 0 && now_ns > called + limit_ns;
}

bool spp_posix_term_is(uintptr_t handler) { return handler == (uintptr_t)on_term || handler == (uintptr_t)on_term_before; }

void spp_os_term_restore(void) {
    struct sigaction now;
    behind_called_ns = 0;
    if (!atomic_exchange(&term_caught, 0)) return;
    if (sigaction(SIGTERM, NULL, &now) != 0) return;
    if (now.sa_handler == on_term) signal(SIGTERM, SIG_DFL);
    if (now.sa_handler == on_term_before) sigaction(SIGTERM, &behind, NULL);
}

void spp_os_term_now(void) {
    bool for_python = atomic_load(&behind_called_ns) != 0;
    spp_os_term_restore();
    if (for_python) {
        (void)!write(STDERR_FILENO, behind_text, strlen(behind_text));
        signal(SIGTERM, SIG_DFL);
    }
    kill(getpid(), SIGTERM);
}
