"""Every stack is one that the program can have: call graphs known from the source, up to a million samples a program."""

import os
import sys
from collections import Counter
from pathlib import Path

import pytest
from truth import DRIVE, Truth
from wine import WINE

from spprof.model import OFF_CPU, TRUNCATED, TRUNCATION

TARGETS = Path(__file__).resolve().parent.parent / "targets"
SAMPLES = int(os.environ.get("SPPROF_TEST_SAMPLES", "20000"))
PROGRAMS = ["chains", "recursion", "generators", "coroutines", "raising", "callbacks", "threads", "execd"]
# CPU mode at 10 kHz; wall mode at 2 kHz, where the sampler thread has to win the processor for every look.
MODES = {"cpu": (0.1, SAMPLES / 10_000, SAMPLES * 0.5), "wall": (0.5, SAMPLES / 10_000, SAMPLES * 0.05)}


# On a full machine wall mode's sampler may come to a thread 64 ticks late. Where it stood is not known then, and that is said.
UNKNOWN = "[unknown stack]"


def check(profile, truth):
    """The number of samples checked; fails with the first impossible ones."""
    wrong, seen, n = {}, set(), 0
    for sample in profile.samples():
        if sample.frames[0].name == UNKNOWN and profile.mode == "wall":
            continue
        n += 1
        assert not sample.flags & TRUNCATED, sample
        if not sample.thread_name.startswith("worker") and sample.thread_name != "MainThread":
            # A thread that no more is one of Python's, or is not yet.
            assert sample.frames[0].name in ("[no Python frames]", "_bootstrap"), sample
        if sample.frames[0].name == "[no Python frames]" and sample.thread_name != "MainThread":
            continue
        key = (sample.thread_name == "MainThread", sample.frames)
        if key in seen:
            continue
        seen.add(key)
        problem = truth.impossible(sample.frames, sample.thread_name == "MainThread")
        if problem:
            wrong[problem] = wrong.get(problem, 0) + 1
            wrong["; stack: " + " > ".join(f"{f.qualname}:{f.line}" for f in sample.frames)] = 1
    assert not wrong, f"{len(wrong)} impossible of {n}: " + "\n".join(list(wrong)[:6])
    return n


@pytest.mark.parametrize("mode", sorted(MODES))
@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.timeout(3600)
def test_every_stack_is_possible(drive, program, mode):
    interval_ms, seconds, least = MODES[mode]
    ran = drive(program, mode, interval_ms=interval_ms, seconds=seconds)
    profile = ran.profile
    assert profile.warning is None
    n = check(profile, Truth(program))
    # Enough of them, or nothing was proven: a full machine can halve a run, but a clock that stopped cannot pass. Timers
    # give no more than the kernel's tick, 100 a second at least.
    # Under wine a sample, and a new thread, take some calls of its server; and `threads` begins threads all the time.
    assert n >= (least if ran.json["clock"] in ("perf", "perf-user") else seconds * (25 if WINE else 40))
    stats = ran.json
    assert sum(profile.column("count")) == stats["taken"] + stats["repeated"]
    assert stats["expected"] == stats["taken"] + stats["repeated"] + sum(stats["losses"].values())


@pytest.mark.parametrize("mode", sorted(MODES))
def test_each_thread_runs_its_own_chain(drive, mode):
    profile = drive("threads", mode, interval_ms=0.5, seconds=1.0).profile
    seen = set()
    for sample in profile.samples():
        if sample.thread_name.startswith("worker-"):
            own = sample.thread_name[-1]
            names = {f.name for f in sample.frames if f.file == "<threads>"}
            assert names <= {f"left_{own}", f"middle_{own}", f"right_{own}"}, sample
            seen |= names
    assert seen == {f"{part}_{i}" for part in ("left", "middle", "right") for i in range(4)}


@pytest.mark.parametrize("mode", sorted(MODES))
@pytest.mark.parametrize("max_depth", [1, 7, 512])
def test_depth_cap_keeps_the_leaf_side_and_says_so(drive, mode, max_depth):
    ran = drive("deep", mode, interval_ms=0.5, seconds=1.0, max_depth=max_depth)
    truth = Truth("deep")
    cut = 0
    for sample in ran.profile.samples():
        if sample.frames[0].name == UNKNOWN and mode == "wall":
            continue
        marked = bool(sample.flags & TRUNCATED)
        assert marked == (sample.frames[0] == TRUNCATION)
        frames = sample.frames[1:] if marked else sample.frames
        assert len(frames) <= max_depth
        if marked:
            cut += 1
            # 3.13+ runs a frame of its own between a class's call and its __init__; it counts, but is not shown. The newest may
            # stand before its __init__ has begun, or when that is over.
            hidden = 1 + sum(f.name == "__init__" for f in frames) if sys.version_info >= (3, 13) else 0
            assert max_depth - hidden <= len(frames) <= max_depth, "truncated, but not at the depth asked for"
        else:
            assert (frames[0].file, frames[0].name) == (str(DRIVE), "<module>")
        for a, b in zip(frames, frames[1:]):
            assert truth._edge(a, b) is None
    # Wall mode writes repeats of a waiting thread's stack as rows of their own; the stack was truncated once.
    assert 0 < ran.json["truncated"] <= cut
    assert mode == "wall" or ran.json["truncated"] == cut


def test_a_whole_deep_stack_is_kept_when_asked_for(drive):
    profile = drive("deep", interval_ms=0.5, seconds=1.0, max_depth=4096).profile
    truth = Truth("deep")
    depths = set()
    for frames in profile.aggregate():
        if frames[0].name == UNKNOWN:  # eight ticks in a row lost: its queue is full of such stacks on a full machine
            continue
        assert truth.impossible(frames, True) is None
        if frames[-1].name == "burn":
            depths.add(sum(frame.name == "down" for frame in frames))
    assert depths == {1501}


def test_a_run_may_keep_deeper_stacks_than_the_one_before(run_python, tmp_path):
    ran = run_python("-c", f"""
import spprof, sys, time
sys.setrecursionlimit(5000)
def even(n, end):
    return odd(n - 1, end) if n else burn(end)
def odd(n, end):
    return even(n - 1, end)
def burn(end):
    while time.process_time() < end:
        until = time.monotonic() + end - time.process_time()
        while time.monotonic() < until:
            shallow()
def shallow():
    sum(range(100))
for max_depth in (8, 8, 4096):  # the second frees what the first used
    spprof.start(0.2, output_path={str(tmp_path / "out.spprof")!r}, max_depth=max_depth)
    even(2000, time.process_time() + 0.3)
    spprof.stop()
print("null")
""")  # fmt: skip
    ends = Counter()
    for sample in ran.profile.samples():
        names = [frame.name for frame in sample.frames if frame.name in ("even", "odd", "burn", "shallow")]
        turns = [name for name in names if name in ("even", "odd")]
        again = [i for i in range(1, len(turns)) if turns[i] == turns[i - 1]]
        assert not again, f"impossible: {len(turns)} turns, the same twice at {again}"
        if len(turns) == 2001:
            ends[tuple(names[2001:])] += sample.count
    # The deepest `even` has a moment before it calls `burn`.
    assert set(ends) <= {(), ("burn",), ("burn", "shallow")} and ends[()] < 0.05 * sum(ends.values()), ends


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere a thread that waits is asked itself")
def test_a_wait_in_a_subinterpreter_is_its_own(run_python, tmp_path):
    """Here, and not with the other shares of time: each version has code of its own for it.

    A thread has a state in each interpreter whose code it runs, and may not have made the one that it is on."""
    ran = run_python(TARGETS / "subinterpreters.py", tmp_path / "out.spprof", 1)
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
                weights[kind] += sample.weight_ns
            elif f"run_{kind}" in names and sample.flags & OFF_CPU and kind != "thread":
                callers[kind] += sample.weight_ns
    for kind in weights:
        # 0.3 s, less what it took to find the thread. The rest is what its caller did: it made the interpreter.
        assert weights[kind] >= 0.15e9, weights
        assert weights[kind] > callers[kind], (weights, callers)
