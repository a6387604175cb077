"""What a program's own signals and system calls see of the ticks: nothing. Linux, where ticks are signals."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from switches import core_of_linux, switch

NATIVE = Path(__file__).resolve().parent.parent / "native"
pytestmark = pytest.mark.skipif(not core_of_linux(), reason="ticks are no signals here")
CLOCKS = ["auto", "signal", "timer"]
HANDLERS_NEED = 2560  # STACK_NEED of csrc/os/linux/trigger.c


def rounds(short, long):
    """A test's repetitions: few in the gate, many where it may take long. A defect ends one call of two, or of ten."""
    return pytest.mark.parametrize("rounds", [short, pytest.param(long, marks=pytest.mark.stress)])


def tool(name, why):
    found = shutil.which(name)
    if found is None:
        pytest.skip(f"no {name}: {why}")
    return found


def compiled(folder, source):
    library = folder / f"{source}.so"
    gcc = tool("gcc", "it makes a library")
    subprocess.run([gcc, "-std=gnu11", "-O2", "-shared", "-fPIC", "-o", library, NATIVE / f"{source}.c", "-lpthread"], check=True)
    return library


# ---- shares of short calls

SHORT_CALLS = """
import json, sys, time, spprof
read, block, clock = open("/dev/zero", "rb", buffering=0).readinto, bytearray(1024), time.perf_counter_ns
def works(times):
    for _ in range(times): clock()
def calls(turns, times):
    for _ in range(turns):
        works(times)
        read(block)
alone = type(calls)(calls.__code__.replace(co_name="alone"), globals())
def took(calls, times):
    began = time.thread_time_ns()
    calls(200, times)
    return time.thread_time_ns() - began
times = 1
while min(took(calls, times) for _ in range(5)) < 200 * 50_000: times += times // 8 + 1
spprof.start(1, "cpu", sys.argv[1], clock="signal")
rest = turn = 0  # while it is sampled: on a busy machine a call's part of the time is another
while spprof.stats()["taken"] < 3000:
    turn += took(calls, times)
    rest += took(alone, 0)
spprof.stop()
print(json.dumps(rest / turn))
"""


@pytest.mark.statistical(
    "1 in 1,000,000 by chance: 5 standard deviations of the samples. Two points more are the ticks' own: setting a timer, and "
    "a call that is slower after a tick"
)
def test_a_short_call_has_no_more_samples_than_time(run_python, tmp_path):
    """A tick under way when a call begins is not the call's, unless the call lasts that long; nor is one that a timer brings."""
    ran = run_python("-c", SHORT_CALLS, tmp_path / "out.spprof")
    rest = ran.json  # with the call of a function that does nothing, in a function of another name
    counts = {row.name: row.self_samples for row in ran.profile.functions()}
    seen = counts.get("calls", 0) / (counts.get("calls", 0) + counts["works"])
    assert seen <= rest + 0.02 + 5 * (rest / 3000) ** 0.5


AFTER_SLEEP = """
import json, sys, time, spprof
clock = time.perf_counter_ns
def spin(times):
    began = last = clock()
    off = 0
    for _ in range(times):
        now = clock()
        if now - last > 100_000: off += now - last  # the thread waited for a processor
        last = now
    return last - began - off
def before(times): return spin(times)
def after(times): return spin(times)
times = int(20_000 / (min(spin(100) for _ in range(50)) / 100))
took = [0, 0]
spprof.start(0.1, "cpu", sys.argv[1], clock="signal")
while spprof.stats()["taken"] < 16000:
    for _ in range(200):
        took[0] += after(times)
        took[1] += before(times)
        time.sleep(20e-6)
spprof.stop()
print(json.dumps(took[0] / sum(took)))
"""


@pytest.mark.statistical(
    "1 in 1,000,000 by chance: 5 standard deviations of the samples. One point more: beside two busy processes `after` had up "
    "to 2 too many. Without the notes of looks it had 4 too few, on a quiet machine"
)
def test_what_follows_a_sleep_has_its_time(run_python, tmp_path):
    """A look that falls into the last microseconds of a call, while the thread is being woken, is not lost."""
    ran = run_python("-c", AFTER_SLEEP, tmp_path / "out.spprof")
    counts = {row.name: row.total_samples for row in ran.profile.functions()}
    samples = counts["after"] + counts["before"]
    assert counts["after"] / samples == pytest.approx(ran.json, abs=0.01 + 5 * (0.25 / samples) ** 0.5)


# ---- alternate signal stacks

ALTERNATE = """
import ctypes, json, sys, time, spprof
library = ctypes.CDLL(sys.argv[1])
for name in ("alternate", "kernels_part", "used", "written_below"): getattr(library, name).restype = ctypes.c_size_t
library.alternate.argtypes = [ctypes.c_size_t]
library.written_below.argtypes = [ctypes.c_ulong]
assert library.alternate(65536) == 0
kernels = library.kernels_part()
written = []
def deep(n):
    if n: return sorted([n], key=lambda x: deep(n - 1))
    while not written or spprof.stats()["taken"] + spprof.stats()["losses"]["no_stack"] < 30:
        written.append(library.written_below(2000000))
"""


@pytest.fixture(scope="module")
def altstack(tmp_path_factory):
    return compiled(tmp_path_factory.mktemp("altstack"), "altstack")


@pytest.mark.skipif(switch("SPPROF_SANITIZED"), reason="AddressSanitizer's frames are larger")
@pytest.mark.parametrize("native", [False, True])
@pytest.mark.parametrize("clock", CLOCKS)
def test_the_handler_runs_on_the_alternate_stack_and_takes_little_of_it(run_python, tmp_path, altstack, clock, native):
    ran = run_python("-c", ALTERNATE + f"""
with spprof.label(a="b"):
    spprof.start(0.1, "cpu", {str(tmp_path / "out.spprof")!r}, clock={clock!r}, native={native}, max_depth=4096)
    deep(40)
    spprof.stop()
print(json.dumps([max(written), kernels, library.used(), spprof.stats()["taken"], spprof.stats()["losses"]["no_stack"]]))
""", altstack)  # fmt: skip
    written, kernels, used, taken, refused = ran.json
    assert written == 0, "the handler ran on the usual stack"
    assert taken >= 30 and refused == 0
    assert kernels < used <= kernels + HANDLERS_NEED


@pytest.mark.parametrize("clock", CLOCKS)
def test_an_alternate_stack_that_is_too_small_is_left_alone(run_python, tmp_path, altstack, clock):
    """The ticks are counted, and what lies below is as it was."""
    ran = run_python("-c", ALTERNATE + f"""
size = kernels + 1024
assert library.alternate(size) == 0
spprof.start(0.1, "cpu", {str(tmp_path / "out.spprof")!r}, clock={clock!r}, native=True)
deep(0)
spprof.stop()
print(json.dumps([size, library.used(), spprof.stats()]))
""", altstack)  # fmt: skip
    size, used, stats = ran.json
    assert 0 < used <= size
    assert stats["losses"]["no_stack"] > 0
    assert stats["expected"] == stats["taken"] + stats["repeated"] + sum(stats["losses"].values())


@pytest.mark.statistical("none by chance; on a full machine a tick may come 25 ms late, and its weight with it")
@pytest.mark.parametrize("clock", CLOCKS)
def test_time_of_which_all_ticks_were_lost_is_nobodys(run_python, tmp_path, altstack, clock):
    """It went to the next sample, wherever that fell."""
    ran = run_python("-c", ALTERNATE + f"""
def burn(seconds):
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        until = time.monotonic() + end - time.thread_time()
        while time.monotonic() < until: sum(range(500))
def timed(call, *args):
    began = time.thread_time()
    call(*args)
    return time.thread_time() - began
def lost(): library.written_below(500000000)
def after(): burn(0.3)
assert library.alternate(kernels + 1024) == 0
spprof.start(1, "cpu", {str(tmp_path / "out.spprof")!r}, clock={clock!r})
spent = [timed(lost)]
assert library.alternate(65536) == 0
spent.append(timed(after))
spprof.stop()
print(json.dumps([spent, spprof.stats()]))
""", altstack)  # fmt: skip
    (lost, after), stats = ran.json
    sums = {}
    for frames, figures in ran.profile.aggregate().items():
        name = "after" if "after" in [frame.name for frame in frames] else frames[-1].name
        sums[name] = sums.get(name, 0) + figures.weight / 1e9
    assert stats["losses"]["no_stack"] > 7
    assert sums["[unknown stack]"] == pytest.approx(lost, rel=0.1, abs=0.025)
    assert sums["after"] == pytest.approx(after, rel=0.1, abs=0.025)


@pytest.mark.parametrize("clock", CLOCKS)
def test_time_of_which_all_ticks_were_lost_has_a_sample_without_a_stack(run_python, tmp_path, altstack, clock):
    ran = run_python("-c", ALTERNATE + f"""
def lost():
    while spprof.stats()["losses"]["no_stack"] < 30: library.written_below(2000000)
def after():
    taken = spprof.stats()["taken"]
    while spprof.stats()["taken"] < taken + 30: library.written_below(2000000)
assert library.alternate(kernels + 1024) == 0
spprof.start(1, "cpu", {str(tmp_path / "out.spprof")!r}, clock={clock!r})
lost()
assert library.alternate(65536) == 0
after()
spprof.stop()
""", altstack)  # fmt: skip
    seen = [[frame.name for frame in sample.frames] for sample in ran.profile]
    assert ["[unknown stack]"] in seen
    assert not any("lost" in stack for stack in seen) and any("after" in stack for stack in seen)


@pytest.fixture(scope="module")
def goroutines(tmp_path_factory):
    library = tmp_path_factory.mktemp("go") / "goroutines.so"
    command = [tool("go", "it makes a library"), "build", "-buildmode=c-shared", "-o", library, NATIVE / "goroutines.go"]
    subprocess.run(command, check=True, timeout=280, env={**os.environ, "GOFLAGS": "-p=1"})
    return library


@pytest.mark.parametrize("clock", CLOCKS)
def test_a_handler_of_the_programs_runs_on_the_stack_that_it_asked_for(run_python, tmp_path, altstack, clock):
    """Also by a signal that ticks came by until then: from there on the kernel itself calls the handler. Where the drain thread
    has no processor for so long that the call does not wait for it, from the next call on."""
    ran = run_python("-c", ALTERNATE + f"""
import os, signal
spprof.start(0.1, "cpu", {str(tmp_path / "out.spprof")!r}, clock={clock!r})
deep(0)
for number in map(int, (signal.SIGURG, signal.SIGWINCH)):
    assert library.handle(number) == 0
    while not library.kernel_has(number): assert library.handle(number) == 0
    for _ in range(20):
        os.kill(os.getpid(), number)
        library.written_below(100000)
spprof.stop()
print(json.dumps([library.times(), library.times_there()]))
""", altstack)  # fmt: skip
    assert ran.json == [40, 0]


@pytest.fixture(scope="module")
def small_stack(tmp_path_factory):
    return compiled(tmp_path_factory.mktemp("small_stack"), "small_stack")


@pytest.mark.parametrize("kind", ["thread", "coroutine"])
@pytest.mark.parametrize("clock", CLOCKS)
def test_a_tick_takes_nothing_of_a_stack_that_is_full(run_python, tmp_path, small_stack, clock, kind):
    """Before a check of the stack's size, the kernel would have ended the program."""
    ran = run_python("-c", f"""
import ctypes, json, sys, threading, time, spprof
library = ctypes.CDLL(sys.argv[1])
spprof.start(0.1, "cpu", {str(tmp_path / "out.spprof")!r}, clock={clock!r}, native=True)
def wait():
    before = spprof.stats()["taken"]
    while spprof.stats()["taken"] < before + 100: time.sleep(0.01)
    library.stop()
waits = threading.Thread(target=wait)
waits.start()
left = library.{kind}()
waits.join()
spprof.stop()
print(json.dumps(left))
""", small_stack)  # fmt: skip
    assert ran.json == 0


def test_a_thread_sees_no_stack_for_signals_but_its_own(run_python, small_stack):
    ran = run_python("-c", """
import ctypes, json, sys, spprof
library = ctypes.CDLL(sys.argv[1])
alone = library.sees()
spprof.start(0.1, "cpu", None)
print(json.dumps([alone, library.sees()]))
""", small_stack)  # fmt: skip
    alone, under = ran.json
    assert under == alone


# Go builds its own library first, which takes a minute. That the handler uses the alternate stack is seen above.
@pytest.mark.stress
@pytest.mark.parametrize("native", [False, True])
@pytest.mark.parametrize("clock", CLOCKS)
def test_a_library_of_gos_lives(run_python, tmp_path, goroutines, clock, native):
    ran = run_python("-c", f"""
import ctypes, json, sys, spprof
library = ctypes.CDLL(sys.argv[1])
library.Compute.restype = ctypes.c_ulonglong
def compute(): return library.Compute(4, 200)
results = {{compute()}}
spprof.start(0.1, "cpu", {str(tmp_path / "out.spprof")!r}, clock={clock!r}, native={native})
taken = spprof.stats()["taken"]  # of its imports
while spprof.stats()["taken"] < taken + 100: results.add(compute())
spprof.stop()
print(json.dumps(len(results)))
""", goroutines)  # fmt: skip
    assert ran.json == 1
    assert any(thread.name != "MainThread" for thread in ran.profile.threads), "no thread of Go's was sampled"


# ---- system calls

CALLS = """
import ctypes, json, os, signal, sys, threading, time, spprof
library = ctypes.CDLL(sys.argv[1])
library.calls_that_cannot_wait.restype = ctypes.c_char_p
library.calls_that_cannot_wait.argtypes = [ctypes.c_char_p, ctypes.c_double, *[ctypes.POINTER(ctypes.c_long)] * 2]
"""


@pytest.fixture(scope="module")
def calls(tmp_path_factory):
    return compiled(tmp_path_factory.mktemp("calls"), "calls")


@pytest.mark.parametrize("seconds", [0.01, pytest.param(0.1, marks=pytest.mark.stress)])
@pytest.mark.parametrize("clock", CLOCKS)
def test_a_call_that_cannot_fail_with_eintr_does_not(run_python, tmp_path, calls, clock, seconds):
    """Though a signal of the program's, whose handler ends calls, comes together with a tick."""
    (tmp_path / "file").write_bytes(b"x" * 100)
    ran = run_python("-c", CALLS + f"""
n, kinds = ctypes.c_long(), ctypes.c_long()
spprof.start(0.1, "cpu", {str(tmp_path / "out.spprof")!r}, clock={clock!r})
failed = library.calls_that_cannot_wait({str(tmp_path / "file").encode()!r}, {seconds}, n, kinds)
spprof.stop()
print(json.dumps([failed and failed.decode(), n.value, kinds.value]))
""", calls)  # fmt: skip
    failed, n, kinds = ran.json
    assert failed is None
    assert kinds > 50 and n >= kinds * 2000


@rounds(20, 200)
@pytest.mark.parametrize("clock", CLOCKS)
@pytest.mark.parametrize("how", ["os.write(to, data)", "os.writev(to, [data, data])", "end.send(data)"])
def test_what_is_written_is_written_whole(run_python, tmp_path, clock, how, rounds):
    """A signal that comes while a call moves data ends it there, and what it has moved is its result: half of these were cut."""
    ran = run_python("-c", f"""
import json, os, socket, spprof
if {"send" in how}:
    end, other = socket.socketpair()
    inside, to = other.detach(), end.fileno()
else:
    inside, to = os.pipe()
data = b"x" * 300000
n = len(data)
def whole(): return {how} == n * {2 if "[data, data]" in how else 1}
pid = os.fork()
if pid == 0:
    os.close(to)
    while os.read(inside, 4096): pass
    os._exit(0)
os.close(inside)
assert whole()
cut = calls = 0
spprof.start(0.1, "cpu", {str(tmp_path / "out.spprof")!r}, clock={clock!r})
while spprof.stats()["taken"] < {rounds} or calls < 10:
    calls += 1
    cut += not whole()
spprof.stop()
os.close(to)
os.waitpid(pid, 0)
print(json.dumps([cut, calls]))
""")  # fmt: skip
    cut, calls = ran.json
    assert (cut, calls >= 10) == (0, True)


READS = {
    "/dev/zero": "os.readv(zeros, [buffer])",
    "/dev/urandom": "len(os.read(noise, N))",
    "getrandom": "len(os.getrandom(N))",  # by the C library's syscall()
    "pread": "os.preadv(zeros, [buffer], 0)",
    "copy_file_range": "os.copy_file_range(source, target, N, 0, 0) if hasattr(os, 'copy_file_range') else N",
    "recvmsg": "end.recvmsg_into([buffer], 0, socket.MSG_WAITALL)[0]",
}


@rounds(20, 200)
@pytest.mark.parametrize("clock", CLOCKS)
def test_what_is_read_is_read_whole(run_python, tmp_path, clock, rounds):
    """All of these calls that a signal interrupted were cut short."""
    ran = run_python("-c", f"""
import json, os, socket, spprof, sys
N = 4 << 20
buffer = bytearray(N)
zeros, noise = os.open("/dev/zero", os.O_RDONLY), os.open("/dev/urandom", os.O_RDONLY)
source, target = [os.open(f"{{sys.argv[1]}}/{{name}}", os.O_RDWR | os.O_CREAT) for name in ("source", "target")]
os.write(source, buffer)
end, other = socket.socketpair()
pid = os.fork()
if pid == 0:
    end.close()
    try:
        while True: other.sendall(buffer)
    except OSError: pass
    os._exit(0)
other.close()
spprof.start(0.1, "cpu", {str(tmp_path / "out.spprof")!r}, clock={clock!r})
cut = {{}}
for name, how in {READS!r}.items():
    how, taken, calls, cut[name] = compile(how, "<call>", "eval"), spprof.stats()["taken"], 0, 0
    while spprof.stats()["taken"] < taken + {rounds} or calls < 10:
        calls += 1
        cut[name] += eval(how) != N
spprof.stop()
end.close()
os.waitpid(pid, 0)
print(json.dumps(cut))
""", tmp_path)  # fmt: skip
    assert ran.json == dict.fromkeys(READS, 0)


@pytest.mark.parametrize("clock", CLOCKS)
def test_a_writer_keeps_no_other_thread_waiting(run_python, tmp_path, clock):
    """The C library has all threads change their user by a signal, and waits for them."""
    ran = run_python("-c", f"""
import os, spprof, threading
inside, to = os.pipe()
def writer():
    try: os.write(to, b"x" * 300000)
    except BrokenPipeError: pass
spprof.start(0.1, "cpu", {str(tmp_path / "out.spprof")!r}, clock={clock!r})
thread = threading.Thread(target=writer)
thread.start()
os.read(inside, 65536)  # the rest waits
os.setgid(os.getgid())  # and cuts that write short
print("set")
os.close(inside)
spprof.stop()
""")  # fmt: skip
    assert ran.out == "set\n"


@rounds(50, 500)
@pytest.mark.parametrize("clock", CLOCKS)
def test_a_read_goes_on_when_the_process_was_stopped_and_goes_on(run_python, tmp_path, calls, clock, rounds):
    ran = run_python("-c", CALLS + f"""
inside, outside = os.pipe()
pid = os.fork()
if pid:
    os.close(inside)
    library.stop_and_continue(pid, outside, {rounds})
    os._exit(os.waitpid(pid, 0)[1] >> 8)
spprof.start(0.1, "cpu", {str(tmp_path / "out.spprof")!r}, clock={clock!r})
failed = library.reads(inside, {rounds})
spprof.stop()
print(failed, flush=True)
os._exit(0)
""", calls)  # fmt: skip
    assert ran.out.split() == ["0"]


@rounds(50, 500)
@pytest.mark.parametrize("clock", CLOCKS)
@pytest.mark.parametrize("whole", [0, 1], ids=["thread", "process"])
def test_a_signal_ends_a_read_that_waits(run_python, tmp_path, calls, clock, whole, rounds):
    ran = run_python("-c", CALLS + f"""
spprof.start(0.1, "cpu", {str(tmp_path / "out.spprof")!r}, clock={clock!r})
print(library.signalled_reads({rounds}, {whole}, 1))
spprof.stop()
""", calls)  # fmt: skip
    assert ran.out.split() == ["0"]


@rounds(40, 200)
@pytest.mark.parametrize("clock", CLOCKS)
def test_a_signal_for_python_ends_the_main_threads_read_on_any_thread(run_python, tmp_path, calls, clock, rounds):
    """The kernel gives a signal for the process to another thread while our handler runs in the main thread, and to one that
    returns from our handler. Python's handler only leaves a note there."""
    ran = run_python("-c", CALLS + f"""
signal.signal(signal.SIGALRM, lambda *_: None)
library.reads.argtypes = [ctypes.c_int, ctypes.c_int]
over = False
def busy():
    while not over: sum(range(1000))
threads = [threading.Thread(target=busy) for _ in range(2)]
for thread in threads: thread.start()
spprof.start(0.1, "cpu", {str(tmp_path / "out.spprof")!r}, clock={clock!r})
print(int(any(library.signalled_reads(1, 1, 0) for _ in range({rounds}))), flush=True)
spprof.stop()
over = True
for thread in threads: thread.join()
""", calls)  # fmt: skip
    assert ran.out.split() == ["0"]


@pytest.mark.parametrize("clock", CLOCKS)
def test_a_signal_for_python_ends_no_more_calls_than_it_does_alone(run_python, tmp_path, calls, clock):
    """Python's note of it stands for as long as C code does not return: each 10 ms a call was ended for it, 9 of these 10. Alone
    a signal ends one, or none if it comes between two. If its thread took it, we do not know, and end another."""
    ran = run_python("-c", CALLS + f"""
heard = []
signal.signal(signal.SIGALRM, lambda *_: heard.append(1))
spprof.start(0.1, "cpu", {str(tmp_path / "out.spprof")!r}, clock={clock!r})
signal.setitimer(signal.ITIMER_REAL, 0.05)
ended, late = 0, time.monotonic() + 60
while not heard and time.monotonic() < late: ended += library.naps(10, 50000)
spprof.stop()
print(json.dumps([ended, len(heard)]))
""", calls)  # fmt: skip
    ended, heard = ran.json
    assert ended <= 2 and heard == 1


@rounds(20, 200)
@pytest.mark.parametrize("clock", ["signal", "timer"])
def test_calls_with_a_time_limit_do_not_fail_with_eintr(run_python, tmp_path, calls, clock, rounds):
    """With the clock `signal` at 10 kHz one of ten such calls did: its number was not where we looked for it."""
    ran = run_python("-c", CALLS + f"""
spprof.start(0.1, "cpu", {str(tmp_path / "out.spprof")!r}, clock={clock!r})
print(library.limited_calls({rounds}))
spprof.stop()
""", calls)  # fmt: skip
    assert int(ran.out) == 0


@pytest.mark.skipif(not core_of_linux(), reason="calls are wrapped on Linux alone")
def test_functions_that_take_more_than_six_arguments_get_them_all(run_python, tmp_path):
    """Beyond six they are on the stack, on x86_64."""
    ran = run_python("-c", f"""
import ctypes, json, os, socket, spprof
spprof.start(1, "cpu", {str(tmp_path / "out.spprof")!r}, clock="signal")
numeric = socket.NI_NUMERICHOST | socket.NI_NUMERICSERV
libc = ctypes.CDLL(None)
def host_by(name, *asked):
    buffer, host, error = ctypes.create_string_buffer(8192), ctypes.c_void_p(1), ctypes.c_int(-1)
    into = ctypes.create_string_buffer(256)
    function = getattr(libc, name)
    failed = function(*asked, into, buffer, ctypes.c_size_t(len(buffer)), ctypes.byref(host), ctypes.byref(error))
    return failed == 0 and host.value == ctypes.addressof(into)
here = socket.inet_aton("127.0.0.1")
got = [
    [socket.getnameinfo(("127.0.0.1", 80), numeric | more) for more in (0, socket.NI_DGRAM)],
    host_by("gethostbyaddr_r", here, 4, int(socket.AF_INET)),
    host_by("gethostbyname2_r", b"127.0.0.1", int(socket.AF_INET)),
]
if hasattr(libc, "__recvfrom_chk"):
    one, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    other.bind(b"\\0spprof-" + str(os.getpid()).encode())
    other.send(b"hello")
    buffer, address, size = ctypes.create_string_buffer(64), ctypes.create_string_buffer(128), ctypes.c_int(128)
    libc.__recvfrom_chk.restype = ctypes.c_ssize_t
    n = libc.__recvfrom_chk(one.fileno(), buffer, ctypes.c_size_t(64), ctypes.c_size_t(64), 0, address, ctypes.byref(size))
    got.append([buffer.raw[:n].decode(), size.value == 2 + len(other.getsockname())])
spprof.stop()
print(json.dumps(got))
""")  # fmt: skip
    names, *others = ran.json
    assert names == [["127.0.0.1", "80"]] * 2
    assert others in ([True, True], [True, True, ["hello", True]])


@pytest.mark.parametrize("what", ["naps", "writes"])
def test_a_thread_that_makes_calls_of_its_own_is_interrupted_once_at_most(run_python, tmp_path, what):
    """A call by an instruction of the library's own is not seen before a tick meets it. That one is counted, and the thread gets
    another clock; also where the call does not say that it was cut short, but what it did until then."""
    (tmp_path / "own.c").write_text(OWN_CALLS)
    gcc = tool("gcc", "it makes a library")
    subprocess.run([gcc, "-std=gnu11", "-O2", "-shared", "-fPIC", "-o", tmp_path / "own.so", tmp_path / "own.c"], check=True)
    ran = run_python("-c", f"""
import ctypes, json, os, spprof, threading
library, ended = ctypes.CDLL({str(tmp_path / "own.so")!r}), 0
reads, writes = os.pipe()
def read():
    while os.read(reads, 30000): pass
threading.Thread(target=read).start()
spprof.start(0.1, "cpu", {str(tmp_path / "out.spprof")!r}, clock="signal")
for _ in range(1000):
    ended += library.{what}(20, writes)
    if spprof.stats()["calls_interrupted"]: break
ended += library.{what}(2000, writes)
spprof.stop()
os.close(writes)
print(json.dumps([ended, spprof.stats()["calls_interrupted"]]))
""")  # fmt: skip
    ended, n_interrupted = ran.json
    assert n_interrupted == ran.profile.stats["calls_interrupted"]
    assert ended <= n_interrupted <= 1, "more than one call was interrupted"


def test_a_function_that_was_got_before_the_profile_is_interrupted_once_at_most(run_python, tmp_path):
    """Its calls have no wrapper, and are those of the C library all the same."""
    ran = run_python("-c", f"""
import ctypes, json, spprof
poll, ended = ctypes.CDLL(None).poll, 0
spprof.start(0.1, "cpu", {str(tmp_path / "out.spprof")!r}, clock="signal")
for _ in range(2000): ended += poll(None, 0, 1) != 0
spprof.stop()
print(json.dumps([ended, spprof.stats()["calls_interrupted"]]))
""")  # fmt: skip
    ended, n_interrupted = ran.json
    assert ended == n_interrupted <= 1


OWN_CALLS = r"""
#include <sys/syscall.h>
#include <time.h>
static long call(long number, long a, long b, long c) {
#if defined(__x86_64__)
    long result;
    __asm__ volatile("syscall" : "=a"(result) : "0"(number), "D"(a), "S"(b), "d"(c) : "rcx", "r11", "memory");
    return result;
#else
    register long x8 __asm__("x8") = number, x0 __asm__("x0") = a, x1 __asm__("x1") = b, x2 __asm__("x2") = c;
    __asm__ volatile("svc 0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2) : "memory", "cc");
    return x0;
#endif
}
int naps(int n, int fd) {
    struct timespec for_ = {0, 20000};
    int ended = 0;
    for (int i = 0; i < n; i++) {
        for (volatile int k = 0; k < 20000; k++) {}
        ended += call(SYS_nanosleep, (long)&for_, 0, 0) != 0;
    }
    return ended;
}
static char bytes[200000];
int writes(int n, int fd) {
    int ended = 0;
    for (int i = 0; i < n; i++) ended += call(SYS_write, fd, (long)bytes, sizeof bytes) != sizeof bytes;
    return ended;
}
"""
