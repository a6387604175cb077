/* What a filter of system calls answers is what the kernel does with it: filters made by chance are put on in children. */
#ifdef __linux__
#include "os/linux/filter.h"

#include <errno.h>
#include <linux/seccomp.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "os/linux/linux.h"
#include "os/memory.h"
#include "os/process.h"

#define CALL SYS_getppid /* takes no arguments, so may be given any */
#define REFUSED (SECCOMP_RET_ERRNO | EXDEV)
#define MOST 24
#define ROUNDS 400

static unsigned long long state = 31;
static unsigned below(unsigned n) { return (unsigned)(check_random(&state) % n); }

static struct sock_filter returns(void) {
    return (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, below(2) ? SECCOMP_RET_ALLOW : REFUSED);
}

/* A jump may go as far as to the last two, which return. */
static struct sock_filter one(unsigned at, unsigned n, bool arguments) {
    static const uint16_t sums[] = {BPF_ADD, BPF_SUB, BPF_MUL, BPF_AND, BPF_OR, BPF_XOR, BPF_NEG};
    static const uint16_t tests[] = {BPF_JEQ, BPF_JGT, BPF_JGE, BPF_JSET};
    static const uint32_t values[] = {0, 1, 2, 39, CALL, 0xffffffff, 0x80000000};
    uint32_t k = values[below(7)];
    unsigned left = n - 1 - at;
    uint16_t from = below(2) ? BPF_X : BPF_K;
    switch (below(8)) {
    case 0: return (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, arguments ? 16 + 4 * below(4) : 4 * below(2));
    case 1: return (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0);
    case 2: return (struct sock_filter)BPF_STMT(BPF_ALU | sums[below(7)] | from, k);
    case 3: return (struct sock_filter)BPF_STMT(below(2) ? BPF_ST : BPF_STX, below(2));
    case 4: return (struct sock_filter)BPF_STMT(below(2) ? BPF_MISC | BPF_TAX : BPF_MISC | BPF_TXA, 0);
    case 5: return (struct sock_filter)BPF_STMT((below(2) ? BPF_LD : BPF_LDX) | BPF_IMM, k);
    case 6: return (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JA, below(left), 0, 0);
    }
    return (struct sock_filter)BPF_JUMP(BPF_JMP | tests[below(4)] | from, k, (uint8_t)below(left), (uint8_t)below(left));
}

/* 0: the kernel allows it; 1: not always; other: it does not take the filter. */
static int asked(const struct sock_fprog *filter, unsigned long long seed) {
    pid_t pid = fork();
    if (pid == 0) {
        if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, filter, 0, 0) != 0)
            _exit(2);
        for (int i = 0; i < 40; i++) {
            long a = (long)(check_random(&seed) % 3), b = (long)(check_random(&seed) << (i & 31));
            if (syscall(CALL, a, b) < 0 && errno == EXDEV) _exit(1);
        }
        _exit(0);
    }
    int status = -1;
    waitpid(pid, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void the_kernel_says_the_same(void) {
    uint16_t call = CALL;
    int allowed = 0, refused = 0, sure = 0;
    for (int round = 0; round < ROUNDS; round++) {
        struct sock_filter code[MOST + 8] = {
            BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0),
            BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, CALL, 1, 0),
            BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
            BPF_STMT(BPF_ST, 0), /* or the kernel takes no load of it */
            BPF_STMT(BPF_ST, 1),
        };
        bool arguments = round & 1;
        unsigned n = 7 + below(MOST);
        for (unsigned at = 5; at < n - 2; at++) code[at] = below(12) != 0 ? one(at, n, arguments) : returns();
        code[n - 2] = returns();
        code[n - 1] = returns();
        struct sock_fprog filter = {(unsigned short)n, code};
        int said = asked(&filter, (unsigned long long)round);
        if (said == 2) continue; /* a negation of a register, or a sandbox takes no filters */
        bool allows = spp_linux_filter_allows(&filter, &call, 1, false);
        CHECK(said == 0 || said == 1);
        if (allows) CHECK_EQUAL(said, 0);
        if (!arguments) CHECK_EQUAL(allows, said == 0);
        CHECK(spp_linux_filter_allows(&filter, &call, 1, true)); /* all there is fails at the most */
        allowed += said == 0;
        refused += said == 1;
        sure += allows;
    }
    CHECK((allowed > 50 && refused > 50 && sure > 50) || allowed + refused == 0);
}

/* It cannot be read, ends too early, or depends on too much. */
static void what_is_not_known_is_not_allowed(void) {
    uint16_t call = CALL;
    struct sock_filter open[] = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0)}, many[200];
    struct sock_fprog cut = {1, open}, nowhere = {1, (void *)8}, deep = {200, many};
    for (int i = 0; i < 198; i += 2) {
        many[i] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 16);
        many[i + 1] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 1, 0, 0);
    }
    many[198] = many[199] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    CHECK(!spp_linux_filter_allows(&cut, &call, 1, true));
    CHECK(!spp_linux_filter_allows(&nowhere, &call, 1, true));
    CHECK(!spp_linux_filter_allows(NULL, &call, 1, true));
    CHECK(!spp_linux_filter_allows(&deep, &call, 1, true));
}

static void nothing(void) {}

/* Threads of the program go on making a call of ours until a filter does not allow it. */
static void only_what_is_refused_is_not_called(void) {
    struct sock_filter all[] = {BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
    struct sock_filter but[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_timer_settime, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog allows = {1, all}, refuses = {4, but};
    spp_linux_signals_begin(NULL);
    spp_os_confine_notify(nothing);
    spp_linux_confine(&allows, true);
    CHECK(!spp_linux_confined && !spp_linux_blinded && !spp_linux_barred);
    spp_linux_confine(&refuses, false);
    CHECK(spp_linux_confined && !spp_linux_blinded);
}

int main(void) {
    only_what_is_refused_is_not_called();
    the_kernel_says_the_same();
    what_is_not_known_is_not_allowed();
    return check_done();
}
#else
#include "check.h"
int main(void) { return check_done(); }
#endif
