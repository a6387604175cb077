/* Hints for the compiler. The handler runs with cold instruction caches and untrained branches: its usual path is laid out in
 * one run (0.1 of its cycles), everything else out of the way. */
#ifndef SPPROF_BASE_HINTS_H
#define SPPROF_BASE_HINTS_H

#define SPP_HOT __attribute__((hot))
#define SPP_COLD __attribute__((cold, noinline))
#define spp_usual(x) __builtin_expect(!!(x), 1)
#define spp_rare(x) __builtin_expect(!!(x), 0)

#endif
