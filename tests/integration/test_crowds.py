"""Programs of many threads: what spprof does for each is bounded, and keeps no thread of the program's waiting."""

import pytest
from switches import core_of_linux

linux = pytest.mark.skipif(
    not core_of_linux(), reason="Linux lists descriptors; its core has files by a table of their own, and names its threads so"
)


def test_threads_run_while_a_profile_is_started(run_python, tmp_path):
    """The GIL is not held while threads are looked for and armed: of 3,000 that took 10 seconds, and still takes 0.2."""
    (tmp_path / "p.py").write_text(
        """
import json, sys, threading, time
import spprof
from spprof import _core
count, done, real = [0], threading.Event(), _core.start
def counts():
    while not done.is_set():
        count[0] += 1
        time.sleep(0)
def start(*args):
    before = count[0]
    begun = real(*args)
    progress.append(count[0] - before)
    return begun
progress = []
_core.start = start
sys.setswitchinterval(1000)  # the GIL changes hands only where it is let go
late = time.monotonic() + 60  # a full machine has no processor for the thread that counts in most of the starts
waiting = [threading.Thread(target=done.wait) for _ in range(100)] + [threading.Thread(target=counts)]
for thread in waiting:
    thread.start()
while not progress or not progress[-1] and time.monotonic() < late:
    spprof.start()
    spprof.stop()
done.set()
for thread in waiting:
    thread.join()
print(json.dumps(progress))
"""
    )
    assert run_python("p.py").json[-1] > 0


def test_threads_run_while_the_names_of_all_are_reported(run_python, tmp_path):
    """The thread that reported them held the GIL, and waited for the drain lock for each, 3,000 times."""
    (tmp_path / "p.py").write_text(
        """
import json, sys, threading, time
import spprof
from spprof import _core
count, done = [0], threading.Event()
def counts():
    while not done.is_set():
        count[0] += 1
        time.sleep(0)
threading.stack_size(128 * 1024)
waiting = [threading.Thread(target=done.wait) for _ in range(300)] + [threading.Thread(target=counts)]
for thread in waiting:
    thread.start()
spprof.start()
sys.setswitchinterval(1000)  # the GIL changes hands only where it is let go
late = time.monotonic() + 60
progress = 0
while not progress and time.monotonic() < late:
    before = count[0]
    _core.name_all()
    progress = count[0] - before
sys.setswitchinterval(0.005)
done.set()
for thread in waiting:
    thread.join()
print(json.dumps([progress, sorted(thread.name for thread in spprof.stop().threads)]))
"""
    )
    progress, names = run_python("p.py").json
    assert progress > 0
    assert len([name for name in names if name.startswith("Thread-")]) == 301


@pytest.mark.statistical("not by chance: eight times the threads may cost 24 times the CPU time, where the defect cost 64 times")
@linux
def test_a_look_at_many_threads_costs_so_much_for_each(run_python, tmp_path):
    """Each thread's state was looked for through all of them: 64 times the work for 8 times the threads."""
    (tmp_path / "p.py").write_text(
        """
import glob, json, sys, threading, time
import spprof
threading.stack_size(128 * 1024)
done = threading.Event()
threads = [threading.Thread(target=done.wait) for _ in range(int(sys.argv[1]))]
for thread in threads:
    thread.start()
spprof.start(mode="wall", interval_ms=1000)
while spprof.stats()["taken"] < len(threads):
    time.sleep(0.01)
[sampler] = [name.split("/")[4] for name in glob.glob("/proc/self/task/*/comm") if open(name).read() == "spprof-sampler\\n"]
cpu = time.clock_gettime(~int(sampler) << 3 | 6)  # as pthread_getcpuclockid makes them
spprof.stop()
done.set()
for thread in threads:
    thread.join()
print(json.dumps(cpu))
"""
    )
    few, many = run_python("p.py", 100).json, run_python("p.py", 800).json
    assert many < 24 * few


def test_names_of_many_threads_at_once(run_python, tmp_path):
    """256 names are kept of threads that were named before they were found."""
    (tmp_path / "p.py").write_text(
        """
import json, threading, time, _thread
import spprof
from spprof import _core
spprof.start(output_path="out.spprof")
said, done = [], threading.Event()
def body(name):
    own = threading.get_native_id()
    _core.name_threads([(1000000000 + i, "nobody") for i in range(300)] + [(own, name)])
    said.append((own, name))
    done.wait()
for i in range(20):
    _thread.start_new_thread(body, (f"thread {i}",))
while len(said) < 20 or spprof.stats()["threads"] < 21:  # each is found
    time.sleep(0.001)
spprof.stop()
print(json.dumps(said))
done.set()
"""
    )
    ran = run_python("p.py")
    names = {thread.tid: thread.name for thread in ran.profile.threads}
    assert [names[tid] for tid, _ in ran.json] == [name for _, name in ran.json]


@pytest.mark.parametrize("rounds", [20, pytest.param(100, marks=pytest.mark.stress)])
@pytest.mark.parametrize("mode", ["cpu", "wall"])
def test_the_tick_stats_only_grow(run_python, tmp_path, mode, rounds):
    """The samples of an ended thread were in no sum for a while, and ticks that came late were counted before they came."""
    (tmp_path / "p.py").write_text(
        """
import json, sys, threading, time
import spprof
def work():
    end = time.perf_counter() + 0.002
    while time.perf_counter() < end:
        sum(range(100))
spprof.start(mode=sys.argv[1], interval_ms=0.5)
over, said, back, open_ = threading.Event(), [0, 0, 0, 0], [], []
def look(stats):
    global said
    before, said = said, [stats[key] for key in ("expected", "taken", "repeated", "dropped")]
    if any(now < then for now, then in zip(said, before)):
        back.append((before, said))
    if said[0] != sum(said[1:]):
        open_.append(said)
def ask():
    while not over.is_set():
        look(spprof.stats())
sys.setswitchinterval(0.0005)  # else the two threads wait for each other's turn, of 5 ms
asking = threading.Thread(target=ask)
asking.start()
turn, late = 0, time.monotonic() + 60
while turn < int(sys.argv[2]) or not said[0] and time.monotonic() < late:
    turn += 1
    threads = [threading.Thread(target=work) for _ in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
over.set()
asking.join()
look(spprof.stop().stats)
print(json.dumps([said, back[:9], open_[:9]]))
"""
    )
    said, back, unequal = run_python("p.py", mode, rounds).json
    assert said[0] > 0
    assert not back and not unequal


@linux
@pytest.mark.parametrize("most", [4096, 256])
def test_descriptors_are_out_of_the_way_of_select(run_python, tmp_path, most):
    """Those of 1,100 threads pushed the program's own beyond FD_SETSIZE. And it keeps half of what it may have."""
    (tmp_path / "p.py").write_text(
        """
import json, os, resource, sys, threading
import spprof
most = int(sys.argv[1])
resource.setrlimit(resource.RLIMIT_NOFILE, (most, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
done = threading.Event()
threads = [threading.Thread(target=done.wait) for _ in range(200)]
for thread in threads:
    thread.start()
spprof.start()
own = []
try:
    while len(own) < most // 2 - 40:
        own.append(os.open("/", os.O_RDONLY))
except OSError:
    pass
def name(fd):
    try:
        return os.readlink(f"/proc/self/fd/{fd}")
    except OSError:
        return ""
events = [int(fd) for fd in os.listdir("/proc/self/fd") if name(fd) == "anon_inode:[perf_event]"]
spprof.stop()
done.set()
print(json.dumps([len(own), events]))
"""
    )
    own, events = run_python("p.py", most).json
    assert own == most // 2 - 40
    assert len(events) <= most // 2
    assert all(40 <= fd < 64 or fd >= min(1024, most // 2) for fd in events), sorted(events)


@linux
@pytest.mark.parametrize("native", [False, True])
def test_no_file_of_ours_passes_through_the_programs_descriptors(run_python, tmp_path, native):
    """A program that closes all descriptors may get the number for a file of its own, which our close then closed."""
    (tmp_path / "p.py").write_text(
        """
import json, os, sys, threading, time
import spprof
def name(fd):
    try:
        return os.readlink(f"/proc/self/fd/{fd}")
    except OSError:
        return ""
known = {name(fd) for fd in os.listdir("/proc/self/fd")}
# glibc's malloc counts the processors, once in a process, when a ninth thread at a time allocates: in that thread, which was one
# of the program's in every stack that was seen. Any program of nine threads has that.
known.add("/sys/devices/system/cpu/online")
over, seen = threading.Event(), set()
def look():
    while not over.is_set() and not seen:
        for fd in os.listdir("/proc/self/fd"):
            found = name(fd)
            if found not in known and not found.endswith("/fd") and found.startswith("/"):
                seen.add(found)
spprof.start(mode="wall", interval_ms=0.5, native=sys.argv[1] == "True", output_path="out.spprof")
known.add(os.path.abspath("out.spprof"))
looking = threading.Thread(target=look)
looking.start()
for _ in range(20):
    threads = [threading.Thread(target=time.sleep, args=(0.05,)) for _ in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
over.set()
looking.join()
spprof.stop()
print(json.dumps(sorted(seen)))
"""
    )
    assert run_python("p.py", native).json == []


def test_profiles_begin_while_threads_are_born_and_end(run_python):
    """Without the GIL the interpreter's list of threads changes while a start looks whether it is where it should be."""
    ran = run_python("-c", """
import spprof, sys, threading
import spprof.files.profile
over, begun = False, 0
def nothing(): pass
def crowd():
    while not over:
        threads = [threading.Thread(target=nothing) for _ in range(5)]
        for thread in threads: thread.start()
        for thread in threads: thread.join()
crowds = [threading.Thread(target=crowd) for _ in range(3)]
for thread in crowds: thread.start()
try:
    rounds = 30 if getattr(sys, "_is_gil_enabled", lambda: True)() else 300
    for _ in range(rounds):
        spprof.start(100)
        begun += 1
        spprof.stop()
except spprof.SpprofError as error: print(error)
over = True
print(begun == rounds)
""", timeout=200)  # fmt: skip
    assert ran.out == "True\n"


def test_the_profile_is_asked_for_while_it_begins_and_ends(run_python):
    """Without the GIL it may go away while another thread takes it."""
    ran = run_python("-c", """
import json, spprof, sys, threading
import spprof.files.profile
from spprof import _core
over, wrong = False, []
sys.setswitchinterval(0.0001)
def asks():
    while not over: _core.session()
threads = [threading.Thread(target=asks) for _ in range(3)]
for thread in threads: thread.start()
try:
    for _ in range(40 if getattr(sys, "_is_gil_enabled", lambda: True)() else 200):
        spprof.start(100)
        spprof.stop()
except BaseException as error: wrong.append(repr(error))
over = True
for thread in threads: thread.join()
print(json.dumps(wrong))
""", timeout=200)  # fmt: skip
    assert ran.json == []


def test_every_call_of_the_interface_by_four_threads_at_once(run_python):
    """Each profile that one of them begins is ended once, by whichever comes first, and no call meets what another let go of."""
    ran = run_python("-c", """
import gc, json, os, spprof, sys, threading
import spprof.files.profile
from spprof import _core
from spprof.recording import labels
begun, ended, wrong = [], [], []
sys.setswitchinterval(0.0001)
def counted(call, done):
    def counts(*args):
        result = call(*args)
        if result: done.append(1)
        return result
    return counts
_core.start, _core.stop = counted(_core.start, begun), counted(_core.stop, ended)
def start(**options): spprof.start(100, **options)
@spprof.profile
def decorated(): pass
def decorates():
    try: decorated()
    except spprof.NotActive as error: wrong.append(repr(error))  # its caller has asked for nothing
def labelled():
    with spprof.label(request="one"): spprof.current_labels()
def label_calls():
    _core.label_rules(labels._current)
    _core.label_use(True)
    with spprof.label(request="one"): return _core.label_found(None)
nowhere = os.open(os.devnull, os.O_WRONLY)  # not a file: that would stay open when it is left
shared = [_core.copy_output(nowhere)]
def outputs():
    own, shared[0] = shared[0], _core.copy_output(nowhere)  # whichever: two may close it at once
    own.fileno(), own.is_open(), own.is_at(os.devnull), own.keep(), own.leave(), own.close()
    _core.open_output(f"{threading.get_ident()}.spprof", os.O_RDWR, True).close()
spprof.start(100, output_path="read.spprof")
spprof.stop()
with open("read.spprof", "rb") as file: data = file.read()
def reads(): return None if _core.read(data)["warning"] is None else wrong.append("read")
counts = {"generation": 2, "collected": 0, "uncollectable": 0}
def collects():
    for phase in "start", "stop": _core.collection(phase, counts)
    counts["collected"] = 10 ** 9 + len(begun)
    gc.collect()
def rests():
    _core.rest()
    _core.wake()
wanted = {_core.function_address(len): 1}
def names():
    wanted[1] = int("9" * 20)  # goes when the next takes its place
    wanted[1] = 1
    return _core.functions(wanted)
calls = [start, spprof.stop, spprof.pause, spprof.resume, spprof.flush, spprof.is_active, spprof.stats, labelled, spprof.stop,
    spprof.native_unwinding_available, lambda: start(native=spprof.native_unwinding_available()), lambda: start(mode="wall"),
    _core.session, _core.active, _core.paused, _core.stats, _core.name_all, _core.native_functions, lambda: _core.functions({}),
    lambda: _core.choose_clock("auto"), _core.forget, lambda: _core.stop(None), lambda: _core.name_threads([]),
    _core.now_ns, _core.unix_ns, _core.session, decorates, _core.session, label_calls, outputs, reads,
    collects, rests, names, _core.arguments, _core.handler_cycles]
def caller(first):
    for _ in range(20 if getattr(sys, "_is_gil_enabled", lambda: True)() else 100):
        for call in calls[first:] + calls[:first]:
            try: call()
            except (spprof.AlreadyActive, spprof.NotActive): pass
            except BaseException as error: wrong.append(repr(error))
threads = [threading.Thread(target=caller, args=(7 * i,)) for i in range(4)]
for thread in threads: thread.start()
for thread in threads: thread.join()
if spprof.is_active(): spprof.stop()
print(json.dumps([len(begun) > 0, len(begun) - len(ended), sorted(set(wrong))]))
""", timeout=200)  # fmt: skip
    assert ran.json == [True, 0, []]


def test_a_profile_begins_while_other_threads_change_what_it_reads(run_python):
    """Without the GIL it took another callback out of `gc.callbacks` than its own, for the list had changed since it looked."""
    ran = run_python("-c", """
import gc, json, spprof, sys, threading
import spprof.files.profile
over, wrong = False, []
sys.setswitchinterval(0.0001)
def words():
    while not over: sys.argv = ["word" * 9, str(threading.get_ident())]
def callbacks():
    def mine(*_): pass
    while not over:
        gc.callbacks.insert(0, mine)
        try: gc.callbacks.remove(mine)
        except ValueError: wrong.append("taken out by another")
threads = [threading.Thread(target=body) for body in (words, words, callbacks)]
for thread in threads: thread.start()
try:
    for _ in range(20 if getattr(sys, "_is_gil_enabled", lambda: True)() else 200):
        spprof.start(100)
        if spprof.stop().header["argv"][:1] != ["word" * 9]: wrong.append("no words")
except BaseException as error: wrong.append(repr(error))
over = True
for thread in threads: thread.join()
print(json.dumps([sorted(set(wrong)), len(gc.callbacks)]))
""", timeout=200)  # fmt: skip
    assert ran.json == [[], 0]
