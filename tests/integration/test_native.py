"""Native frames are where they were called: programs whose order is known, on the interpreter that runs the tests."""

import json
import os
import platform
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

import pytest
from judging import UNKNOWN, adds_up, until_seen
from switches import core_of_linux, native_frames, switch
from wine import WINE

from spprof import Profile
from spprof.model import GAP, OFF_CPU, UNPAIRED
from spprof.model.demangle import demangle
from spprof.readers.loading import read_columns
from spprof.readers.spprof import blocks

HERE = Path(__file__).resolve().parent
SOURCES = HERE.parent / "native"
TARGET = HERE.parent / "targets" / "native_calls.py"
SAMPLES = int(os.environ.get("SPPROF_TEST_SAMPLES", "20000"))
pytestmark = [
    pytest.mark.skipif(platform.machine() not in ("x86_64", "aarch64", "AMD64"), reason="the unwinder knows these two"),
    pytest.mark.skipif(not native_frames(), reason="no native frames here"),
]

NATIVE_CALLBACKS = ("plain", "alloca", "wide", "deep", "thread", "throwing", "qsort", "wait")
CALLERS = {f"cb_{name}": "apply" for name in NATIVE_CALLBACKS if name != "thread"}
CALLERS.update(apply=None, use_plain=("main", "nested"), nested="cb_qsort", main="<module>", cb_generator="inner_generator")
CALLERS.update(cb_reduce="use_reduce", cb_key="use_sorted", cb_sub="sub", cb_sqlite="use_sqlite", start="use_xml")
CALLERS.update(inner_generator="use_generator")
APPLY = {f"apply_{name}" for name in NATIVE_CALLBACKS}
WINDOWS = os.name == "nt"
ROOT = "RtlUserThreadStart" if WINDOWS else "_start"
posix = pytest.mark.skipif(WINDOWS, reason="it wants a C compiler and ELF where it runs, or what POSIX systems have")
ZLIB_LINE = 1 + TARGET.read_text().splitlines().index('    return zlib.compress(b"abcdefgh" * n * 50)')


def compiled(made, *options):
    sources = [SOURCES / "frames.c", SOURCES / "frames.cc"]
    objects = [made.with_name(source.name + ".o") for source in sources]
    for source, made_of in zip(sources, objects):
        compiler = {".c": ["gcc", "-std=gnu11"], ".cc": ["g++"]}[source.suffix]
        subprocess.run([*compiler, "-O2", *options, "-fPIC", "-c", source, "-o", made_of], check=True)
    subprocess.run(["g++", *options, "-shared", "-o", made, *objects, "-lpthread"], check=True)
    return made


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    if WINDOWS:
        if "SPPROF_NATIVE_LIBRARY" not in os.environ:
            pytest.skip("no library of native frames was brought along (tools/windows makes one)")
        return Path(os.environ["SPPROF_NATIVE_LIBRARY"])
    return compiled(tmp_path_factory.mktemp("native") / "frames.so")


def wrong(frames, gap=False):
    """What is impossible in a stack (root first), or None. `gap`: native frames may be missing."""
    caller, between = None, []
    for frame in frames:
        if frame.native:
            between.append(frame.name)
            continue
        applied = APPLY.intersection(between)
        name = frame.name
        if frame.file == str(TARGET):
            expected = CALLERS.get(name, "main" if name.startswith("use_") else None)
            if expected and caller not in ((expected,) if isinstance(expected, str) else expected):
                return f"{name} called by {caller}"
            through = {f"apply_{name[3:]}"} & APPLY - {"apply_thread"} if name.startswith("cb_") else set()
            if applied != through and not (gap and not applied):
                return f"{name} called through {sorted(applied)}"
        caller, between = name, []
    applied = APPLY.intersection(between)
    if applied and caller != "apply":
        return f"{sorted(applied)} called by {caller}"
    return None


def check(ran):
    """The number of samples checked, and of those that miss native frames."""
    profile, problems, n, short = ran.profile, {}, 0, 0  # short: missed the thread's entry point, or frames before
    for sample in profile.samples():
        n += 1
        if sample.flags & UNPAIRED:
            assert sample.frames[0].name == "[native unpaired]" and not any(frame.native for frame in sample.frames[1:])
            continue
        if sample.flags & OFF_CPU and sample.flags & GAP and not any(frame.native for frame in sample.frames):
            short += 1
            continue  # it waited for a processor, and only the kernel knew where it was
        if sample.frames[0].name == UNKNOWN:
            assert len(sample.frames) == 1, f"impossible: {sample}"
            continue
        problem = wrong(sample.frames, gap=bool(sample.flags & GAP))
        if problem:
            problems[problem] = problems.get(problem, 0) + 1
            problems["; ".join(("~" if f.native else "") + f.name for f in sample.frames)] = 1
        short += bool(sample.flags & GAP)
        assert sample.thread_name != "MainThread" or sample.flags & GAP or sample.frames[0].name == ROOT, f"impossible: {sample}"
    assert not problems, f"{len(problems)} impossible of {n}: " + "\n".join(list(problems)[:6])
    # The stack of a thread that goes on waiting is written again and again, but counted once.
    assert ran.json["native_gaps"] <= short, (ran.json, short)
    assert ran.json["repeated"] or short == ran.json["native_gaps"], (ran.json, short)
    adds_up(ran)
    return n, short


@pytest.mark.statistical(
    "not measured: instants that no rule covers decide; on a full machine five of 1,300 samples were seen, 7 are allowed"
)
def test_native_frames_are_missing_in_few_samples(run_python, tmp_path, library):
    ran = run_python(TARGET, tmp_path / "out.spprof", SAMPLES / 10000, 0.2, "True", library, "cpu")
    n, short = check(ran)
    # CONFIG_HZ is what timers give, and wine's server serves one call at a time.
    assert n > SAMPLES / (400 if WINE else 250 if ran.json["clock"] == "timer" else 20)
    assert ran.json["native_unpaired"] <= (0.01 if sys.version_info[:2] == (3, 12) else 0.002) * n + 3, ran.json
    assert short <= 0.001 * n + 6, (short, n)  # on a full machine up to five of 1,300 were seen


@pytest.mark.parametrize("native", ["True", "full"])
def test_native_frames_are_in_the_order_of_calls(run_python, tmp_path, library, native):
    throws = not switch("SPPROF_SANITIZED") and not WINDOWS  # where it is made without a C++ compiler
    left_out = {"apply_thread", "apply_wait", *([] if throws else ["apply_throwing"])}
    to_see = APPLY - left_out | {"apply_thread_body", *([] if WINDOWS else ["deflate"])}  # there Python's own library has zlib
    to_see |= {"shapes::Thrower<int>::one(int (*)(int), int)"} if throws else set()
    to_see |= {f"cb_{name}" for name in NATIVE_CALLBACKS if f"apply_{name}" not in left_out}
    reached, before, files = set(), set(), set()
    for seconds in until_seen(reached, to_see, 0.5):
        ran = run_python(TARGET, tmp_path / "out.spprof", seconds, 0.2, native, library, "cpu")
        check(ran)
        frames = {frame for frames in ran.profile.aggregate() for frame in frames if frame.native}
        rows = ran.profile.functions(only="python")
        reached |= {frame.name for frame in frames} | {row.qualname for row in rows}
        # CPython's own: in the program or its library. Its extension modules have such names too, and they are shown.
        own = {f.name for f in frames if f.name.startswith(("Py", "_Py")) and "python3" in os.path.basename(f.file)}
        own = {f.name for f in frames if f.name in own and not re.search(r"cpython-3\d+", f.file)}
        if native == "full":  # an evaluator precedes the Python frames that it runs, named even where it is stripped
            before |= {
                a.name
                for s in ran.profile.samples()
                if not s.flags & (UNPAIRED | GAP)
                for a, b in zip(s.frames, s.frames[1:])
                if a.native and not b.native
            }
            assert before <= {"_PyEval_EvalFrameDefault"}, sorted(before)
        else:
            assert not own, sorted(own)
        files |= {os.path.basename(f.file) for f in frames if f.name in APPLY - {"apply_throwing"}}
        assert not {row.file for row in rows} & {frame.file for frame in frames if frame.file}
        deflated = [call for call in ran.profile.native_calls() if "libz" in os.path.basename(call.library)]
        assert {(call.file, call.line) for call in deflated} <= {(str(TARGET), ZLIB_LINE)}
    assert files == {library.name} and (native != "full" or before)


@pytest.mark.skipif(sys.version_info < (3, 14), reason="CPython's releases have its JIT since 3.14")
def test_code_of_the_jit_is_crossed(run_python, tmp_path, library):
    reached, to_see = set(), {"apply_plain", "cb_plain"}
    for seconds in until_seen(reached, to_see, 0.5):
        ran = run_python(TARGET, tmp_path / "out.spprof", seconds, 0.2, "True", library, "cpu", env={"PYTHON_JIT": "1"})
        check(ran)
        reached |= {frame.name for stack in ran.profile.aggregate() for frame in stack}


@posix
@pytest.mark.skipif(sys.version_info < (3, 12), reason="CPython's trampolines came with 3.12")
def test_trampolines_of_cpython_are_crossed(run_python, tmp_path, library):
    """-X perf: each Python function is called by code of its own, without unwind information, named in a perf-PID.map."""
    reached, to_see = set(), APPLY - {"apply_thread", "apply_wait", "apply_throwing"}
    for seconds in until_seen(reached, to_see, 0.5):
        ran = run_python("-X", "perf", TARGET, tmp_path / "out.spprof", seconds, 0.2, "True", library, "cpu")
        os.unlink(f"/tmp/perf-{ran.profile.header['pid']}.map")
        check(ran)  # a trampoline that is interrupted itself leaves a gap
        reached |= {frame.name for stack in ran.profile.aggregate() for frame in stack if frame.native}
    assert not [name for name in reached if name.startswith(("py::", "py_trampoline_"))], sorted(reached)


NAMED, EARLY, MISSING = ("use_jitted", "jitted [optimized] :3"), ("use_jitted", "[unknown]"), ("use_jitted",)


def jitted(ran):
    """The frames between the caller of code made at run time and its callee, for each kind of such code: samples each."""
    made = {}
    for stack, total in ran.profile.aggregate().items():
        names = [frame.name for frame in stack]
        if "called_by_jitted" in names:
            below = names[names.index("use_jitted") : names.index("called_by_jitted")]
            key = tuple(name for name in below if "jitted" in name or name == "[unknown]")
            made[key] = made.get(key, 0) + total.samples
    return made


@posix
@pytest.mark.parametrize("when", ["before", "after"])
def test_code_made_at_run_time_has_the_name_that_its_maker_gave_it(run_python, tmp_path, when):
    """Such code has no unwind information: native frames may be missing above it, but none has another name."""
    reached = set()
    for seconds in until_seen(reached, {NAMED}):
        made = jitted(run_python(HERE.parent / "targets" / "jitted.py", tmp_path / "out.spprof", seconds, 0.2, when))
        # Before the name was there the code has none.
        assert set(made) <= {NAMED, MISSING, *([EARLY] if when == "after" else [])}, f"impossible: {made}"
        reached |= set(made)


@posix
@pytest.mark.statistical("none by chance: a sample in 100 may miss the code; a machine so full that more do fails")
def test_code_made_at_run_time_is_missing_in_few_samples(run_python, tmp_path):
    made = jitted(run_python(HERE.parent / "targets" / "jitted.py", tmp_path / "out.spprof", 1.0, 0.2, "after"))
    assert made.get(MISSING, 0) <= 0.01 * sum(made.values()) + 3, made
    assert made[NAMED] > made.get(EARLY, 0), made


def test_waiting_threads_show_where_they_wait(run_python, tmp_path, library):
    reached, to_see = set(), {"ntdll" if WINDOWS else "libc"}
    for seconds in until_seen(reached, to_see):
        ran = run_python(TARGET, tmp_path / "out.spprof", seconds, 0.5, "True", library, "wall")
        check(ran)
        waits = [s.frames for s in ran.profile if s.flags & OFF_CPU and any(f.name == "cb_wait" for f in s.frames)]
        leaves = {os.path.basename(frames[-1].file) for frames in waits if frames[-1].native}
        reached |= {start for start in to_see if any(name.startswith(start) for name in leaves)}


@pytest.mark.skipif(not WINDOWS, reason="Windows counts a path in UTF-16, where these letters are shorter than in UTF-8")
def test_a_library_whose_path_is_cut_has_names(run_python, tmp_path, library):
    with tempfile.TemporaryDirectory() as folder:  # tmp_path is too long for more than 260 units
        long = Path(folder, "\u6f22" * 80, "\u5b57" * 80)
        long.mkdir(parents=True)
        copy = shutil.copy(library, long)
        ran = run_python(TARGET, tmp_path / "out.spprof", 0.5, 0.2, "True", copy, "cpu")
    reached = {frame.file for sample in ran.profile.samples() for frame in sample.frames if frame.name in APPLY}
    assert len(reached) == 1 and "\u6f22" * 80 + "/" + "\u5b57" * 30 in reached.pop().replace("\\", "/")


@posix
def test_a_library_that_goes_leaves_its_name_to_nobody(run_python, tmp_path):
    text = 'volatile long sink; __attribute__((visibility("default"))) void work_NAME(long n) { while (n--) sink += n * sink; }'
    for name in ("one", "two"):
        (tmp_path / f"{name}.c").write_text(text.replace("NAME", name))
        subprocess.run(["gcc", "-O2", "-shared", "-fPIC", "-o", tmp_path / f"{name}.so", tmp_path / f"{name}.c"], check=True)
    text = f"""
import _ctypes, ctypes, spprof
def work(name):
    handle = _ctypes.dlopen(f"{tmp_path}/{{name}}.so", 2)
    function = ctypes.CFUNCTYPE(None, ctypes.c_long)(_ctypes.dlsym(handle, "work_" + name))
    places.add(_ctypes.dlsym(handle, "work_" + name))
    use_one(function) if name == "one" else use_two(function)
    _ctypes.dlclose(handle)
def use_one(function): function(10_000_000)
def use_two(function): function(10_000_000)
places = set()
spprof.start(0.2, output_path={str(tmp_path / "out.spprof")!r}, native=True)
for i in range(10):
    work("one"); work("two")
spprof.stop()
print(len(places))
"""
    reached, to_see = set(), {"work_one", "work_two"}
    for _ in until_seen(reached, to_see):
        ran = run_python("-c", text)
        assert ran.json < 20, "no address was used twice: this tests nothing"
        for sample in ran.profile:
            python = [frame.name for frame in sample.frames if not frame.native]
            for frame in sample.frames:
                if frame.name.startswith("work_"):
                    assert python[-1] == frame.name.replace("work", "use"), f"impossible: {sample}"
                    reached.add(frame.name)


def has_symbols(name):
    """Whether the interpreter's file names a function that it does not export: nm(1) says; without it, we expect so."""
    shared = sysconfig.get_config_var("LDLIBRARY") if sysconfig.get_config_var("Py_ENABLE_SHARED") else None
    file = Path(sysconfig.get_config_var("LIBDIR")) / shared if shared else Path(sys.executable).resolve()
    if WINDOWS or shutil.which("nm") is None:
        return True
    return name in subprocess.run(["nm", file], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True).stdout


@pytest.mark.skipif(
    WINDOWS, reason="there 131 functions of OpenSSL's, sha256's too, have handlers in place of unwind codes: no frames above"
)
def test_c_functions_have_the_names_that_python_knows_them_by(run_python, tmp_path):
    text = """
import hashlib, sys, time, spprof
def digest(data): return hashlib.sha256(data)
def compare(a, b): return a < b
spprof.start(0.2, output_path=sys.argv[1], native=True)
data, numbers = b"x" * 5_000_000, list(range(1_000_000))
end = time.thread_time() + float(sys.argv[2])
copy = list(numbers)
while time.thread_time() < end:
    digest(data)
    for _ in range(3): compare(numbers, copy)
spprof.stop()
"""
    # Below `compare` is a function of the interpreter's own, which Python has no name for; a stripped one has no symbol either.
    reached, to_see = set(), {"digest", "openssl_sha256", *(["compare"] if has_symbols("list_richcompare") else [])}
    for seconds in until_seen(reached, to_see):
        for sample in run_python("-c", text, tmp_path / "out.spprof", seconds).profile:
            names = [frame.name for frame in sample.frames]
            for name in {"digest", "compare"} & set(names):
                native = {frame.qualname for frame in sample.frames[names.index(name) + 1 :]}
                reached |= {name} if native else set()
                reached |= {"openssl_sha256"} if "_hashlib.openssl_sha256" in native else set()
                # Below `compare` there is none of hashlib. `list.__lt__` and its five sisters are one C function, which has no
                # one name.
                assert name == "digest" or not any("hashlib" in each for each in native), f"impossible: {sample}"
                assert not any(each.startswith("list.__") for each in native), f"impossible: {sample}"


def test_leaf_keeps_only_what_lies_below_the_last_python_frame(run_python, tmp_path, library):
    reached, to_see = set(), {"apply_plain", *([] if WINDOWS else ["deflate"])}
    for seconds in until_seen(reached, to_see, 0.5):
        ran = run_python(TARGET, tmp_path / "out.spprof", seconds, 0.2, "leaf", library, "cpu")
        for frames in ran.profile.aggregate():
            python = [i for i, frame in enumerate(frames) if not frame.native]
            if python and frames[0].name != "[native unpaired]":
                assert python == list(range(len(python))), [frame.name for frame in frames]
                below = {frame.name for frame in frames if frame.native}
                assert not APPLY & below or frames[len(python) - 1].name == "apply", [frame.name for frame in frames]
            reached |= {frame.name for frame in frames if frame.native}


@posix
@pytest.mark.timeout(900)
def test_lines_and_inlined_functions_agree_with_addr2line(run_python, tmp_path):
    """addr2line of binutils reads the same debug information by other code; a stripped library's is found by its build id."""
    pytest.importorskip("symbolic")
    library = compiled(tmp_path / "frames.so", "-g", "-Wl,--build-id")
    whole = shutil.copy(library, tmp_path / "whole.so")
    reported = subprocess.run(["readelf", "-n", library], capture_output=True, text=True, check=True).stdout
    build_id = re.search(r"Build ID: ([0-9a-f]+)", reported)[1]
    (tmp_path / "debug" / ".build-id" / build_id[:2]).mkdir(parents=True)
    shutil.copy(library, tmp_path / "debug" / ".build-id" / build_id[:2] / f"{build_id[2:]}.debug")
    subprocess.run(["strip", library], check=True)
    for seconds in (1, 2, 4, 8, 16, 32):  # until one run has seen enough of it
        ran = run_python(TARGET, tmp_path / "out.spprof", seconds, 0.2, "True", library, "cpu")
        frames = [frame for stack in ran.profile.aggregate() for frame in stack if frame.file == str(library)]
        before = {frame.line for frame in frames}
        if len(before) > 20 and "apply_plain" in {frame.name for frame in frames}:
            break

    def symbolize(*options, file="out.spprof"):
        command = [sys.executable, "-m", "spprof", "symbolize", tmp_path / file, *options]
        return subprocess.run(command, capture_output=True, text=True)

    done = symbolize("--debug-dir", tmp_path / "debug", "-o", tmp_path / "lines.spprof")
    assert done.returncode == 0
    data = (tmp_path / "lines.spprof").read_bytes()
    raw = read_columns(data)
    ((_, payload),) = blocks(data, b"L")
    chains, ours = {}, {}
    for frame, chain in json.loads(payload)["frames"].items():
        if raw["strings"][raw["code_file"][raw["frame_code"][int(frame)]]] == str(library):
            ours[frame] = chains[raw["frame_line"][int(frame)]] = chain
    assert len(chains) > 10 and any(len(chain) > 1 for chain in chains.values())
    assert re.search(rf"^{len(chains)} of {len(before)} addresses of {library}$", done.stderr, re.M), done.stderr
    command = ["addr2line", "-a", "-f", "-i", "-C", "-e", whole, *map(hex, before)]  # -a: each address before its lines
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    reported = {int(address, 16): lines.splitlines() for address, lines in re.findall(r"^(0x\w+)\n((?:(?!0x).*\n)+)", said, re.M)}
    assert set(reported) == before
    for address, lines in reported.items():
        chain = chains.get(address)
        if chain is None:  # a stub of the linker's
            assert re.fullmatch(r".*:[?0]", lines[-1]), (hex(address), lines)
            continue
        truth = [(name, *re.match(r"(.*):(\d+)", place).groups()) for name, place in zip(lines[::2], lines[1::2])][::-1]
        assert [(demangle(name).split("(")[0], file, str(line)) for name, file, line in chain] == \
               [(re.sub(r"\(.*|\.cold$|\.constprop.*", "", name), file, line) for name, file, line in truth]  # fmt: skip

    # In place, without the debug file: what was found before stays. Through a link, and the link stays too.
    shutil.copy(tmp_path / "lines.spprof", tmp_path / "again.spprof")
    (tmp_path / "link.spprof").symlink_to("again.spprof")
    assert symbolize(file="link.spprof").returncode in (0, 1) and (tmp_path / "link.spprof").is_symlink()
    ((_, payload),) = blocks((tmp_path / "again.spprof").read_bytes(), b"L")
    found = json.loads(payload)["frames"]
    assert {id: chain for id, chain in found.items() if id in ours} == ours and len(ours) == len(chains)
    collapsed = [sys.executable, "-m", "spprof", "convert", tmp_path / "lines.spprof", "-f", "collapsed", "-o", "-"]
    text = subprocess.run(collapsed, capture_output=True, text=True, check=True).stdout
    assert re.search(r";apply_plain \(frames\.c:\d+\) \[frames\.so\];", text)

    # Another library in its place: no line is better than a wrong one.
    shutil.copy(compiled(tmp_path / "other.so", "-g", "-O1", "-Wl,--build-id"), library)
    other = symbolize("-o", tmp_path / "other.spprof")
    assert f"0 of {len(before)} addresses of {library}: the file has changed since it was profiled" in other.stderr


def test_what_symbolize_refuses(run_python, tmp_path):
    pytest.importorskip("symbolic")
    run_python("-c", "import spprof; spprof.start(output_path='x.spprof'); spprof.stop()", cwd=tmp_path)
    program = "import spprof, time, zlib; spprof.start(0.1, output_path='live.spprof', native=True);"
    program += "\nwhile spprof.stats()['taken'] < 20: zlib.compress(bytes(99999))\nspprof.flush(); print(flush=True); input()"
    live = subprocess.Popen([sys.executable, "-c", program], cwd=tmp_path, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        assert live.stdout.readline()
        refused = subprocess.run(
            [sys.executable, "-m", "spprof", "symbolize", tmp_path / "live.spprof"], capture_output=True, text=True
        )
        assert refused.returncode == 2 and "still being taken" in refused.stderr
    finally:
        live.communicate(b"\n")
    assert Profile.load(tmp_path / "live.spprof").end is not None
    for file, words in ("x.spprof", "--native"), ("none.spprof", "none.spprof"):
        command = [sys.executable, "-m", "spprof", "symbolize", tmp_path / file]
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.returncode == 2 and words in done.stderr and "Traceback" not in done.stderr


@pytest.mark.skipif(not core_of_linux(), reason="elsewhere calls have no wrappers")
def test_a_call_shows_as_the_function_that_was_called(run_python, tmp_path):
    """What it goes through is ours, and shown to nobody."""
    ran = run_python("-c", f"""
import os, spprof
zeros = os.open("/dev/zero", os.O_RDONLY)
def reads(): os.read(zeros, 1 << 20)
spprof.start(0.1, "cpu", {str(tmp_path / "out.spprof")!r}, clock="signal", native=True)
taken = spprof.stats()["taken"]  # of its imports
while spprof.stats()["taken"] < taken + 200: reads()
spprof.stop()
""")  # fmt: skip
    stacks = [[frame.name for frame in sample.frames] for sample in ran.profile]
    of_reads = [stack[stack.index("reads") + 1 :] for stack in stacks if "reads" in stack]
    assert any(stack and stack[-1] in ("read", "__read", "__libc_read", "__GI___libc_read") for stack in of_reads), of_reads[:20]
    assert not any(name in stack for stack in of_reads for name in ("call_wrapped", "own_read", "pass_tick_here"))
