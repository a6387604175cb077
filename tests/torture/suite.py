"""python -m tests.torture.suite: CPython's own tests, with and without spprof. What fails with it must fail without it.

  python -m tests.torture.suite --python 3.12 --mode cpu
  python -m tests.torture.suite --python 3.9,3.13 --only test_threading,test_signal

Each module runs as `python -m test MODULE`, alone and then under `spprof run` at 1 kHz in each mode. Each run is a line of JSON
in build/torture/suite.jsonl. Exits with 1 if a module failed only with spprof, or left no whole profile."""

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from .__main__ import ROOT, clean, interpreters

LOG = ROOT / "build" / "torture" / "suite.jsonl"
TIMEOUT = 240
# Broad: what calls, jumps, forks, waits, signals, traces, imports and frees. Without those that take minutes or need a network.
MODULES = """
test_abc test_array test_ast test_asyncgen test_atexit test_baseexception test_bisect test_builtin test_bytes test_call
test_cmath test_code test_codecs test_collections test_compile test_context test_contextlib test_copy test_coroutines
test_csv test_ctypes test_dataclasses test_decimal test_deque test_descr test_dict test_dictviews test_dis test_enum
test_enumerate test_eof test_exceptions test_extcall test_faulthandler test_fileio test_float test_fork1 test_fractions
test_frame test_functools test_gc test_generators test_genexps test_hashlib test_heapq test_importlib test_inspect test_io
test_itertools test_json test_list test_marshal test_memoryview test_module test_opcache test_ordered_dict test_os
test_pickle test_poll test_posix test_queue test_raise test_re test_sched test_select test_selectors test_set test_signal
test_socket test_sort test_sqlite3 test_struct test_subprocess test_super test_sys test_sys_setprofile test_sys_settrace
test_tempfile test_thread test_threadedtempfile test_threading test_threading_local test_threadsignals test_time
test_traceback test_tuple test_types test_unittest test_userdict test_weakref test_weakset test_with test_yield_from
test_zipfile test_zlib
""".split()


def run(command, folder):
    """(exit status or a word, the end of what it printed)"""
    process = subprocess.Popen(command, cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                               env=clean({}), start_new_session=True)  # fmt: skip
    try:
        text = process.communicate(timeout=TIMEOUT)[0]
        return process.returncode, text.decode(errors="replace")[-3000:]
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        return "takes too long", process.communicate()[0].decode(errors="replace")[-3000:]


def once(name, python, module, mode):
    with tempfile.TemporaryDirectory(prefix="suite-") as folder:
        test = ["-m", "test", "-q", module]
        if mode is None:
            began = time.monotonic()
            status, text = run([python, *test], folder)
            return {"status": status, "seconds": round(time.monotonic() - began, 2), "text": text}
        out = Path(folder) / "out.spprof"
        began = time.monotonic()
        status, text = run([python, "-m", "spprof", "run", "--mode", mode, "-q", "-o", out, *test], folder)
        seconds = round(time.monotonic() - began, 2)
        report = [python, "-m", "spprof", "report", "--limit", "1", out]
        told = subprocess.run(report, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=clean({}), cwd=folder)
        whole = told.returncode == 0 and "Warning" not in told.stdout and "a bug" not in told.stdout
        return {"status": status, "seconds": seconds, "text": text, "whole": whole, "report": told.stdout[-600:]}


def main():
    parser = argparse.ArgumentParser(prog="python -m tests.torture.suite", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)  # fmt: skip
    parser.add_argument("--python", default="3.9,3.10,3.11,3.12,3.13", help="interpreters, as tools/matrix names them")
    parser.add_argument("--only", help="modules")
    parser.add_argument("--mode", choices=["cpu", "wall"], help="one mode instead of both")
    parser.add_argument("--minutes", type=float, help="begin no module after so many minutes an interpreter")
    asked = parser.parse_args()
    LOG.parent.mkdir(parents=True, exist_ok=True)
    wrong = 0
    for name, python in interpreters(asked.python).items():
        began = time.monotonic()
        passed = alike = 0
        for module in asked.only.split(",") if asked.only else MODULES:
            if asked.minutes and time.monotonic() - began > asked.minutes * 60:
                print(f"{name}: out of time before {module}")
                break
            plain = once(name, python, module, None)
            for mode in [asked.mode] if asked.mode else ["cpu", "wall"]:
                line = {"at": int(time.time()), "python": name, "module": module, "mode": mode, "plain": plain["status"],
                        **once(name, python, module, mode)}  # fmt: skip
                good = line["whole"] and (line["status"] == plain["status"] or line["status"] == 0)
                passed += good and plain["status"] == 0
                alike += good and plain["status"] != 0
                wrong += not good
                with LOG.open("a") as log:
                    log.write(json.dumps(line) + "\n")
                if not good:
                    statuses = f"exit {line['status']}, alone {plain['status']}"
                    print(f"WRONG  {name} {module} {mode}: {statuses}; {line['report'].strip()[-200:]}")
                    print(line["text"][-1500:], flush=True)
        print(f"{name}: {passed} runs passed with and without spprof, {alike} failed in both", flush=True)
    print(f"suite: {wrong} runs with a problem")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
