/* Finding threads, their slots and names, and running our own. */
#include "base/heap.h"
#include "os/windows/windows.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <tlhelp32.h>

#include "os/context.h"
#include "os/files.h"
#include "os/suspend/suspend.h"
#include "os/threads.h"
#include "os/worker.h"

int32_t spp_os_tid(void) { return (int32_t)GetCurrentThreadId(); }

/* In Python a thread's ident is its id here. */
int32_t spp_os_tid_of_pthread(uintptr_t pthread) { return (int32_t)pthread; }

/* ---- coming and going: the loader calls this in each thread that begins and ends, as it does the initialisers of a thread's
 * variables. It holds its own lock, so nothing but counting is done. */

static _Atomic uint64_t changes = 1;

static void NTAPI notice(void *module, DWORD reason, void *unused) {
    (void)module, (void)unused;
    if (reason == DLL_THREAD_ATTACH || reason == DLL_THREAD_DETACH) atomic_fetch_add_explicit(&changes, 1, memory_order_relaxed);
}

/* The C library's start-up makes a list of what lies in these sections, by their names' order. */
__attribute__((section(".CRT$XLF"), used)) static const PIMAGE_TLS_CALLBACK noticed = notice;

bool spp_os_is_first_thread(void) { return true; }

int spp_os_thread_ready(int32_t tid, uint64_t *ns, uint64_t *times) {
    (void)tid, (void)ns, (void)times;
    return -1;
}

uint64_t spp_os_children_cpu_ns(void) { return 0; }

uint64_t spp_os_thread_count(void) { return atomic_load_explicit(&changes, memory_order_relaxed); }

typedef LONG(NTAPI *next_fn)(HANDLE process, HANDLE thread, ACCESS_MASK access, ULONG attributes, ULONG flags, HANDLE *next);

/* Since Windows Vista; toolhelp's list is of all processes, and takes milliseconds. */
static int by_next(next_fn next, void (*see)(void *arg, int32_t tid), void *arg) {
    HANDLE thread = NULL, following;
    int n = 0;
    while (next(GetCurrentProcess(), thread, THREAD_QUERY_LIMITED_INFORMATION | SYNCHRONIZE, 0, 0, &following) >= 0) {
        if (thread != NULL) CloseHandle(thread);
        thread = following;
        int32_t tid = (int32_t)GetThreadId(thread);
        n++;
        if (!spp_suspend_is_sampler(tid) && !spp_windows_has_ended(thread)) see(arg, tid);
    }
    if (thread != NULL) CloseHandle(thread);
    return n > 0 ? 0 : -1;
}

static bool has_ended(int32_t tid) {
    HANDLE thread = OpenThread(SYNCHRONIZE, FALSE, (DWORD)tid);
    bool ended = thread != NULL && spp_windows_has_ended(thread);
    if (thread != NULL) CloseHandle(thread);
    return ended;
}

int spp_os_threads(void (*see)(void *arg, int32_t tid), void *arg) {
    next_fn next = SPP_WINDOWS_FIND(next_fn, L"ntdll.dll", "NtGetNextThread");
    if (next != NULL && by_next(next, see, arg) == 0) return 0;
    HANDLE list = CreateToolhelp32Snapshot(TH32CS_SNAPTHREAD, 0);
    THREADENTRY32 entry = {.dwSize = sizeof entry};
    if (list == INVALID_HANDLE_VALUE) return -1;
    for (BOOL more = Thread32First(list, &entry); more; more = Thread32Next(list, &entry)) {
        int32_t tid = (int32_t)entry.th32ThreadID;
        if (entry.th32OwnerProcessID != GetCurrentProcessId() || spp_suspend_is_sampler(tid)) continue;
        if (!has_ended(tid)) see(arg, tid);
    }
    CloseHandle(list);
    return 0;
}

bool spp_os_own_files(int but) {
    (void)but;
    return false; /* descriptors are the process's */
}

void *spp_os_file_hold(int fd) {
    (void)fd;
    return NULL; /* a writer has a handle */
}

void spp_os_file_release(void *hold) { (void)hold; }

int spp_os_thread_where(int32_t tid, uintptr_t *pc, uintptr_t *sp) {
    (void)tid, (void)pc, (void)sp;
    return -1; /* it is held instead */
}

typedef HRESULT(WINAPI *description_fn)(HANDLE thread, PWSTR *text);

int spp_os_thread_name(int32_t tid, char *to, size_t size) {
    description_fn get = SPP_WINDOWS_FIND(description_fn, L"kernel32.dll", "GetThreadDescription"); /* since Windows 10 1607 */
    HANDLE thread = get != NULL ? OpenThread(THREAD_QUERY_LIMITED_INFORMATION, FALSE, (DWORD)tid) : NULL;
    PWSTR text = NULL;
    if (thread == NULL) return -1;
    int failed = FAILED(get(thread, &text)) || text == NULL || text[0] == 0;
    if (!failed) spp_windows_utf8(text, to, size);
    if (text != NULL) LocalFree(text);
    CloseHandle(thread);
    return failed ? -1 : 0;
}

/* ---- our own threads */

struct spp_os_worker {
    HANDLE thread;
    const char *name;
    bool prompt;
    void (*body)(void *);
    void *arg;
    int32_t tid;
};

typedef HRESULT(WINAPI *describe_fn)(HANDLE thread, PCWSTR text);

static DWORD WINAPI worker_main(void *arg) {
    spp_os_worker *worker = arg;
    describe_fn describe = SPP_WINDOWS_FIND(describe_fn, L"kernel32.dll", "SetThreadDescription");
    wchar_t name[64];
    HANDLE timer = spp_windows_timer();
    if (describe != NULL && MultiByteToWideChar(CP_UTF8, 0, worker->name, -1, name, 64) > 0)
        (void)describe(GetCurrentThread(), name);
    if (worker->prompt) SetThreadPriority(GetCurrentThread(), THREAD_PRIORITY_TIME_CRITICAL);
    spp_windows_timer_of_thread(timer);
    worker->body(worker->arg);
    spp_windows_timer_of_thread(NULL);
    if (timer != NULL) CloseHandle(timer);
    return 0;
}

spp_os_worker *spp_os_worker_start(const char *name, bool prompt, void (*body)(void *), void *arg) {
    spp_os_worker *worker = spp_alloc_zeroed(1, sizeof *worker);
    DWORD tid;
    if (worker == NULL) return NULL;
    *worker = (spp_os_worker){NULL, name, prompt, body, arg, 0};
    worker->thread = CreateThread(NULL, 0, worker_main, worker, CREATE_SUSPENDED, &tid);
    if (worker->thread == NULL) {
        spp_free(worker);
        return NULL;
    }
    worker->tid = (int32_t)tid;
    ResumeThread(worker->thread);
    return worker;
}

int32_t spp_os_worker_tid(const spp_os_worker *worker) { return worker->tid; }
bool spp_os_worker_was_ended(const spp_os_worker *worker) { return spp_windows_has_ended(worker->thread); }

void spp_os_worker_join(spp_os_worker *worker) {
    WaitForSingleObject(worker->thread, INFINITE);
    CloseHandle(worker->thread);
    spp_free(worker);
}

/* Its few bytes stay: it may not have read them yet. */
void spp_os_worker_leave(spp_os_worker *worker) { CloseHandle(worker->thread); }

spp_os_stack spp_os_stack_limits(void) {
    ULONG_PTR low, end;
    GetCurrentThreadStackLimits(&low, &end);
    return (spp_os_stack){low, end};
}
