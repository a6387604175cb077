/* Functions without unwind information, walked at each of their instructions: the rows read from their code against where their
 * caller really is. The processor steps through them one by one. */
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>

#include "arch/arch.h"
#include "check.h"
#include "os/context.h"
#include "processes.h"

#if !defined(__x86_64__)
int main(void) {
    spp_code_row row;
    CHECK_EQUAL(spp_arch_code_rows((const uint8_t *)"\0\0\0\0", 4, &row, 1), 0); /* it says nothing here */
    return check_done();
}
#else

/* Shapes that assembly has, without .cfi directives. Each does a little, and gives back all that it must. */
#define FUNCTION(name, body)                                                                                    \
    __asm__(".text\n.p2align 4\n.globl " #name "\n" #name ":\n" body ".globl " #name "_end\n" #name "_end:\n"); \
    extern void name(void);                                                                                     \
    extern const uint8_t name##_end[]

/* Room for a matrix on a stack of its own alignment: as OpenBLAS's kernels. */
FUNCTION(kernel, "sub $0x60, %rsp\n mov %rbx, (%rsp)\n mov %rbp, 8(%rsp)\n mov %r12, 0x10(%rsp)\n mov %r15, 0x28(%rsp)\n"
                 "mov 0x68(%rsp), %r10\n movsd %xmm4, 0x30(%rsp)\n mov %rsp, %rbx\n sub $0x2080, %rsp\n and $-4096, %rsp\n"
                 "cmp $0, %rdi\n je 1f\n mov %rdi, 0x28(%rsp)\n lea 3(%rdi), %rbp\n 1: mov %rbp, %r15\n"
                 "mov %rbx, %rsp\n mov (%rsp), %rbx\n mov 8(%rsp), %rbp\n mov 0x10(%rsp), %r12\n mov 0x28(%rsp), %r15\n"
                 "add $0x60, %rsp\n ret\n");
/* Saves moved, no base; a way out in the middle. */
FUNCTION(moved, "sub $0x40, %rsp\n mov %rbx, (%rsp)\n mov %rbp, 8(%rsp)\n mov $7, %ebp\n test %rbp, %rbp\n js 1f\n"
                "mov (%rsp), %rbx\n mov 8(%rsp), %rbp\n add $0x40, %rsp\n ret\n"
                "1: mov %rbp, %rbx\n mov (%rsp), %rbx\n mov 8(%rsp), %rbp\n add $0x40, %rsp\n ret\n");
FUNCTION(pushed, "push %r15\n push %r12\n push %rbp\n push %rbx\n xor %ebp, %ebp\n lea 1(%rbp), %rbx\n cmp $1, %rbx\n jne 1f\n"
                 "pop %rbx\n pop %rbp\n pop %r12\n pop %r15\n ret\n"
                 "1: nop\n pop %rbx\n pop %rbp\n pop %r12\n pop %r15\n ret\n");
FUNCTION(pushed_and_moved, "endbr64\n push %rbp\n push %r14\n sub $0x188, %rsp\n mov $5, %ebp\n mov %rbp, 8(%rsp)\n"
                           "add $0x188, %rsp\n pop %r14\n pop %rbp\n ret\n");
FUNCTION(framed, "push %rbp\n mov %rsp, %rbp\n sub $0x20, %rsp\n push %rbx\n and $-64, %rsp\n mov $1, %ebx\n"
                 "lea -0x28(%rbp), %rsp\n pop %rbx\n leave\n ret\n");
FUNCTION(
    late,
    "fldz\n mov $3, %eax\n 1: dec %rax\n jg 1b\n sub $0x10, %rsp\n fstpl (%rsp)\n movsd (%rsp), %xmm0\n add $0x10, %rsp\n ret\n");
FUNCTION(leaf, "xor %eax, %eax\n lea 1(%rax), %rcx\n ret\n");
/* Not to be understood: no row may be reported of it. */
FUNCTION(odd, "sub $0x20, %rsp\n push %rbx\n pop %rbx\n add $0x20, %rsp\n ret\n");

static const struct {
    const char *name;
    void (*run)(void);
    const uint8_t *end;
    size_t rows; /* at least; 0: none */
} functions[] = {{"kernel", kernel, kernel_end, 6}, {"moved", moved, moved_end, 5},
                 {"pushed", pushed, pushed_end, 9}, {"pushed_and_moved", pushed_and_moved, pushed_and_moved_end, 6},
                 {"framed", framed, framed_end, 4}, {"late", late, late_end, 3},
                 {"leaf", leaf, leaf_end, 0},       {"odd", odd, odd_end, 0}};

static spp_code_row rows[64];
static size_t rows_n;
static uintptr_t low, high, entry_sp, entry_fp, back;
static volatile int steps, wrong_cfa, wrong_fp;

/* After each instruction; the first one of the function says where the caller is. */
static void stepped(int signum, siginfo_t *info, void *machine) {
    uintptr_t registers[SPP_OS_REGISTERS], pc = (uintptr_t)((const ucontext_t *)machine)->uc_mcontext.gregs[REG_RIP];
    spp_os_context context = {.machine = machine};
    (void)signum, (void)info;
    spp_os_registers(&context, registers);
    if (pc < low || pc >= high) return;
    if (pc == low) {
        entry_sp = registers[SPP_REG_SP];
        entry_fp = registers[SPP_REG_FP];
        memcpy(&back, (const void *)entry_sp, sizeof back);
    }
    steps++;
    if (rows_n == 0) return;
    const spp_code_row *row = rows;
    while (row + 1 < rows + rows_n && row[1].at <= pc - low) row++;
    uintptr_t cfa = registers[row->reg] + (uintptr_t)(intptr_t)row->off, fp = registers[SPP_REG_FP], there;
    memcpy(&there, (const void *)(cfa - 8), sizeof there);
    if (row->fp != 0) memcpy(&fp, (const void *)(cfa + (uintptr_t)(intptr_t)row->fp), sizeof fp);
    wrong_cfa += cfa != entry_sp + 8 || there != back;
    wrong_fp += fp != entry_fp;
}

#define STEP(to)                                                                                                \
    __asm__ volatile("pushfq\n orq $0x100, (%%rsp)\n popfq\n call *%0\n pushfq\n andq $~0x100, (%%rsp)\n popfq" \
                     :                                                                                          \
                     : "r"(to)                                                                                  \
                     : "rax", "rcx", "rdx", "rsi", "rdi", "r8", "r9", "r10", "r11", "xmm0", "xmm4", "memory", "cc")

static __attribute__((noinline)) void step_through(void (*run)(void)) { STEP(run); }

int main(void) {
    struct sigaction act = {.sa_sigaction = stepped, .sa_flags = SA_SIGINFO};
    sigaction(SIGTRAP, &act, NULL);
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
        low = (uintptr_t)functions[i].run;
        high = (uintptr_t)functions[i].end;
        rows_n = spp_arch_code_rows((const uint8_t *)low, high - low, rows, 64);
        steps = wrong_cfa = wrong_fp = 0;
        step_through(functions[i].run);
        printf("%s: %zu rows, %d steps, %d with a wrong CFA, %d with a wrong frame pointer\n", functions[i].name, rows_n, steps,
               wrong_cfa, wrong_fp);
        CHECK(functions[i].rows == 0 ? rows_n == 0 : rows_n >= functions[i].rows);
        CHECK(steps >= 3 || check_valgrind());
        CHECK_EQUAL(wrong_cfa, 0);
        CHECK_EQUAL(wrong_fp, 0);
        for (size_t n = 0; n < high - low; n++) { /* cut short: every row lies within */
            size_t n_rows = spp_arch_code_rows((const uint8_t *)low, n, rows, 64);
            for (size_t k = 0; k < n_rows; k++) CHECK(rows[k].at <= n && (k == 0 || rows[k - 1].at < rows[k].at));
        }
    }
    return check_done();
}
#endif
