"""What reads other processes: it believes nothing that it reads. And its tables are those of the C core."""

from __future__ import annotations

import os
import random
import re
import struct
import subprocess
import sys
import time
from collections import deque
from contextlib import suppress
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest

if sys.platform != "linux":
    pytest.skip("spprof reads other processes on Linux alone", allow_module_level=True)
from spprof.outside import calls, coroutines, imports, interpreter, locks, stacks, tasks, values
from spprof.outside.dump import Dump, Thread
from spprof.outside.elf import Symbols
from spprof.outside.interpreter import Interpreter
from spprof.outside.layouts import LAYOUTS, SAID
from spprof.outside.lines import line_of
from spprof.outside.memory import READ_MOST, STEPS_MOST, Memory, Unreadable
from spprof.outside.objects import Objects
from spprof.outside.text import lines_of
from spprof.outside.ways import obstacle

CSRC = Path(__file__).resolve().parents[2] / "csrc"
SIZE = 1 << 16  # of the invented memory


@pytest.fixture
def memory_of(tmp_path):
    """Memory whose bytes at address 0 and after are these."""
    files = []

    def make(data):
        files.append(open(tmp_path / f"{len(files)}", "wb+"))
        files[-1].write(data)
        files[-1].flush()
        return Memory(files[-1].fileno())

    yield make
    for file in files:
        file.close()


def garbage(seed):
    """Random bytes; most words are addresses in them, so that links lead on, or small numbers."""
    source = random.Random(seed)
    aligned = [source.randrange(SIZE) & ~7 for _ in range(SIZE // 8)]
    others = [source.choice((source.randrange(SIZE), source.randrange(64), source.getrandbits(64))) for _ in range(SIZE // 40)]
    words = source.sample(aligned + others, SIZE // 8)
    return struct.pack(f"<{len(words)}Q", *words)


@pytest.mark.parametrize("name", LAYOUTS)
def test_garbage_neither_crashes_nor_hangs_it(memory_of, name):
    frames = 0
    for seed in range(10):
        memory = memory_of(garbage(seed))
        python = Interpreter(name, name, random.Random(seed).randrange(8, SIZE) & ~7, LAYOUTS[name])
        names, variables = stacks.Names(memory, python), values.Values(memory, python)
        memory.left = STEPS_MOST // 500
        for state in interpreter.states(memory, python):
            walk = stacks.walk(memory, python, state.address)
            frames += len([names.frame(raw) for raw in walk.frames])
            locks.entered(memory, python, walk.frames, set(range(SIZE)))
            importing = stacks.Frame("_find_and_load", "<frozen importlib._bootstrap>", 1)
            assert imports.locks_of(memory, python, [(raw, importing) for raw in walk.frames]).awaited == ""
            for raw in walk.frames:
                try:
                    variables.named(raw, variables.of_frame(raw) or [])
                except Unreadable:
                    pass
            try:
                interpreter.holds(memory, python, state)
            except Unreadable:
                pass
    assert frames, "the garbage led nowhere"


KINDS = ("NoneType bool int float str bytes list tuple bytearray dict set frozenset cell Order").split()


def test_waiting_for_the_end_of_anothers_import_is_having_no_lock(monkeypatch):
    def locks_by(*names):
        return imports.locks_of(None, None, [(name, stacks.Frame(name, "<frozen importlib._bootstrap>", 1)) for name in names])

    monkeypatch.setattr(imports, "_module", lambda memory, python, raw: "slow")
    assert locks_by("acquire", "__enter__", "_find_and_load") == ("slow", [])
    assert locks_by("acquire", "__enter__", "_lock_unlock_module", "_find_and_load") == ("slow", [])
    assert locks_by("_find_and_load_unlocked", "_find_and_load") == ("", ["slow"])


@pytest.mark.parametrize("name", LAYOUTS)
def test_tasks_of_garbage_neither_crash_nor_hang_it(memory_of, name, monkeypatch):
    """Also where types are as they should be, and what is in their objects is not."""
    kinds = ("coroutine", "method", "function", "functools.partial", "list", "_asyncio.FutureIter", "async_generator_asend")
    found = 0
    for seed in range(10):
        source, data = random.Random(seed), bytearray(garbage(seed))
        for number, kind in enumerate(kinds):
            place = 4096 * (1 + number)
            data[place + 2048 : place + 2048 + len(kind) + 1] = kind.encode() + b"\0"
            struct.pack_into("<Q", data, place + LAYOUTS[name]["type_name"], place + 2048)
        for place in range(40_000, SIZE - 512, 512):
            struct.pack_into("<Q", data, place + LAYOUTS[name]["ob_type"], 4096 * source.randrange(1, 1 + len(kinds)))
        memory = memory_of(bytes(data))
        memory.left = STEPS_MOST // 100
        python = Interpreter(name, name, 8, LAYOUTS[name])
        reader = tasks.Reader(memory, python, stacks.Names(memory, python))
        monkeypatch.setattr(reader, "_kind", lambda interpreter: 4096)
        monkeypatch.setattr(Objects, "is_a", lambda self, address, wanted: True)
        addresses = [source.choice(range(40_000, SIZE - 512, 512)) for _ in range(50)]
        monkeypatch.setattr(reader, "_addresses", lambda interpreter, states, all=addresses: iter([iter(all)]))
        states = {number: interpreter.State(source.randrange(SIZE) & ~7, 8, 0) for number in range(9)}
        read = reader.tasks(states, time.monotonic() + 60)
        found += read.damaged + sum(len(loop.tasks) for loop in read.loops)
    assert found, "the garbage led nowhere"


@pytest.mark.parametrize("name", LAYOUTS)
def test_containers_of_garbage_neither_crash_nor_hang_it(memory_of, name):
    for seed in range(20):
        source, memory = random.Random(seed), memory_of(garbage(seed))
        memory.left = STEPS_MOST // 100
        python = Interpreter(name, name, 8, LAYOUTS[name])
        objects = Objects(memory, python)
        reader = tasks.Reader(memory, python, stacks.Names(memory, python))
        reads = (
            (objects.in_dict, "Task"), (objects.attribute, "data"), (objects.in_list, 16), (objects.is_a, 8),
            (partial(coroutines.chain, objects),),
        )  # fmt: skip
        for _ in range(50):
            address = source.choice((source.randrange(SIZE) & ~7, source.getrandbits(64)))
            for read, *more in reads:
                with suppress(Unreadable):
                    read(address, *more)
            for items in (objects.in_set(address), reader._listed(address)):
                with suppress(Unreadable):
                    deque(items, 0)


def test_coroutines_that_await_themselves_end(memory_of):
    """Its frame's stack of values has itself on top."""
    at = LAYOUTS["3.14"]
    data = bytearray(SIZE)
    coroutine, kind, text = 512, 4096, 8192
    frame = coroutine + at["gen_iframe"]
    struct.pack_into("<Q", data, coroutine + at["ob_type"], kind)
    struct.pack_into("<Q", data, kind + at["type_name"], text)
    data[text : text + 10] = b"coroutine\0"
    data[coroutine + at["gen_state"]] = at["state_awaits"]
    struct.pack_into("<Q", data, frame + at["frame_top"], 2048)
    struct.pack_into("<Q", data, 2048 - 8, coroutine)
    found = coroutines.chain(Objects(memory_of(bytes(data)), Interpreter("3.14", "3.14", 8, at)), coroutine)
    assert len(found.frames) == stacks.DEPTH_MOST and found.cut.startswith("deeper")


@pytest.mark.parametrize("name", LAYOUTS)
def test_huge_tuples_of_names_take_few_steps(memory_of, name):
    """Every word is the same: the size of a tuple, and its address."""
    memory = memory_of(struct.pack("<Q", SIZE // 16) * (SIZE // 8))
    variables = values.Values(memory, Interpreter(name, name, 8, LAYOUTS[name]))
    frame, before = stacks.Raw(SIZE // 4, SIZE // 4, 0), memory.left
    for _ in range(100):
        variables.named(frame, [(0, "")])
    assert before - memory.left < 20 * values.LOCALS_MOST
    assert variables.of_frame(frame, until=0.0) is None


@pytest.mark.parametrize("name", LAYOUTS)
def test_values_of_garbage_have_words(memory_of, name):
    """Types that are whole, and objects of them that are not."""
    at, words = LAYOUTS[name], set()
    for seed in range(20):
        source, data = random.Random(seed), bytearray(garbage(seed))
        kinds = {4096 * (1 + number): kind for number, kind in enumerate(KINDS)}
        for place, kind in kinds.items():
            data[place + 2048 : place + 2048 + len(kind) + 1] = kind.encode() + b"\0"
            struct.pack_into("<Q", data, place + at["type_name"], place + 2048)
            struct.pack_into("<Q", data, place + at["type_flags"], 0)
        objects = [place + source.randrange(1024, 1984) for place in kinds for _ in range(3)]
        for place in objects:
            struct.pack_into("<Q", data, place + at["ob_type"], source.choice(list(kinds)))
        memory = memory_of(bytes(data))
        memory.left = STEPS_MOST // 500
        variables = values.Values(memory, Interpreter(name, name, 8, at))
        for place in [*objects, *(source.getrandbits(64) for _ in range(20))]:
            text = variables.text(place)
            assert len(text) < 1000
            words.add(text.strip("<").split()[0] if text.startswith("<") else "a value")
    assert {"a value", "cannot", "list", "dict", "Order>"} <= words


@pytest.mark.parametrize("seed", range(30))
def test_an_object_of_garbage_neither_crashes_nor_hangs_it(memory_of, seed):
    data = bytearray(garbage(seed))
    data[64:72] = b"\x7fELF\x02\x01\x01\0"
    struct.pack_into("<Q", data, 64 + 32, 64)  # the program headers
    struct.pack_into("<HH", data, 64 + 54, 56, 2)
    struct.pack_into("<IIQQ", data, 128, 1, 4, 0, 0)
    struct.pack_into("<IIQQ", data, 128 + 56, 2, 4, 0, 4096)
    for place, tag in enumerate((6, 5, random.Random(seed).choice((4, 0x6FFFFEF5)))):
        struct.pack_into("<QQ", data, 64 + 4096 + 16 * place, tag, random.Random(seed + place).randrange(SIZE))
    memory = memory_of(bytes(data))
    try:
        symbols = Symbols(memory, 64)
        assert symbols.find("_PyRuntime") is None
    except Unreadable:
        pass


@pytest.mark.parametrize("seed", range(30))
def test_calls_with_arguments_of_garbage_have_words(memory_of, seed):
    source, memory = random.Random(seed), memory_of(garbage(seed))
    for kind in ("descriptor", "poll", "select", "epoll", "sleep", "again", "child", "signal", "futex", ""):
        arguments = [source.choice((source.randrange(SIZE), source.getrandbits(64), source.randrange(9))) for _ in range(6)]
        for name in ("clock_nanosleep", "wait4", "x"):
            assert calls.in_words(calls.Call(name, kind, arguments), memory, 1 << 30).startswith(("waits", "sleeps"))
            assert isinstance(locks.waited_for(memory, calls.Call(name, kind, arguments)), int)


def test_a_stack_that_links_to_itself_ends(memory_of):
    at = LAYOUTS["3.13"]
    data = bytearray(SIZE)
    struct.pack_into("<Q", data, 512 + at["ts_frame"], 4096)
    struct.pack_into("<Q", data, 4096 + at["frame_previous"], 4096)
    python = Interpreter("3.13", "3.13", 8, at)
    assert len(stacks.walk(memory_of(bytes(data)), python, 512).frames) == stacks.DEPTH_MOST
    data[4096 + at["frame_owner"]] = at["owner_entry_min"]
    assert stacks.walk(memory_of(bytes(data)), python, 512).frames == []


@pytest.mark.parametrize(
    "address, size", [(0, 8), (-8, 8), (1 << 63, 8), (1 << 64, 8), (SIZE - 4, 8), (8, READ_MOST + 1), (8, -1)]
)
def test_what_is_not_there_is_unreadable(memory_of, address, size):
    with pytest.raises(Unreadable):
        memory_of(bytes(SIZE)).read(address, size)


@pytest.mark.parametrize("place", [1, 4090, 4096, 8185])
@pytest.mark.parametrize("size", [0, 1, 8, 4096, 9000])
def test_reads_are_what_is_there(memory_of, place, size):
    data = random.Random(1).randbytes(SIZE)
    assert memory_of(data).read(place, size) == data[place : place + size]


def test_too_much_is_not_read(memory_of):
    memory = memory_of(bytes(SIZE))
    memory.left = 100
    with pytest.raises(Unreadable, match="too much"):
        for _ in range(100):
            memory.word(8)


def code_of_many_lines():
    source = "def f(x):\n" + "".join(f"    x = (x +{chr(10) * (n % 4)} {n})\n" * (n % 3) for n in range(300))
    names = {}
    exec(compile(source, "f", "exec"), names)
    return names["f"].__code__


def test_lines_are_those_that_python_says():
    code = code_of_many_lines()
    rules = LAYOUTS["{}.{}".format(*sys.version_info[:2])]["lines"]
    table = code.co_lnotab if rules == 1 else code.co_linetable
    if hasattr(code, "co_lines"):
        expected = {offset: line or 0 for start, end, line in code.co_lines() for offset in range(start, end, 2)}
    else:
        import dis

        expected, line = {}, 0
        starts = dict(dis.findlinestarts(code))
        for offset in range(0, len(code.co_code), 2):
            expected[offset] = line = starts.get(offset, line)
    assert len(set(expected.values())) > 100
    assert {offset: line_of(rules, table, code.co_firstlineno, offset) for offset in expected} == expected


@pytest.mark.skipif(sys.version_info < (3, 11), reason="blocks were in frames")
def test_depths_of_blocks_are_those_that_python_says():
    import dis

    def f(a, b):
        with a:
            for x in b:
                with x:
                    try:
                        x(b)
                    finally:
                        a()
            return b

    code = f.__code__
    entries = dis._parse_exception_table(code)
    expected = {}
    for entry in entries:
        expected.update(dict.fromkeys(range(entry.start, entry.end, 2), entry.depth))
    assert len(set(expected.values())) > 2
    for offset in range(0, len(code.co_code), 2):
        assert locks.depth_at(code.co_exceptiontable, offset) == expected.get(offset, 0)


@pytest.mark.parametrize(
    "waits, owners, cycles",
    [
        ({1: 10, 2: 20}, {10: 2, 20: 1}, [[1, 2]]),
        ({1: 10}, {10: 1}, [[1]]),
        ({1: 10, 2: 20, 3: 30}, {10: 2, 20: 3, 30: 2}, [[2, 3]]),
        ({1: 10, 2: 20}, {10: 2}, []),
        ({1: 10, 2: 20, 3: 30, 4: 40}, {10: 2, 20: 1, 30: 4, 40: 3}, [[1, 2], [3, 4]]),
        ({}, {}, []),
    ],
)
def test_cycles(waits, owners, cycles):
    assert locks.cycles(waits, owners) == cycles


@pytest.mark.parametrize("rules", [1, 2, 3])
def test_tables_of_lines_of_garbage_end(rules):
    source = random.Random(rules)
    for _ in range(300):
        table = source.randbytes(source.randrange(200))
        assert isinstance(line_of(rules, table, 1, source.randrange(400)), int)
        assert locks.depth_at(table, source.randrange(400)) >= 0


@pytest.mark.skipif(not CSRC.is_dir(), reason="the tests were taken out of the tree")
@pytest.mark.parametrize("name", LAYOUTS)
def test_offsets_are_those_of_the_core(name):
    """The rest is checked by `tools/layouts --check`, which needs the interpreters."""
    text = (CSRC / "py" / f"layout_{name.replace('.', '')}.h").read_text()
    core = {key.lower(): value for key, value in re.findall(r"^#define SPP_L_(\w+) \(?(-?\d+)\)?(?: |$)", text, re.M)}
    same = set(core) & set(LAYOUTS[name])
    assert len(same) > 35
    assert {key: int(core[key]) for key in same} == {key: LAYOUTS[name][key] for key in same}


def test_each_version_is_known():
    released = (CSRC.parent / "tools" / "interpreters.py").read_text()
    assert set(LAYOUTS) == set(re.findall(r'Interpreter\("(3\.\d+t?)"', released))
    assert set(SAID) == {name for name in LAYOUTS if int(name[2:4]) >= 13}


def test_a_pattern_that_no_thread_matches_is_said():
    thread = Thread(7, "worker", "runs", False, [], "", True, True, 0, "", False, ())
    found = Dump(7, "3.11.2", [thread], [])
    assert list(lines_of(found, "app.py", "w*"))[1:] == ["\nworker (7): runs"]
    assert list(lines_of(found, "app.py", "x*"))[1:] == ["\nno thread has the name or id x*"]


@pytest.mark.skipif(sys.platform != "linux", reason="processes are listed on Linux alone")
def test_processes_are_listed_without_the_core():
    text = "import sys; sys.modules['spprof._core'] = None; from spprof.cli import main; sys.exit(main(['ps']))"
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "") and done.stdout.split()[:4] == ["PID", "PYTHON", "ATTACH", "COMMAND"]


@pytest.mark.skipif(sys.platform != "linux", reason="processes are entered on Linux alone")
def test_what_hinders_an_entry_is_said(monkeypatch):
    own = "{}.{}{}".format(*sys.version_info[:2], "t" if "t" in getattr(sys, "abiflags", "") else "")
    other = "3.9" if own != "3.9" else "3.10"
    assert obstacle(os.getpid(), "3.8") == "this spprof does not know 3.8"
    assert obstacle(os.getpid(), other) == f"use the spprof of a Python {other}"
    monkeypatch.setattr(os, "uname", lambda: SimpleNamespace(machine="x86_64"))
    assert obstacle(os.getpid(), own) == ""
    monkeypatch.setattr(os, "uname", lambda: SimpleNamespace(machine="aarch64"))
    assert obstacle(os.getpid(), own) == ("" if sys.version_info >= (3, 14) else f"{own} is entered on x86_64 alone")
