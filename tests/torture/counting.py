"""Runs programs while two counters of calls hear them, and says in JSON where they differ, a line each. Run by counts.py.

  python counting.py LIBRARY PROGRAM,... at-once | apart | cProfile

LIBRARY: counter.c, compiled. `at-once`: the oracle in C and spprof hear the same run, so chance changes nothing. `apart`: each
has a run of its own, as users do; for programs that call the same each time. `cProfile`: cProfile and spprof hear the same
run; the oracle hears what other threads call before 3.12, and what cProfile gets since. Each program has a process of its own."""

import cProfile
import gc
import importlib.util
import io
import json
import os
import resource
import signal
import sys
import sysconfig
import threading
import traceback
import unittest
from collections import Counter
from pathlib import Path
from time import monotonic, sleep

import spprof
from spprof import start, stop  # now: each is imported when it is first used

HERE = Path(__file__).resolve().parent
OURS = os.path.dirname(spprof.__file__)
RECORDING = os.path.join(OURS, "recording")
MONITORS = sys.version_info >= (3, 12)
UNLOCKED = bool(sysconfig.get_config_var("Py_GIL_DISABLED")) and sys.version_info[:2] == (3, 13)
started = []  # threads of this process, by `threading`
CPU_SECONDS, SECONDS = 300, 1200  # of one program
COUNTERS = {"begin", "end", "wrap", "enter", "start", "stop"}  # in C, of the oracle and of spprof


def module_at(path):
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = sys.modules[path.stem] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def suite(name):
    """A module of CPython's own tests."""

    def run():
        tests = unittest.defaultTestLoader.loadTestsFromName(f"test.{name}")
        unittest.TextTestRunner(stream=io.StringIO()).run(tests)

    return run


def program(name):
    kind, _, which = name.partition(".")
    if kind == "cpython":
        return suite(which)
    if kind == "torture":
        case = module_at(HERE / "cases" / f"{which}.py")
        return lambda: case.main(1)
    target = module_at(HERE.parent / "targets" / f"{kind}.py")
    function = getattr(target, which)
    return (lambda: function(4)) if which == "threads" else function


def is_foreign(file):
    return not file.startswith(OURS) and file not in (__file__, "~", cProfile.__file__)


def of_spprof(calls, with_c):
    found = Counter()
    for call in calls.rows:
        function, caller = call.function, call.caller
        if function.native:
            if with_c and not (caller and caller.file.startswith(RECORDING)) and function.name not in COUNTERS:
                found[function.name] += call.calls  # a name alone: which type's it is, tests/integration/test_counts.py shows
        elif is_foreign(function.file):
            found[function.file, function.line, function.name] += call.calls + call.resumes
    return found


def of_oracle(rows, with_c):
    found = Counter()
    for what, n in rows:
        if isinstance(what, str):
            if with_c and what not in COUNTERS:
                found[what] += n
        elif is_foreign(what.co_filename):
            found[what.co_filename, what.co_firstlineno, what.co_name] += n
    return found


def of_cprofile(profile):
    found = Counter()
    for entry in profile.getstats():  # pstats would keep one of several code objects of the same name and line
        if not isinstance(entry.code, str) and is_foreign(entry.code.co_filename):
            found[entry.code.co_filename, entry.code.co_firstlineno, entry.code.co_name] += entry.callcount
    return found


def at_each_start(change):
    """Changes the function that each thread of `threading` begins with."""
    # (function, arguments) before 3.13, (function, handle=, daemon=) since.
    name = "_start_joinable_thread" if hasattr(threading, "_start_joinable_thread") else "_start_new_thread"
    start = getattr(threading, name)
    setattr(threading, name, lambda function, *others, **named: start(change(function), *others, **named))


class Oracle:
    """counter.c, loaded."""

    def __init__(self, library):
        spec = importlib.util.spec_from_file_location("counter", library)
        self.counter = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(self.counter)

    def hear(self, work):
        self.counter.begin()
        try:
            work()
        finally:
            self.rows = self.counter.end()


def then_collected(work):
    """Nothing is left for a collection between the ends of two counters."""

    def both():
        gc.enable()
        work()
        gc.collect()
        gc.disable()

    return both


def heard_by_spprof(work, calls):
    start(calls=calls)
    try:
        work()
    finally:
        profile = stop()
    return profile.calls


def closed_because_watched(work):
    """From 3.13 on the close of a generator that is at a plain yield runs nothing of it, unless somebody listens for its end, as
    cProfile and sys.setprofile do: what only they see of each function, recorded by callbacks in Python."""
    if sys.version_info < (3, 13):
        return Counter()
    found = [Counter(), Counter()]
    monitoring, events = sys.monitoring, sys.monitoring.events
    for into, more in zip(found, (events.PY_UNWIND, 0)):

        def thrown(code, *others, into=into):
            into[code.co_filename, code.co_firstlineno, code.co_name] += 1

        monitoring.use_tool_id(5, "closed_because_watched")
        monitoring.register_callback(5, events.PY_THROW, thrown)
        monitoring.register_callback(5, events.PY_UNWIND, lambda *others: None)
        monitoring.set_events(5, events.PY_THROW | more)
        try:
            work()
        finally:
            monitoring.set_events(5, 0)
            monitoring.free_tool_id(5)
    return found[0] - found[1]


def key_of(function):
    return function.file, function.line, function.name


def going_on(calls, with_callers):
    """Generators and coroutines that were resumed; also what called them, at whatever distance."""
    found = {key_of(call.function) for call in calls.rows if call.resumes}
    more = found if with_callers else ()
    while more:
        more = {key_of(call.caller) for call in calls.rows if call.caller and key_of(call.function) in more} - found
        found |= more
    return found


class Overheard:
    """Events of sys.monitoring that cProfile gets: calls that begin, and ends. It counts the ends."""

    def __init__(self, counter):
        self.counter = counter

    def begin(self):
        """After profile.enable()."""
        events, register = sys.monitoring.events, sys.monitoring.register_callback
        for event in (events.PY_START, events.PY_RESUME, events.PY_THROW, events.PY_RETURN, events.PY_YIELD, events.PY_UNWIND):
            callback = register(sys.monitoring.PROFILER_ID, event, None)
            if callback:
                begins = event in (events.PY_START, events.PY_RESUME, events.PY_THROW)
                register(sys.monitoring.PROFILER_ID, event, self.counter.pass_on(callback, begins))

    def end(self):
        self.began, self.refused, self.ended = Counter(), Counter(), Counter()
        for code, *numbers in self.counter.passed_on():
            for counts, n in zip((self.began, self.refused, self.ended), numbers):
                counts[code.co_filename, code.co_firstlineno, code.co_name] += n

    def excuse(self, differ):
        """Why cProfile differs, if the events explain both numbers of each function. `differ`: cProfile's and ours."""
        if any(both != (self.ended[key], self.began[key]) for key, both in differ.items()):
            return ""
        reasons = set()
        for key, (has, ours) in differ.items():
            if has > ours:
                reasons.add("a signal's handler raises before the event of a resume, so cProfile gets that of an end alone")
            elif self.refused[key] >= ours - has:
                reasons.add("cProfile's callback is refused where the recursion of C code ends")
            elif len(started) > 0:
                reasons.add("cProfile has one stack of calls for all threads, and counts no end while that is empty")
            else:
                return ""
        return "; ".join(sorted(reasons))


def excuse(how, differ, calls):
    """What is known to be wrong with the other counter on 3.11, if that is all that differs. `differ`: what each has of a
    function."""
    lost = sum(ours - has for has, ours in differ.values())
    if how == "apart" or sys.version_info[:2] != (3, 11) or not all(has < ours for has, ours in differ.values()):
        return ""
    resumes = sum(call.resumes for call in calls.rows)
    if lost <= resumes and differ.keys() <= going_on(calls, how == "cProfile"):
        return "3.11 has no event of a generator that goes on after a throw() into what it awaits, only of its return"
    return ""


def judged(oracle, name, how):
    """One program, as JSON."""
    work = program(name) if how == "apart" else then_collected(program(name))
    gc.disable()  # finalizers run where a collection happens to be due
    overheard = Overheard(oracle.counter) if how == "cProfile" and MONITORS else None
    if how == "cProfile" and UNLOCKED:
        started.clear()
        work()
        if started:
            return {"name": name, "left_out": "cProfile takes no lock: threads spoil its tables, or it never ends (gh-116738)"}
    if how == "at-once":
        with_c = MONITORS  # before, functions in C take the only profile function of a thread
        calls = heard_by_spprof(lambda: oracle.hear(work), "c" if with_c else True)
        expected, found = of_oracle(oracle.rows, with_c), of_spprof(calls, with_c)
    elif how == "apart":
        work()  # what is imported and cached at the first time
        work()
        gc.collect()
        closed = closed_because_watched(work)
        oracle.hear(work)
        gc.collect()
        calls = heard_by_spprof(work, "c")
        expected, found = of_oracle(oracle.rows, True) - closed, of_spprof(calls, True)
    else:
        profile = cProfile.Profile(builtins=False)

        def hear():
            sys.setprofile(None)  # the oracle is for the other threads
            profile.enable()
            if overheard:
                overheard.begin()
            try:
                work()
            finally:
                profile.disable()

        calls = heard_by_spprof(hear if overheard else lambda: oracle.hear(hear), True)
        expected, found = of_cprofile(profile), of_spprof(calls, False)
        if overheard:
            overheard.end()
        else:  # before 3.12 it counts one thread
            expected += of_oracle(oracle.rows, False)
    differ = {key: (expected[key], found[key]) for key in {**expected, **found} if expected[key] != found[key]}
    reason = differ and (overheard.excuse(differ) if overheard else excuse(how, differ, calls))
    rows = sorted([str(key), *both] for key, both in differ.items())
    return {"name": name, "differ": rows, "calls": sum(expected.values()), "missing": calls.missing, "reason": reason or ""}


def say(said):
    print(f"\n{json.dumps(said)}", flush=True)  # what a program printed last may be no whole line


def in_a_child(oracle, name, how):
    """Judges one program in a process of its own. It is forked, since classes that are made at an import take 3.13t 40
    calls of sched_yield() each: minutes on a machine that has more to do than processors."""
    child = os.fork()
    if child == 0:
        resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS))
        try:
            say(judged(oracle, name, how))
        except BaseException:
            say({"name": name, "error": traceback.format_exc()[-800:]})
        finally:
            os._exit(0)
    until = monotonic() + SECONDS
    ended, status = 0, 0
    while ended == 0:
        sleep(0.01)
        if monotonic() > until:
            os.kill(child, signal.SIGABRT)  # faulthandler says where it was
        ended, status, used = os.wait4(child, os.WNOHANG if monotonic() <= until else 0)
    if status != 0:
        # What hangs leaves the processor by itself. 3.13t's locks call sched_yield(), 15,000 times in 0.4 s of torture.shared:
        # with three busy processes on its processor that takes more than a minute.
        spent = f"{used.ru_utime + used.ru_stime:.1f} s of CPU time, {used.ru_nivcsw:,} times it gave way to others"
        say({"name": name, "error": f"wait status {status}" + (f" after {SECONDS} s: {spent}" if monotonic() > until else "")})


def main():
    library, names, how = sys.argv[1:]
    oracle = Oracle(library)
    at_each_start(lambda function: started.append(function) or oracle.counter.wrap(function))
    heard_by_spprof(lambda: None, True)  # whose imports and proofs the children need not repeat
    for name in names.split(","):
        in_a_child(oracle, name, how)


if __name__ == "__main__":
    main()
