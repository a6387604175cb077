/* Clocks of Windows.
 *
 * A thread's CPU time comes in cycles (QueryThreadCycleTime), converted by the time stamp counter's
 * rate, which is measured at start. Where that call fails (wine), or counts at no constant rate
 * (arm64, also emulating x86_64), GetThreadTimes is used, which advances in steps: 10 ms under wine, a
 * tick of the system's clock on Windows (15.6 ms). A thread that was seen to run is then assumed to go
 * on with the wall clock until it is a step ahead of the system. So its clock is at most one step
 * ahead, and never goes back. */
#include "os/windows/windows.h"

#include <winternl.h>

#include "arch/arch.h"
#include "os/clock.h"
#include "os/suspend/suspend.h"
#include "os/ticks.h"
#include "os/windows/machine.h"

static uint64_t counter_hz; /* of QueryPerformanceCounter */
static bool cycles_count;   /* QueryThreadCycleTime works */
static double ns_a_cycle;
#define STEP_NS 20000000u  /* of GetThreadTimes: 10 ms of user time and 10 ms of kernel time, under wine; a tick on Windows */
#define ASK_NS 2500000u    /* it is asked this often at most: 50 us under wine */
#define ENDED_NS 10000000u /* how often to check whether a thread with an unchanged clock has ended */

uint64_t spp_os_now_ns(void) {
    LARGE_INTEGER at;
    if (counter_hz == 0) {
        QueryPerformanceFrequency(&at);
        counter_hz = (uint64_t)at.QuadPart;
    }
    QueryPerformanceCounter(&at);
    uint64_t count = (uint64_t)at.QuadPart, seconds = count / counter_hz;
    return seconds * 1000000000u + (count - seconds * counter_hz) * 1000000000u / counter_hz;
}

uint64_t spp_os_cycles(void) { return spp_arch_cycles(); }

static uint64_t ns_of(FILETIME time) { return ((uint64_t)time.dwHighDateTime << 32 | time.dwLowDateTime) * 100; }

static int raw_cpu_ns(HANDLE thread, uint64_t *ns) {
    FILETIME made, ended, kernel, user;
    ULONG64 cycles;
    if (cycles_count) {
        if (!QueryThreadCycleTime(thread, &cycles)) return -1;
        *ns = (uint64_t)((double)cycles * ns_a_cycle);
        return 0;
    }
    if (!GetThreadTimes(thread, &made, &ended, &kernel, &user)) return -1;
    *ns = ns_of(kernel) + ns_of(user);
    return 0;
}

uint64_t spp_os_own_cpu_ns(void) {
    uint64_t ns = 0;
    return raw_cpu_ns(GetCurrentThread(), &ns) == 0 ? ns : 0;
}

uint64_t spp_os_process_cpu_ns(void) {
    FILETIME made, ended, kernel, user;
    if (!GetProcessTimes(GetCurrentProcess(), &made, &ended, &kernel, &user)) return 0;
    return ns_of(kernel) + ns_of(user);
}

bool spp_os_clock_is_exact(void) { return cycles_count; }

/* SuspendThread has the thread itself wait, in an asynchronous procedure call that the kernel queues to it: a sleeper wakes for
 * that, and its cycles count 5 to 20 us. GetThreadTimes does not see so little. */
#define STOP_NS 100000u
uint64_t spp_os_stop_ns(void) { return cycles_count ? STOP_NS : 0; }

/* A running thread's cycles may be added only when it leaves its processor: that is not documented.
 * So a thread that seems blocked is suspended while it is walked. */
bool spp_suspend_clock_proves(void) { return false; }

/* ---- the threads whose clocks are asked for: handles, which keep an id from being used again, and what was read last */

#define SLOTS 16384u /* twice as many as threads are known (core/capture/capture.h) */
typedef struct {
    int32_t tid; /* 0: free; -1: was used */
    HANDLE thread;
    uint64_t raw, seen_ns, asked_ns, alive_ns, shown;
    bool moved; /* seen to run */
} clock_of;
static clock_of *clocks;
static SRWLOCK lock = SRWLOCK_INIT; /* nobody has it for longer than one reading, and none of ours while it holds a thread */

static clock_of *find(int32_t tid) {
    clock_of *slot = NULL;
    uint32_t at = (uint32_t)tid * 2654435769u >> 18;
    for (uint32_t n = 0; n < SLOTS; n++, at = (at + 1) % SLOTS) {
        if (clocks[at].tid == tid) return &clocks[at];
        if (clocks[at].tid <= 0 && slot == NULL) slot = &clocks[at];
        if (clocks[at].tid == 0) break;
    }
    HANDLE thread = slot != NULL ? OpenThread(THREAD_QUERY_INFORMATION | SYNCHRONIZE, FALSE, (DWORD)tid) : NULL;
    if (thread == NULL) return NULL;
    /* Another process has a thread of this id by now; or it was forgotten at its end, and some other handle keeps it. */
    if (GetProcessIdOfThread(thread) != GetCurrentProcessId() || spp_windows_has_ended(thread)) {
        CloseHandle(thread);
        return NULL;
    }
    *slot = (clock_of){.tid = tid, .thread = thread};
    return slot;
}

/* A handle gives the time of an ended thread, too. */
static bool has_ended(clock_of *c, uint64_t now) {
    if (now - c->alive_ns < ENDED_NS) return false;
    c->alive_ns = now;
    return spp_windows_has_ended(c->thread);
}

/* -1: the thread has ended, and is forgotten. */
static int read_clock(clock_of *c, uint64_t now, uint64_t *ns) {
    uint64_t raw = c->raw;
    bool ask = cycles_count || now - c->asked_ns >= ASK_NS;
    if (ask && (raw_cpu_ns(c->thread, &raw) != 0 || (raw == c->raw && has_ended(c, now)))) {
        CloseHandle(c->thread);
        c->tid = -1;
        return -1;
    }
    if (cycles_count) {
        c->raw = *ns = raw;
        return 0;
    }
    if (raw != c->raw) c->moved = c->asked_ns != 0; /* CPU time before the first look does not show that it runs now */
    c->raw = raw;
    if (ask) c->asked_ns = now;
    /* With the wall clock while it is known to run, but no further than one step. */
    if (c->moved && now > c->seen_ns) c->shown += now - c->seen_ns;
    c->seen_ns = now;
    if (c->shown > raw + STEP_NS) {
        c->shown = raw + STEP_NS;
        c->moved = false;
    }
    if (c->shown < raw) c->shown = raw;
    *ns = c->shown;
    return 0;
}

int spp_os_thread_cpu_ns(int32_t tid, uint64_t *ns) {
    uint64_t now = spp_os_now_ns();
    int failed = -1;
    AcquireSRWLockExclusive(&lock);
    clock_of *c = clocks != NULL && tid > 0 ? find(tid) : NULL;
    if (c != NULL) failed = read_clock(c, now, ns);
    ReleaseSRWLockExclusive(&lock);
    return failed;
}

/* ---- sleeping */

/* The timer that keeps short times by this system: waitable ones of high resolution on Windows (0.5 ms), the kernel's own delay
 * under wine, whose timers go in milliseconds. Whichever wakes sooner after 0.2 ms. */
typedef LONG(NTAPI *delay_fn)(BOOLEAN alertable, const LARGE_INTEGER *time);
static delay_fn delay;
static bool by_delay;
static DWORD timer_slot = TLS_OUT_OF_INDEXES; /* of our own threads: each one's timer */

static void sleep_by_timer(HANDLE timer, uint64_t ns) {
    LARGE_INTEGER due = {.QuadPart = -(LONGLONG)(ns / 100)};
    if (timer == NULL || !SetWaitableTimer(timer, &due, 0, NULL, NULL, FALSE) ||
        WaitForSingleObject(timer, INFINITE) != WAIT_OBJECT_0) {
        Sleep((DWORD)(ns / 1000000 + 1));
    }
}

static void sleep_by_delay(uint64_t ns) {
    LARGE_INTEGER due = {.QuadPart = -(LONGLONG)(ns / 100)};
    (void)delay(FALSE, &due);
}

#ifndef CREATE_WAITABLE_TIMER_HIGH_RESOLUTION
#define CREATE_WAITABLE_TIMER_HIGH_RESOLUTION 2
#endif

HANDLE spp_windows_timer(void) {
    HANDLE timer = CreateWaitableTimerExW(NULL, NULL, CREATE_WAITABLE_TIMER_HIGH_RESOLUTION, TIMER_ALL_ACCESS);
    return timer != NULL ? timer : CreateWaitableTimerExW(NULL, NULL, 0, TIMER_ALL_ACCESS); /* before Windows 10 1803 */
}

static HANDLE own_timer(void) { return timer_slot != TLS_OUT_OF_INDEXES ? TlsGetValue(timer_slot) : NULL; }

static void choose_sleep(void) {
    HANDLE timer = spp_windows_timer();
    uint64_t times[4];
    delay = SPP_WINDOWS_FIND(delay_fn, L"ntdll.dll", "NtDelayExecution");
    for (int i = 0; i < 4 && delay != NULL; i++) {
        uint64_t began = spp_os_now_ns();
        if (i & 1)
            sleep_by_delay(200000);
        else
            sleep_by_timer(timer, 200000);
        times[i] = spp_os_now_ns() - began;
    }
    by_delay = delay != NULL && times[1] + times[3] < times[0] + times[2];
    if (timer != NULL) CloseHandle(timer);
}

typedef BOOL(WINAPI *machines_fn)(HANDLE process, USHORT *of_process, USHORT *native);

/* Programs for x86_64 run on arm64 too, where a thread's cycles are the core's own, and the time stamp counter another clock. */
static bool cycles_are_time(void) {
    machines_fn machines = SPP_WINDOWS_FIND(machines_fn, L"kernel32.dll", "IsWow64Process2"); /* since Windows 10 1511 */
    USHORT of_process, native = MACHINE;
    if (machines != NULL && !machines(GetCurrentProcess(), &of_process, &native)) native = MACHINE;
    return CYCLES_ARE_TIME && native == MACHINE;
}

void spp_windows_clock_start(void) {
    ULONG64 cycles = 0;
    clocks = VirtualAlloc(NULL, SLOTS * sizeof *clocks, MEM_RESERVE | MEM_COMMIT, PAGE_READWRITE);
    timer_slot = TlsAlloc();
    choose_sleep();
    if (clocks == NULL || !cycles_are_time() || !QueryThreadCycleTime(GetCurrentThread(), &cycles) || cycles == 0) return;
    /* 20 ms give the rate to 1 in 100,000: the counter goes in steps of 100 ns. */
    uint64_t began = spp_os_now_ns(), first = spp_arch_cycles();
    Sleep(20);
    uint64_t took = spp_os_now_ns() - began, counted = spp_arch_cycles() - first;
    ns_a_cycle = (double)took / (double)counted;
    cycles_count = true;
}

void spp_windows_timer_of_thread(HANDLE timer) { TlsSetValue(timer_slot, timer); }

/* The program's threads, which have no timer, wait here for a lock, and may have the GIL: Sleep(1) takes up to a tick of the
 * system's clock (15.6 ms). So shorter waits only let others run. */
static void sleep_without_timer(uint64_t ns) {
    if (ns < 1000000)
        (void)SwitchToThread();
    else
        Sleep((DWORD)(ns / 1000000 + 1));
}

void spp_os_sleep_until(uint64_t ns) {
    for (;;) {
        uint64_t now = spp_os_now_ns();
        HANDLE timer = own_timer();
        if (now + 100 > ns) return;
        if (by_delay)
            sleep_by_delay(ns - now);
        else if (timer != NULL)
            sleep_by_timer(timer, ns - now);
        else
            sleep_without_timer(ns - now);
    }
}
