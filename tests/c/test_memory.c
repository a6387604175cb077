/* Guarded reads of memory that another thread takes away meanwhile, where the kernel refuses process_vm_readv. */
#include "check.h"

#if defined(__linux__)
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "emulated.h"
#include "os/files.h"
#include "os/linux/linux.h"
#include "os/memory.h"
#include "os/worker.h"
#include "processes.h"

#define PAGE 4096u
#define WANTED 2000 /* reads of each outcome */

static void refuse_process_vm_readv(void) {
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_process_vm_readv, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | 1 /* EPERM */),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    const struct sock_fprog program = {.len = sizeof code / sizeof *code, .filter = code};
    CHECK_EQUAL(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
    CHECK_EQUAL(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program), 0);
}

/* Two pages, of which the second can be read now and then. */
static uint8_t *pages;
static _Atomic bool over;
static _Atomic long wrong;

/* What is read is what is there, or nothing. */
static void reads(void *own) {
    uint8_t got[2 * PAGE];
    long read = 0, refused = 0;
    if (own != NULL && !spp_os_own_files(-1)) read = refused = WANTED; /* no such tables here */
    while (read < WANTED || refused < WANTED) {
        memset(got, 0, sizeof got);
        if (spp_os_read(got, (uintptr_t)pages + PAGE / 2, PAGE) != 0) {
            refused++;
            continue;
        }
        read++;
        for (unsigned i = 0; i < PAGE; i++) wrong += got[i] != 7;
    }
    memset(got, 0, sizeof got);
    wrong += spp_os_read(got, (uintptr_t)pages, PAGE) != 0 || got[0] != 7 || got[PAGE - 1] != 7; /* after all that failed */
    over = true;
}

static void come_and_go(void) {
    while (!over) {
        mprotect(pages + PAGE, PAGE, PROT_NONE);
        sched_yield();
        mprotect(pages + PAGE, PAGE, PROT_READ);
        sched_yield();
    }
}

static int child(bool own) {
    alarm(60);
    refuse_process_vm_readv();
    CHECK_EQUAL(spp_os_memory_init(), 0);
    pages = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memset(pages, 7, 2 * PAGE);
    spp_linux_apart_start();
    spp_os_worker *worker = spp_os_worker_start("reads", false, reads, own ? pages : NULL);
    CHECK(worker != NULL);
    if (worker != NULL) {
        come_and_go();
        spp_os_worker_join(worker);
        CHECK_EQUAL(wrong, 0);
    }
    spp_linux_apart_stop();
    return check_done();
}

/* Reads that fail leave nothing in the pipe, not even the place that some kernels keep for them. */
static void test_a_reader_after_many_faults(void) {
    spp_os_reader reader;
    uint64_t word = 0x1234, got = 0;
    uint8_t *hole = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK_EQUAL(munmap(hole + PAGE, PAGE), 0);
    CHECK_EQUAL(spp_os_reader_open(&reader), 0);
    for (unsigned i = 0; i < 100; i++) {
        CHECK_EQUAL(spp_os_reader_read(&reader, &got, (uintptr_t)hole + PAGE - i % 8, sizeof got), -1);
    }
    CHECK_EQUAL(spp_os_reader_read(&reader, &got, (uintptr_t)&word, sizeof got), 0);
    CHECK_EQUAL(got, word);
    spp_os_reader_close(&reader);
    munmap(hole, PAGE);
}

int main(void) {
    test_a_reader_after_many_faults();
    for (int own = 0; own < 2 && !check_valgrind() && !is_emulated(); own++) {
        pid_t pid = check_fork();
        int status = -1;
        if (pid == 0) exit(child(own == 1));
        CHECK_EQUAL(waitpid(pid, &status, 0), pid);
        CHECK_EQUAL(status, 0);
    }
    return check_done();
}
#else
int main(void) { return check_done(); }
#endif
