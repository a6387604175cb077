/* What can be read from x86_64's machine code. */
#include "arch/arch.h"

#include <string.h>

#include "base/hints.h"
#include "os/memory.h"

/* CPython's trampolines, one for each Python function under -X perf, copied to memory of their own: endbr64 perhaps, sub $8,
 * %rsp; call *%rcx; add $8, %rsp; ret (3.12, 3.13), or push %rbp; mov %rsp, %rbp; call *%rcx; pop %rbp; ret (its
 * Python/asm_trampoline.S). `pc` is the last byte of the call. */
SPP_COLD uint32_t spp_arch_code_at(uintptr_t pc) {
    static const uint8_t moved[] = {0x48, 0x83, 0xec, 8, 0xff, 0xd1, 0x48, 0x83, 0xc4, 8, 0xc3};
    static const uint8_t framed[] = {0x55, 0x48, 0x89, 0xe5, 0xff, 0xd1, 0x5d, 0xc3};
    uint8_t code[sizeof moved];
    if (spp_os_read(code, pc - 5, sizeof code) != 0) return SPP_CODE_UNKNOWN;
    if (memcmp(code, moved, sizeof moved) == 0) return SPP_CODE_MOVED;
    return memcmp(code, framed, sizeof framed) == 0 ? SPP_CODE_FRAMED : SPP_CODE_UNKNOWN;
}

bool spp_arch_behind_call(uintptr_t back) {
    const uint8_t *p = (const uint8_t *)back;
    return p[-5] == 0xe8 || p[-2] == 0xff || p[-3] == 0xff || p[-4] == 0xff || p[-6] == 0xff || p[-7] == 0xff;
}

/* endbr64, then a load of r10 or r11 and a jump. Each begins at a multiple of 16 and may be 32 bytes long (libffi's
 * src/x86/unix64.S and ffi64.c). */
bool spp_arch_in_trampoline(uintptr_t pc) {
    static const uint8_t endbr64[] = {0xf3, 0x0f, 0x1e, 0xfa};
    for (uintptr_t at = pc & ~(uintptr_t)15; at + 32 > pc; at -= 16) {
        const uint8_t *p = (const uint8_t *)at;
        if (!spp_os_readable(at)) return false;
        if (memcmp(p, endbr64, sizeof endbr64) == 0) return p[4] == 0x4c || p[4] == 0x49;
    }
    return false;
}

/* ---- functions without unwind information. Encodings: Intel's manual, volume 2. */

enum { LONGEST = 15, PUSHES = 8, LATE = 64, RBX = 3, RBP = 5 };

/* What is known of a function's frame, and where it is written. */
typedef struct {
    spp_code_row *rows;
    size_t n, most;
    int32_t grown;            /* how far below the CFA sp is */
    int32_t moved;            /* of it, by a subtraction */
    int16_t fp;               /* as in a row */
    int base;                 /* a register that keeps what sp was; -1: none */
    uint8_t pops[2 * PUSHES]; /* what takes back what was pushed */
    size_t pops_n, pushes;
    bool lost;
} code_frame;

static void add_row(code_frame *f, size_t at, uint8_t reg, int32_t off, int16_t fp) {
    if (f->n > 0 && f->rows[f->n - 1].at == at) f->n--;
    if (f->n < f->most) f->rows[f->n++] = (spp_code_row){(uint32_t)at, off, fp, reg};
}

/* From here on, as most of the function has it. */
static void add_body_row(code_frame *f, size_t at) {
    static const uint8_t dwarf[] = {[RBX] = 3, [RBP] = SPP_REG_FP}; /* psABI, figure 3.36 */
    add_row(f, at, f->base >= 0 ? dwarf[f->base] : SPP_REG_SP, f->grown, f->fp);
}

static int32_t number_at(const uint8_t *p, size_t n) {
    int32_t value = (int8_t)p[0];
    if (n == 4) memcpy(&value, p, sizeof value);
    return value;
}

enum { ADD = 0xc4, AND = 0xe4, SUB = 0xec };

/* add, and or sub of a number and sp, in `left` bytes: its length, or 0. */
static size_t of_sp(const uint8_t *p, size_t left, uint8_t what, int32_t *value) {
    if (left < 4 || p[0] != 0x48 || (p[1] != 0x83 && p[1] != 0x81) || p[2] != what) return 0;
    size_t n = p[1] == 0x83 ? 1 : 4;
    if (left < 3 + n) return 0;
    *value = number_at(p + 3, n);
    return 3 + n;
}

/* push: its length, or 0. */
static size_t push_at(const uint8_t *p) {
    if (p[0] >> 3 == 10) return 1;
    return p[0] == 0x41 && p[1] >> 3 == 10 ? 2 : 0;
}

/* A move between a register, but not sp, and [sp + number]: its length, or 0. *saved: the general register that it writes, or -1.
 */
static size_t move_at(const uint8_t *p, int *saved, int32_t *where) {
    const uint8_t *from = p;
    bool vector = false, wide = false;
    int high = 0;
    *saved = -1;
    if (*p == 0xc5) { /* of VEX's two bytes the second one is flags */
        vector = true;
        p += 2;
    } else {
        if (*p == 0x66 || *p == 0xf2 || *p == 0xf3) p++;
        if ((*p & 0xf0) == 0x40) { /* REX */
            wide = (*p & 8) != 0;
            high = (*p & 4) != 0 ? 8 : 0;
            p++;
        }
        if (*p == 0x0f) {
            vector = true;
            p++;
        }
    }
    uint8_t op = *p++, mode = p[0] >> 6;
    int reg = (p[0] >> 3 & 7) + high;
    if ((p[0] & 7) != 4 || p[1] != 0x24 || mode == 3) return 0;
    bool of_vector = (op >= 0x10 && op <= 0x17) || op == 0x28 || op == 0x29 || op == 0x6f || op == 0x7f || op == 0xd6;
    if (vector ? !of_vector : op != 0x89 && (op != 0x8b || reg == 4)) return 0;
    size_t n = mode == 2 ? 4 : mode;
    p += 2;
    *where = n != 0 ? number_at(p, n) : 0;
    if (!vector && op == 0x89 && wide) *saved = reg;
    return (size_t)(p - from) + n;
}

static size_t nothing_at(const uint8_t *p) {
    if (memcmp(p, "\xf3\x0f\x1e\xfa", 4) == 0) return 4; /* endbr64 */
    if (memcmp(p, "\xc5\xf8\x77", 3) == 0) return 3;     /* vzeroupper */
    return memcmp(p, "\x0f\x77", 2) == 0 ? 2 : 0;        /* emms */
}

static void pushed(code_frame *f, const uint8_t *p, size_t length) {
    f->lost = f->pushes == PUSHES || f->moved != 0;
    if (f->lost) return;
    memmove(f->pops + length, f->pops, f->pops_n);
    memcpy(f->pops, p, length);
    f->pops[length - 1] |= 8; /* pop */
    f->pops_n += length;
    f->pushes++;
    f->grown += 8;
    if (p[0] == 0x50 + RBP) f->fp = (int16_t)-f->grown;
}

/* The instructions that make the frame; returns where they end. */
static size_t read_prologue(code_frame *f, const uint8_t *code, size_t n) {
    size_t at = 0, length;
    uint8_t last[LONGEST];
    for (; at < n && !f->lost; at += length) {
        const uint8_t *p = code + at;
        int32_t value;
        int saved;
        if (n - at < LONGEST) { /* zero bytes are an instruction that is not known here */
            memset(last, 0, sizeof last);
            p = memcpy(last, p, n - at);
        }
        if ((length = nothing_at(p)) != 0) continue;
        if ((length = push_at(p)) != 0) {
            if (f->base >= 0) break; /* no need to know */
            pushed(f, p, length);
        } else if ((length = of_sp(p, n - at, SUB, &value)) != 0) {
            if (f->base >= 0) continue;
            f->lost = value <= 0 || value > 1 << 20 || f->moved != 0;
            f->moved = value;
            f->grown += value;
        } else if (of_sp(p, n - at, AND, &value) != 0) {
            f->lost = f->base < 0;
            break;
        } else if (p[0] == 0x48 && p[1] == 0x89 && (p[2] == 0xe0 + RBX || p[2] == 0xe0 + RBP)) { /* mov %rsp, register */
            length = 3;
            f->base = p[2] & 7;
        } else if ((length = move_at(p, &saved, &value)) != 0) {
            if (saved != RBP || f->fp != 0 || f->base >= 0 || value < 0 || value >= f->grown - 8 || f->grown > INT16_MAX)
                continue;
            f->fp = (int16_t)(value - f->grown);
        } else {
            break;
        }
        if (at + length <= n) add_body_row(f, at + length);
    }
    return at < n ? at : n;
}

/* Pops of what was pushed, then a return: reports a row after each, and the body's row behind them.
 * Returns their length, or 0 if they are not there. */
static size_t read_pops(code_frame *f, const uint8_t *code, size_t at, size_t n) {
    size_t from = at;
    if (at + f->pops_n >= n || memcmp(code + at, f->pops, f->pops_n) != 0 || code[at + f->pops_n] != 0xc3) return 0;
    int32_t left = (int32_t)(8 * f->pushes) + 8;
    int16_t fp = -f->fp > left - 8 ? 0 : f->fp; /* it was moved back */
    for (;; at += (code[at] & 0xf0) == 0x40 ? 2 : 1, left -= 8) {
        add_row(f, at, SPP_REG_SP, left, fp);
        if (code[at] == 0xc3) break;
        if (code[at] == 0x58 + RBP) fp = 0;
    }
    add_body_row(f, at + 1);
    return at + 1 - from;
}

/* A function without a frame that allocates stack for its last steps: sub, a few instructions, add,
 * return. Their length, or 0. */
static size_t read_late(code_frame *f, const uint8_t *code, size_t at, size_t n) {
    int32_t value, back;
    size_t length = of_sp(code + at, n - at, SUB, &value);
    if (length == 0 || value <= 0) return 0;
    for (size_t i = at + length; i < at + LATE && i < n; i++) {
        size_t add = of_sp(code + i, n - i, ADD, &back);
        if (add == 0 || back != value || i + add == n || code[i + add] != 0xc3) continue;
        add_row(f, at + length, SPP_REG_SP, 8 + value, 0);
        add_row(f, i + add, SPP_REG_SP, 8, 0);
        return i + add + 1 - at;
    }
    return 0;
}

/* A way out of the function: its length, or 0. */
static size_t read_epilogue(code_frame *f, const uint8_t *code, size_t at, size_t n) {
    const uint8_t *p = code + at;
    int32_t value;
    if (f->base >= 0 && at + 3 <= n && p[0] == 0x48 && p[1] == 0x89 && p[2] == (0xc4 | f->base << 3)) { /* mov register, %rsp */
        add_row(f, at + 3, SPP_REG_SP, f->grown, f->fp);
        return 3;
    }
    if (f->base == RBP && at + 2 <= n && p[0] == 0xc9 && p[1] == 0xc3) { /* leave, ret */
        add_row(f, at + 1, SPP_REG_SP, 8, 0);
        add_body_row(f, at + 2);
        return 2;
    }
    size_t add = f->moved != 0 ? of_sp(p, n - at, ADD, &value) : 0;
    if (add != 0) {
        size_t pops = value == f->moved ? read_pops(f, code, at + add, n) : 0;
        return pops != 0 ? add + pops : 0;
    }
    return f->pushes != 0 && (f->moved == 0 || f->base >= 0) ? read_pops(f, code, at, n) : 0;
}

size_t spp_arch_code_rows(const uint8_t *code, size_t n, spp_code_row *rows, size_t most) {
    code_frame f = {.rows = rows, .most = most, .grown = 8, .base = -1};
    add_row(&f, 0, SPP_REG_SP, 8, 0);
    size_t at = read_prologue(&f, code, n), length;
    if (f.lost) return 0;
    bool plain = f.grown == 8 && f.base < 0;
    for (; at < n && f.n + 2 * PUSHES < most; at += length) {
        length = plain ? read_late(&f, code, at, n) : read_epilogue(&f, code, at, n);
        if (length == 0) length = 1;
    }
    return f.n > 1 ? f.n : 0;
}
