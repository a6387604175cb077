/* What csrc/os/windows does, where a program in Python cannot bring it about. */
#include "os/windows/windows.h"

#include "check.h"
#include "os/clock.h"
#include "os/context.h"
#include "os/memory.h"
#include "os/slots.h"
#include "os/worker.h"

static DWORD slots[2]; /* one of the first 64, and one of those behind them */

static DWORD WINAPI thread_main(void *arg) {
    HANDLE *events = arg;
    for (int i = 0; i < 2; i++) TlsSetValue(slots[i], &slots[i]);
    SetEvent(events[0]);
    WaitForSingleObject(events[1], INFINITE);
    return 0;
}

static void take_slots(void) {
    slots[0] = slots[1] = TlsAlloc();
    while (slots[1] != TLS_OUT_OF_INDEXES && slots[1] < 64) slots[1] = TlsAlloc();
}

typedef struct {
    LONG exit_status;
    void *teb;
    uintptr_t more[4];
} basic_information;
typedef LONG(NTAPI *query_fn)(HANDLE thread, int what, void *to, ULONG size, ULONG *got);

static void of_another_thread(void) {
    HANDLE events[2] = {CreateEventW(NULL, FALSE, FALSE, NULL), CreateEventW(NULL, FALSE, FALSE, NULL)};
    HANDLE thread = CreateThread(NULL, 0, thread_main, events, 0, NULL);
    basic_information is = {0};
    query_fn query = SPP_WINDOWS_FIND(query_fn, L"ntdll.dll", "NtQueryInformationThread");
    WaitForSingleObject(events[0], INFINITE);
    CHECK(query(thread, 0, &is, sizeof is, NULL) >= 0);
    spp_os_subject subject = {.slots = (uintptr_t)is.teb};
    for (int i = 0; i < 2; i++) {
        CHECK(spp_os_slot_of(&subject, slots[i]) == (uintptr_t)&slots[i]);
        CHECK(spp_os_slot(slots[i]) == 0);
    }
    SetEvent(events[1]);
    WaitForSingleObject(thread, INFINITE);
    CloseHandle(thread);
}

/* Of a thread that is not suspended, and has just ended: its block is gone. */
static void of_an_ended_thread(void) {
    void *hole = VirtualAlloc(NULL, 8192, MEM_RESERVE, PAGE_NOACCESS);
    spp_os_subject subject = {.slots = (uintptr_t)hole};
    CHECK(hole != NULL);
    CHECK(spp_os_slot_of(&subject, slots[0]) == 0);
    CHECK(spp_os_slot_of(&subject, slots[1]) == 0);
}

/* As the program's threads wait for a lock. Under wine this holds anyway: by the kernel's own delay. */
static void sleep_on(void *unused) {
    (void)unused;
    Sleep(INFINITE);
}

/* As the system does when a process leaves. */
static void of_a_worker_that_was_ended(void) {
    spp_os_worker *worker = spp_os_worker_start("ended", false, sleep_on, NULL);
    HANDLE thread = OpenThread(THREAD_TERMINATE, FALSE, (DWORD)spp_os_worker_tid(worker));
    CHECK(!spp_os_worker_was_ended(worker));
    CHECK(TerminateThread(thread, 0));
    CloseHandle(thread);
    while (!spp_os_worker_was_ended(worker)) Sleep(1);
    spp_os_worker_join(worker);
}

static void short_sleeps_without_a_timer(void) {
    uint64_t shortest = UINT64_MAX;
    for (int i = 0; i < 100; i++) {
        uint64_t began = spp_os_now_ns();
        spp_os_sleep_until(began + 20000);
        uint64_t took = spp_os_now_ns() - began;
        if (took < shortest) shortest = took;
    }
    CHECK(shortest >= 19900 && shortest < 500000);
}

int main(void) {
    CHECK_EQUAL(spp_os_memory_init(), 0);
    take_slots();
    CHECK(slots[0] < 64 && slots[1] >= 64 && slots[1] < spp_os_slots());
    of_another_thread();
    of_an_ended_thread();
    of_a_worker_that_was_ended();
    short_sleeps_without_a_timer();
    return check_done();
}
