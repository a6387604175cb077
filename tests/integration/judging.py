"""Judges what a program's profile says of it, by truth.py: at every instant, however full the machine is.

A test that wants something to be sampled runs its program again and again until it was (`until_seen`): no count of samples, no
share and no duration is judged here."""

import time

import pytest
from truth import Truth

from spprof.model import TRUNCATED

UNKNOWN = "[unknown stack]"  # more ticks were lost in a row than one sample may stand for, and that is said
NO_FRAMES = "[no Python frames]"


def until_seen(found, to_see, seconds=0.3, limit=150):
    """Seconds for one run after another, each longer, until all of these are in `found`: the faster the machine, the fuller it is
    and the lower CONFIG_HZ, the less one run sees. Only what is never seen reaches the limit."""
    late, run = time.monotonic() + limit, 0
    while True:
        yield seconds * (1 + run / 4)
        run += 1
        if to_see <= found:
            return
        if time.monotonic() > late:
            pytest.fail(f"never seen in {run} runs: {sorted(to_see - found)}")


def adds_up(ran):
    """Each tick is a sample or a loss with a reason, and each sample is in the file."""
    stats = ran.json
    assert sum(ran.profile.column("count")) == stats["taken"] + stats["repeated"], stats
    assert stats["expected"] == stats["taken"] + stats["repeated"] + sum(stats["losses"].values()), stats


def check(profile, truth):
    """The number of samples checked; fails with the first impossible ones."""
    wrong, seen, n = {}, set(), 0
    for sample in profile.samples():
        if sample.frames[0].name == UNKNOWN:  # where it was is not known, so it says nothing else
            assert len(sample.frames) == 1, f"impossible: {sample}"
            continue
        n += 1
        assert not sample.flags & TRUNCATED, sample
        if not sample.thread_name.startswith("worker") and sample.thread_name != "MainThread":
            # A thread that no more is one of Python's, or is not yet.
            assert sample.frames[0].name in (NO_FRAMES, "_bootstrap"), f"impossible: {sample}"
        if sample.frames[0].name == NO_FRAMES and sample.thread_name != "MainThread":
            assert len(sample.frames) == 1, f"impossible: {sample}"
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


def judge(drive, program, mode="cpu", least=100, seconds=0.3, **options):
    """Runs the program until so many samples of it were checked, for else nothing was proven. Returns the last run."""
    truth, n, found, ran = Truth(program), 0, set(), None
    for long in until_seen(found, {f"{least} samples"}, seconds):
        ran = drive(program, mode, seconds=long, **options)
        assert ran.profile.warning is None
        n += check(ran.profile, truth)
        adds_up(ran)
        found |= {f"{least} samples"} if n >= least else set()
    return ran


def whole_deep_stacks(drive, seconds=0.3):
    """1,501 calls deep: more than one piece of the interpreter's stack of frames, and each of them is there."""
    truth, found = Truth("deep"), set()
    for long in until_seen(found, {"burn"}, seconds):
        for frames in drive("deep", interval_ms=0.5, seconds=long, max_depth=4096).profile.aggregate():
            if frames[0].name == UNKNOWN:  # a full machine's queue is full of such stacks: ticks in a row are lost
                continue
            problem = truth.impossible(frames, True)
            assert problem is None, f"impossible: {problem}"
            downs = sum((frame.file, frame.name) == (truth.path, "down") for frame in frames)
            if any((frame.file, frame.name) == (truth.path, "burn") for frame in frames):
                found.add("burn")
                assert downs == 1501, f"impossible: burn below {downs}"
            assert downs <= 1501, f"impossible: {downs}"
