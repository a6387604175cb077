/* A filter is a program in classic BPF that returns an answer for each system call. Here the call's number is known, its
 * arguments are not. So a branch that depends on them is followed both ways, and all answers must allow the call. */
#include "os/linux/filter.h"

#include <linux/audit.h>
#include <linux/seccomp.h>
#include <string.h>

#include "os/memory.h"

/* Steps for one call, enough for the longest filter; beyond, the call counts as not allowed. */
#define STEPS_MOST 16384
#define DEPTH_MOST 24 /* branches on arguments in one path */
#define UNKNOWN (UINT64_C(1) << 32)

#if defined __x86_64__
#define ARCH AUDIT_ARCH_X86_64
#else
#define ARCH AUDIT_ARCH_AARCH64
#endif

/* A value of 32 bits, or UNKNOWN. */
typedef struct {
    uint64_t a, x, kept[BPF_MEMWORDS];
} registers;

typedef struct {
    const struct sock_filter *code;
    size_t n;
    uint32_t call;
    bool may_fail;
    unsigned steps;
} looks;

static uint64_t input(uint32_t call, uint32_t at) {
    if (at == offsetof(struct seccomp_data, nr)) return call;
    return at == offsetof(struct seccomp_data, arch) ? ARCH : UNKNOWN;
}

static uint64_t compute(uint16_t op, uint64_t a, uint64_t b) {
    if (a == UNKNOWN || (b == UNKNOWN && op != BPF_NEG)) return UNKNOWN;
    uint32_t left = (uint32_t)a, right = (uint32_t)b;
    switch (op) {
    case BPF_ADD: return left + right;
    case BPF_SUB: return left - right;
    case BPF_MUL: return left * right;
    case BPF_DIV: return right != 0 ? left / right : UNKNOWN;
    case BPF_AND: return left & right;
    case BPF_OR: return left | right;
    case BPF_XOR: return left ^ right;
    case BPF_LSH: return right < 32 ? left << right : UNKNOWN;
    case BPF_RSH: return right < 32 ? left >> right : UNKNOWN;
    case BPF_NEG: return 0u - left;
    }
    return UNKNOWN;
}

static bool holds(uint16_t op, uint32_t a, uint32_t b) {
    switch (op) {
    case BPF_JEQ: return a == b;
    case BPF_JGT: return a > b;
    case BPF_JGE: return a >= b;
    }
    return (a & b) != 0; /* BPF_JSET */
}

static bool is_allowed(const looks *l, uint64_t answer) {
    uint64_t action = answer & SECCOMP_RET_ACTION_FULL;
    if (answer == UNKNOWN) return false;
    if (action == SECCOMP_RET_ERRNO) return l->may_fail && (answer & SECCOMP_RET_DATA) != 0;
    return action == SECCOMP_RET_ALLOW || action == SECCOMP_RET_LOG;
}

/* Ends, since jumps go forward only: the kernel accepts no other filter. */
static bool allows_from(looks *l, size_t at, registers r, int depth) {
    while (at < l->n && l->steps++ < STEPS_MOST) {
        struct sock_filter one;
        if (spp_os_read(&one, (uintptr_t)&l->code[at++], sizeof one) != 0) return false;
        uint16_t mode = BPF_MODE(one.code);
        uint64_t b = BPF_SRC(one.code) == BPF_X ? r.x : one.k;
        switch (BPF_CLASS(one.code)) {
        case BPF_LD:
        case BPF_LDX: {
            uint64_t got = UNKNOWN;
            if (mode == BPF_ABS) got = input(l->call, one.k);
            if (mode == BPF_LEN) got = sizeof(struct seccomp_data);
            if (mode == BPF_IMM) got = one.k;
            if (mode == BPF_MEM) got = r.kept[one.k % BPF_MEMWORDS];
            *(BPF_CLASS(one.code) == BPF_LD ? &r.a : &r.x) = got;
            break;
        }
        case BPF_ST: r.kept[one.k % BPF_MEMWORDS] = r.a; break;
        case BPF_STX: r.kept[one.k % BPF_MEMWORDS] = r.x; break;
        case BPF_ALU: r.a = compute(BPF_OP(one.code), r.a, b); break;
        case BPF_MISC: *(BPF_MISCOP(one.code) == BPF_TAX ? &r.x : &r.a) = BPF_MISCOP(one.code) == BPF_TAX ? r.a : r.x; break;
        case BPF_RET: return is_allowed(l, BPF_RVAL(one.code) == BPF_A ? r.a : one.k);
        default: /* BPF_JMP */
            if (BPF_OP(one.code) == BPF_JA) {
                at += one.k;
            } else if (r.a != UNKNOWN && b != UNKNOWN) {
                at += holds(BPF_OP(one.code), (uint32_t)r.a, (uint32_t)b) ? one.jt : one.jf;
            } else {
                if (depth == DEPTH_MOST || !allows_from(l, at + one.jt, r, depth + 1)) return false;
                at += one.jf;
            }
        }
    }
    return false;
}

bool spp_linux_filter_allows(const struct sock_fprog *filter, const uint16_t *calls, size_t n, bool may_fail) {
    struct sock_fprog f;
    registers none;
    if (spp_os_read(&f, (uintptr_t)filter, sizeof f) != 0) return false;
    memset(&none, 0, sizeof none);
    for (size_t i = 0; i < n; i++) {
        looks l = {f.filter, f.len, calls[i], may_fail, 0};
        if (!allows_from(&l, 0, none, 0)) return false;
    }
    return true;
}
