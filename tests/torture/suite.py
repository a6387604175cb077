"""python -m tests.torture.suite: others' own tests, with and without spprof. What fails with it must fail without it.

  python -m tests.torture.suite --python 3.12 --mode cpu
  python -m tests.torture.suite --python 3.9,3.13 --only test_threading,test_signal
  python -m tests.torture.suite --projects --python 3.12       large projects of PyPI instead of CPython's own
  python -m tests.torture.suite --sum                          adds up the log of all runs so far

Each of CPython's test modules runs as `python -m test MODULE`, each project under pytest: alone, then under `spprof run` at
1 kHz in each mode. Each run is a line of JSON in build/torture/suite.jsonl. Exits with 1 if anything failed only with
spprof, or left no whole profile."""

import argparse
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from .__main__ import ROOT, add_up, environment, interpreters

LOG = ROOT / "build" / "torture" / "suite.jsonl"
TIMEOUT = 400 if "--projects" not in sys.argv else 1200
TOO_LONG = "takes too long"
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
# Those that carry their tests in their wheels: what to install, what to test.
PROJECTS = {
    "networkx": (["networkx", "numpy"], ["networkx.algorithms", "networkx.classes"]),
    "numpy": (["numpy", "hypothesis"], ["numpy.lib", "numpy.ma", "numpy.random"]),
    "sympy": (["sympy"], ["sympy.core", "sympy.polys"]),
}


def prepare(python, project):
    """The command that runs a project's tests."""
    needed, packages = PROJECTS[project]
    install = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "pytest", *needed]
    subprocess.run(install, check=True)
    return ["-m", "pytest", "-q", "-rfE", "-p", "no:cacheprovider", "--pyargs", *packages]


def run(command, folder):
    """(exit status or a word, what it printed)"""
    process = subprocess.Popen(command, cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                               env=environment(command[0], {}), start_new_session=True)  # fmt: skip
    try:
        text = process.communicate(timeout=TIMEOUT)[0]
        return process.returncode, text.decode(errors="replace")
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        return TOO_LONG, process.communicate()[0].decode(errors="replace")


def once(python, tests, mode):
    """One run, alone if mode is None: exit status, names of tests that failed, and with spprof whether the profile is whole."""
    with tempfile.TemporaryDirectory(prefix="suite-") as folder:
        out = Path(folder) / "out.spprof"
        profiled = [] if mode is None else ["-m", "spprof", "run", "--mode", mode, "-q", "-o", out]
        began = time.monotonic()
        status, text = run([python, *profiled, *tests], folder)
        failed = sorted({one.split(" - ")[0] for one in re.findall(r"^(?:FAIL|ERROR|FAILED):? (.+)", text, re.MULTILINE)})
        line = {"status": status, "failed": failed, "seconds": round(time.monotonic() - began, 2), "text": text[-3000:]}
        counted = re.findall(r"(\d+) passed", text)
        if counted:
            line["passed"] = int(counted[-1])
        if mode is not None:
            report = [python, "-m", "spprof", "report", "--limit", "1", out]
            reported = subprocess.run(
                report, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment(python, {}), cwd=folder
            )
            line["whole"] = reported.returncode == 0 and "Warning" not in reported.stdout and "a bug" not in reported.stdout
            line["report"] = reported.stdout[-600:]
        return line


def main():
    parser = argparse.ArgumentParser(prog="python -m tests.torture.suite", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)  # fmt: skip
    parser.add_argument("--python", default="3.9,3.10,3.11,3.12,3.13", help="interpreters, as tools/matrix names them")
    parser.add_argument("--projects", action="store_true", help="test suites of PyPI's instead, installed if missing")
    parser.add_argument("--only", help="modules, or projects")
    parser.add_argument("--mode", choices=["cpu", "wall"], help="one mode instead of both")
    parser.add_argument("--minutes", type=float, help="begin no module after so many minutes an interpreter")
    parser.add_argument("--sum", action="store_true", help="only add up the log")
    asked = parser.parse_args()
    if asked.sum:
        return add_up(LOG)
    LOG.parent.mkdir(parents=True, exist_ok=True)
    wrong = 0
    for name, python in interpreters(asked.python).items():
        began = time.monotonic()
        passed = alike = 0
        for module in asked.only.split(",") if asked.only else PROJECTS if asked.projects else MODULES:
            if asked.minutes and time.monotonic() - began > asked.minutes * 60:
                print(f"{name}: out of time before {module}")
                break
            tests = prepare(python, module) if asked.projects else ["-m", "test", "-q", module]
            plain = once(python, tests, None)
            if asked.projects and not plain.get("passed"):
                sys.exit(f"suite: {module} does not run here even alone: exit {plain['status']}\n{plain['text'][-2000:]}")
            if plain["status"] == TOO_LONG:  # test_socket of 3.12 where there is VSOCK
                print(f"{name} {module}: ends within {TIMEOUT} s neither alone nor, then, with spprof: left out", flush=True)
                continue
            for mode in [asked.mode] if asked.mode else ["cpu", "wall"]:
                line = once(python, tests, mode)
                worse = sorted(set(line["failed"]) - set(plain["failed"]))
                problems = [f"failed only with spprof: {one}" for one in worse]
                if not line["whole"]:
                    problems.append(f"the profile is not whole: {line['report'].strip()[-200:]}")
                if line["status"] not in (plain["status"], 0):
                    problems.append(f"exit {line['status']}, alone {plain['status']}")
                if line.get("passed", 0) < plain.get("passed", 0):
                    problems.append(f"{line.get('passed', 0)} tests passed, alone {plain['passed']}")
                good = not problems
                passed += good and plain["status"] == 0
                alike += good and plain["status"] != 0
                wrong += not good
                with LOG.open("a") as log:
                    known = {"at": int(time.time()), "python": name, "module": module, "mode": mode, "problems": problems}
                    log.write(json.dumps({**known, "plain": plain["status"], **line}) + "\n")
                if asked.projects:
                    for how, one in ("alone", plain), (mode, line):
                        tally = f"{one.get('passed')} passed, {len(one['failed'])} failed, {one['seconds']} s"
                        print(f"{name} {module} {how}: {tally}", flush=True)
                if not good:
                    print(f"WRONG  {name} {module} {mode}: {'; '.join(problems)}")
                    print(line["text"][-1500:], flush=True)
        print(f"{name}: {passed} runs passed with and without spprof, {alike} failed in both", flush=True)
    print(f"suite: {wrong} runs with a problem")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
