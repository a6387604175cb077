"""Exceptions, signal handlers and finalizers that come within `start` and `stop`: afterwards there is a profile or there is none,
nothing waits for itself, and nothing is left behind."""

import json
import os
import sys

import pytest

linux = pytest.mark.skipif(sys.platform != "linux", reason="counts descriptors and threads by /proc")

# At each instruction, or at each seventh: the cases begin at others of the first seven.
step = pytest.mark.parametrize("step", [7, pytest.param(1, marks=[pytest.mark.stress, pytest.mark.timeout(1000)])])

# Raises at the n-th instruction of Python code of ours, or of what it calls; at none if there are fewer.
RAISING = """
import gc, json, os, sys, threading, time, spprof
from spprof import _core
import spprof.recording.api, spprof.files.profile
class Boom(BaseException): pass
class At:
    "Calls `do` at the n-th instruction of what runs from `watch` to `leave`."
    def __init__(self, n, do):
        self.left, self.do, self.reached = n, do, None
    def instruction(self, code):
        if code.co_filename == "<string>": return  # the test's own
        self.left -= 1
        if self.left == 0:
            self.reached = code.co_name
            self.leave()
            self.do()
    if hasattr(sys, "monitoring"):
        def watch(self):
            sys.monitoring.register_callback(4, sys.monitoring.events.INSTRUCTION, lambda code, at: self.instruction(code))
            sys.monitoring.set_events(4, sys.monitoring.events.INSTRUCTION)
        def leave(self): sys.monitoring.set_events(4, 0)
    else:
        def trace(self, frame, event, arg):
            frame.f_trace_opcodes, frame.f_trace_lines = True, False
            if event == "opcode": self.instruction(frame.f_code)
            return self.trace
        def watch(self): sys.settrace(self.trace)
        def leave(self): sys.settrace(None)
if hasattr(sys, "monitoring"): sys.monitoring.use_tool_id(4, "test")
def boom(): raise Boom
def at(n, call, do=boom):
    at = At(n, do)
    at.watch()
    try: call()
    except Boom: pass
    finally: at.leave()
    return at.reached
def tasks():
    for tid in os.listdir("/proc/self/task"):
        try: yield open("/proc/self/task/%s/comm" % tid).read()
        except (FileNotFoundError, ProcessLookupError): pass
def left():
    return [len(os.listdir("/proc/self/fd")), sorted(tasks()), list(map(id, gc.callbacks)), id(threading.Thread._set_native_id),
            _core.function_address(__import__("posix").execv), sorted(os.listdir("."))]
def is_left(what):  # a thread that was joined is listed for a moment longer
    end = time.monotonic() + 60
    while left() != what and time.monotonic() < end: pass
    return left() == what
"""


@linux
@pytest.mark.parametrize("named", [True, False], ids=["named", "unnamed"])
@pytest.mark.parametrize("native", [False, True], ids=["python", "native"])
@step
def test_an_exception_at_any_instruction_of_start(run_python, named, native, step):
    ran = run_python("-c", RAISING + f"""
def begin(): spprof.start(5, output_path={"out.spprof" if named else None!r}, native={native})
begin(); spprof.stop()
if {named}: os.unlink("out.spprof")
before, n, raised, wrong, ways = left(), -{step} + {1 + (2 * named + native) * 2 % step}, "start", [], set()
while raised:
    n += {step}
    raised = at(n, begin)
    ways.add(spprof.is_active())
    if spprof.is_active():
        spprof.stop()
        if {named}: os.unlink("out.spprof")
    else:
        try: spprof.stop()
        except spprof.NotActive: pass
    if not is_left(before): wrong.append((n, raised, left()))
print(json.dumps([n, sorted(ways), wrong[:3], before]))
""", timeout=900 if step == 1 else 240)  # fmt: skip
    n, ways, wrong, before = json.loads(ran.out)
    assert wrong == [], before
    assert n > 100 and ways == [False, True]


@linux
@pytest.mark.parametrize("named", [True, False], ids=["named", "unnamed"])
@pytest.mark.parametrize("native", [False, True], ids=["python", "native"])
@step
def test_an_exception_at_any_instruction_of_stop(run_python, named, native, step):
    ran = run_python("-c", RAISING + f"""
def begin(): spprof.start(5, output_path={"out.spprof" if named else None!r}, native={native})
begin(); spprof.stop()
before, n, raised, wrong, ways = left(), -{step} + {1 + (2 * named + native) * 2 % step}, "stop", [], set()
while raised:
    begin()
    n += {step}
    raised = at(n, spprof.stop)
    ways.add(spprof.is_active())
    if spprof.is_active(): spprof.stop()
    elif {named} and spprof.Profile.load("out.spprof").end is None: wrong.append("no end")
    if not is_left(before): wrong.append((n, raised, left()))
print(json.dumps([n, sorted(ways), wrong[:3], before]))
""", timeout=900 if step == 1 else 240)  # fmt: skip
    n, ways, wrong, before = json.loads(ran.out)
    assert wrong == [], before
    assert n > 50 and ways == [False, True]


@pytest.mark.parametrize("within", ["start", "stop"])
@step
def test_a_stop_at_any_instruction_of_both(run_python, within, step):
    """As in a signal handler: it does its work at once, or finds no profile. A start in it, the same."""
    ran = run_python("-c", RAISING.split("def left")[0] + f"""
def other():
    try:
        (spprof.stop if spprof.is_active() else spprof.start)()
    except spprof.SpprofError as error: seen.add(type(error).__name__)
n, called, seen = 1 - {step}, True, set()
while called:
    n += {step}
    if {within == "stop"}: spprof.start(5)
    try: called = at(n, lambda: spprof.{within}(*[5][:{within == "start"}]), other)
    except spprof.SpprofError as error:
        seen.add(type(error).__name__)
    if spprof.is_active(): spprof.stop()
print(json.dumps([n, sorted(seen)]))
""", timeout=900 if step == 1 else 240)  # fmt: skip
    n, seen = json.loads(ran.out)
    assert n > 30 and seen == (["AlreadyActive"] if within == "start" else ["NotActive"])


def test_a_stop_in_a_finalizer_that_runs_within_start_and_stop(run_python):
    """The collector is made to run at nearly each allocation of theirs."""
    ran = run_python("-c", """
import gc, spprof, spprof.recording.api, spprof.files.profile
calls = 0
class Stops:
    def __del__(self):
        global calls
        calls += 1
        try: spprof.stop()
        except spprof.NotActive: pass
for n in range(60):
    cycle = Stops()
    cycle.cycle = cycle
    del cycle
    gc.set_threshold(1 + n)
    try:
        spprof.start()
        spprof.stop()
    except (spprof.NotActive, spprof.AlreadyActive): pass
    gc.set_threshold(700)
    gc.collect()
    if spprof.is_active(): spprof.stop()
print(calls)
""", timeout=120)  # fmt: skip
    assert ran.out == "60\n"


@pytest.mark.skipif(os.name == "nt", reason="Windows sends itself no such signals")
@pytest.mark.parametrize("call", ["is_active()", "start(native=True)", "stop()"])
def test_a_signal_that_comes_while_spprof_imports_its_parts_finds_them_whole(run_python, call):
    """They are imported when first used. So is a finalizer of the collector's."""
    ran = run_python("-c", f"""
import gc, os, signal, sys, spprof
came, imported = [], []
def comes(*_):
    came.append(spprof.is_active())
    try: (spprof.stop if came[-1] else spprof.start)()
    except spprof.SpprofError: pass
class Comes:
    def __del__(self): comes()
class Sends:
    def find_spec(self, name, path=None, target=None):
        if not name.startswith("spprof"): return
        imported.append(name)
        os.kill(os.getpid(), signal.SIGALRM)
        cycle = Comes()
        cycle.cycle = cycle
        del cycle
        gc.set_threshold(1)
        [[] for _ in range(100)]
        gc.set_threshold(0)
if {call == "stop()"}: spprof.start(native=True)
signal.signal(signal.SIGALRM, comes)
gc.set_threshold(0)
sys.meta_path.insert(0, Sends())
try: spprof.{call}
except spprof.SpprofError: pass
sys.meta_path.pop(0)
print(len(came) > 0, len(imported) > 0)
""")  # fmt: skip
    assert (ran.out, ran.err) == ("True True\n", "")


def test_what_starts_a_profile_imports_no_typing(run_python):
    """It takes longer to import than all that."""
    ran = run_python("-c", "import sys, spprof; spprof.start(); print('typing' in sys.modules)")
    assert ran.out == "False\n"


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such timers")
@pytest.mark.parametrize("times", [25, pytest.param(1000, marks=pytest.mark.stress)])
def test_a_signal_handler_that_raises_while_profiles_begin_and_end(run_python, times):
    ran = run_python("-c", f"""
import gc, os, signal, spprof
class Boom(Exception): pass
def handler(*_):
    if armed: raise Boom
armed = False
signal.signal(signal.SIGALRM, handler)
spprof.start(); spprof.stop()
def left(): return len(os.listdir("/dev/fd")), len(gc.callbacks)
before, raised, n = left(), 0, 0
while raised < {times}:
    n += 1
    try:
        armed = True
        signal.setitimer(signal.ITIMER_REAL, 1e-5 + n % 97 * 5e-5)
        spprof.start()
        spprof.stop()
        armed = False
    except Boom:
        raised += 1
        armed = False
    signal.setitimer(signal.ITIMER_REAL, 0)
    if spprof.is_active(): spprof.stop()
    else:
        try: spprof.stop()
        except spprof.NotActive: pass
print(left() == before)
""", timeout=600)  # fmt: skip
    assert ran.out == "True\n"


def test_a_signal_that_waits_for_python_costs_no_descriptor(run_python):
    """The thread that looks after such signals reads a file; it also opens and closes the events, in the program's own table."""
    ran = run_python("-c", """
import os, signal, spprof, threading, time
signal.signal(signal.SIGALRM, lambda *_: None)
spprof.start(); spprof.stop()
before = len(os.listdir("/dev/fd"))
spprof.start()
signal.setitimer(signal.ITIMER_REAL, 0.01)
sum(range(10**7)) # looks after no signals
def work():
    taken, late = spprof.stats()["taken"], time.monotonic() + 60
    while spprof.stats()["taken"] < taken + 3 and time.monotonic() < late:  # the other thread sleeps
        until = time.monotonic() + 0.05
        while time.monotonic() < until: sum(range(1000))
thread = threading.Thread(target=work, name="late")
thread.start()
thread.join()
profile = spprof.stop()
late = [t for t in profile.threads if t.name == "late"]
print(late[0].weight > 0, flush=True)
del profile
print(len(os.listdir("/dev/fd")) - before)
""", timeout=120)  # fmt: skip
    assert ran.out == "True\n0\n"


@pytest.mark.parametrize("profiles", [15, pytest.param(1000, marks=pytest.mark.stress)])
def test_threads_that_start_and_stop_at_once(run_python, profiles):
    """One begins and one ends each profile; nobody else does, nobody waits for ever. How many there are in a minute is not
    judged."""
    ran = run_python("-c", f"""
import spprof, sys, threading, spprof.files.profile
sys.setswitchinterval(0.0005)  # of five threads that want to run each waits for the others at each step
began, ended, over = [], [], threading.Event()
def starts():
    while not over.is_set():
        try: spprof.start(5); began.append(1)
        except spprof.AlreadyActive: pass
def stops():
    while not over.is_set():
        try: spprof.stop(); ended.append(1)
        except spprof.NotActive: pass
        if len(ended) >= {profiles}: over.set()
threads = [threading.Thread(target=call) for call in (starts, starts, stops, stops)]
for thread in threads: thread.start()
over.wait(60)
over.set()
for thread in threads: thread.join()
if spprof.is_active(): spprof.stop(); ended.append(1)
print(len(began) == len(ended))
""")  # fmt: skip
    assert ran.out == "True\n"
