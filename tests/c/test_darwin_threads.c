/* What os/darwin knows of threads, against a Mach kernel that is made up (fake_kernel.h): what it lists, what each call's failure
 * comes to, and that every right and every array is given back. */
#include <sched.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "check.h"
#include "fake_kernel.h"
#include "os/clock.h"
#include "os/context.h"
#include "os/darwin/darwin.h"
#include "os/slots.h"
#include "os/suspend/suspend.h"
#include "os/threads.h"
#include "os/ticks.h"

/* ---- listing */

static int32_t seen[FAKE_THREADS_MAX];
static int seen_n;

static void see(void *arg, int32_t tid) {
    (void)arg;
    seen[seen_n++] = tid;
}

static int scan(void) {
    seen_n = 0;
    return spp_os_threads(see, NULL);
}

static int32_t tid_of(const fake_thread *t) { return (int32_t)(t->id & INT32_MAX); }

static bool saw(const fake_thread *t) {
    for (int i = 0; i < seen_n; i++) {
        if (seen[i] == tid_of(t)) return true;
    }
    return false;
}

/* Of the calling thread, which is always there. */
static const fake_thread *self(void) { return &fake_threads[0]; }

/* Each thread that was listed has one right held for it, and no other has any. */
static void check_rights(void) {
    CHECK_EQUAL(fake_arrays(), 0);
    CHECK_EQUAL(fake_rights(), seen_n);
    CHECK_EQUAL(fake_suspended(), 0);
    CHECK_EQUAL(fake_misuses(), 0);
}

/* Forgets all of a test: after this every right is back. */
static void end_test(void) {
    fake_reset();
    CHECK_EQUAL(scan(), 0);
    CHECK_EQUAL(seen_n, 1);
    CHECK_EQUAL(fake_rights(), 1);
    CHECK_EQUAL(fake_misuses(), 0);
}

static void lists(void) {
    fake_reset();
    const fake_thread *own = self();
    fake_thread *a = fake_start(5), *b = fake_start(7);
    uint64_t before = spp_os_thread_count();
    CHECK_EQUAL(scan(), 0);
    CHECK_EQUAL(seen_n, 3);
    CHECK(saw(own) && saw(a) && saw(b));
    CHECK_EQUAL(spp_os_tid(), tid_of(own));
    check_rights();
    /* A second look keeps one right for each. */
    CHECK_EQUAL(scan(), 0);
    CHECK_EQUAL(seen_n, 3);
    check_rights();
    CHECK(spp_os_thread_count() == before);
    /* Notices: one begins, one ends. */
    fake_thread *c = fake_start(1);
    uint64_t born = spp_os_thread_count();
    CHECK(born != before);
    fake_die(a);
    CHECK(spp_os_thread_count() != born);
    CHECK_EQUAL(scan(), 0);
    CHECK_EQUAL(seen_n, 3);
    CHECK(!saw(a) && saw(b) && saw(c));
    check_rights();
    CHECK_EQUAL(a->rights, 0);
    end_test();
}

/* Forty threads, of which every other one dies; then the rest. */
static void many(void) {
    fake_thread *of[40];
    fake_reset();
    for (int i = 0; i < 40; i++) of[i] = fake_start((uint64_t)i);
    CHECK_EQUAL(scan(), 0);
    CHECK_EQUAL(seen_n, 41);
    for (int i = 0; i < 40; i += 2) fake_die(of[i]);
    CHECK_EQUAL(scan(), 0);
    CHECK_EQUAL(seen_n, 21);
    for (int i = 0; i < 40; i++) {
        uint64_t ns = 0;
        CHECK_EQUAL(saw(of[i]), i % 2);
        CHECK_EQUAL(spp_os_thread_cpu_ns(tid_of(of[i]), &ns), i % 2 ? 0 : -1);
        CHECK_EQUAL(ns, i % 2 ? i * 1000 : 0);
        CHECK_EQUAL(spp_os_tid_of_pthread((uintptr_t)of[i]), i % 2 ? tid_of(of[i]) : -1);
    }
    CHECK_EQUAL(spp_os_tid_of_pthread(0), -1);
    check_rights();
    end_test();
}

/* A thread that is listed while it is made has no slots yet: it is asked again. */
static void is_being_made(void) {
    fake_reset();
    fake_thread *t = fake_start(1);
    t->slots[0] = 0;
    CHECK_EQUAL(scan(), 0);
    CHECK(saw(t));
    CHECK_EQUAL(spp_os_tid_of_pthread((uintptr_t)t), -1);
    t->slots[0] = (uintptr_t)t;
    CHECK_EQUAL(scan(), 0);
    CHECK_EQUAL(spp_os_tid_of_pthread((uintptr_t)t), tid_of(t));
    check_rights();
    end_test();
}

/* A thread that ends between the kernel's list and the first question about it is passed over. */
static fake_thread *victim;
static fake_call when;
static int due; /* the how manieth such call about it */

static void die_before(fake_call call, fake_thread *t) {
    if (call == when && t == victim && --due == 0) fake_die(victim);
}

static void die_listed(fake_call call, fake_thread *t) {
    (void)t;
    if (call == FAKE_task_threads) fake_die(victim);
}

static void dies_while_listed(void) {
    fake_reset();
    victim = fake_start(3);
    fake_thread *other = fake_start(4);
    fake_after = die_listed;
    CHECK_EQUAL(scan(), 0);
    CHECK_EQUAL(seen_n, 2);
    CHECK(!saw(victim) && saw(other));
    check_rights();
    CHECK_EQUAL(victim->rights, 0);
    end_test();
}

/* ---- what is asked of one */

static void asks(void) {
    char name[64] = "x";
    uint64_t ns;
    fake_reset();
    fake_thread *t = fake_start(1500001);
    CHECK_EQUAL(spp_os_thread_name(tid_of(t), name, sizeof name), -1); /* not listed yet */
    CHECK_EQUAL(spp_os_thread_cpu_ns(tid_of(t), &ns), 0);              /* it is now */
    CHECK_EQUAL(fake_count(FAKE_task_threads), 1);
    CHECK_EQUAL(spp_os_thread_cpu_ns(tid_of(t) + 1, &ns), -1); /* nothing has changed since */
    CHECK_EQUAL(fake_count(FAKE_task_threads), 1);
    CHECK_EQUAL(scan(), 0);
    CHECK_EQUAL(spp_os_thread_cpu_ns(tid_of(t), &ns), 0);
    CHECK_EQUAL(ns, 1500001000);
    CHECK_EQUAL(spp_os_thread_name(tid_of(t), name, sizeof name), 0);
    CHECK_EQUAL(strcmp(name, t->name), 0);
    CHECK_EQUAL(spp_os_thread_name(tid_of(t), name, 7), 0);
    CHECK_EQUAL(strcmp(name, "thread"), 0);
    memset(t->name, 'n', sizeof t->name); /* without an end */
    CHECK_EQUAL(spp_os_thread_name(tid_of(t), name, sizeof name), 0);
    CHECK_EQUAL(strlen(name), sizeof name - 1);
    t->name[0] = 0;
    CHECK_EQUAL(spp_os_thread_name(tid_of(t), name, sizeof name), -1);
    uintptr_t pc, sp;
    CHECK_EQUAL(spp_os_thread_where(tid_of(t), &pc, &sp), -1);
    CHECK(!spp_os_thread_blocks(tid_of(t), &spp_clock_suspend));
    fake_die(t);
    CHECK_EQUAL(spp_os_thread_cpu_ns(tid_of(t), &ns), -1); /* still in the table */
    CHECK_EQUAL(spp_os_thread_name(tid_of(t), name, sizeof name), -1);
    end_test();
}

/* A thread that runs and does not enter the kernel: its clock shows the same, and goes on all the same. */
static void a_running_clock_moves(void) {
    uint64_t ns = 0, begin = 1000000000;
    fake_reset();
    fake_script_time(begin);
    fake_thread *t = fake_start(100);
    CHECK_EQUAL(scan(), 0);
    CHECK_EQUAL(spp_os_thread_cpu_ns(tid_of(t), &ns), 0);
    CHECK_EQUAL(ns, 100000);
    /* It waits: the clock does not move. */
    fake_script_time(begin + 700000);
    CHECK_EQUAL(spp_os_thread_cpu_ns(tid_of(t), &ns), 0);
    CHECK_EQUAL(ns, 100000);
    /* It runs, and is not known to have: it is taken to have run since the last look. */
    t->run_state = TH_STATE_RUNNING;
    fake_script_time(begin + 900000);
    CHECK_EQUAL(spp_os_thread_cpu_ns(tid_of(t), &ns), 0);
    CHECK_EQUAL(ns, 300000);
    /* The kernel knows better: less, so the clock waits for it. But it always moves while the thread runs. */
    t->cpu_us = 250;
    fake_script_time(begin + 1000000);
    CHECK_EQUAL(spp_os_thread_cpu_ns(tid_of(t), &ns), 0);
    CHECK_EQUAL(ns, 300001);
    t->run_state = TH_STATE_WAITING;
    t->cpu_us = 280;
    CHECK_EQUAL(spp_os_thread_cpu_ns(tid_of(t), &ns), 0);
    CHECK_EQUAL(ns, 300001);
    t->cpu_us = 400;
    CHECK_EQUAL(spp_os_thread_cpu_ns(tid_of(t), &ns), 0);
    CHECK_EQUAL(ns, 400000);
    /* A list of runnable threads may be long: one that only waits for a processor gets 10 ms ahead of the kernel, no more. */
    t->run_state = TH_STATE_RUNNING;
    fake_script_time(begin + 900000000);
    CHECK_EQUAL(spp_os_thread_cpu_ns(tid_of(t), &ns), 0);
    CHECK_EQUAL(ns, 400000 + 10000000);
    end_test();
}

/* ---- suspending */

static spp_suspend_registers space;
static spp_os_subject subject;
static spp_os_context context;

static spp_suspend_result stop(const fake_thread *t, spp_suspend_handle handle) {
    subject = (spp_os_subject){.tid = tid_of(t)};
    context = (spp_os_context){.subject = &subject};
    return spp_suspend_stop(handle, &space, &context, &subject);
}

static uint8_t code[64] = {0x90, 0x90};

static void set_pc(fake_thread *t, const void *pc, uintptr_t sp) {
#ifdef __x86_64__
    t->registers.__rip = (uintptr_t)pc;
    t->registers.__rsp = sp;
    t->registers.__rbp = 0x1006;
    t->registers.__r15 = 0x100f;
#else
    t->registers.__pc = (uintptr_t)pc;
    t->registers.__sp = sp;
    t->registers.__fp = 0x1006;
    t->registers.__lr = 0x1007;
    t->registers.__x[3] = 0x100f;
#endif
}

static void suspends(void) {
#ifdef __x86_64__
    static const uint8_t call[] = {0x0f, 0x05};
    enum { FP = 6, SP = 7, LAST = 15 };
#else
    static const uint8_t call[] = {0x01, 0x10, 0x00, 0xd4};
    enum { FP = 29, SP = 31, LAST = 3 };
#endif
    uintptr_t registers[SPP_OS_REGISTERS] = {0};
    spp_suspend_handle handle;
    fake_reset();
    fake_thread *t = fake_start(123);
    set_pc(t, code + 32, 0x7000);
    t->slots[300] = 0xabcdef;
    CHECK_EQUAL(spp_suspend_open(tid_of(t) + 1, &handle), SPP_SUSPEND_GONE);
    CHECK_EQUAL(scan(), 0);
    CHECK_EQUAL(spp_suspend_open(tid_of(t), &handle), SPP_SUSPEND_DONE);
    CHECK_EQUAL(t->rights, 2);
    uint64_t ns = 0;
    CHECK_EQUAL(spp_suspend_cpu_ns(handle, tid_of(t), &ns), SPP_SUSPEND_DONE);
    CHECK_EQUAL(ns, 123000);
    t->cpu_us = 130; /* before it was suspended */
    CHECK_EQUAL(stop(t, handle), SPP_SUSPEND_DONE);
    CHECK_EQUAL(fake_suspended(), 1);
    CHECK_EQUAL(context.pc, (uintptr_t)(code + 32));
    CHECK_EQUAL(context.sp, 0x7000);
    CHECK(!context.at_syscall);
    CHECK_EQUAL(subject.cpu_ns, 130000);
    spp_os_registers(&context, registers);
    CHECK_EQUAL(registers[FP], 0x1006);
    CHECK_EQUAL(registers[SP], 0x7000);
    CHECK_EQUAL(registers[LAST], 0x100f);
    CHECK_EQUAL(spp_os_slot_of(&subject, 300), 0xabcdef);
    CHECK_EQUAL(spp_os_slot_of(&subject, spp_os_words()), 0);
    spp_suspend_go(handle);
    CHECK_EQUAL(fake_suspended(), 0);
    /* As it goes on. */
    subject = (spp_os_subject){.tid = tid_of(t)};
    context = (spp_os_context){.subject = &subject};
    CHECK_EQUAL(spp_suspend_describe(handle, &context, &subject), SPP_SUSPEND_DONE);
    CHECK_EQUAL(context.sp, 0x7000);
    CHECK_EQUAL(spp_os_slot_of(&subject, 300), 0xabcdef);
    CHECK_EQUAL(fake_suspended(), 0);
    subject.tid++;
    CHECK_EQUAL(spp_suspend_describe(handle, &context, &subject), SPP_SUSPEND_GONE);
    fake_fail(FAKE_thread_get_state, 1, KERN_RESOURCE_SHORTAGE);
    subject.tid--;
    CHECK_EQUAL(spp_suspend_describe(handle, &context, &subject), SPP_SUSPEND_REFUSED);
    fake_fail_no_more();
    /* In a call. */
    memcpy(code + 32 - sizeof call, call, sizeof call);
    CHECK_EQUAL(stop(t, handle), SPP_SUSPEND_DONE);
    CHECK(context.at_syscall);
    spp_suspend_go(handle);
    memset(code, 0, sizeof code);
    /* Its code cannot be read. */
    set_pc(t, (void *)8, 0x7000);
    CHECK_EQUAL(stop(t, handle), SPP_SUSPEND_DONE);
    CHECK(!context.at_syscall);
    spp_suspend_go(handle);
    CHECK(spp_os_clock_is_exact() && !spp_suspend_clock_proves());
    CHECK(spp_os_suspends && spp_os_clocks_automatic[0] == &spp_clock_suspend);
    CHECK(spp_os_clock_last == &spp_clock_suspend);
    spp_suspend_close(handle);
    CHECK_EQUAL(t->rights, 1);
    check_rights();
    end_test();
}

/* It dies before and after each call of opening, stopping and going, the first such call and the second. */
static void dies_at_each_step(void) {
    static const fake_call calls[] = {FAKE_mach_port_mod_refs, FAKE_thread_info,   FAKE_thread_suspend,
                                      FAKE_thread_get_state,   FAKE_thread_resume, FAKE_mach_port_deallocate};
    int gone = 0, done = 0;
    for (size_t c = 0; c < sizeof calls / sizeof *calls; c++) {
        for (int behind = 0; behind < 2; behind++) {
            for (int nth = 1; nth <= 2; nth++) {
                spp_suspend_handle handle = 0;
                fake_reset();
                victim = fake_start(9);
                set_pc(victim, code + 32, 0x7000);
                CHECK_EQUAL(scan(), 0);
                when = calls[c];
                due = nth;
                fake_before = behind ? NULL : die_before;
                fake_after = behind ? die_before : NULL;
                uint64_t ns;
                bool opened = spp_suspend_open(tid_of(victim), &handle) == SPP_SUSPEND_DONE;
                gone += !opened;
                for (int round = 0; opened && round < 2; round++) {
                    spp_suspend_result result = spp_suspend_cpu_ns(handle, tid_of(victim), &ns);
                    CHECK(result != SPP_SUSPEND_DONE || ns == 9000);
                    result = stop(victim, handle);
                    CHECK(result != SPP_SUSPEND_REFUSED);
                    if (result == SPP_SUSPEND_DONE) spp_suspend_go(handle);
                    done += result == SPP_SUSPEND_DONE;
                    gone += result == SPP_SUSPEND_GONE;
                    CHECK_EQUAL(fake_suspended(), 0);
                }
                if (opened) spp_suspend_close(handle);
                fake_before = fake_after = NULL;
                CHECK_EQUAL(scan(), 0);
                check_rights();
                end_test();
            }
        }
    }
    CHECK(gone >= 20 && done >= 20); /* both happened */
}

/* Every call fails with every code, the first time and always: nothing leaks, nobody stays suspended once the kernel has come to
 * itself, and a thread that is not gone is refused. */
static void fails_at_each_step(void) {
    static const kern_return_t codes[] = {KERN_INVALID_ARGUMENT,   KERN_FAILURE,    KERN_RESOURCE_SHORTAGE, KERN_ABORTED,
                                          KERN_INVALID_NAME,       KERN_TERMINATED, MACH_SEND_INVALID_DEST, -300,
                                          KERN_OPERATION_TIMED_OUT};
    static const fake_call calls[] = {FAKE_task_threads,     FAKE_thread_info,   FAKE_mach_port_mod_refs,    FAKE_thread_suspend,
                                      FAKE_thread_get_state, FAKE_thread_resume, FAKE_mach_vm_read_overwrite};
    for (size_t c = 0; c < sizeof calls / sizeof *calls; c++) {
        for (size_t k = 0; k < sizeof codes / sizeof *codes; k++) {
            for (int nth = 0; nth <= 2; nth++) {
                spp_suspend_handle handle = 0;
                fake_reset();
                fake_thread *t = fake_start(9);
                set_pc(t, code + 32, 0x7000);
                /* A kernel that says so while the thread lives would lie; tests above have it dead. */
                if (calls[c] == FAKE_thread_resume && (codes[k] == KERN_FAILURE || k == 0 || k == 5 || k == 6)) continue;
                bool dead =
                    codes[k] == KERN_INVALID_ARGUMENT || codes[k] == KERN_TERMINATED || codes[k] == MACH_SEND_INVALID_DEST;
                fake_fail(calls[c], nth, codes[k]);
                if (scan() != 0) CHECK_EQUAL(calls[c], FAKE_task_threads);
                if (!saw(t)) CHECK(calls[c] == FAKE_task_threads || calls[c] == FAKE_thread_info);
                spp_suspend_result opened = spp_suspend_open(tid_of(t), &handle);
                if (saw(t) && opened != SPP_SUSPEND_DONE) {
                    CHECK_EQUAL(calls[c], FAKE_mach_port_mod_refs);
                    CHECK_EQUAL(opened, dead ? SPP_SUSPEND_GONE : SPP_SUSPEND_REFUSED);
                }
                for (int round = 0; opened == SPP_SUSPEND_DONE && round < 3; round++) {
                    spp_suspend_result result = stop(t, handle);
                    if (result == SPP_SUSPEND_DONE) {
                        spp_suspend_go(handle);
                    } else if (calls[c] == FAKE_thread_suspend || calls[c] == FAKE_thread_get_state) {
                        CHECK_EQUAL(result, dead ? SPP_SUSPEND_GONE : SPP_SUSPEND_REFUSED);
                    } else {
                        CHECK_EQUAL(calls[c], FAKE_thread_resume); /* a thread that could not be resumed is waited for */
                        CHECK_EQUAL(result, SPP_SUSPEND_REFUSED);
                    }
                }
                /* The kernel is itself again: the next tick comes, and everything goes on. */
                fake_fail_no_more();
                if (opened == SPP_SUSPEND_DONE) {
                    CHECK_EQUAL(stop(t, handle), SPP_SUSPEND_DONE);
                    spp_suspend_go(handle);
                    CHECK_EQUAL(fake_suspended(), 0);
                    spp_suspend_close(handle);
                }
                CHECK_EQUAL(scan(), 0);
                check_rights();
                end_test();
            }
        }
    }
}

/* Another of the program's threads resumes it: a debugger in the process, say. It goes on, and so do we. */
static void resume_it(fake_call call, fake_thread *t) {
    if (call == FAKE_thread_resume && t == victim) victim->suspended = 0;
}

static void others_resume(void) {
    spp_suspend_handle handle;
    fake_reset();
    victim = fake_start(1);
    CHECK_EQUAL(scan(), 0);
    CHECK_EQUAL(spp_suspend_open(tid_of(victim), &handle), SPP_SUSPEND_DONE);
    fake_before = resume_it;
    CHECK_EQUAL(stop(victim, handle), SPP_SUSPEND_DONE);
    spp_suspend_go(handle);
    CHECK_EQUAL(fake_count(FAKE_thread_resume), 1);
    CHECK_EQUAL(stop(victim, handle), SPP_SUSPEND_DONE);
    spp_suspend_go(handle);
    spp_suspend_close(handle);
    check_rights();
    end_test();
}

/* A kernel without memory for any message: nobody stays suspended once it has some, with a right of its own or without. */
static void is_resumed_later(void) {
    for (int both = 0; both < 2; both++) {
        spp_suspend_handle handle;
        fake_reset();
        victim = fake_start(1);
        CHECK_EQUAL(scan(), 0);
        CHECK_EQUAL(spp_suspend_open(tid_of(victim), &handle), SPP_SUSPEND_DONE);
        CHECK_EQUAL(stop(victim, handle), SPP_SUSPEND_DONE);
        fake_fail(FAKE_thread_resume, 0, KERN_RESOURCE_SHORTAGE);
        if (both) fake_fail(FAKE_mach_port_mod_refs, 0, KERN_RESOURCE_SHORTAGE);
        spp_suspend_go(handle);
        CHECK_EQUAL(fake_suspended(), 1);
        CHECK_EQUAL(stop(victim, handle), SPP_SUSPEND_REFUSED);
        fake_fail_no_more();
        CHECK_EQUAL(stop(victim, handle), SPP_SUSPEND_DONE);
        spp_suspend_go(handle);
        CHECK_EQUAL(fake_suspended(), 0);
        spp_suspend_close(handle);
        check_rights();
        end_test();
    }
}

/* The slots are believed only where the kernel says the truth of our own. */
static void slots(void) {
    uintptr_t value = 77;
    spp_os_subject subject_of = {.slots = (uintptr_t)&value - 8 * 300};
    CHECK_EQUAL(spp_os_slot_of(&subject_of, 300), 77); /* proved by the tests before */
    subject_of.slots = 0;
    CHECK_EQUAL(spp_os_slot_of(&subject_of, 300), 0);
    subject_of.slots = 4096; /* nothing is there */
    CHECK_EQUAL(spp_os_slot_of(&subject_of, 300), 0);
    CHECK_EQUAL(spp_os_slots(), 768);
    /* A word of a thread-local variable: word 3 of the block that slot 260 holds. */
    static uintptr_t block[64] = {[3] = 99};
    static uintptr_t own[768];
    own[260] = (uintptr_t)block;
    uint32_t number = 768 + (260 - 256) * 64 + 3;
    subject_of.slots = (uintptr_t)own;
    CHECK_EQUAL(spp_os_slot_of(&subject_of, number), 99);
    CHECK_EQUAL(spp_os_slot_of(&subject_of, number + 64), 0); /* slot 261 is empty */
    own[260] = 8;                                             /* nothing is there */
    CHECK_EQUAL(spp_os_slot_of(&subject_of, number), 0);
    CHECK_EQUAL(spp_os_words(), 768 + 512 * 64);
    pthread_key_t key;
    CHECK_EQUAL(pthread_key_create(&key, NULL), 0);
    CHECK_EQUAL(pthread_setspecific(key, &value), 0);
    CHECK_EQUAL(spp_os_slot(key), (uintptr_t)&value);
    CHECK_EQUAL(spp_os_slot(768 + (key - 256) * 64), 77);
    CHECK_EQUAL(spp_os_slot(768 + (key - 255) * 64), 0);
    CHECK_EQUAL(spp_os_slot(8), 0); /* the system's own */
    pthread_key_delete(key);
}

/* ---- all at once, for ThreadSanitizer: threads begin and end while one looks for them and another suspends them */

static _Atomic bool over;
static fake_thread *crowd[40];

static void nothing(void *arg, int32_t tid) { (void)arg, (void)tid; }

static void *look(void *unused) {
    while (!over) {
        uint64_t ns;
        (void)spp_os_threads(nothing, NULL);
        for (int i = 0; i < 40; i++) (void)spp_os_thread_cpu_ns(tid_of(crowd[i]), &ns);
        (void)spp_os_tid_of_pthread((uintptr_t)crowd[7]);
    }
    return unused;
}

static void *suspend(void *done) {
    spp_suspend_registers registers;
    for (int i = 0; !over; i = (i + 1) % 40) {
        spp_suspend_handle handle;
        if (spp_suspend_open(tid_of(crowd[i]), &handle) != SPP_SUSPEND_DONE) continue;
        spp_os_subject subject_of = {.tid = tid_of(crowd[i])};
        spp_os_context at = {.subject = &subject_of};
        if (spp_suspend_stop(handle, &registers, &at, &subject_of) == SPP_SUSPEND_DONE) {
            (void)spp_os_slot_of(&subject_of, 300);
            spp_suspend_go(handle);
            atomic_fetch_add((_Atomic int *)done, 1);
        }
        spp_suspend_close(handle);
    }
    return NULL;
}

static void together(void) {
    pthread_t looks, suspends_one, suspends_too;
    _Atomic int done = 0;
    fake_reset();
    for (int i = 0; i < 40; i++) crowd[i] = fake_start((uint64_t)i);
    CHECK_EQUAL(pthread_create(&looks, NULL, look, NULL), 0);
    CHECK_EQUAL(pthread_create(&suspends_one, NULL, suspend, (void *)&done), 0);
    CHECK_EQUAL(pthread_create(&suspends_too, NULL, suspend, (void *)&done), 0);
    for (int i = 0; i < 40; i++) {
        int before = done;
        while (done < before + 20) sched_yield();
        if (i < 30) fake_die(crowd[i]);
    }
    over = true;
    pthread_join(looks, NULL);
    pthread_join(suspends_one, NULL);
    pthread_join(suspends_too, NULL);
    CHECK_EQUAL(scan(), 0);
    CHECK_EQUAL(seen_n, 11);
    check_rights();
    end_test();
}

int main(void) {
    lists();
    many();
    is_being_made();
    dies_while_listed();
    asks();
    a_running_clock_moves();
    suspends();
    dies_at_each_step();
    fails_at_each_step();
    others_resume();
    is_resumed_later();
    slots();
    together();
    return check_done();
}
