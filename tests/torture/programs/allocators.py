"""Another allocator in the place of the C library's, in four threads and in children that are forked in the middle of it.
tcmalloc's own profiler takes SIGPROF."""

import os
import threading

from _truth import burn, part, write

SUBPROCESSES = True
PROFILES = 3
VARIANTS = {
    "libc": {},
    "jemalloc": {
        "ENV": {"LD_PRELOAD": "/usr/lib/x86_64-linux-gnu/libjemalloc.so.2", "PYTHONMALLOC": "malloc"},
        "FILES": {"/usr/lib/x86_64-linux-gnu/libjemalloc.so.2": "libjemalloc2"},
    },
    "mimalloc": {
        "ENV": {"LD_PRELOAD": "/usr/lib/x86_64-linux-gnu/libmimalloc.so.2", "PYTHONMALLOC": "malloc"},
        "FILES": {"/usr/lib/x86_64-linux-gnu/libmimalloc.so.2": "libmimalloc2.0"},
    },
    "tcmalloc": {
        "ENV": {"LD_PRELOAD": "/usr/lib/x86_64-linux-gnu/libtcmalloc.so.4", "PYTHONMALLOC": "malloc"},
        "FILES": {"/usr/lib/x86_64-linux-gnu/libtcmalloc.so.4": "libgoogle-perftools4"},
    },
    "gperftools": {
        "ENV": {
            "LD_PRELOAD": "/usr/lib/x86_64-linux-gnu/libtcmalloc_and_profiler.so.4",
            "CPUPROFILE": "{folder}/cpu",
            "CPUPROFILE_FREQUENCY": "500",
            "PYTHONMALLOC": "malloc",
        },
        "FILES": {"/usr/lib/x86_64-linux-gnu/libtcmalloc_and_profiler.so.4": "libgoogle-perftools4"},
    },
}


def blocks(n):
    kept = []
    for i in range(n):
        kept.append(bytearray(i * 37 % 9000))
        if i % 3 == 0:
            kept[i * 7 % len(kept)] = None
    return sum(len(b) for b in kept if b is not None)


def alone(n):
    return burn(n)


def main():
    results = [0] * 4

    def each(i):
        results[i] = blocks(40000 + i)

    threads = [threading.Thread(target=each, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    statuses = []
    for _ in range(2):
        child = os.fork()
        if child == 0:
            with part("alone"):
                good = alone(3000000) == 9000000 - 6
            write()
            raise SystemExit(3 if good else blocks(20000) % 50)
        statuses.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    for thread in threads:
        thread.join()
    with part("alone"):
        total = alone(3000000)
    print(results, statuses, total)


if __name__ == "__main__":
    main()
