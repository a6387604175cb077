"""`spprof dump PID --native`, and `--core`: frames of C between those of Python, in the order in which the program calls. Of this
Python and, from this one, of all others at hand."""

import os
import random
import re
import resource
import shutil
import signal
import subprocess
import sys
import time

import pytest
from test_dump_process import BEGIN, LATE_S, OWN, PYTHONS, each_python, start, switches  # noqa: F401

from spprof.cli import main
from spprof.errors import SpprofError
from spprof.outside.core import CoreFile
from spprof.outside.dump import dump, dump_core
from spprof.outside.memory import Memory

# C calls Python again, and each C function is one that every C library exports under its name.
PROGRAM = """
import ctypes
LIBC = ctypes.CDLL(None)
COMPARE = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)
def compare(a, b):
    return hangs()
def sorts():
    LIBC.qsort((ctypes.c_int * 2)(2, 1), 2, 4, COMPARE(compare))
def hangs():
    {body}
"""
WAITS = "os.read(0, 1)"
RUNS = """
    text = ctypes.create_string_buffer(b'x' * (1 << 24), (1 << 24) + 1)
    while True: LIBC.strlen(text)
"""
THREADS = "thread = threading.Thread(target=sorts)\nthread.start()\nthread.join()\n"
MAIN = "sorts()\n"
ORDER = ["hangs", "compare", "qsort", "sorts"]  # the leaf first


def in_order(frames, wanted):
    """Whether these functions are among the frames, in this order."""
    names = iter([frame.name for frame in frames])
    return all(any(name == one or name.startswith(one) for name in names) for one in wanted)


def until(look, wanted):
    late = time.monotonic() + LATE_S
    while True:
        found = look()
        threads = [thread for thread in found.threads if any(frame.name == "hangs" for frame in thread.frames)]
        if len(threads) == 1 and wanted(threads[0]):
            return threads[0], found
        assert time.monotonic() < late, found


def as_python(thread):
    return [frame for frame in thread.mixed.frames if not frame.native] == thread.frames


@each_python
@pytest.mark.parametrize("calls", [MAIN, THREADS], ids=["main", "thread"])
def test_frames_of_c_are_where_they_are_called(calls, python, start):  # noqa: F811
    process = start(PROGRAM.format(body=WAITS) + calls, python)
    thread, _ = until(lambda: dump(process.pid, with_native=True), lambda one: one.does.startswith("waits in read"))
    before = switches(process.pid)
    thread, _ = until(lambda: dump(process.pid, with_native=True), lambda one: one.sure)
    assert in_order(thread.mixed.frames, ["read", *ORDER]), thread.mixed
    assert as_python(thread) and "cannot" not in thread.mixed.cut, thread.mixed
    theirs = [frame.name for frame in thread.mixed.frames if frame.native and re.match(r"(lib)?python\d", frame.file)]
    assert not [name for name in theirs if name.startswith(("_Py", "Py"))], theirs
    assert switches(process.pid) == before, "it was woken"


@each_python
def test_a_thread_that_runs_is_stopped_for_them(python, start):  # noqa: F811
    process = start(PROGRAM.format(body=RUNS) + MAIN, python)
    # In strlen itself, or where it is called.
    thread, _ = until(lambda: dump(process.pid, with_native=True), lambda one: one.sure and in_order(one.mixed.frames, ORDER))
    assert as_python(thread) and not thread.mixed.cut, thread.mixed
    late, names = time.monotonic() + LATE_S, set()
    while not any("strlen" in name or name.startswith("[libc") for name in names):
        names |= {one.name for thread in dump(process.pid, with_native=True).threads for one in thread.mixed.frames}
        assert time.monotonic() < late, names


def test_a_thread_that_is_not_stopped_has_no_frames_of_c(start):  # noqa: F811
    process = start(PROGRAM.format(body=RUNS) + MAIN)
    thread, _ = until(lambda: dump(process.pid, may_stop=False, with_native=True), lambda one: one.does == "runs")
    assert thread.mixed.cut and thread.mixed.frames == thread.frames, thread


def test_they_are_printed(start, capsys):  # noqa: F811
    process = start(PROGRAM.format(body=WAITS) + MAIN)
    until(lambda: dump(process.pid), lambda one: one.does.startswith("waits in read"))
    assert main(["dump", str(process.pid), "--native"]) == 0
    lines = [line.strip() for line in capsys.readouterr().out.splitlines()]
    read, hangs = (next(n for n, line in enumerate(lines) if line.startswith(name)) for name in ("read [libc", "hangs ("))
    assert read < hangs


# ---- core files


def of_kernel(folder, text, python):
    """Where the kernel writes them, if it does so here."""
    with open("/proc/sys/kernel/core_pattern") as file:
        if file.read()[:1] in "|/\n":
            pytest.skip("the kernel does not write core files into the process's folder")
    if resource.getrlimit(resource.RLIMIT_CORE)[1] == 0:
        pytest.skip("this process may have no core files")
    (folder / "hang.py").write_text(BEGIN + text)
    process = subprocess.Popen(
        [PYTHONS[python], "hang.py"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=folder,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CORE, (resource.getrlimit(resource.RLIMIT_CORE)[1],) * 2),
    )  # fmt: skip
    assert int(process.stdout.readline()) == process.pid
    return process


@pytest.mark.parametrize("python", [name for name in PYTHONS if name in (OWN, "3.9", "3.12", "3.14", "3.15")])
def test_a_core_file_says_what_the_process_did(python, tmp_path, capsys):
    text = PROGRAM.format(body=WAITS) + (
        "import asyncio\nasync def idle(): await asyncio.get_running_loop().create_future()\n"
        "threading.Thread(target=lambda: asyncio.run(idle()), daemon=True).start()\n"
        "a, b, both = threading.Lock(), threading.Lock(), threading.Barrier(2)\n"
        "def takes(first, second):\n    with first:\n        both.wait()\n        with second: pass  #\n"
        "for locks in ((a, b), (b, a)): threading.Thread(target=takes, args=locks, daemon=True).start()\n" + MAIN
    )
    process = of_kernel(tmp_path, text, python)
    try:
        until(
            lambda: dump(process.pid),
            lambda one: one.does.startswith("waits in read") and dump(process.pid).cycles and dump(process.pid).tasks.loops,
        )
        living = dump(process.pid, with_native=True)
        process.send_signal(signal.SIGABRT)
        assert process.wait(LATE_S) == -signal.SIGABRT
    finally:
        process.kill()
        process.communicate()
    (path,) = tmp_path.glob("core*")
    core = CoreFile(str(path))
    try:
        found = dump_core(core, with_locals=True, with_native=True)
        assert core.command.endswith("hang.py")
    finally:
        core.close()
    assert (found.pid, found.version, found.cycles) == (living.pid, living.version, living.cycles)
    ours = {thread.tid: thread for thread in found.threads}
    assert list(ours) == [thread.tid for thread in living.threads]
    for thread in living.threads:
        plain = [frame._replace(variables=None) for frame in ours[thread.tid].frames]
        assert plain == thread.frames and ours[thread.tid].sure
        assert ours[thread.tid].owner == thread.owner
    (hangs,) = [thread for thread in found.threads if any(frame.name == "hangs" for frame in thread.frames)]
    assert hangs.does == "waits in read of descriptor 0, and got SIGABRT"
    assert in_order(hangs.mixed.frames, ["read", *ORDER]) and not hangs.mixed.cut, hangs.mixed
    assert any(frame.variables for frame in hangs.frames)
    assert [[task.name for task in loop.tasks.values()] for loop in found.tasks.loops] == [
        [task.name for task in loop.tasks.values()] for loop in living.tasks.loops
    ]
    assert main(["dump", "--core", str(path)]) == 0
    assert "Deadlock:" in capsys.readouterr().out


@pytest.mark.skipif(shutil.which("gcore") is None, reason="needs gdb's gcore")
@pytest.mark.parametrize("python", [name for name in PYTHONS if name in (OWN, "3.15")])
def test_a_copy_that_gdb_makes_is_one_too(python, start, tmp_path):  # noqa: F811
    process = start(PROGRAM.format(body=WAITS) + MAIN, python)  # gdb 13 cannot copy stacks of other threads of glibc 2.42
    until(lambda: dump(process.pid), lambda one: one.does.startswith("waits in read"))
    subprocess.run(["gcore", "-o", str(tmp_path / "core"), str(process.pid)], check=True, capture_output=True, timeout=LATE_S)
    core = CoreFile(str(tmp_path / f"core.{process.pid}"))
    try:
        thread, _ = until(lambda: dump_core(core, with_native=True), lambda one: True)
    finally:
        core.close()
    assert thread.does == "waits in read of descriptor 0"
    assert in_order(thread.mixed.frames, ["read", *ORDER]) and as_python(thread), thread.mixed


def test_a_forged_core_file_does_no_harm(tmp_path):
    """Wherever one differs: in its headers, its notes, its memory."""
    process = of_kernel(tmp_path, PROGRAM.format(body=WAITS) + MAIN, OWN)
    try:
        until(lambda: dump(process.pid), lambda one: one.does.startswith("waits in read"))
        process.send_signal(signal.SIGABRT)
        process.wait(LATE_S)
    finally:
        process.kill()
        process.communicate()
    (path,) = tmp_path.glob("core*")
    size, read = path.stat().st_size, 0
    with open(path, "r+b") as file:
        for seed in range(12):
            source = random.Random(seed)
            places = [source.randrange((200, 20_000, size)[seed % 3]) for _ in range(1 if seed % 3 == 0 else 200)]
            before = [os.pread(file.fileno(), 1, place) for place in places]
            for place in places:
                os.pwrite(file.fileno(), bytes([source.choice((0, 1, 127, 255, source.randrange(256)))]), place)
            try:
                core = CoreFile(str(path))
                try:
                    read += len(dump_core(core, with_locals=True, with_native=True).threads)
                finally:
                    core.close()
            except SpprofError:
                pass
            for place, byte in reversed(list(zip(places, before))):
                os.pwrite(file.fileno(), byte, place)
    assert read, "none was read"


def test_a_process_whose_memory_says_anything_does_no_harm(start, monkeypatch):  # noqa: F811
    process = start(PROGRAM.format(body=WAITS) + THREADS)
    until(lambda: dump(process.pid), lambda one: one.does.startswith("waits in read"))
    honest, read = Memory._at, 0

    def forged(memory, address, size):
        data = bytearray(honest(memory, address, size))
        for _ in range(source.randrange(1 + len(data) // often)):
            data[source.randrange(len(data))] = source.choice((0, 1, 127, 128, 255, source.randrange(256)))
        return bytes(data)

    monkeypatch.setattr(Memory, "_at", forged)
    for seed in range(12):
        source, often = random.Random(seed), (256, 1024, 4096)[seed % 3]
        try:
            read += len(dump(process.pid, with_locals=True, with_native=True).threads)
        except SpprofError:
            pass
    assert read, "none was read"
    monkeypatch.undo()
    assert any(frame.name == "hangs" for thread in dump(process.pid).threads for frame in thread.frames)


def test_what_is_no_core_file_is_said(tmp_path, capsys):
    (tmp_path / "text").write_text("a" * 1000)
    (tmp_path / "empty").write_bytes(b"")
    for path, words in (("text", "no core file"), ("empty", "no core file"), ("none", "No such file"), (".", "no core file")):
        assert main(["dump", "--core", str(tmp_path / path)]) == 2
        assert words in capsys.readouterr().err
    shutil.copy(sys.executable, tmp_path / "program")
    assert main(["dump", "--core", str(tmp_path / "program")]) == 2
    assert main(["dump", "--core", str(tmp_path / "text"), str(os.getpid())]) == 2
    assert main(["dump"]) == 2
