/* Suspending a thread: what os/suspend asks of macOS.
 *
 * Between stop and go the calls are thread_get_state, thread_info, mach_vm_read_overwrite and thread_resume: messages to the
 * kernel by a thread whose reply port is made already. None waits for another thread of the program.
 *
 * Every call may find that the thread has ended, and then returns KERN_TERMINATED,
 * KERN_INVALID_ARGUMENT or MACH_SEND_INVALID_DEST, depending on when. We keep the right to its port,
 * so its name is not reused meanwhile. A call that fails for another reason was refused: the kernel
 * lacks memory, or forbids it. */
#include <sched.h>

#include "os/clock.h"
#include "os/context.h"
#include "os/darwin/darwin.h"
#include "os/darwin/machine.h"
#include "os/memory.h"
#include "os/suspend/suspend.h"
#include "os/ticks.h"

static bool is_gone(kern_return_t failed) {
    return failed == KERN_TERMINATED || failed == KERN_INVALID_ARGUMENT || failed == MACH_SEND_INVALID_DEST;
}

static spp_suspend_result result_of(kern_return_t failed) {
    return failed == KERN_SUCCESS ? SPP_SUSPEND_DONE : is_gone(failed) ? SPP_SUSPEND_GONE : SPP_SUSPEND_REFUSED;
}

/* A right of its own, so that the port stays when the next listing no longer finds the thread. */
spp_suspend_result spp_suspend_open(int32_t tid, spp_suspend_handle *handle) {
    uintptr_t slots;
    spp_darwin_prove_slots();
    if (!spp_darwin_knows(tid)) return SPP_SUSPEND_GONE;
    kern_return_t failed = KERN_TERMINATED;
    spp_darwin_table_lock();
    mach_port_t port = spp_darwin_port_of(tid, &slots);
    if (port != MACH_PORT_NULL) failed = mach_port_mod_refs(mach_task_self(), port, MACH_PORT_RIGHT_SEND, 1);
    spp_darwin_table_unlock();
    /* The right has become a dead name. */
    if (failed == KERN_INVALID_RIGHT) failed = KERN_TERMINATED;
    *handle = port;
    return result_of(failed);
}

void spp_suspend_close(spp_suspend_handle handle) { spp_darwin_release((mach_port_t)handle); }

spp_suspend_result spp_suspend_cpu_ns(spp_suspend_handle handle, int32_t tid, uint64_t *ns) {
    (void)handle;
    return spp_os_thread_cpu_ns(tid, ns) == 0 ? SPP_SUSPEND_DONE : SPP_SUSPEND_GONE;
}

/* ---- stop and go */

/* A thread that could not be resumed: tried again before another is stopped. With a port right of
 * its own, if the kernel gave one. Under the table's lock. */
static mach_port_t stuck = MACH_PORT_NULL;
static bool stuck_is_ours;
#define TRIES 100 /* a message that the kernel has no memory for */

/* Whether it goes on, or never will for another reason. KERN_FAILURE: it was not suspended, so somebody else resumed it. */
static bool resume(mach_port_t port) {
    kern_return_t failed = KERN_RESOURCE_SHORTAGE;
    for (int i = 0; i < TRIES; i++) {
        failed = thread_resume(port);
        if (failed == KERN_SUCCESS || failed == KERN_FAILURE || is_gone(failed)) return true;
        sched_yield();
    }
    return false;
}

static void go(mach_port_t port) {
    if (resume(port)) return;
    stuck = port;
    stuck_is_ours = mach_port_mod_refs(mach_task_self(), port, MACH_PORT_RIGHT_SEND, 1) == KERN_SUCCESS;
}

static bool still_stuck(void) {
    if (stuck == MACH_PORT_NULL) return false;
    if (!resume(stuck)) return true;
    if (stuck_is_ours) spp_darwin_release(stuck);
    stuck = MACH_PORT_NULL;
    return false;
}

spp_suspend_result spp_suspend_stop(spp_suspend_handle handle, spp_suspend_registers *buffer, spp_os_context *context,
                                    spp_os_subject *subject) {
    _Static_assert(sizeof(thread_state) <= sizeof *buffer, "space for the registers");
    mach_port_t port = (mach_port_t)handle;
    thread_state *state = (thread_state *)(void *)buffer;
    mach_msg_type_number_t words = STATE_WORDS;
    uint8_t before[CALL_BYTES];
    spp_darwin_table_lock(); /* nobody who has it is stopped with it */
    kern_return_t failed = KERN_RESOURCE_SHORTAGE;
    if (!still_stuck() && spp_darwin_port_of(subject->tid, &subject->slots) == port) failed = thread_suspend(port);
    if (failed != KERN_SUCCESS) {
        spp_darwin_table_unlock();
        return result_of(failed);
    }
    failed = thread_get_state(port, STATE_FLAVOR, (thread_state_t)state, &words);
    if (failed != KERN_SUCCESS || words < STATE_WORDS) {
        go(port);
        spp_darwin_table_unlock();
        return failed != KERN_SUCCESS ? result_of(failed) : SPP_SUSPEND_REFUSED;
    }
    read_context(state, context);
    context->machine = state;
    context->at_syscall = spp_os_read(before, context->pc - CALL_BYTES, CALL_BYTES) == 0 && is_call(before);
    spp_darwin_exact_cpu(subject->tid, &subject->cpu_ns); /* it entered the kernel */
    return SPP_SUSPEND_DONE;
}

/* The kernel stops it for as long as it reads the registers. */
spp_suspend_result spp_suspend_describe(spp_suspend_handle handle, spp_os_context *context, spp_os_subject *subject) {
    thread_state state;
    mach_msg_type_number_t words = STATE_WORDS;
    kern_return_t failed = KERN_TERMINATED;
    spp_darwin_table_lock();
    if (spp_darwin_port_of(subject->tid, &subject->slots) == (mach_port_t)handle) {
        failed = thread_get_state((mach_port_t)handle, STATE_FLAVOR, (thread_state_t)&state, &words);
    }
    spp_darwin_table_unlock();
    if (failed == KERN_SUCCESS) read_context(&state, context);
    return result_of(failed);
}

void spp_suspend_go(spp_suspend_handle handle) {
    go((mach_port_t)handle);
    spp_darwin_table_unlock();
}

void spp_os_registers(const spp_os_context *context, uintptr_t to[SPP_OS_REGISTERS]) { read_registers(context->machine, to); }

/* A waiting thread is not woken: it would stop when it returns from the kernel (thread_hold in xnu's osfmk/kern/thread_act.c). */
uint64_t spp_os_stop_ns(void) { return 0; }

/* While it runs its clock moves (read_cpu in threads.c). */
bool spp_os_clock_is_exact(void) { return true; }

/* The clock would prove it, but a thread's state may be read only while that thread is suspended, and its registers too. So a
 * thread that goes off-CPU is stopped once; until it runs again it is not touched. */
bool spp_suspend_clock_proves(void) { return false; }
