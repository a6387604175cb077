"""A program's signals are its own: no tick ever reaches a handler of its, ends it, or is handed to a thread that waits for
signals."""

import os
import signal
import subprocess
import sys
import sysconfig

import pytest
from switches import core_of_linux, switch
from test_calls import NATIVE, compiled, rounds, tool

pytestmark = pytest.mark.skipif(not core_of_linux(), reason="ticks are no signals here")

START = """
import ctypes, json, os, signal, sys, threading, time, spprof
def burn(seconds):  # reading a CPU clock all the time gives few ticks (docs/troubleshooting.md)
    end = time.process_time() + seconds
    while (left := end - time.process_time()) > 0:
        until = time.monotonic() + left
        while time.monotonic() < until: sum(range(200))
def start(interval_ms, mode, clock, path):
    try: spprof.start(interval_ms, mode, path, clock=clock)
    except OSError: sys.exit(77)
    except spprof.Unsupported: sys.exit(77)
"""
NUMBERS = [5, 23, 28]  # SIGTRAP, SIGURG, SIGWINCH, which other systems number otherwise or lack
CLOCKS = ["perf-trap", "perf", "signal", "timer"]
THIS, OLD = "this kernel", "an old one"
EVERYWHERE = [
    *[pytest.param(THIS, clock, id=f"{THIS}-{clock}") for clock in CLOCKS],
    # Of the clocks that have another signal there, one stands for both; the others take what they take here.
    *[
        pytest.param(OLD, clock, id=f"{OLD}-{clock}", marks=[] if clock == "perf-trap" else pytest.mark.stress)
        for clock in CLOCKS
    ],
]
on_all_clocks = pytest.mark.parametrize("kernel, clock", EVERYWHERE, indirect=["kernel"], scope="function")


@pytest.fixture(scope="module")
def handlers(tmp_path_factory):
    return compiled(tmp_path_factory.mktemp("handlers"), "handlers")


@pytest.fixture(scope="module")
def old_kernel(tmp_path_factory):
    return str(compiled(tmp_path_factory.mktemp("kernel"), "old_kernel"))


@pytest.fixture
def kernel(request):
    """What the environment says of it."""
    if getattr(request, "param", THIS) == THIS:
        return {}
    before = os.environ.get("LD_PRELOAD")  # a sanitizer's runtime
    shim = request.getfixturevalue("old_kernel")
    return {"LD_PRELOAD": f"{before}:{shim}" if before else shim}


@pytest.fixture
def run_there(run_python, kernel, monkeypatch):
    def run(*args, **options):
        for name, value in kernel.items():
            monkeypatch.setenv(name, value)
        ran = run_python(*args, **options)
        if ran.code == 77:
            pytest.skip("this clock does not work here")
        return ran

    return run


def signals_of_every_number(run_there, tmp_path, handlers, clock, mode):
    """Sent to handlers as Celery's workers have them. The library that sets them is loaded while ticks come, in several
    threads."""
    ran = run_there("-c", START + f"""
start(0.1, {mode!r}, {clock!r}, {str(tmp_path / "out.spprof")!r})
going = True
def spin():
    while going: sum(range(100))
threads = [threading.Thread(target=spin) for _ in range(3)]
for thread in threads: thread.start()
burn(0.1)
library = ctypes.CDLL(sys.argv[1])
handled = library.handle_all()
spprof.flush()  # one that ticks came by until now gives way
burn(0.2)
differ = library.send_all(20)
calls = library.calls()
taken = spprof.stats()["taken"]
while spprof.stats()["taken"] < taken + 50: burn(0.01)
late, unknown = library.calls() - calls, library.forgotten()
going = False
for thread in threads: thread.join()
spprof.stop()
stats = spprof.stats()
print(json.dumps([handled, differ, late, unknown, stats]))
""", handlers, ok=None)  # fmt: skip
    *seen, stats = ran.json
    assert seen == [60, 0, 0, 0]
    assert stats["expected"] == stats["taken"] + stats["repeated"] + sum(stats["losses"].values())
    return stats


@pytest.mark.parametrize("mode", ["cpu", "wall"])
@on_all_clocks
def test_handlers_of_every_signal_run_as_often_as_the_program_sent_them(run_there, tmp_path, handlers, clock, mode):
    signals_of_every_number(run_there, tmp_path, handlers, clock, mode)


@pytest.mark.statistical("none by chance; a machine that is stopped may shift a fifth of a second's ticks")
@on_all_clocks
def test_ticks_are_as_many_as_ever_beside_handlers_of_every_signal(run_there, tmp_path, handlers, clock):
    stats = signals_of_every_number(run_there, tmp_path, handlers, clock, "cpu")
    assert stats["expected"] * stats["interval_ns"] == pytest.approx(stats["cpu_ns"], rel=0.2)


@on_all_clocks
@pytest.mark.parametrize("number", NUMBERS)
def test_a_handler_that_is_set_in_a_run_is_called_as_its_flags_say(run_there, tmp_path, handlers, clock, number):
    ran = run_there("-c", START + f"""
library = ctypes.CDLL(sys.argv[1])
start(0.1, "cpu", {clock!r}, {str(tmp_path / "out.spprof")!r})
burn(0.1)
if {number} != signal.SIGTRAP:  # two signals of one number become one: so ticks come by another from the next look on
    signal.signal({number}, lambda *_: None)
    spprof.flush()
burn(0.1)
seen = [library.as_it_should({number}) for _ in range(20)]
seen += [library.reads({number}, 1), library.reads({number}, 0)]
spprof.stop()
seen += [library.as_it_should({number}), library.reads({number}, 1), library.reads({number}, 0)]
print(json.dumps(seen))
""", handlers, ok=None)  # fmt: skip
    assert ran.json == [0] * 20 + [0, 4] + [0, 0, 4]


@on_all_clocks
def test_after_the_run_the_program_has_what_it_set(run_there, tmp_path, clock):
    """And in between its forked children have."""
    ran = run_there("-c", START + f"""
got = []
def child(number):
    pid = os.fork()
    if pid == 0:
        os.kill(os.getpid(), number)
        os._exit(len(got))
    return os.waitpid(pid, 0)[1]
for number in signal.SIGTRAP, signal.SIGURG, signal.SIGPROF, signal.SIGWINCH: signal.signal(number, signal.SIG_DFL)
start(0.1, "cpu", {clock!r}, {str(tmp_path / "out.spprof")!r})
burn(0.1)
ends = [child(signal.SIGTRAP), child(signal.SIGURG), child(signal.SIGPROF)]
signal.signal(signal.SIGTRAP, lambda *_: got.append(1))
signal.signal(signal.SIGURG, lambda *_: got.append(2))
signal.signal(signal.SIGPROF, signal.SIG_IGN)
ends += [child(signal.SIGTRAP) >> 8, child(signal.SIGURG) >> 8, child(signal.SIGPROF)]
burn(0.1)
spprof.stop()
ends += [child(signal.SIGTRAP) >> 8, child(signal.SIGURG) >> 8, child(signal.SIGPROF)]
for number in signal.SIGTRAP, signal.SIGURG, signal.SIGPROF: os.kill(os.getpid(), number)
signal.signal(signal.SIGPROF, signal.SIG_DFL)
ends += [child(signal.SIGPROF)]
print(json.dumps([ends, got]))
""", ok=None)  # fmt: skip
    ends, got = ran.json
    dumped = [end & 0x7F for end in ends[:3]]
    assert dumped == [signal.SIGTRAP, 0, signal.SIGPROF]
    assert ends[3:] == [1, 1, 0, 1, 1, 0, signal.SIGPROF]
    assert got == [1, 2]


@on_all_clocks
def test_a_thread_that_waits_for_every_signal_gets_none_of_ours(run_there, clock):
    ran = run_there("-c", START + f"""
everything = signal.valid_signals()
signal.pthread_sigmask(signal.SIG_BLOCK, everything)
start(0.1, "cpu", {clock!r}, None)
got = []
for i in range(20):
    burn(0.02)
    got.append(signal.sigtimedwait(everything, 0.01))
for number in signal.SIGTRAP, signal.SIGURG:
    burn(0.02)
    os.kill(os.getpid(), number)
    got.append(signal.sigtimedwait(everything, 0).si_signo)
    burn(0.02)
    os.kill(os.getpid(), number)
    got.append(signal.sigwait(everything))
    burn(0.02)
    os.kill(os.getpid(), number)
    got.append(signal.sigwaitinfo(everything).si_pid - os.getpid())
spprof.stop()
print(json.dumps(got))
""", ok=None)  # fmt: skip
    assert ran.json == [None] * 20 + [5, 5, 0, 23, 23, 0]


@on_all_clocks
def test_exec_of_a_thread_that_blocks_every_signal_starts_a_clean_program(run_there, clock):
    ran = run_there("-c", START + f"""
signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
os.kill(os.getpid(), signal.SIGUSR1)
start(0.1, "cpu", {clock!r}, None)
burn(0.1)
os.execv(sys.executable, [sys.executable, "-c", '''if True:
    import signal
    print([int(number) for number in signal.sigpending()])
    signal.signal(signal.SIGUSR1, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
'''])
""", ok=None)  # fmt: skip
    assert ran.out == f"[{int(signal.SIGUSR1)}]\n"


@on_all_clocks
def test_a_library_that_replaces_the_program_starts_a_clean_one(run_there, handlers, clock):
    ran = run_there("-c", START + f"""
library = ctypes.CDLL(sys.argv[1])
start(0.1, "cpu", {clock!r}, None)
burn(0.1)
library.replace(sys.executable.encode(), b'''if True:
    import signal
    print([int(number) for number in signal.sigpending()])
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
''')
""", handlers, ok=None)  # fmt: skip
    assert (ran.code, ran.out) == (0, "[]\n")


@on_all_clocks
def test_what_the_program_ignores_its_children_ignore(run_there, clock):
    """Those of fork or vfork and exec, as with a `cwd`."""
    ran = run_there("-c", START + f"""
import subprocess
child = [sys.executable, "-c", "print([line for line in open('/proc/self/status') if 'SigIgn' in line])"]
numbers = signal.SIGTRAP, signal.SIGURG, signal.SIGPROF, signal.SIGWINCH
signal.signal(signal.SIGTRAP, signal.SIG_IGN)
signal.signal(signal.SIGURG, signal.SIG_IGN)
reported = [subprocess.check_output(child, cwd=".")]
start(0.1, "cpu", {clock!r}, None)
burn(0.1)
reported.append(subprocess.check_output(child, cwd="."))
for number in numbers: signal.signal(number, signal.SIG_DFL)
reported.append(subprocess.check_output(child, cwd="."))
for number in numbers[:2]: signal.signal(number, signal.SIG_IGN)
reported.append(subprocess.check_output(child, cwd="."))
burn(0.1)
spprof.stop()
reported.append(subprocess.check_output(child, cwd="."))
print(json.dumps([one == reported[0] for one in reported]))
""", ok=None)  # fmt: skip
    assert ran.json == [True, True, False, True, True]


@on_all_clocks
@pytest.mark.parametrize("way", ["spawn", pytest.param("spawnp", marks=pytest.mark.stress), "popen"])
def test_children_that_the_c_library_makes_ignore_what_the_program_ignores(run_there, tmp_path, clock, way):
    """It has them call exec unseen. In another thread ticks come meanwhile, and afterwards they come as before."""
    ran = run_there("-c", START + f"""
import shutil
out, cat = {str(tmp_path / "out")!r}, shutil.which("cat")
def reported():
    if {way == "popen"}:
        library = ctypes.CDLL(None)  # what was looked up before the run is not seen
        library.popen.restype = ctypes.c_void_p
        library.pclose.argtypes = [ctypes.c_void_p]
        assert library.pclose(library.popen(b"cat /proc/self/status > " + out.encode(), b"r")) == 0
    else:
        spawn = os.posix_spawn if {way == "spawn"} else os.posix_spawnp
        to = os.open(out, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        pid = spawn(cat, [cat, "/proc/self/status"], os.environ, file_actions=[(os.POSIX_SPAWN_DUP2, to, 1)])
        os.close(to)
        assert os.waitpid(pid, 0)[1] == 0
    return [line for line in open(out) if "SigIgn" in line]
numbers = signal.SIGTRAP, signal.SIGURG, signal.SIGPROF, signal.SIGWINCH
for number in numbers: signal.signal(number, signal.SIG_IGN)
expected = reported()
start(0.1, "cpu", {clock!r}, None)
going = True
def spin():
    while going: sum(range(100))
thread = threading.Thread(target=spin)
thread.start()
burn(0.1)
same = [reported() == expected for _ in range(8)]
before = spprof.stats()["taken"]
late = time.monotonic() + 100
while spprof.stats()["taken"] < before + 20 and time.monotonic() < late: burn(0.01)
same.append(spprof.stats()["taken"] >= before + 20)
for number in numbers: signal.signal(number, signal.SIG_DFL)
same.append(reported() != expected)
going = False
thread.join()
spprof.stop()
for number in numbers: signal.signal(number, signal.SIG_IGN)
same.append(reported() == expected)
print(json.dumps(same))
""", ok=None)  # fmt: skip
    assert ran.json == [True] * 11


# ---- what nobody saw


@pytest.fixture(scope="module")
def unseen(tmp_path_factory):
    return compiled(tmp_path_factory.mktemp("unseen"), "unseen")


# By `perf-trap` the next two would end the program.
HARMLESS = pytest.mark.parametrize("clock", ["auto", "perf", "signal", "timer"])


@HARMLESS
def test_a_tick_on_its_way_to_a_program_that_nobody_saw_begin_ends_nobody(run_there, unseen, clock):
    """By a bare system call, as uvloop's children begin."""
    ran = run_there("-c", START + f"""
import shutil
library = ctypes.CDLL(sys.argv[1])
true = shutil.which("true").encode()
def child():
    pid = os.fork()
    if pid == 0:
        start(0.05, "cpu", {clock!r}, None)
        burn(0.001)
        library.replace_bare(true)
    return os.waitpid(pid, 0)[1]
print(json.dumps([child() for _ in range(40)]))
""", unseen, ok=None)  # fmt: skip
    if set(ran.json) == {77 << 8}:
        pytest.skip("this clock does not work here")
    assert ran.json == [0] * 40


@pytest.mark.parametrize("clock", ["auto", "perf", "signal"])  # a timer's signal has no default but to end the program
def test_a_tick_whose_handler_is_gone_ends_nobody(run_there, unseen, tmp_path, clock):
    """All signals are reset, unseen, as sandboxes and pools of workers do it. Ticks come again when that is noticed."""
    ran = run_there("-c", START + f"""
library = ctypes.CDLL(sys.argv[1])
start(0.1, "cpu", {clock!r}, {str(tmp_path / "out.spprof")!r})
reset = []
for _ in range(20):
    reset.append(library.reset_bare())
    burn(0.005)
before, late = spprof.stats()["taken"], time.monotonic() + 60
while spprof.stats()["taken"] < before + 10 and time.monotonic() < late: burn(0.01)
spprof.stop()
print(json.dumps([min(reset), spprof.stats()["taken"] >= before + 10]))
""", unseen, ok=None)  # fmt: skip
    assert ran.json == [62, True]


@on_all_clocks
def test_a_handler_that_was_set_unseen_can_be_replaced_and_put_back(run_there, unseen, clock):
    """By a constructor, say, of an object whose calls nobody could look for yet. What it found there was our handler. Until it is
    seen in a look at the signals, as a flush is, such a handler is given ticks."""
    ran = run_there("-c", START + f"""
start(0.1, "cpu", {clock!r}, None)
burn(0.1)
library = ctypes.CDLL(sys.argv[1])
seen = [library.replaces()]
spprof.flush()
first, second = library.calls_of_first(), library.calls_of_second()
burn(0.1)
library.fire(signal.SIGTRAP)
seen += [library.calls_of_first() - first, library.calls_of_second() - second, library.put_back()]
burn(0.1)
spprof.stop()
pid = os.fork()
if pid == 0:
    library.fire(signal.SIGTRAP)
    os._exit(1)
seen.append(os.waitpid(pid, 0)[1] & 0x7F)
print(json.dumps(seen), flush=True)
library.fire(signal.SIGTRAP)
""", unseen, ok=None)  # fmt: skip
    assert ran.json == [1, 0, 1, 0, signal.SIGTRAP]
    assert ran.code == -signal.SIGTRAP


@on_all_clocks
@pytest.mark.parametrize("number", NUMBERS)
def test_older_names_of_sigaction_say_the_same(run_there, unseen, clock, number):
    ran = run_there("-c", START + f"""
library = ctypes.CDLL(sys.argv[1])
seen = [library.by_other_names({number})]
start(0.1, "cpu", {clock!r}, None)
burn(0.1)
seen.append(library.by_other_names({number}))
burn(0.1)
seen.append(library.by_other_names({number}))
spprof.stop()
seen.append(library.by_other_names({number}))
print(json.dumps(seen))
""", unseen, ok=None)  # fmt: skip
    assert ran.json == [0, 0, 0, 0]


@on_all_clocks
@pytest.mark.parametrize("number", [10, 27])  # (of two pending SIGTRAPs the kernel keeps one: that may be a tick)
@rounds(10, 60)
def test_a_signal_that_ends_the_process_does_so_in_sigsuspend(run_there, unseen, clock, number, rounds):
    """A tick that was taken first, one of 25, let sigsuspend() return with the signal blocked again."""
    ran = run_there("-c", START + f"""
library = ctypes.CDLL(sys.argv[1])
library.put_back()
for tries in range({rounds}):
    pid = os.fork()
    if pid: continue
    start(0.1, "cpu", {clock!r}, None)
    burn(0.01)
    library.ends_in_sigsuspend({number})
    os._exit(1)
print(json.dumps([os.wait()[1] for tries in range({rounds})]))
""", unseen, ok=None)  # fmt: skip
    ends = set(ran.json)
    if ends == {77 << 8}:
        pytest.skip("this clock does not work here")
    assert ends == {number}


@on_all_clocks
def test_a_thread_that_waits_for_ever_does(run_there, unseen, clock):
    """The longest time that there is, with a tick that is pending before anything comes."""
    ran = run_there("-c", START + f"""
library = ctypes.CDLL(sys.argv[1])
library.put_back()
start(0.1, "cpu", {clock!r}, None)
print(library.waits_for_ever())
""", unseen, ok=None)  # fmt: skip
    assert ran.out == f"{int(signal.SIGALRM)}\n"


@on_all_clocks
def test_exec_after_the_run_starts_a_clean_program(run_there, clock):
    """A thread that blocks every signal has a tick pending when the run is over, too."""
    ran = run_there("-c", START + f"""
signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
start(0.1, "cpu", {clock!r}, None)
burn(0.1)
spprof.stop()
os.execv(sys.executable, [sys.executable, "-c", '''if True:
    import signal
    print([int(number) for number in signal.sigpending()])
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
'''])
""", ok=None)  # fmt: skip
    assert (ran.code, ran.out) == (0, "[]\n")


def test_a_handler_may_replace_the_program_whatever_it_interrupts(run_python, unseen):
    """Here, a thread that has our lock."""
    ran = run_python("-c", START + """
library = ctypes.CDLL(sys.argv[1])
library.replace_at_fork(sys.argv[2].encode())
start(0.1, "cpu", "auto", None)
os.fork()
""", unseen, tool("true", "it replaces the program"), ok=None)  # fmt: skip
    assert ran.code == 0


# ---- objects


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root may chroot")
def test_an_object_that_is_sealed_is_seen_without_proc(run_python, tmp_path):
    """As a daemon in a root of its own has it. Its calls are seen, or left alone."""
    gcc = tool("gcc", "it makes a library")
    flags = ["-std=gnu11", "-O2", "-shared", "-fPIC", "-Wl,-z,now", "-Wl,-z,relro"]
    subprocess.run([gcc, *flags, "-o", tmp_path / "handlers.so", NATIVE / "handlers.c", "-lpthread"], check=True)
    ran = run_python("-c", START + """
start(0.1, "cpu", "auto", None)
burn(0.1)
os.chroot(sys.argv[1])
library = ctypes.CDLL("/handlers.so")
for i in range(60): spprof.flush()  # each has the objects looked at
handled = library.handle_all()
burn(0.1)
print(handled, library.calls(), flush=True)
os._exit(0)
""", tmp_path, ok=None)  # fmt: skip
    assert (ran.code, ran.out) == (0, "60 0\n")


@pytest.mark.skipif(switch("SPPROF_SANITIZED"), reason="a sanitizer's loader keeps what is closed")
def test_a_library_that_is_loaded_where_another_one_was_is_seen(run_there, handlers):
    """Both are looked at, and the first is gone before the second comes."""
    ran = run_there("-c", START + """
import _ctypes
def address(library): return ctypes.cast(library.handle_all, ctypes.c_void_p).value
start(0.1, "cpu", "perf-trap", None)
seen = []
for i in range(3):
    library = ctypes.CDLL(sys.argv[1])
    spprof.flush()
    seen.append(library.handle_all())
    burn(0.1)
    seen += [library.calls(), library.forgotten(), address(library)]
    for number in range(1, 65): number in (9, 19, 32, 33) or signal.signal(number, signal.SIG_DFL)
    _ctypes.dlclose(library._handle)
spprof.stop()
print(json.dumps(seen))
""", handlers, ok=None)  # fmt: skip
    place = ran.json[3]
    assert ran.json == [60, 0, 0, place] * 3


@pytest.mark.statistical("none by chance; on a full machine what takes samples from the queue may get no processor in time")
def test_a_library_that_takes_long_to_load_loses_no_samples(run_python, tmp_path):
    """The loader's lock is held meanwhile."""
    ran = run_python("-c", START + """
start(0.1, "cpu", "auto", None)
ctypes.CDLL(sys.argv[1])
spprof.stop()
print(spprof.stats()["losses"]["queue_full"])
""", compiled(tmp_path, "self_made"), ok=None)  # fmt: skip
    assert ran.out == "0\n"


@pytest.mark.skipif(switch("SPPROF_SANITIZED") or not hasattr(os, "RTLD_DEEPBIND"), reason="no library prefers its own here")
def test_a_library_that_has_its_own_function_of_a_name_calls_that(run_python, tmp_path):
    ran = run_python("-c", START + """
start(0.1, "cpu", "auto", None)
library = ctypes.CDLL(sys.argv[1], mode=os.RTLD_NOW | os.RTLD_DEEPBIND)
spprof.flush()
print(library.calls_its_own())
spprof.stop()
""", compiled(tmp_path, "self_made"), ok=None)  # fmt: skip
    assert ran.out == "4002\n"


@pytest.mark.skipif(not sysconfig.get_config_var("Py_ENABLE_SHARED"), reason="no library of Python")
def test_a_host_that_takes_addresses_of_the_functions(tmp_path):
    """Where it is not position-independent all others find its own entries for them."""
    gcc, folder = tool("gcc", "it makes a program"), sysconfig.get_config_var("LIBDIR")
    flags = ["-std=gnu11", "-O2", "-no-pie", "-fno-pic", "-Wl,-z,lazy", f"-I{sysconfig.get_path('include')}"]
    libraries = [f"-L{folder}", f"-lpython{sysconfig.get_config_var('LDVERSION')}", f"-Wl,-rpath,{folder}"]
    made = subprocess.run([gcc, *flags, "-o", tmp_path / "host", NATIVE / "host.c", *libraries], check=False)
    if made.returncode != 0:
        pytest.skip("there is no library of Python's here to make a host with")
    program = (
        START
        + """
got = []
signal.signal(signal.SIGTRAP, lambda *_: got.append(1))
start(0.1, "cpu", "auto", None)
burn(0.1)
signal.signal(signal.SIGTRAP, lambda *_: got.append(2))
burn(0.1)
os.kill(os.getpid(), signal.SIGTRAP)
burn(0.01)
spprof.stop()
try: os.execv("/", ["it", "fails"])
except OSError: print(got)
"""
    )
    search = os.pathsep.join(path for path in sys.path if path)
    env = dict(os.environ, PYTHONHOME=sys.base_prefix, PYTHONPATH=search)
    ran = subprocess.run([tmp_path / "host", "-c", program], env=env, stdout=subprocess.PIPE, timeout=120, check=False)
    assert (ran.returncode, ran.stdout) == (0, b"[2]\n")


def test_a_full_queue_of_signals_ends_nobody(run_there, tmp_path):
    """The kernel sends a signal then without what it says, so that a tick looked like a kill(). SIGURG is the program's here, and
    ticks come by SIGWINCH. The kernel counts the signals of all of a user's processes."""
    ran = run_there("-c", START + f"""
import resource
signal.signal(signal.SIGURG, lambda *_: None)
start(0.1, "cpu", "signal", {str(tmp_path / "out.spprof")!r})
queued = next(line for line in open("/proc/self/status") if line.startswith("SigQ:")).split()[1].partition("/")[0]
most = int(queued) + 2000
resource.setrlimit(resource.RLIMIT_SIGPENDING, (most, most))
number = int(signal.SIGRTMIN) + 3
signal.pthread_sigmask(signal.SIG_BLOCK, {{number}})
libc = ctypes.CDLL(None)
sent = 0
while libc.sigqueue(os.getpid(), number, None) == 0: sent += 1
burn(0.3)
for _ in range(sent): signal.sigwait({{number}})
before, late = spprof.stats()["taken"], time.monotonic() + 60
while spprof.stats()["taken"] < before + 10 and time.monotonic() < late: burn(0.01)
spprof.stop()
print(json.dumps([sent > 0, spprof.stats()["taken"] >= before + 10]))
""", ok=None)  # fmt: skip
    assert ran.json == [True, True], "ticks go on when there is space again"


@pytest.mark.parametrize("clock", ["auto", "signal"])
@pytest.mark.parametrize("before", [True, False], ids=["before", "during"])
def test_where_no_signal_may_wait_threads_are_sampled_all_the_same(run_python, tmp_path, clock, before):
    """Those too that are found when there is no space for a timer."""
    ran = run_python("-c", START + f"""
import resource
def limit(): resource.setrlimit(resource.RLIMIT_SIGPENDING, (0, 0))
def work():
    wanted, late = spprof.stats()["taken"] + 30, time.monotonic() + 60
    while spprof.stats()["taken"] < wanted and time.monotonic() < late: burn(0.01)
def late(): work()
if {before}: limit()
spprof.start(1, "cpu", {str(tmp_path / "out.spprof")!r}, clock={clock!r})
if not {before}: limit()
thread = threading.Thread(target=late)
thread.start()
thread.join()
work()
spprof.stop()
""")  # fmt: skip
    names = [[frame.name for frame in sample.frames] for sample in ran.profile.samples()]
    assert sum("late" in stack for stack in names) >= 20
    assert sum("work" in stack and "late" not in stack for stack in names) >= 20


@on_all_clocks
def test_a_thread_that_blocks_signals_has_none_of_ours_pending(run_there, tmp_path, clock):
    """But its own. (One of its own by the number that ticks come by becomes one with a tick that waits.)"""
    ran = run_there("-c", START + f"""
start(0.1, "cpu", {clock!r}, {str(tmp_path / "out.spprof")!r})
signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
pending = set()
for _ in range(200):
    burn(0.001)
    pending |= signal.sigpending()
signal.pthread_kill(threading.get_ident(), signal.SIGUSR1)
own = sorted(map(int, signal.sigpending()))
got = signal.sigtimedwait({{signal.SIGUSR1}}, 5)
spprof.stop()
print(json.dumps([sorted(map(int, pending)), own, got and got.si_code]))
""", ok=None)  # fmt: skip
    assert ran.json == [[], [int(signal.SIGUSR1)], 0]


# The first thread blocks its ticks until its event is closed, and a timer serves; one waits for it then. `number`: the event's.
EVENT_CLOSED = (
    START
    + """
import fcntl, mmap, struct
def events():
    found = set()
    for name in os.listdir("/proc/self/fd"):
        try: found |= {int(name)} if "perf_event" in os.readlink("/proc/self/fd/" + name) else set()
        except OSError: pass
    return found
def burn_until(condition):
    late = time.monotonic() + 60
    while not condition() and time.monotonic() < late: burn(0.01)
    assert condition()
def pends(): return int(next(line for line in open("/proc/thread-self/status") if line.startswith("SigPnd:")).split()[1], 16)
start(0.1, "cpu", "perf", None)
(number,) = events()
signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
burn_until(lambda: number not in events())
assert pends() & 1 << signal.SIGURG - 1
"""
)
only_perf = pytest.mark.parametrize("kernel, clock", [(THIS, "perf")], indirect=["kernel"])


@only_perf
def test_a_tick_is_ours_though_its_events_number_is_another_threads(run_there, clock):
    ran = run_there("-c", EVENT_CLOSED + """
going = True
def spin():
    signal.pthread_sigmask(signal.SIG_SETMASK, ())  # or its event would soon be closed, too
    while going: sum(range(100))
thread = threading.Thread(target=spin, daemon=True)
thread.start()
burn_until(lambda: number in events())
pending = sorted(map(int, signal.sigpending()))
going = False
thread.join()
spprof.stop()
print(json.dumps(pending))
""", ok=None)  # fmt: skip
    assert ran.json == []


@only_perf
def test_a_signal_is_the_programs_though_its_files_number_was_an_events(run_there, clock):
    """One that has no handler, or ticks would come by another one."""
    ran = run_there("-c", EVENT_CLOSED + """
before = sorted(map(int, signal.sigpending()))
inside, to = os.pipe()
os.dup2(inside, number)
fcntl.fcntl(number, 10, int(signal.SIGURG))  # F_SETSIG
fcntl.fcntl(number, 15, struct.pack("ii", 0, threading.get_native_id()))  # F_SETOWN_EX
fcntl.fcntl(number, fcntl.F_SETFL, os.O_ASYNC)
os.write(to, b"x")
pending = sorted(map(int, signal.sigpending()))
got = signal.sigtimedwait({signal.SIGURG}, 5)
spprof.stop()
print(json.dumps([before, pending, got and got.si_code]))
""", ok=None)  # fmt: skip
    assert ran.json == [[], [int(signal.SIGURG)], 1], "POLL_IN"


def test_a_signal_that_was_ours_ends_a_write_when_it_is_the_programs(run_there, tmp_path):
    """A program that takes every signal that ticks could come by: its threads have timers then, and writes hold nothing back."""
    ran = run_there("-c", START + f"""
class Heard(Exception): pass
def hear(*_): raise Heard
inside, to = os.pipe()
start(0.1, "cpu", "signal", {str(tmp_path / "out.spprof")!r})
burn(0.1)
for number in (signal.SIGURG, signal.SIGWINCH): signal.signal(number, hear)
spprof.flush()  # which looks at the signals
burn(0.2)
heard = []
for number in (signal.SIGURG, signal.SIGWINCH):
    waited = []  # so long that the write was held back: somebody reads at last
    def read():
        waited.append(1)
        for _ in range(16): os.read(inside, 1 << 16)
    reads = threading.Timer(60, read)
    reads.start()
    sends = threading.Timer(0.1, signal.pthread_kill, (threading.get_ident(), number))
    try:
        sends.start()
        while True: os.write(to, bytes(1 << 20))
    except Heard: heard.append(not waited)
    reads.cancel()
    os.set_blocking(inside, False)
    try:
        while os.read(inside, 1 << 20): pass
    except BlockingIOError: os.set_blocking(inside, True)
spprof.stop()
print(json.dumps(heard))
""", ok=None)  # fmt: skip
    assert ran.json == [True, True]


@pytest.mark.parametrize("mode", ["cpu", "wall"])
@pytest.mark.parametrize("kernel, clock", [(THIS, "auto")], indirect=["kernel"])
def test_a_descriptor_gives_the_programs_signals_and_no_ticks(run_there, tmp_path, clock, mode):
    """By signalfd(), for a signal that ticks came by; then for the other one, too."""
    ran = run_there("-c", START + f"""
import struct
libc = ctypes.CDLL(None, use_errno=True)
start(0.1, {mode!r}, {clock!r}, {str(tmp_path / "out.spprof")!r})
burn(0.05)
reported = []
for number in signal.SIGURG, signal.SIGWINCH:
    signal.pthread_sigmask(signal.SIG_BLOCK, [number])
    fd = libc.signalfd(-1, struct.pack("Q", 1 << number - 1).ljust(128, b"\\0"), os.O_NONBLOCK)
    for _ in range(10):
        burn(0.005)
        os.kill(os.getpid(), number)
        while True:
            try: reported.append(struct.unpack_from("IiiI", os.read(fd, 128)) == (number, 0, 0, os.getpid()))
            except BlockingIOError: break
    burn(0.05)
    try: reported.append(os.read(fd, 128).hex())
    except BlockingIOError: pass
before, late = spprof.stats()["taken"], time.monotonic() + 60
while spprof.stats()["taken"] < before + 5 and time.monotonic() < late: burn(0.01)
reported.append(spprof.stats()["taken"] >= before + 5)
spprof.stop()
print(json.dumps(reported))
""", ok=None)  # fmt: skip
    assert ran.json == [True] * 21


@pytest.mark.parametrize("way", ["owner before", "owner", "owner by syscall", "kill"])
def test_a_signal_that_the_program_ignores_ends_no_call(run_there, tmp_path, way):
    """As in the program alone: an urgent byte of a peer's, which spprof expects as the socket has an owner; and a signal of
    another process's, from the second on."""
    ran = run_there("-c", START + f"""
import fcntl, socket
libc, way, NR_fcntl = ctypes.CDLL(None), {way!r}, 72 if os.uname().machine == "x86_64" else 25
listens = socket.create_server(("127.0.0.1", 0))
peer = socket.create_connection(listens.getsockname())
mine, _ = listens.accept()
def caught(): return signal.SIGURG in signals_of("SigCgt")
def signals_of(name):
    mask = next(int(line.split()[1], 16) for line in open("/proc/self/status") if line.startswith(name + ":"))
    return [number for number in range(1, 65) if mask >> number - 1 & 1]
def own():
    if way == "owner by syscall": assert libc.syscall(NR_fcntl, mine.fileno(), fcntl.F_SETOWN, os.getpid()) == 0
    else: fcntl.fcntl(mine, fcntl.F_SETOWN, os.getpid())
def send():
    if way == "kill": os.kill(os.getpid(), signal.SIGURG)
    else: peer.send(b"!", socket.MSG_OOB)
def ended(): # calls that a signal ended
    n = 0
    for _ in range(20):
        sender = threading.Timer(0.01, send)
        sender.start()
        n += ctypes.CDLL(None).poll(None, 0, 50) != 0  # looked up anew: an older pointer is not known
        sender.join()
    return n
if way == "owner before": own()
alone = ended() if way in ("owner before", "kill") else 0
start(0.1, "cpu", "signal", {str(tmp_path / "out.spprof")!r})
caught_at_first = caught()
if way.startswith("owner"): own()
else: send()
until = time.monotonic() + 60  # a limit that only a hang reaches: a thread of spprof's gives the signal back
while caught() and time.monotonic() < until: burn(0.01)
late, taken = caught(), spprof.stats()["taken"]
seen = ended()
while spprof.stats()["taken"] < taken + 20: burn(0.01)
spprof.stop()
print(json.dumps([alone, caught_at_first, late, seen, spprof.stats()["signals_not_ignored"]]))
""", ok=None)  # fmt: skip
    assert ran.json == [0, way != "owner before", False, 0, int(way == "kill")]
