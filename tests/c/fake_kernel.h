/* A Mach kernel that is made up: threads by script, a count of every right and of every array that it gave, and calls that fail
 * when a test wants it. What a caller must not do is counted as misuse, and printed. */
#ifndef SPPROF_TEST_FAKE_KERNEL_H
#define SPPROF_TEST_FAKE_KERNEL_H

#include "os/darwin/mach.h"
#include "os/darwin/machine.h"

// clang-format off
#define FAKE_CALLS(X) \
    X(mach_thread_self) X(mach_port_deallocate) X(mach_port_mod_refs) X(task_threads) X(thread_suspend) X(thread_resume) \
    X(thread_get_state) X(thread_info) X(vm_deallocate) X(mach_vm_read_overwrite) X(mach_vm_region) X(mach_wait_until) \
    X(mach_timebase_info) X(semaphore_create) X(semaphore_signal) X(semaphore_timedwait) X(pthread_threadid_np) X(fcntl) \
    X(pthread_set_qos_class_self_np) X(task_info)
// clang-format on
typedef enum {
#define X(name) FAKE_##name,
    FAKE_CALLS(X)
#undef X
        FAKE_CALLS_COUNT,
} fake_call;
extern const char *const fake_call_names[FAKE_CALLS_COUNT];

typedef struct fake_thread {
    mach_port_t port;
    uint64_t id;
    bool alive, self; /* self: the thread that runs the test */
    int suspended;    /* how often */
    uint32_t rights;  /* to its port, of ours; to its dead name, if it died */
    uint64_t cpu_us;
    int run_state;
    char name[64];
    thread_state registers;
    uintptr_t slots[768];
} fake_thread;
#define FAKE_THREADS_MAX 64
extern fake_thread fake_threads[FAKE_THREADS_MAX];
extern int fake_threads_n;

/* The first is the thread that runs the test. */
/* No threads but that, no counts, no failures; the time is the real one. */
void fake_reset(void);
/* A new thread; pthread_introspection_hook is called. */
fake_thread *fake_start(uint64_t cpu_us);
void fake_die(fake_thread *thread);

/* The call that is number `nth` (from 1) of its kind fails with this; 0: every one. Nothing of it happens. */
void fake_fail(fake_call call, int nth, kern_return_t code);
void fake_fail_no_more(void);
/* Called before each call, and after it, without the kernel's lock; `thread`: the one that it is about, or NULL. */
extern void (*fake_before)(fake_call call, fake_thread *thread);
extern void (*fake_after)(fake_call call, fake_thread *thread);

int fake_count(fake_call call); /* how many there were */
long fake_rights(void);         /* that were given and not given back */
long fake_arrays(void);         /* of task_threads; so too */
int fake_suspended(void);       /* living threads that are suspended */
int fake_misuses(void);

/* Time: with a script it advances only by the test, or by sleeping. */
void fake_script_time(uint64_t ticks);
void fake_timebase(uint32_t numer, uint32_t denom);

/* Images. `header` is any memory. */
void fake_image(const void *header, intptr_t slide, const char *name);
void fake_unload(int image);
/* dyld itself, which is in no list; NULL: no header is given. */
void fake_dyld(const void *header, integer_t format);

#endif
