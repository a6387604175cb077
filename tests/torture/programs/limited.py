"""Little address space, few descriptors, little stack for threads, and memory that runs out while it runs."""

import resource
import threading

from _truth import burn, part

VARIANTS = {
    "space": {"AROUND": ["bash", "-c", 'ulimit -v 700000; exec "$@"', "-"]},
    "files": {"AROUND": ["bash", "-c", 'ulimit -n 24; exec "$@"', "-"]},
    "locked": {"AROUND": ["bash", "-c", 'ulimit -l 0 -i 64 -q 0; exec "$@"', "-"]},
    "stack": {"AROUND": ["bash", "-c", 'ulimit -s 256; exec "$@"', "-"]},
}


def fills(limit):
    """Until there is no memory, and goes on."""
    kept, caught = [], 0
    for _ in range(limit):
        try:
            kept.append(bytearray(8 << 20))
        except MemoryError:
            caught += 1
            kept.clear()
            if caught == 5:
                break
    return caught


def heavy(n):
    return burn(n)


def main():
    results = []
    threads = [threading.Thread(target=lambda: results.append(burn(100000))) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    bounded = resource.getrlimit(resource.RLIMIT_AS)[0] != resource.RLIM_INFINITY
    caught = fills(2000) if bounded else 5
    with part("heavy"):
        total = heavy(3000000)
    print(results, caught, total)


if __name__ == "__main__":
    main()
