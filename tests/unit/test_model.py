"""Profile on the small hand-made file of conftest: every figure worked out by hand."""

from __future__ import annotations

import ctypes.util
import json
import os
import pickle
import random
import shutil
import subprocess

import pytest
from spprof_file import MAGIC, Writer, block

import spprof
from spprof import Frame, Profile
from spprof.model.demangle import _runtime as runtime
from spprof.model.demangle import demangle
from spprof.model.tree import Tree
from spprof.readers.loading import read_columns

MAIN_FRAME = ("<module>", "<module>", "/app/x.py", 1, 3)


def text(stack):
    return " ".join(f"{frame.qualname}:{frame.line}" for frame in stack)


def test_what_a_profile_and_a_frame_look_like(path):
    profile = Profile(path)
    name = os.path.basename(path)
    assert repr(profile) == f"<Profile {name}, not read yet>"
    assert repr(Profile.load(path)) == f"<Profile {name}: 0.00 s of CPU time, 13 samples, 2 threads>"
    assert str(Frame("f", "A.f", "/srv/a.py", 7, 7, -1, -1)) == "A.f (/srv/a.py:7)"
    assert str(Frame("deflate", "deflate", "/lib/libz.so.1", 64, 64, -1, -1, True)) == "deflate [libz.so.1]"


def test_samples(path):
    profile = Profile.load(path)
    assert len(profile) == 7
    samples = list(profile)
    first = Frame("<module>", "<module>", "/app/x;y.py", 3, 0, -1, -1)
    assert samples[0] == (0, "Main", 5_100_000, 100_000, 1, (first,), 0, {}, "", "")
    assert samples[1].frames[-1] == Frame("a", "A.a", "/app/x;y.py", 11, 12, 4, 9)
    assert text(samples[2].frames) == "<module>:3 A.a:11 b:20 A.a:11"
    assert samples[3][:2] == (1, "#wor;ker") and samples[3].count == 7 and samples[3].flags == 4
    assert text(samples[4].frames) == "[no Python frames]:0"
    assert text(samples[5].frames) == "[truncated]:0 A.a:11 b:20"


def test_what_it_says_about_itself(path):
    profile = Profile.load(path)
    assert profile.threads == [(0, 70, "Main", 5, 4_310_000), (1, 71, "#wor;ker", 8, 501_000)]
    assert (profile.mode, profile.clock, profile.interval_ns, profile.dropped_count) == ("cpu", "perf", 1_000_000, 4)
    assert profile.stats["taken"] == 7 and profile.header["argv"] == ["x.py"] and profile.end["reason"] == "stop"
    assert profile.warning is None


def test_labels_and_collections(path):
    writer = Writer()
    f = ("f", "f", "f.py", 1, 2)
    writer.sample([f], 6000, 1)
    writer.flush()
    for time, label in (7000, '{"b": "2"}'), (8000, '{"a": "1", "b": "2"}'), (9000, None), (9001, '{"b": "2"}'):
        writer.sample([f], time, 1, label=label)
    writer.flush()
    writer.collections((1, 7500, 20, 0, 5, 0), (0, 7400, 1 << 33, 2, 1 << 20, 3))
    profile = Profile(writer.data)
    assert [sample.labels for sample in profile] == [{}, {"b": "2"}, {"a": "1", "b": "2"}, {}, {"b": "2"}]
    assert profile.label_sets[0] == {} and len(profile.label_sets) == 3 and list(profile.column("label"))[0::3] == [0, 0]
    assert profile.markers == [
        ("gc", -1, 7400, 1 << 33, {"generation": 2, "collected": 1 << 20, "uncollectable": 3}),
        ("gc", 0, 7500, 20, {"generation": 0, "collected": 5, "uncollectable": 0}),
    ]
    assert Profile.load(path).markers == [] and Profile.load(path).label_sets == [{}]
    writer = Writer()
    for time, label in (6000, "{}"), (6001, None), (6002, "{}"):
        writer.sample([f], time, 1, label=label)
    writer.flush()
    assert Profile(writer.data).label_sets == [{}] and list(Profile(writer.data).column("label")) == [0, 0, 0]
    for bad in ("[]", "x", "[" * 200_000):
        writer = Writer()
        writer.sample([f], 6000, 1, label=bad)
        writer.flush()
        with pytest.raises(spprof.BadFile):
            len(Profile(writer.data))


def test_names_that_python_knows():
    import zlib

    from spprof import _core

    known = {str.join: 1, list.__lt__: 2, len: 3, zlib.compress: 4, int.from_bytes: 5, type.__call__: 6}
    assert _core.function_address(list.__lt__) == _core.function_address(list.__gt__) != 0
    assert _core.function_address(test_samples) == _core.function_address(3) == 0
    names = _core.functions({_core.function_address(one): id for one, id in known.items()})
    assert names == {1: "str.join", 3: "len", 4: "zlib.compress", 5: "int.from_bytes", 6: "type.__call__"}
    assert _core.functions({}) == {}

    class Meta(type):
        def __eq__(cls, other):
            raise RuntimeError("the program's own")

    class Lazy:
        @property
        def __class__(self):
            raise RuntimeError("the program's own")

    held = Meta("Held", (), {"lazy": Lazy()})
    assert _core.functions({_core.function_address(random.random): 7}) == {7: "_random.Random.random"}, held

    writer = Writer(native="yes")
    writer.sample([MAIN_FRAME, ("_Zf", "_Zf", "z.so", 16, 20, 20, -1, -1, 1)], 6000, 1)
    writer.flush()
    writer.json(b"N", {"names": {"0": "no native one", "1": "zlib.compress", "9": "none at all", "-1": "nor this"}})
    writer.json(b"L", {"frames": {"1": [["outer", "z.c", 3], ["inlined", "z.h", 4]]}})
    (sample,) = Profile(writer.data)
    assert [(frame.name, frame.qualname) for frame in sample.frames] == [
        ("<module>", "<module>"), ("outer", "zlib.compress"), ("inlined", "inlined")
    ]  # fmt: skip
    for bad in ({"names": []}, {"names": {"x": "y"}}, []):
        with pytest.raises(spprof.BadFile):
            len(Profile(Writer(native="yes").data + block(b"N", json.dumps(bad).encode())))


def test_aggregate(path):
    totals = {text(stack): tuple(total) for stack, total in Profile(path).aggregate().items()}
    assert totals == {
        "<module>:3": (1, 100_000),
        "<module>:3 A.a:11": (1, 200_000),
        "<module>:3 A.a:11 b:20 A.a:11": (1, 1_000_000),
        "<module>:3 A.a:11 b:20 A.a:13": (1, 10_000),
        "b:20": (7, 500_000),
        "[no Python frames]:0": (1, 1_000),
        "[truncated]:0 A.a:11 b:20": (1, 3_000_000),
    }
    assert {text(stack) for stack in Profile(path).aggregate(thread="#*")} == {"b:20", "[no Python frames]:0"}


def test_functions_count_recursion_once(data):
    rows = {row.qualname: tuple(row[4:]) for row in Profile(data).functions()}
    assert rows == {
        "b": (8, 3_500_000, 10, 4_510_000),
        "A.a": (3, 1_210_000, 4, 4_210_000),
        "<module>": (1, 100_000, 4, 1_310_000),
        "[no Python frames]": (1, 1_000, 1, 1_000),
        "[truncated]": (0, 0, 1, 3_000_000),
    }
    assert [row.qualname for row in Profile(data).functions()][:2] == ["b", "A.a"]


def test_functions_by_line(data):
    rows = {(row.qualname, row.line): tuple(row[4:]) for row in Profile(data).functions(by="line")}
    assert rows[("A.a", 11)] == (2, 1_200_000, 4, 4_210_000)
    assert rows[("A.a", 13)] == (1, 10_000, 1, 10_000)


def test_functions_of_a_thread(data):
    rows = {row.qualname: tuple(row[4:]) for row in Profile(data).functions(thread="71")}
    assert rows == {"b": (7, 500_000, 7, 500_000), "[no Python frames]": (1, 1_000, 1, 1_000)}
    assert Profile(data).functions(thread="nobody") == []
    with pytest.raises(spprof.BadOption):
        Profile(data).functions(by="file")


def test_totals_against_a_slow_count():
    import random

    rng = random.Random(1)
    writer = Writer()
    for i in range(3000):
        stack = [(f"f{n}",) * 2 + ("m.py", n, n + rng.randrange(2)) for n in rng.choices(range(6), k=rng.randrange(8))]
        writer.sample(stack, 6000 + i, rng.randrange(50), flags=rng.randrange(2))
    writer.flush()
    expected = {}
    profile = Profile(writer.data)
    for sample in profile:
        names = [frame.qualname for frame in sample.frames]
        for name in set(names):
            row = expected.setdefault(name, [0, 0, 0, 0])
            row[2] += sample.count
            row[3] += sample.weight
        leaf = expected[names[-1]]
        leaf[0] += sample.count
        leaf[1] += sample.weight
    rows = {row.qualname: list(row[4:]) for row in profile.functions()}
    rows["[truncated]"][:2] = expected["[truncated]"][:2]  # [truncated] [no Python frames]: self belongs to the leaf
    assert rows == expected


def native_profile():
    import random

    rng = random.Random(2)
    writer = Writer(native="yes")
    python = [(f"f{n}",) * 2 + ("m.py", 10 * n + 1, 10 * n + 3) for n in range(4)]
    launcher = ("run", "run", "/x/spprof/integrations/ipython.py", 1, 2)
    native = [(name, name, "/lib/libx.so", at, at + 5, 0, -1, -1, 1) for name, at in (("c", 64), ("_ZN1a1bEv", 128), ("d", 256))]
    for i in range(3000):
        stack = rng.choices(python + native, k=rng.randrange(1, 8))
        writer.sample([launcher, *stack] if rng.randrange(2) else stack, 6000 + i, rng.randrange(50), thread=rng.randrange(2))
    writer.flush()
    return Profile(writer.data)


@pytest.mark.skipif(os.name == "nt", reason="Windows has no C++ library that demangles such names")
def test_native_functions_against_a_slow_count():
    """Python only: a stack without its native frames. Native only: of all rows those of native functions."""
    profile = native_profile()
    for thread in None, "Thread #1":
        expected, calls, native = {}, {}, set()
        for sample in profile:
            if thread and sample.thread_name != thread:
                continue
            native |= {frame.qualname for frame in sample.frames if frame.native}
            left = [frame for frame in sample.frames if not frame.native]
            names = [frame.qualname for frame in left] or ["[no Python frames]"]
            for name in set(names):
                row = expected.setdefault(name, [0, 0, 0, 0])
                row[2] += sample.count
                row[3] += sample.weight
            expected[names[-1]][0] += sample.count
            expected[names[-1]][1] += sample.weight
            if sample.frames[-1].native:
                caller = (left[-1].qualname, "m.py", left[-1].line) if left else ("[no Python frames]", "", 0)
                call = calls.setdefault((*caller, sample.frames[-1].qualname, "/lib/libx.so"), [0, 0])
                call[0] += sample.count
                call[1] += sample.weight
        assert native == {"c", "a::b()", "d"} and len(calls) == 15
        assert {row.qualname: list(row[4:]) for row in profile.functions(thread=thread, only="python")} == expected
        rows = [row for row in profile.functions(thread=thread) if row.file == "/lib/libx.so"]
        assert profile.functions(thread=thread, only="native") == rows and {row.qualname for row in rows} == native
        assert {call[:5]: list(call[5:]) for call in profile.native_calls(thread)} == calls
        weights = [call.weight for call in profile.native_calls(thread)]
        assert weights == sorted(weights, reverse=True)
    with pytest.raises(spprof.BadOption, match="only="):
        profile.functions(only="c")


def test_stacks_that_look_the_same_are_added_up():
    writer = Writer()
    launcher, f = ("run", "run", "/x/spprof/integrations/ipython.py", 1, 2), ("f", "f", "m.py", 1, 2)
    for time, stack in enumerate(([launcher, f], [f], [launcher], [], [launcher, f])):
        writer.sample(stack, 6000 + time, 10**time)
    writer.flush()
    totals = {text(stack): tuple(total) for stack, total in Profile(writer.data).aggregate().items()}
    assert totals == {"f:2": (3, 10_011_000), "[no Python frames]:0": (2, 1_100_000)}


@pytest.mark.skipif(os.name == "nt", reason="Windows has no C++ library that demangles such names")
def test_inlined_functions_are_below_the_frame_that_they_are_inlined_into():
    """The L block of docs/file-format.md, against stacks rewritten one by one."""
    plain = native_profile()
    raw = read_columns(plain.raw())
    twice = [("c", "c.c", 7), ("inner", "c.h", 3)]
    names = {"c": twice, "_ZN1a1bEv": [("c", "c.c", 7)], "d": twice}
    code_names = [raw["strings"][raw["code_name"][code]] for code in raw["frame_code"]]
    chains = {frame: names[name] for frame, name in enumerate(code_names) if name in names}
    assert len(chains) == 3
    chains[9999] = [("of a frame that is not there", "", 0)]
    names["a::b()"] = names.pop("_ZN1a1bEv")
    other = {frame: [("an earlier try", "e.c", 1), ("of another", "e.c", 2)] for frame in chains}  # the last block wins
    written = Profile(
        plain.raw() + block(b"L", json.dumps({"frames": other}).encode()) + block(b"L", json.dumps({"frames": chains}).encode())
    )
    tree, old = Tree(), Tree(raw["node_parent"], raw["node_frame"])
    moved = tree.graft(old, range(len(old)), lambda frame: (7, 8) if frame in chains else (frame,))
    assert len(set(zip(tree.parents, tree.frames))) == len(tree) < 2 * len(moved)  # nodes that became equal became one
    expected = {}
    for stack, total in plain.aggregate().items():
        reported = []
        for frame in stack:
            reported += names[frame.name] if frame.native else [(frame.name, "", 0)]
        old = expected.get(tuple(reported), (0, 0))
        expected[tuple(reported)] = (old[0] + total[0], old[1] + total[1])
    stacks = {}
    for stack, total in written.aggregate().items():
        stacks[tuple((frame.name, frame.source, frame.source_line) for frame in stack)] = tuple(total)
    assert stacks == expected and len(stacks) < len(plain.aggregate())
    assert {frame.file for stack in written.aggregate() for frame in stack if frame.native} == {"/lib/libx.so"}
    lines = {(row.qualname, row.file, row.line) for row in written.functions(by="line") if row.qualname in ("c", "inner")}
    assert lines == {("c", "c.c", 7), ("inner", "c.h", 3)}
    written.save("/dev/null", "collapsed")
    for damaged in b"[]", b"{", b'{"frames":{"0":[[1]]}}', b'{"frames":7}', b'{"frames":{"0":[[1,2,3]]}}':
        with pytest.raises(spprof.BadFile):
            len(Profile(plain.raw() + block(b"L", damaged)))


def test_names_of_known_functions():
    """Examples of the Itanium C++ ABI, and of rustc's."""
    known = {
        "_ZN6shapes7ThrowerIiE3oneEPFiiEi": "shapes::Thrower<int>::one(int (*)(int), int)",
        "_Z1fv": "f()",
        "_ZNK1A1bEv": "A::b() const",
        "_ZN4core3fmt5Write9write_fmt17h0123456789abcdefE": "core::fmt::Write::write_fmt",
        "_ZN3foo28_$u7b$$u7b$closure$u7d$$u7d$17h0123456789abcdefE": "foo::{{closure}}",
    }
    if runtime() is None:
        pytest.skip("no C++ runtime library is installed here: names stay as they are")
    assert {name: demangle(name) for name in known} == known


@pytest.mark.skipif(shutil.which("c++filt") is None, reason="needs binutils")
def test_names_of_newer_rust():
    """Functions whose source is known (rustc -C symbol-mangling-version=v0); the first one is an example of Rust's RFC 2603."""
    known = {
        "_RINvNtC3std3mem8align_ofjdE": "std::mem::align_of::<usize, f64>",
        "_RNvMNtCsjMaewn57Afh_1t5innerINtB2_1SINtNtCslNYArtu3iFV_5alloc3vec3VechEE4showB4_": (
            "<t::inner::S<alloc::vec::Vec<u8>>>::show"
        ),
        "_RINvNtCsjMaewn57Afh_1t5inner3genKj3_EB4_": "t::inner::gen::<3: usize>",
        "_RINvMNtCslNYArtu3iFV_5alloc5sliceSl7sort_byNCNvCsjMaewn57Afh_1t4main0EBJ_": "<[i32]>::sort_by::<t::main::{closure#0}>",
        "_R": "_R",
        "_Rbad name": "_Rbad name",
        "_RNv": "_RNv",
        "_RNv\n": "_RNv\n",
    }
    assert {name: demangle(name) for name in known} == known


@pytest.mark.skipif(
    any(shutil.which(tool) is None for tool in ("g++", "nm", "c++filt")) or ctypes.util.find_library("stdc++") is None,
    reason="needs g++, binutils and libstdc++",
)
def test_names_of_cpp_and_rust_functions():
    """c++filt of binutils on each function of the C++ runtime library: that names come through whole (its C++ demangler has the
    same origin as the library's), and what Rust's mean."""
    library = ctypes.util.find_library("stdc++")
    found = subprocess.run(["g++", f"-print-file-name={library}"], capture_output=True, text=True, check=True).stdout.strip()
    reported = subprocess.run(["nm", "-D", "--defined-only", found], capture_output=True, text=True, check=True).stdout
    names = [line.split()[-1].split("@")[0] for line in reported.splitlines() if " _Z" in line]
    parts = ["_$LT$alloc..vec..Vec$LT$T$GT$$u20$as$u20$core..ops..drop..Drop$GT$", "_$u7b$$u7b$closure$u7d$$u7d$", "_", "_x"]
    names.append("_ZN" + "".join(f"{len(part)}{part}" for part in parts) + "17h0123456789abcdefE")
    lines = "\n".join(names) + "\n"
    truth = subprocess.run(["c++filt", "-i"], input=lines, capture_output=True, text=True, check=True).stdout.splitlines()
    assert len(names) > 1000
    assert truth[-1].startswith("<alloc::vec::Vec<T> as core::ops::drop::Drop>::{{closure}}::")
    assert {name: demangle(name) for name in names} == dict(zip(names, truth))
    assert [demangle(name) for name in ("main", "_Z", "_Zbad", "_Z\0", "")] == ["main", "_Z", "_Zbad", "_Z\0", ""]


def test_frames_of_the_launcher_are_hidden():
    ours = [
        ("main", "main", "/lib/spprof/cli/__init__.py", 1, 2),
        ("run_program", "run_program", "/lib/spprof/integrations/ipython.py", 5, 6),
    ]
    program = [("<module>", "<module>", "x.py", 1, 1), ("f", "f", "x.py", 2, 3)]
    writer = Writer()
    writer.sample(ours + program, 6000, 10)
    writer.sample(ours + program[:1], 6001, 20)
    writer.sample(ours, 6002, 40)
    writer.flush()
    profile = Profile(writer.data)
    assert [text(sample.frames) for sample in profile] == ["<module>:1 f:3", "<module>:1", "[no Python frames]:0"]
    rows = {row.qualname: (row.self_weight, row.total_weight) for row in profile.functions()}
    assert rows == {"f": (10_000, 10_000), "<module>": (20_000, 30_000), "[no Python frames]": (40_000, 40_000)}
    mark = ("[native unpaired]", "[native unpaired]", "", 0, 0)
    writer.sample([mark, *ours, *program], 6003, 80)  # the mark stays
    writer.sample([mark, *program[:1]], 6004, 160)
    writer.flush()
    profile = Profile(writer.data)
    assert [text(sample.frames) for sample in profile][3:] == [
        "[native unpaired]:0 <module>:1 f:3",
        "[native unpaired]:0 <module>:1",
    ]
    rows = {row.qualname: (row.self_weight, row.total_weight) for row in profile.functions()}
    assert rows["[native unpaired]"] == (0, 240_000) and rows["<module>"] == (180_000, 270_000)


@pytest.mark.skipif(os.name == "nt", reason="Windows removes no file that is open")
def test_from_a_descriptor_and_back(path, data, tmp_path):
    profile = Profile(os.open(path, os.O_RDONLY))
    path.unlink()
    assert len(profile) == 7
    profile.save(tmp_path / "copy.spprof")
    assert (tmp_path / "copy.spprof").read_bytes() == data


def test_saving_onto_itself_keeps_it(path, data):
    Profile(path).save(path, format="spprof")
    assert path.read_bytes() == data


def test_other_files(tmp_path):
    bad = tmp_path / "x.spprof"
    bad.write_bytes(b"import this\n")
    with pytest.raises(spprof.BadFile, match=r"x\.spprof: not a \.spprof file"):
        Profile.load(bad)
    out = tmp_path / "out.collapsed"
    out.write_text("precious")
    with pytest.raises(spprof.BadFile):
        Profile(bad).save(out)
    assert out.read_text() == "precious"
    with pytest.raises(OSError):
        Profile.load(tmp_path / "missing.spprof")


@pytest.mark.parametrize(
    "data", [MAGIC, MAGIC + block(b"T", b"[]"), MAGIC + block(b"H", b"{}"), MAGIC + block(b"H", b"]"), Writer(version=2).data]
)
def test_files_without_a_good_header(data):
    with pytest.raises(spprof.BadFile):
        len(Profile(data))


def test_truncated_file_warns(data):
    profile = Profile(data[:-10])
    assert len(profile) == 7 and "cut short" in profile.warning and profile.end is None


@pytest.mark.skipif(os.name == "nt", reason="there it is not known")
@pytest.mark.parametrize("cut", ["at a block", "inside a block"])
def test_whether_a_file_without_an_end_is_still_being_written(data, tmp_path, monkeypatch, cut):
    """Only the holder of its lock can be writing it."""
    import fcntl

    from spprof.files import writing

    def unfinished():
        return Profile.load(path).unfinished or ""

    end = data.rindex(b'{"stop_ns"') - 9 + (4 if cut == "inside a block" else 0)
    path = tmp_path / "growing.spprof"
    path.write_bytes(data[:end])
    with open(path, "ab") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        assert "still being written" in unfinished()
        file.write(data[end:])
        file.flush()
        assert Profile.load(path).unfinished is None, "it has its end, even if it is locked"
        file.truncate(end)
        fcntl.flock(file, fcntl.LOCK_UN)
        assert ("did not finish" if cut == "at a block" else "cut short") in unfinished()
        asked = writing.is_being_written

        def finished_meanwhile(path):
            """It was read without its end; before the lock is asked for the program finishes it."""
            file.write(data[end:])
            file.flush()
            return asked(path)

        monkeypatch.setattr(writing, "is_being_written", finished_meanwhile)
        assert Profile.load(path).unfinished is None


def test_formats_that_do_not_exist(data, tmp_path):
    with pytest.raises(spprof.BadOption, match="xml"):
        Profile(data).save(tmp_path / "x", format="xml")
    with pytest.raises(spprof.BadOption, match="no format"):
        Profile(data).save(tmp_path / "x.unknown")
    with pytest.raises(spprof.CannotWrite):
        Profile(data).save(tmp_path / "no" / "x.collapsed")


@pytest.mark.parametrize("name", ["Frame", "FunctionRow", "Marker", "NativeCall", "Sample", "Thread", "Total"])
def test_records_that_were_pickled_earlier_are_found(name):
    assert pickle.loads(f"cspprof.model\n{name}\n.".encode()) is getattr(spprof, name)
    assert pickle.loads(pickle.dumps(getattr(spprof, name))) is getattr(spprof, name)
