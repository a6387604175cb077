"""Lines and columns are those that CPython itself gives for the same instruction."""

import dis
import importlib.util
import sys
from pathlib import Path

import pytest
from judging import UNKNOWN, until_seen
from truth import code_objects

from spprof.model import OFF_CPU

TARGETS = Path(__file__).resolve().parent.parent / "targets"
COLUMNS = sys.version_info >= (3, 11)


def codes_of(path):
    text = Path(path).read_text()
    table = {}
    for code in code_objects(compile(text, str(path), "exec", dont_inherit=True)):
        table.setdefault(code.co_qualname if COLUMNS else code.co_name, []).append(code)
    return table


def places(code):
    """Every (line, end_line, col, end_col) of the code's instructions as spprof writes them."""
    if COLUMNS:
        return {
            (line or 0, end or 0, -1 if col is None else col, -1 if end_col is None else end_col)
            for line, end, col, end_col in code.co_positions()
        }
    if hasattr(code, "co_lines"):
        return {(line or 0, line or 0, -1, -1) for _, _, line in code.co_lines()} | {(code.co_firstlineno,) * 2 + (-1, -1)}
    lines = [line for _, line in dis.findlinestarts(code)]
    return {(line, line, -1, -1) for line in [code.co_firstlineno, *lines]}


def check_places(profile, program, checked):
    """Each new place in the program's file is one of its code object's; adds them to `checked`."""
    path = str(TARGETS / f"{program}.py")
    codes = codes_of(path)
    for frames in profile.aggregate():
        for frame in frames:
            key = (frame, frame is frames[-1])
            if frame.file != path or key in checked:
                continue
            checked.add(key)
            place = (frame.line, frame.end_line, frame.col, frame.end_col)
            allowed = set().union(*map(places, codes[frame.qualname]))
            if frame is frames[-1]:
                # About to execute its first instruction: nowhere, or (as CPython's f_lineno) at its first line.
                allowed |= {(0, 0, -1, -1), *((c.co_firstlineno,) * 2 + (-1, -1) for c in codes[frame.qualname])}
            assert place in allowed, f"impossible: {frame} is not in {sorted(allowed)}"


def numbered(mark):
    """The line of lines.py with this comment."""
    text = (TARGETS / "lines.py").read_text().splitlines()
    return next(i for i, t in enumerate(text, 1) if f"# {mark}" in t)


def spans_of(profile):
    """Where `hot` was the leaf, with how often: lines, or first and last lines and columns."""
    spans = {}
    for frames, total in profile.aggregate().items():
        if frames[-1].name == "hot":
            leaf = frames[-1]
            key = leaf.line if not COLUMNS else (leaf.line, leaf.end_line, leaf.col, leaf.end_col)
            spans[key] = spans.get(key, 0) + total.samples
    return spans


def hot_span():
    """Columns count UTF-8 bytes: there are letters of two and three bytes before the expression."""
    line = numbered("the hot line")
    if not COLUMNS:
        return line
    source = (TARGETS / "lines.py").read_text().splitlines()[line - 1].encode()
    return line, line, source.index(b"number **"), source.index(b"number **") + len(b"number ** number")


@pytest.mark.parametrize("program", ["lines", "recursion", "generators", "raising", "callbacks"])
def test_every_place_is_one_of_the_code_objects(drive, program):
    checked, least = set(), 8 if COLUMNS else 6
    seen, to_see = set(), {f"{least} places"}
    for seconds in until_seen(seen, to_see):  # some places have few samples
        check_places(drive(program, interval_ms=0.1, seconds=seconds).profile, program, checked)
        seen |= to_see if len(checked) >= least else set()


def test_expressions_are_found_to_the_column(drive):
    hot_expression_and_one_over_several_lines(drive)


def hot_expression_and_one_over_several_lines(drive):
    """Lines are where the code is. `hot` may be in each place of its code, and `broad` calls `take` from one place only."""
    first, last = numbered("begins"), numbered("ends")
    to_see, seen = {hot_span(), "broad"}, set()
    for seconds in until_seen(seen, to_see):
        profile = drive("lines", interval_ms=0.2, seconds=seconds).profile
        check_places(profile, "lines", set())
        seen |= set(spans_of(profile))
        for frames in profile.aggregate():
            for caller, callee in zip(frames, frames[1:]):
                if (caller.name, callee.name) == ("broad", "take"):
                    seen.add("broad")
                    lines = (caller.line, caller.end_line)
                    assert lines == ((first, last) if COLUMNS else (first, first)), f"impossible: {caller}"


@pytest.mark.statistical("999 of 1,000 instructions' time is there and 9 of 10 samples are asked for: 1 in 10**9 by chance")
def test_the_hot_expression_has_nearly_all_samples_of_its_function(drive):
    spans = spans_of(drive("lines", interval_ms=0.5, seconds=2.0).profile)
    hottest = max(spans, key=spans.get)
    assert spans[hottest] > 0.9 * sum(spans.values())
    assert hottest == hot_span()


def blocked_stacks(run_python, tmp_path):
    """What CPython says of each blocked thread, and how often which stack was found while it waited."""
    ran = run_python(TARGETS / "blocked.py", tmp_path / "out.spprof")
    truth = {name: tuple(map(tuple, frames)) for name, frames in ran.json.items()}
    stacks = {name: {} for name in truth}
    for sample in ran.profile.samples():
        if sample.thread_name in truth and sample.flags & OFF_CPU:
            frames = tuple((f.name, f.file, f.line) for f in sample.frames)
            found = stacks[sample.thread_name]
            found[frames] = found.get(frames, 0) + sample.count
    return truth, stacks


def test_a_blocked_thread_is_the_same_as_sys_current_frames_says(run_python, tmp_path):
    """Wall mode walks it from outside; the program asks CPython about the same thread, before and after."""
    seen, to_see = set(), {"lock", "event", "pipe"}
    for _ in until_seen(seen, to_see):
        truth, stacks = blocked_stacks(run_python, tmp_path)
        assert set(truth) == to_see
        for name, found in stacks.items():
            for frames in found:
                assert frames == truth[name] or frames[0][0] == UNKNOWN, f"impossible: {frames}, not {truth[name]}"
                seen |= {name} if frames == truth[name] else set()


def own_stack(run_python, tmp_path):
    """CPU mode: the handler walks the running thread; the program notes its own stack from the function that burns."""
    seen = set()
    for _ in until_seen(seen, {"burn"}):
        ran = run_python(TARGETS / "own_stack.py", tmp_path / "out.spprof")
        truth = [tuple(frame) for frame in ran.json]
        for sample in ran.profile.samples():
            frames = [(f.name, f.file, f.line) for f in sample.frames]
            if frames[-1][0] == "burn":
                seen.add("burn")
                frames[-1] = (*frames[-1][:2], 0)  # where in burn is not known
                assert frames == truth, f"impossible: {frames}, not {truth}"


def test_the_own_stack_is_the_same_as_sys_getframe_says(run_python, tmp_path):
    own_stack(run_python, tmp_path)


def test_sources_of_the_targets_compile_alike():
    """The tables above are compiled again: they must be those of the program that ran."""
    spec = importlib.util.spec_from_file_location("target_lines", TARGETS / "lines.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert module.hot.__code__.co_code == codes_of(TARGETS / "lines.py")["hot"][0].co_code
