"""judge.py CASE PROFILE: has the oracle look at every stack of a profile; prints what it found as JSON."""

import importlib.util
import json
import sys
from collections import Counter
from pathlib import Path

from oracle import NO_PYTHON, Oracle

import spprof
from spprof.model import TRUNCATED, TRUNCATION, UNPAIRED

case_path, path = Path(sys.argv[1]), sys.argv[2]
spec = importlib.util.spec_from_file_location("case", case_path)
case = importlib.util.module_from_spec(spec)
sys.modules["case"] = case
spec.loader.exec_module(case)

oracle = Oracle(case)
profile = spprof.Profile.load(path)
problems, cut, seen, samples, main_ticks, no_python, unpaired = Counter(), Counter(), set(), 0, 0, 0, 0
for sample in profile.samples():
    samples += 1
    main = sample.thread_name == "MainThread"
    main_ticks += sample.count if main else 0
    unpaired += bool(sample.flags & UNPAIRED)
    # Native frames go between; test_native.py checks where. What is left has to be possible as it is without them.
    frames = tuple(frame for frame in sample.frames if not frame.native)
    if not frames or frames[0].name == NO_PYTHON:
        no_python += 1
        continue
    key = main, frames
    if key in seen:
        continue
    if len(seen) > 100000:
        seen.clear()
    seen.add(key)
    if bool(sample.flags & TRUNCATED) != (frames[0] == TRUNCATION):
        problems["a truncated stack is not marked, or one is marked that is whole"] += 1
    if sample.flags & TRUNCATED:
        cut[f"truncated at {len(frames)} frames: {[f.qualname for f in frames[:4]]}"] += 1
        continue
    wrong = oracle.wrong(frames, main)
    if wrong:
        problems[f"impossible: {wrong}"] += 1
# A function that is just being entered may have no caller yet; that is rare, and said to be so.
if not getattr(case, "DEEP", False) and sum(cut.values()) > 2 + samples / 1000:
    problems.update(cut)
print(
    json.dumps(
        {
            "problems": [f"{text} ({n} times)" for text, n in problems.most_common(8)],
            "warning": profile.warning,
            "ended": profile.end is not None,
            "samples": samples,
            "stacks": len(seen),
            "main_ticks": main_ticks,
            "no_python": no_python,
            "unpaired": unpaired,
        }
    )
)
