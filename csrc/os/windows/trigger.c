/* What os/suspend asks of Windows. */
#include "base/heap.h"
#include "os/windows/windows.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <winternl.h>

#include "arch/arch.h"
#include "os/clock.h"
#include "os/context.h"
#include "os/memory.h"
#include "os/signals.h"
#include "os/suspend/suspend.h"
#include "os/windows/machine.h"
#include "os/worker.h"

/* A handle of our own, which stays good when the thread has ended, and keeps its id from being used again. */
typedef struct {
    HANDLE thread;
    uintptr_t teb;
} target;

typedef LONG(NTAPI *query_fn)(HANDLE thread, int what, void *to, ULONG size, ULONG *got);

/* THREAD_BASIC_INFORMATION (what 0), which winternl.h leaves out. */
typedef struct {
    LONG exit_status;
    void *teb;
    void *process, *thread;
    ULONG_PTR affinity;
    LONG priority, base_priority;
} basic_information;

static uintptr_t teb_of(HANDLE thread) {
    query_fn query = SPP_WINDOWS_FIND(query_fn, L"ntdll.dll", "NtQueryInformationThread");
    basic_information is = {0};
    return query != NULL && query(thread, 0, &is, sizeof is, NULL) >= 0 ? (uintptr_t)is.teb : 0;
}

/* Not while it is suspended. Under wine a thread has none until it has begun. */
static uintptr_t known_teb(target *t) {
    if (t->teb == 0) t->teb = teb_of(t->thread);
    return t->teb;
}

/* A thread that ends the process (ExitProcess, so os._exit) ends all others first, including the
 * sampler. If it were suspended just then, nobody would resume it, and the process would hang. It
 * takes the lock of the process's environment block for that, so we hold that lock from before a
 * thread is suspended until it is resumed: a thread that holds it is never suspended. Both in
 * ntdll, on Windows and under wine. */
typedef void(NTAPI *lock_fn)(void);
static lock_fn keep_from_ending, let_end;

#define RIGHTS (THREAD_SUSPEND_RESUME | THREAD_GET_CONTEXT | THREAD_QUERY_INFORMATION | SYNCHRONIZE)

spp_suspend_result spp_suspend_open(int32_t tid, spp_suspend_handle *handle) {
    keep_from_ending = SPP_WINDOWS_FIND(lock_fn, L"ntdll.dll", "RtlAcquirePebLock");
    let_end = SPP_WINDOWS_FIND(lock_fn, L"ntdll.dll", "RtlReleasePebLock");
    target *t = keep_from_ending != NULL && let_end != NULL ? spp_alloc_zeroed(1, sizeof *t) : NULL;
    if (t == NULL) return SPP_SUSPEND_REFUSED;
    t->thread = OpenThread(RIGHTS, FALSE, (DWORD)tid);
    if (t->thread == NULL) {
        bool refused = GetLastError() == ERROR_ACCESS_DENIED;
        spp_free(t);
        return refused ? SPP_SUSPEND_REFUSED : SPP_SUSPEND_GONE;
    }
    *handle = (spp_suspend_handle)t;
    return SPP_SUSPEND_DONE;
}

void spp_suspend_close(spp_suspend_handle handle) {
    target *t = (target *)handle;
    CloseHandle(t->thread);
    spp_free(t);
}

spp_suspend_result spp_suspend_cpu_ns(spp_suspend_handle handle, int32_t tid, uint64_t *ns) {
    (void)handle;
    return spp_os_thread_cpu_ns(tid, ns) == 0 ? SPP_SUSPEND_DONE : SPP_SUSPEND_GONE;
}

/* Whether pc is behind a call of the kernel. */
static bool is_at_syscall(uintptr_t pc) {
    return spp_os_readable(pc - SYSCALL_BYTES) && spp_os_readable(pc - 1) && is_syscall((const uint8_t *)pc - SYSCALL_BYTES);
}

/* The error is ambiguous: access is denied to a thread that ends, and to one that the program has
 * suspended as often as possible. */
static spp_suspend_result why_not(const target *t) {
    return spp_windows_has_ended(t->thread) ? SPP_SUSPEND_GONE : SPP_SUSPEND_REFUSED;
}

/* SuspendThread only asks; GetThreadContext waits until the thread is suspended, which needs
 * nothing but the kernel. */
spp_suspend_result spp_suspend_stop(spp_suspend_handle handle, spp_suspend_registers *buffer, spp_os_context *context,
                                    spp_os_subject *subject) {
    target *t = (target *)handle;
    CONTEXT *registers = (CONTEXT *)(void *)buffer->bytes;
    _Static_assert(sizeof *registers <= sizeof buffer->bytes, "the registers do not fit");
    subject->slots = known_teb(t);
    keep_from_ending();
    if (SuspendThread(t->thread) == (DWORD)-1) {
        let_end();
        return why_not(t);
    }
    registers->ContextFlags = CONTEXT_CONTROL | CONTEXT_INTEGER;
    if (!GetThreadContext(t->thread, registers)) {
        spp_suspend_go(handle);
        return why_not(t);
    }
    read_context(registers, context);
    context->machine = registers;
    context->at_syscall = is_at_syscall(context->pc);
    return SPP_SUSPEND_DONE;
}

/* NT_TIB in winnt.h: its pages show how far the stack is in use. Guarded: the thread may end meanwhile. */
spp_suspend_result spp_suspend_describe(spp_suspend_handle handle, spp_os_context *context, spp_os_subject *subject) {
    target *t = (target *)handle;
    uintptr_t limit;
    if (known_teb(t) == 0) return SPP_SUSPEND_GONE;
    if (spp_os_read(&limit, t->teb + offsetof(NT_TIB, StackLimit), sizeof limit) != 0) return SPP_SUSPEND_GONE;
    context->sp = limit + SPP_RED_ZONE;
    subject->slots = t->teb;
    return SPP_SUSPEND_DONE;
}

void spp_suspend_go(spp_suspend_handle handle) {
    ResumeThread(((const target *)handle)->thread);
    let_end();
}

void spp_os_registers(const spp_os_context *context, uintptr_t to[SPP_OS_REGISTERS]) {
    memset(to, 0, SPP_OS_REGISTERS * sizeof *to);
    read_registers(context->machine, to);
}

/* Windows ends a process without asking it. */
void spp_os_term_catch(spp_os_bell *bell, _Atomic int *asked) { (void)bell, (void)asked; }
void spp_os_term_restore(void) {}
void spp_os_term_now(void) {}
