"""Samples of other types than time: what the kernel and the processor count, beside what the system reports by other ways."""

from __future__ import annotations

import base64
import json
import os
import re
import subprocess
import sys
import textwrap
import zlib

import pytest
from hosts import host
from switches import core_of_linux

import spprof
from spprof import _core
from spprof.cli import main
from spprof.recording.events import PARANOID, reason

REFUSER = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "refused.py")

REFUSED = {name: reason(number, refused) for name, _, _, _, _, number, refused in _core.list_events() if number}
EVENTS = [name for name, *_ in _core.list_events() if name != "time"]


def counted_here(*names):
    """Skips with the system's own reason, if it counts one of these not."""
    refused = {name: REFUSED[name] for name in names if name in REFUSED}
    return pytest.mark.skipif(bool(refused), reason=f"the system does not count {refused}")


counts = counted_here("page-faults")

# Touches known pages in known functions, on two threads; says how many faults getrusage has for each thread.
PROGRAM = """
    import json, mmap, resource, sys, threading
    def touch(pages):
        memory = mmap.mmap(-1, pages * mmap.PAGESIZE)
        if hasattr(memory, "madvise"):
            memory.madvise(mmap.MADV_NOHUGEPAGE)
        for at in range(0, len(memory), mmap.PAGESIZE):
            memory[at] = 1
        memory.close()
    def few():
        touch(4000)
    def many():
        touch(16000)
    def faults():
        used = resource.getrusage(resource.RUSAGE_THREAD)
        return used.ru_minflt + used.ru_majflt
    def work(name):
        before = faults()
        few()
        many()
        counted[name] = faults() - before
    counted = {}
    work("first")
    thread = threading.Thread(target=work, name="second", args=["second"])
    thread.start()
    thread.join()
    print(json.dumps(counted))
"""


def run(tmp_path, *options, program=PROGRAM, words=()):
    path = tmp_path / "p.spprof"
    code = ["-c", textwrap.dedent(program), *map(str, words)]
    command = [sys.executable, "-m", "spprof", "run", "-q", *options, "-o", str(path), *code]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 0, done.stderr
    return spprof.Profile.load(path), json.loads(done.stdout.splitlines()[-1])


def check(faults, counted):
    """Of the second thread all is counted too, but where it was before it was found is not known."""
    assert faults.unit == "faults"
    of_function = {row.qualname: row.total_weight for row in faults.functions(thread="MainThread")}
    assert of_function["work"] == pytest.approx(counted["first"], rel=0.01)
    assert of_function["few"] == pytest.approx(4000, rel=0.03)
    assert of_function["many"] == pytest.approx(16000, rel=0.01)
    by_thread = {thread.name: thread.weight for thread in faults.threads}
    assert by_thread["second"] == pytest.approx(counted["second"], rel=0.01)
    stats = faults.stats
    assert stats["units"] == sum(faults.column("weight")) and stats["taken"] == sum(faults.column("count"))
    assert stats["expected"] == stats["taken"] + sum(stats["losses"].values())
    assert 0 < stats["running_ns"] == stats["enabled_ns"]  # the kernel's own counters are not few


@counts
def test_page_faults_alone(tmp_path):
    profile, counted = run(tmp_path, "--event", "page-faults=31")
    assert [each.name for each in profile.sample_types] == ["page-faults"]
    assert profile.of("page-faults") is profile
    with pytest.raises(spprof.BadOption, match="no samples of 'time', but of page-faults"):
        profile.of("time")
    check(profile, counted)


@counts
def test_page_faults_beside_time(tmp_path):
    profile, counted = run(tmp_path, "--event", "time", "--event", "page-faults=100")
    assert [(each.name, each.unit, each.period) for each in profile.sample_types] == [
        ("time", "nanoseconds", 1_000_000),
        ("page-faults", "faults", 100),
    ]
    assert profile.unit == "nanoseconds" and profile.of("time").unit == "nanoseconds"
    assert sum(profile.of("time").column("weight")) == sum(profile.column("weight"))
    faults = profile.of("page-faults")
    check(faults, counted)
    assert len(faults) == pytest.approx(sum(counted.values()) / 100, rel=0.1)
    assert profile.stats["expected"] == profile.stats["taken"] + sum(profile.stats["losses"].values())


@counts
def test_pauses_are_counted_by_nobody(tmp_path):
    import mmap

    def touch():
        with mmap.mmap(-1, 3000 * mmap.PAGESIZE) as memory:
            if hasattr(memory, "madvise"):
                memory.madvise(mmap.MADV_NOHUGEPAGE)
            for at in range(0, len(memory), mmap.PAGESIZE):
                memory[at] = 1

    spprof.start(events=["page-faults"], output_path=tmp_path / "p.spprof")
    touch()
    spprof.pause()
    touch()
    spprof.resume()
    touch()
    faults = spprof.stop()
    assert sum(faults.column("weight")) == pytest.approx(6000, rel=0.1)


@counts
def test_threads_are_counted_from_their_birth():
    """Those too of which Python says nothing, while no thread makes a fault by which they would be noticed."""
    import _thread
    import mmap

    def touch(done):
        with mmap.mmap(-1, 1000 * mmap.PAGESIZE) as memory:
            if hasattr(memory, "madvise"):
                memory.madvise(mmap.MADV_NOHUGEPAGE)
            for at in range(0, len(memory), mmap.PAGESIZE):
                memory[at] = 1
        done.release()

    spprof.start(events=["page-faults=31"])
    for _ in range(20):
        done = _thread.allocate_lock()
        done.acquire()
        _thread.start_new_thread(touch, (done,))
        done.acquire()
    faults = spprof.stop()
    assert {row.qualname.rpartition(".")[2]: row.total_weight for row in faults.functions()}["touch"] > 20 * 800


@counts
def test_a_frequent_event_has_longer_periods(tmp_path):
    """1,000 samples a second at the most, after as many as it takes to learn how frequent the event is."""
    program = PROGRAM.replace("import json", "import time; began = time.perf_counter(); import json")
    program = program.replace("        many()", "        for _ in range(5): many()")
    program += """
    print(json.dumps({**counted, "seconds": time.perf_counter() - began}))
    """
    profile, counted = run(tmp_path, "--event", "page-faults", program=program)
    steps = 8 * 29  # samples that are thought over at once, times how many periods there are
    assert sum(profile.column("count")) <= 2 * (1000 * counted["seconds"] + steps)
    assert sum(profile.column("weight")) == pytest.approx(counted["first"] + counted["second"], rel=0.1)


# Does what is counted in functions of its own, and says how many the system reports of each.
SWITCHES = """
    import json, os, resource, sys, threading, time
    def switches():
        used = resource.getrusage(resource.RUSAGE_THREAD)
        return used.ru_nvcsw + used.ru_nivcsw
    def sleeps():
        for _ in range(300):
            time.sleep(0.0002)
    def asks():
        for _ in range(1000):
            os.write(writing, b"x")
            os.read(hearing, 1)
    def answers():
        before = switches()
        for _ in range(1000):
            os.read(reading, 1)
            os.write(saying, b"x")
        whole.append(switches())
        counted["answers"] = whole[0] - before
    (reading, writing), (hearing, saying) = os.pipe(), os.pipe()
    counted, whole = {}, []
    thread = threading.Thread(target=answers, name="second")
    thread.start()
    for function in (sleeps, asks):
        before = switches()
        function()
        counted[function.__name__] = switches() - before
    thread.join()
    print(json.dumps([counted, whole[0]]))
"""


def of_functions(profile):
    return {row.qualname.rpartition(".")[2]: row.total_weight for row in profile.functions()}


@counted_here("context-switches")
@pytest.mark.parametrize("others", [[], ["--event", "time", "--event", "cpu-migrations=1", "--event", "page-faults"]])
def test_context_switches_are_those_of_getrusage(tmp_path, others):
    """Each has the stack of the call in which the thread left the processor, on each thread from its birth."""
    profile, (counted, whole) = run(tmp_path, *others, "--event", "context-switches=1", program=SWITCHES)
    switches = profile.of("context-switches")
    found = of_functions(switches)
    for name, number in counted.items():
        assert found[name] == pytest.approx(number, rel=0.01, abs=3)
    of_second = {thread.name: thread.weight for thread in switches.threads}["second"]
    assert of_second == pytest.approx(whole, rel=0.01, abs=5)


@counted_here("context-switches")
def test_no_call_ends_early_though_each_switch_is_sampled(tmp_path):
    """A signal to a thread that is about to sleep would end its call, which is restarted or not, and begins again at best."""
    program = """
        import ctypes, json, os, time
        class timespec(ctypes.Structure):
            _fields_ = [("seconds", ctypes.c_long), ("nanoseconds", ctypes.c_long)]
        libc = ctypes.CDLL(None, use_errno=True)
        reading, writing = os.pipe()
        ended = 0
        for _ in range(300):
            began = time.monotonic_ns()
            failed = libc.nanosleep(ctypes.byref(timespec(0, 1_000_000)), None)
            ended += failed != 0 or time.monotonic_ns() - began < 1_000_000
            ended += libc.poll(None, 0, 1) != 0
        print(json.dumps([ended]))
    """
    profile, (ended,) = run(tmp_path, "--event", "context-switches=1", program=program)
    assert ended == 0
    assert sum(profile.column("weight")) >= 600


@counted_here("page-faults", "context-switches")
@pytest.mark.skipif(getattr(os, "geteuid", lambda: 1)() != 0, reason="of a user nothing is counted within calls")
def test_no_read_is_cut_short_though_it_faults(tmp_path):
    """Each read fills new memory, so some ticks arise within it."""
    program = """
        import json, mmap
        short, size = 0, 256 * mmap.PAGESIZE
        with open("/dev/zero", "rb", buffering=0) as zeros:
            for _ in range(100):
                with mmap.mmap(-1, size) as memory:
                    memory.madvise(mmap.MADV_NOHUGEPAGE)
                    short += zeros.readinto(memory) != size
        print(json.dumps([short]))
    """
    profile, (short,) = run(tmp_path, "--event", "page-faults=31", program=program)
    assert short == 0
    assert sum(profile.column("weight")) >= 25600


@counted_here("cpu-migrations")
@pytest.mark.skipif(len(os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else ()) < 2, reason="one processor")
def test_migrations_are_those_of_the_program(tmp_path):
    program = """
        import json, os
        def moves():
            for i in range(600):
                os.sched_setaffinity(0, {places[i % 2]})
        places = sorted(os.sched_getaffinity(0))[:2]
        moves()
        print(json.dumps(600))
    """
    profile, moved = run(tmp_path, "--event", "cpu-migrations=1", program=program)
    assert profile.unit == "migrations"
    assert of_functions(profile)["moves"] == pytest.approx(moved, abs=2)  # it may have been there already


@counted_here("major-faults")
def test_major_faults_are_those_of_getrusage(tmp_path):
    """Of a file whose pages are dropped, so each touch reads it again."""
    (tmp_path / "data").write_bytes(os.urandom(1 << 20) * 4)
    program = """
        import json, mmap, os, resource, sys
        def majors():
            return resource.getrusage(resource.RUSAGE_THREAD).ru_majflt
        def few():
            touch(range(200))
        def many():
            touch(range(200, 800))
        def touch(pages):
            with mmap.mmap(file, 0, prot=mmap.PROT_READ) as memory:
                memory.madvise(mmap.MADV_RANDOM)
                for page in pages:
                    memory[page * mmap.PAGESIZE]
        file = os.open(sys.argv[1], os.O_RDONLY)
        os.fsync(file)
        os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
        counted = {}
        for function in (few, many):
            before = majors()
            function()
            counted[function.__name__] = majors() - before
        print(json.dumps(counted))
    """
    profile, counted = run(tmp_path, "--event", "major-faults=1", program=program, words=[tmp_path / "data"])
    if min(counted.values()) < 100:
        pytest.skip(f"this file system drops no pages: {counted} of 200 and 600")
    found = of_functions(profile)
    assert {name: found[name] for name in counted} == {name: pytest.approx(n, abs=2) for name, n in counted.items()}


TRACED = """
    import json, os, time
    def opens():
        for _ in range(1500):
            os.close(os.open(os.devnull, os.O_RDONLY))
    def sleeps():
        for _ in range(1500):
            time.sleep(0)
            time.sleep(0.00001)
    opens()
    sleeps()
    print(json.dumps([]))
"""


@counted_here("tracepoint:GROUP:NAME", "context-switches")
def test_several_tracepoints_at_once(tmp_path):
    names = ["tracepoint:syscalls:sys_enter_openat", "tracepoint:sched:sched_switch", "context-switches"]
    events = [f"--event={name}=61" for name in names]
    profile, _ = run(tmp_path, *events, program=TRACED)
    assert sorted(each.name for each in profile.sample_types) == sorted(names)
    opens, passes, switches = (profile.of(name) for name in names)
    assert opens.unit == passes.unit == "events"
    found = of_functions(opens)
    assert found["opens"] == pytest.approx(1500, abs=70) and "sleeps" not in found
    # Neither begins nor ends at the same instant as the other.
    assert sum(passes.column("weight")) == pytest.approx(sum(switches.column("weight")), rel=0.01, abs=3)
    assert of_functions(passes)["sleeps"] >= 1400


@counted_here("tracepoint:GROUP:NAME")
@pytest.mark.parametrize("period", ["", "=61"])
def test_a_tracepoint_that_the_handler_passes_has_an_end(tmp_path, period):
    """Each tick makes system calls of its own: ticks of these must not be all that happens."""
    profile, _ = run(tmp_path, f"--event=tracepoint:raw_syscalls:sys_enter{period}", "--event=page-faults", program=TRACED)
    assert sum(profile.of("tracepoint:raw_syscalls:sys_enter").column("weight")) >= 6000


@counted_here("tracepoint:GROUP:NAME")
def test_a_tracepoint_that_is_none_is_refused():
    with pytest.raises(spprof.Unsupported, match=r"refuses to count tracepoint:no:such .*events: No such file or directory"):
        spprof.start(events=["tracepoint:no:such"])


@pytest.mark.parametrize("name", [
    pytest.param(name, marks=counted_here(name)) for name in ("instructions", "cycles", "cache-misses", "branch-misses")
])  # fmt: skip
def test_what_the_processor_counts_has_the_shares_of_the_work(tmp_path, name):
    program = """
        import json
        def work(n):
            table = {i: str(i) for i in range(100_000)}
            for i in range(n):
                table[i * 7919 % 100_000]
        def few():
            work(1_000_000)
        def many():
            work(5_000_000)
        few()
        many()
        print(json.dumps([]))
    """
    profile, _ = run(tmp_path, "--event", name, program=program)
    found = of_functions(profile)
    assert found["many"] > 2 * found["few"] > 0


REFUSED_NAMES = sorted(name for name in REFUSED if "GROUP" not in name)


@pytest.mark.parametrize("name", REFUSED_NAMES or [pytest.param("", marks=pytest.mark.skip(reason="all is counted here"))])
def test_what_is_not_counted_here_is_said_before_the_program_runs(tmp_path, name):
    """And nothing takes its place."""
    command = [sys.executable, "-m", "spprof", "run", "--event", "time", "--event", name, "-o", str(tmp_path / "p.spprof")]
    done = subprocess.run([*command, "-c", "print('it ran')"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert done.returncode != 0 and done.stdout == "" and not list(tmp_path.iterdir())
    assert f"the system refuses to count {name} ({REFUSED[name]})" in done.stderr


def listed(*before):
    command = [*before, sys.executable, "-m", "spprof", "run", "--event", "list"]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    return {line.split()[0]: (line.split()[1], more.strip()) for line, more in zip(lines, [*lines[1:], ""]) if line[0] != " "}


def test_the_list_says_what_there_is_and_why_not():
    found = listed()
    assert list(found) == ["time", *EVENTS]
    for name, (word, more) in found.items():
        assert word == ("no" if name in REFUSED else "yes")
        assert name not in REFUSED or more == REFUSED[name]


def paranoid():
    try:
        with open(PARANOID) as file:
            return int(file.read())
    except OSError:
        return -2


@counted_here("page-faults")
@pytest.mark.skipif(paranoid() != 2 or os.geteuid() != 0, reason=f"perf_event_paranoid is {paranoid()}, or this is not root")
def test_a_user_has_what_arises_in_the_programs_own_code():
    """With perf_event_paranoid 2, the kernel's default. What arises in the kernel alone is refused, with what to set."""
    program = """
        import json, mmap, os, spprof
        from spprof.recording import events
        def touch():
            memory = mmap.mmap(-1, 4000 * mmap.PAGESIZE)
            memory.madvise(mmap.MADV_NOHUGEPAGE)
            for at in range(0, len(memory), mmap.PAGESIZE):
                memory[at] = 1
        spprof.start(events=["page-faults=31"])
        spprof.stop().functions() # all modules are loaded, as they may be read later
        os.setgroups([])
        os.setresuid(65534, 65534, 65534)
        spprof.start(events=["page-faults=31"])
        touch()
        faults = spprof.stop()
        try:
            spprof.start(events=["context-switches"])
        except spprof.Unsupported as error:
            said = str(error)
        print(json.dumps([{row.qualname: row.total_weight for row in faults.functions()}["touch"], faults.header["user"], said,
                          list(events.listed())]))
    """
    command = [sys.executable, "-c", textwrap.dedent(program)]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 0, done.stderr
    touched, in_user, said, lines = json.loads(done.stdout)
    needs = "needs root, CAP_PERFMON, or kernel.perf_event_paranoid at 1 or less (it is 2)"
    assert touched == pytest.approx(4000, rel=0.03) and in_user
    assert f"refuses to count context-switches (perf_event_open: Permission denied: {needs})" in said
    assert f"of the program's own code alone: {needs}" in "\n".join(lines)


@pytest.mark.skipif(not core_of_linux(), reason="elsewhere the kernel is asked for no event, and the filter is of Linux")
def test_the_list_says_what_a_filter_refuses():
    found = listed(sys.executable, REFUSER, "perf_event_open")
    assert [found.pop(name)[0] for name in ("time", "gc", "tasks")] == ["yes", "yes", "yes"]
    assert {word for word, _ in found.values()} == {"no"}
    missing = {name for name in REFUSED if "GROUP" in name}  # without its folder that is what is said of a tracepoint
    assert {name for name, (_, more) in found.items() if "a filter refuses the call" not in more} <= missing


@pytest.mark.parametrize("events, why", [
    (["page-faults=3"], "4 to 1,000,000,000"), (["sneezes"], "no such event: `spprof run --event list`"), ([], "a list of names"),
    (["time=5"], "--rate"), (["time:page-faults"], "no name of an event"),
    (["tracepoint:one"], "tracepoint:GROUP:NAME"), (["tracepoint:a:../b"], "tracepoint:GROUP:NAME"),
    (["tracepoint:a:b=60"], "61 to 1,000,000,000"), (["tracepoint:" + "a" * 60 + ":b"], "63 letters"),
])  # fmt: skip
def test_events_that_cannot_be(events, why):
    with pytest.raises(spprof.BadOption, match=why):
        spprof.start(events=events)
    assert not spprof.is_active()


@pytest.mark.parametrize("event", ["tasks", "tasks=20000000"])
def test_an_event_of_waiting_needs_the_mode_that_waits(tmp_path, event):
    with pytest.raises(spprof.BadOption, match="mode='wall'"):
        spprof.start(events=["time", event])
    command = [sys.executable, "-m", "spprof", "run", "--event", event, "-o", str(tmp_path / "p.spprof"), "-c", "print('it ran')"]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert (done.returncode, done.stdout) == (2, "") and "--mode wall" in done.stderr


def test_wall_mode_is_about_time():
    with pytest.raises(spprof.BadOption, match="wall"):
        spprof.start(mode="wall", events=["page-faults"])


@pytest.mark.skipif(not core_of_linux(), reason="elsewhere the kernel is asked for no event, and the filter is of Linux")
def test_what_the_system_refuses_is_said_before_the_program_runs(tmp_path):
    refused = [sys.executable, REFUSER, "perf_event_open", sys.executable, "-m", "spprof", "run"]
    command = [*refused, "--event", "page-faults", "-o", str(tmp_path / "p.spprof"), "-c", "print('it ran')"]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    clock = [*refused, "--clock", "perf", "-o", str(tmp_path / "p.spprof"), "-c", "print('it ran')"]
    other = subprocess.run(clock, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert done.returncode == other.returncode != 0
    assert "refuses to count page-faults (perf_event_open: Operation not permitted: a filter refuses the call" in done.stderr
    assert done.stdout == "" and not list(tmp_path.iterdir())


TOUCH = """
import mmap
def touch(pages):
    with mmap.mmap(-1, pages * mmap.PAGESIZE) as memory:
        if hasattr(memory, "madvise"):
            memory.madvise(mmap.MADV_NOHUGEPAGE)
        for at in range(0, len(memory), mmap.PAGESIZE):
            memory[at] = 1
"""


def weight_of(faults, function="touch"):
    return {row.qualname: row.self_weight for row in faults.functions()}[function]


@counts
@pytest.mark.parametrize("both", [False, True])
def test_of_tests(tmp_path, both):
    """`pytest --spprof-event`: the lines of the summary are of time, if that is sampled, else of faults."""
    (tmp_path / "test_it.py").write_text(TOUCH + "def test_it():\n    touch(8000)\n")
    options = ["--spprof-event=time"] if both else []
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-p",
        "no:cacheprovider",
        "--spprof=test",
        "--spprof-event=page-faults=31",
        *options,
    ]
    done = subprocess.run([*command, "test_it.py"], cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert done.returncode == 0, done.stdout
    [file] = (tmp_path / "spprof-profiles").iterdir()
    profile = spprof.Profile.load(file)
    assert profile.mode == ("wall" if both else "cpu")
    assert weight_of(profile.of("page-faults")) == pytest.approx(8000, rel=0.05)
    [line] = re.findall(r"^  (.*)  touch \(test_it.py:8\)$", done.stdout, re.M)
    if both:
        assert re.fullmatch(r" *\d+\.\d{3} s +\d+\.\d%", line) and "Lines: wall time of the thread" in done.stdout
    else:
        amount, share = line.split()
        assert int(amount.replace(",", "")) == pytest.approx(8000, rel=0.05) and share.endswith("%")
        assert "Lines: page-faults of the thread" in done.stdout


@counts
@pytest.mark.parametrize("events", [["page-faults=31"], ["time", "page-faults=31"]])
def test_of_requests(tmp_path, events):
    """Each request's own, in a page with all types, and in a format that has the first."""
    from spprof.integrations.wsgi import SpprofMiddleware

    names = {}
    exec(TOUCH, names)

    def app(environ, start_response):
        names["touch"](4000 if environ["PATH_INFO"] == "/few" else 8000)
        start_response("200 OK", [])
        return [b""]

    for format in ("html", "speedscope"):
        folder = tmp_path / format
        middleware = SpprofMiddleware(app, slower_than=0.0, rate=1000, folder=folder, format=format, events=events)
        for path in ("/few", "/many"):
            middleware({"REQUEST_METHOD": "GET", "PATH_INFO": path}, lambda status, headers: None)
        middleware.recorder.finish()
        files = sorted(folder.iterdir(), key=lambda file: "-many-" in file.name)
        for file, pages in zip(files, (4000, 8000)):
            if format == "html":
                [packed] = re.findall(r'id="profile"[^>]*>([A-Za-z0-9+/=]+)<', file.read_text(encoding="utf-8"))
                data = zlib.decompress(base64.b64decode(packed))
                about = json.loads(data[4 : 4 + int.from_bytes(data[:4], "little")])
                units = [each["unit"] for each in (about, *about.get("others", ()))]
                assert units == (["nanoseconds", "faults"] if "time" in events else ["faults"])
            else:
                made = json.loads(file.read_text(encoding="utf-8"))["profiles"]
                assert sum(sum(each["weights"]) for each in made if each["unit"] == "none") == pytest.approx(pages, rel=0.05)
                assert any(each["unit"] == "nanoseconds" for each in made) == ("time" in events)
        assert len(files) == 2


@counts
def test_of_a_statement():
    """`%spprof --event`: the text has each type in its unit."""
    host("IPython")
    from IPython.testing.globalipapp import start_ipython
    from IPython.utils.capture import capture_output

    shell = start_ipython() or sys.modules["IPython"].get_ipython()
    shell.reset()
    shell.extension_manager.load_extension("spprof")
    shell.run_cell(TOUCH)
    with capture_output() as shown:
        result = shell.run_cell("%spprof -t --event=time --event page-faults=50 touch(8000)")
    assert result.success
    profile = shell.user_ns["_spprof"]
    assert [(each.name, each.period) for each in profile.sample_types] == [("time", 1_000_000), ("page-faults", 50)]
    [plain] = (output.data["text/plain"] for output in shown.outputs)
    parts = plain.split("By self ")[1:]
    timed = any(True for _ in profile.of("time"))  # it is over in 10 ms
    assert [part.partition(":")[0] for part in parts] == ["time"] * timed + ["faults"]
    [amount] = re.findall(r"^ +([\d,]+) .* touch \(", parts[-1], re.M)
    assert int(amount.replace(",", "")) == weight_of(profile.of("page-faults")) == pytest.approx(8000, rel=0.05)


@counts
def test_parts_and_formats_of_a_real_profile(tmp_path):
    """A thread's part as a file, its page, and what other programs are given, all with the same sums."""
    profile, counted = run(tmp_path, "--event", "time", "--event", "page-faults")
    whole = {thread.name: thread.weight for thread in profile.of("page-faults").threads}
    assert whole["second"] == pytest.approx(counted["second"], rel=0.01)
    path = str(tmp_path / "part.spprof")
    assert main(["convert", str(tmp_path / "p.spprof"), "--thread", "second", "-o", path]) == 0
    part = spprof.Profile.load(path)
    assert [each.unit for each in part.each_type()] == ["nanoseconds", "faults"]
    for view, of_whole in zip(part.each_type(), profile.each_type()):
        wanted = of_whole.functions(thread="second")
        assert view.functions() == wanted and {thread.name for thread in view.threads} == {"second"}
    for options in (
        ["--type", "page-faults", "--thread", "second"],
        ["--type", "page-faults", "--thread", "second", "--weight", "value"],
    ):
        collapsed = tmp_path / "p.collapsed"
        assert main(["convert", str(tmp_path / "p.spprof"), "-o", str(collapsed), *options]) == 0
        assert sum(int(line.rpartition(" ")[2]) for line in collapsed.read_text().splitlines()) == whole["second"]
    page = tmp_path / "p.html"
    assert main(["convert", path, "-o", str(page)]) == 0
    [packed] = re.findall(r'id="profile"[^>]*>([A-Za-z0-9+/=]+)<', page.read_text(encoding="utf-8"))
    data = zlib.decompress(base64.b64decode(packed))
    about = json.loads(data[4 : 4 + int.from_bytes(data[:4], "little")])
    assert [each["unit"] for each in about["others"]] == ["faults"]
    assert main(["report", path, "--type", "page-faults"]) == 0
