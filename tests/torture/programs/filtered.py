"""A filter of the kernel that ends the process at calls that a profiler makes: from before the run, or set by the program."""

import os
import pathlib
import sys
import threading

from _truth import burn, part

REFUSED = pathlib.Path(__file__).resolve().parents[2] / "refused.py"
VARIANTS = {
    # By itself spprof would try perf events first, and that call ends the process.
    "before": {"AROUND": ["{python}", "{here}/../../refused.py", "kill:perf_event_open"], "CLOCKS": ["signal", "timer"]},
    # The program's own threads, those to come too, are filtered; ours were there before. (process_vm_readv is
    # not among the calls: a thread on which a code object dies makes it, to name its samples.)
    "own": {"ENV": {"PROGRAM_FILTERS": "perf_event_open,timer_create"}},
}


def heavy(n):
    return burn(n)


def main():
    names = os.environ.get("PROGRAM_FILTERS")
    if names:
        sys.path.insert(0, str(REFUSED.parent))
        from refused import refuse  # -> *

        refuse(names.split(","), kill=True)  # -> *
    results = []
    threads = [threading.Thread(target=lambda: results.append(burn(400000))) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with part("heavy"):
        total = heavy(4000000)
    print(results, total)


if __name__ == "__main__":
    main()
