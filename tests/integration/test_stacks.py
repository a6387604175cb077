"""Every stack is one that the program can have: call graphs known from the source, up to a million samples a program."""

import os
import sys
from pathlib import Path

import pytest
from judging import UNKNOWN, adds_up, check, judge, until_seen, whole_deep_stacks
from switches import core_of_linux
from truth import DRIVE, Truth
from wine import WINE

from spprof.model import OFF_CPU, TRUNCATED, TRUNCATION

TARGETS = Path(__file__).resolve().parent.parent / "targets"
SAMPLES = int(os.environ.get("SPPROF_TEST_SAMPLES", "20000"))
PROGRAMS = ["chains", "recursion", "generators", "coroutines", "raising", "callbacks", "threads", "execd"]
# CPU mode at 10 kHz; wall mode at 2 kHz, where the sampler thread has to win the processor for every look.
MODES = {"cpu": 0.1, "wall": 0.5}


@pytest.mark.parametrize("mode", sorted(MODES))
@pytest.mark.parametrize("program", PROGRAMS)
def test_every_stack_is_possible(drive, program, mode):
    judge(drive, program, mode, interval_ms=MODES[mode])


@pytest.mark.stress
@pytest.mark.parametrize("mode", sorted(MODES))
@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.timeout(3600)
def test_every_stack_of_a_long_run_is_possible(drive, program, mode):
    judge(drive, program, mode, interval_ms=MODES[mode], seconds=SAMPLES / 10_000)


@pytest.mark.statistical("the limits are half of the ticks in CPU mode, a tenth in wall mode: a machine so full may fail it")
@pytest.mark.parametrize("mode", sorted(MODES))
def test_most_ticks_give_a_sample(drive, mode):
    """Timers give no more than the kernel's tick, 100 a second at least. Under wine a sample, and a new thread, take some calls
    of its server."""
    seconds = SAMPLES / 10_000
    ran = drive("chains", mode, interval_ms=MODES[mode], seconds=seconds)
    n = check(ran.profile, Truth("chains"))
    if ran.json["clock"] in ("perf", "perf-user"):
        assert n >= SAMPLES * {"cpu": 0.5, "wall": 0.05}[mode], n
    else:
        assert n >= seconds * (25 if WINE else 40), n


@pytest.mark.parametrize("mode", sorted(MODES))
def test_each_thread_runs_its_own_chain(drive, mode):
    to_see = {f"{part}_{i}" for part in ("left", "middle", "right") for i in range(4)}
    seen = set()
    for seconds in until_seen(seen, to_see):
        for sample in drive("threads", mode, interval_ms=0.5, seconds=seconds).profile.samples():
            if sample.thread_name.startswith("worker-"):
                own = sample.thread_name[-1]
                names = {f.name for f in sample.frames if f.file == "<threads>"}
                assert names <= {f"left_{own}", f"middle_{own}", f"right_{own}"}, f"impossible: {sample}"
                seen |= names


@pytest.mark.parametrize("mode", sorted(MODES))
@pytest.mark.parametrize("max_depth", [1, 7, 512])
def test_depth_cap_keeps_the_leaf_side_and_says_so(drive, mode, max_depth):
    truth, found = Truth("deep"), set()
    for seconds in until_seen(found, {"a stack that was cut"}):
        ran = drive("deep", mode, interval_ms=0.5, seconds=seconds, max_depth=max_depth)
        adds_up(ran)
        cut = 0
        for sample in ran.profile.samples():
            if sample.frames[0].name == UNKNOWN:
                continue
            marked = bool(sample.flags & TRUNCATED)
            assert marked == (sample.frames[0] == TRUNCATION)
            frames = sample.frames[1:] if marked else sample.frames
            assert len(frames) <= max_depth
            if marked:
                cut += 1
                # 3.13+ runs a frame of its own between a class's call and its __init__; it counts, but is not shown. The newest
                # may be before its __init__ has begun, or when that is over.
                hidden = 1 + sum(f.name == "__init__" for f in frames) if sys.version_info >= (3, 13) else 0
                assert max_depth - hidden <= len(frames) <= max_depth, "truncated, but not at the depth asked for"
            else:
                assert (frames[0].file, frames[0].name) == (str(DRIVE), "<module>")
            problem = truth.impossible(frames, True, cut=marked) if frames else None
            assert problem is None, f"impossible: {problem}"
        # Wall mode writes repeats of a waiting thread's stack as rows of their own; the stack was truncated once.
        assert bool(ran.json["truncated"]) == bool(cut) and ran.json["truncated"] <= cut
        assert mode == "wall" or ran.json["truncated"] == cut
        found |= {"a stack that was cut"} if cut else set()


def test_a_whole_deep_stack_is_kept_when_asked_for(drive):
    whole_deep_stacks(drive)


def test_a_run_may_keep_deeper_stacks_than_the_one_before(run_python, tmp_path):
    """Any function may be the leaf: the deepest `even` before it calls `burn` and after, `burn` before it calls `shallow`."""
    truth, found = Truth("turns", alone=True), set()
    for seconds in until_seen(found, {"burn"}):
        # The second run frees what the first used.
        ran = run_python(TARGETS / "turns.py", tmp_path / "out.spprof", seconds, 8, 8, 4096)
        check(ran.profile, truth)
        adds_up(ran)
        for frames in ran.profile.aggregate():
            names = [frame.name for frame in frames if frame.file == truth.path]
            turns = sum(name in ("even", "odd") for name in names)
            assert turns <= 2001, f"impossible: {turns} turns"
            if "burn" in names:
                assert turns == 2001, f"impossible: burn after {turns} turns"
                found.add("burn")


signals = pytest.mark.skipif(not core_of_linux(), reason="elsewhere a thread that waits is asked itself")


def waits_in_subinterpreters(ran):
    """Of each kind of wait: its own time, and that of its caller off the CPU; no sample is of two or of the main thread.

    A thread has a state in each interpreter whose code it runs, and may not have made the one that it is on."""
    weights = dict.fromkeys(ran.json["kinds"], 0)
    callers = dict.fromkeys(ran.json["kinds"], 0)
    tids = {thread.id: thread.tid for thread in ran.profile.threads}
    for sample in ran.profile.samples():
        names = {frame.name for frame in sample.frames}
        inside = [kind for kind in weights if f"wait_{kind}" in names]
        assert len(inside) <= 1, f"impossible: {sample}"
        assert not inside or tids[sample.thread] != ran.json["main"], f"impossible: {sample}"
        for kind in weights:
            if kind in inside:
                weights[kind] += sample.weight
            elif f"run_{kind}" in names and sample.flags & OFF_CPU and kind != "thread":
                callers[kind] += sample.weight
    return weights, callers


@signals
def test_a_wait_in_a_subinterpreter_is_seen_there(run_python, tmp_path):
    """Here, and not with the shares of time: each version has code of its own for it."""
    found, to_see = set(), {"own", "early", "theirs", "nested", *(["thread"] if sys.version_info >= (3, 12) else [])}
    for _ in until_seen(found, to_see):
        ran = run_python(TARGETS / "subinterpreters.py", tmp_path / "out.spprof", 1)
        assert set(ran.json["kinds"]) == to_see
        found |= {kind for kind, weight in waits_in_subinterpreters(ran)[0].items() if weight > 0}


@signals
@pytest.mark.statistical("none by chance: half of 0.3 s is asked for; a machine that takes 0.15 s to find a thread fails")
def test_a_wait_in_a_subinterpreter_is_its_own(run_python, tmp_path):
    weights, callers = waits_in_subinterpreters(run_python(TARGETS / "subinterpreters.py", tmp_path / "out.spprof", 1))
    for kind in weights:
        # 0.3 s, less what it took to find the thread. The rest is what its caller did: it made the interpreter.
        assert weights[kind] >= 0.15e9, weights
        assert weights[kind] > callers[kind], (weights, callers)


@pytest.mark.parametrize("kind", ["generator", "coroutine"])
def test_what_c_code_resumes_in_a_thread_that_runs_no_python_code(kind, run_python):
    """There is no frame below: it is the root of its thread's stacks."""
    ran = run_python("-c", """
import _thread, spprof, sys, time
def work():
    wanted = spprof.stats()["taken"] + 20
    while spprof.stats()["taken"] < wanted:
        sum(range(300))
def of_generator():
    work()
    done.append(1)
    yield 1
async def of_coroutine():
    work()
    done.append(1)
done = []
spprof.start(output_path="out.spprof")
if sys.argv[1] == "generator":
    _thread.start_new_thread(of_generator().__next__, ())
else:
    _thread.start_new_thread(of_coroutine().send, (None,))
while not done: time.sleep(0.01)
spprof.stop()
""", kind)  # fmt: skip
    roots = {(sample.frames[0].name, len(sample.frames) > 1) for sample in ran.profile.samples()}
    assert (f"of_{kind}", True) in roots
