"""Lines and columns are those that CPython itself gives for the same instruction."""

import dis
import importlib.util
import sys
from pathlib import Path

import pytest
from truth import code_objects

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


@pytest.mark.parametrize("program", ["lines", "recursion", "generators", "raising", "callbacks"])
def test_every_place_is_one_of_the_code_objects(drive, program):
    path = str(TARGETS / f"{program}.py")
    codes, checked, runs = codes_of(path), set(), 0
    while len(checked) < (8 if COLUMNS else 6):  # some places are met in few samples
        runs += 1
        assert runs <= 10, sorted(checked)
        for frames in drive(program, interval_ms=0.1, seconds=1.0).profile.aggregate():
            for frame in frames:
                if frame.file != path or frame in checked:
                    continue
                checked.add(frame)
                place = (frame.line, frame.end_line, frame.col, frame.end_col)
                allowed = set().union(*map(places, codes[frame.qualname]))
                if frame is frames[-1]:
                    # About to execute its first instruction: nowhere, or (as CPython's f_lineno) at its first line.
                    allowed |= {(0, 0, -1, -1), *((c.co_firstlineno,) * 2 + (-1, -1) for c in codes[frame.qualname])}
                assert place in allowed, f"{frame} is not in {sorted(allowed)}"


def test_the_hot_expression_is_found_to_the_column(drive):
    profile = drive("lines", interval_ms=0.5, seconds=2.0).profile
    text = (TARGETS / "lines.py").read_text().splitlines()
    spans = {}
    for frames, total in profile.aggregate().items():
        if frames[-1].name == "hot":
            leaf = frames[-1]
            key = leaf.line if not COLUMNS else (leaf.line, leaf.end_line, leaf.col, leaf.end_col)
            spans[key] = spans.get(key, 0) + total.samples
    hottest = max(spans, key=spans.get)
    line = next(i for i, t in enumerate(text, 1) if "# the hot line" in t)
    # 999 of 1000 instructions' time is in this one; the rest is the loop around it.
    assert spans[hottest] > 0.9 * sum(spans.values())
    if not COLUMNS:
        assert hottest == line
        return
    # Columns count UTF-8 bytes: there are letters of two and three bytes before the expression.
    source = text[line - 1].encode()
    first, last, col, end_col = hottest
    assert (first, last, source[col:end_col].decode()) == (line, line, "number ** number")


def test_an_expression_over_several_lines(drive):
    profile = drive("lines", interval_ms=0.2, seconds=2.0).profile
    text = (TARGETS / "lines.py").read_text().splitlines()
    first = next(i for i, t in enumerate(text, 1) if "# begins" in t)
    last = next(i for i, t in enumerate(text, 1) if "# ends" in t)
    found = {
        (caller.line, caller.end_line)
        for frames in profile.aggregate()
        for caller, callee in zip(frames, frames[1:])
        if (caller.name, callee.name) == ("broad", "take")
    }
    assert found == ({(first, last)} if COLUMNS else {(first, first)})


def test_a_blocked_thread_is_the_same_as_sys_current_frames_says(run_python, tmp_path):
    """Wall mode walks it from outside; the program asks CPython about the same thread."""
    ran = run_python(TARGETS / "blocked.py", tmp_path / "out.spprof")
    truth = {name: [tuple(f) for f in frames] for name, frames in ran.json.items()}
    stacks = {}
    for sample in ran.profile.samples():
        if sample.thread_name in truth and sample.flags & 4:
            frames = tuple((f.name, f.file, f.line) for f in sample.frames)
            stacks.setdefault(sample.thread_name, {}).setdefault(frames, 0)
            stacks[sample.thread_name][frames] += sample.count
    assert set(stacks) == set(truth)
    for name, frames in truth.items():
        most = max(stacks[name], key=stacks[name].get)
        assert list(most) == frames
        assert stacks[name][most] > 0.9 * sum(stacks[name].values())


def test_the_own_stack_is_the_same_as_sys_getframe_says(run_python, tmp_path):
    """CPU mode: the handler walks the running thread; the program notes its own stack from the function that burns."""
    ran = run_python(TARGETS / "own_stack.py", tmp_path / "out.spprof")
    truth = [tuple(frame) for frame in ran.json]
    seen = {}
    for sample in ran.profile.samples():
        frames = [(f.name, f.file, f.line) for f in sample.frames]
        if frames[-1][0] == "burn":
            frames[-1] = (*frames[-1][:2], 0)  # where in burn is not known
            seen[tuple(frames)] = seen.get(tuple(frames), 0) + 1
    assert set(seen) == {tuple(truth)}
    assert seen[tuple(truth)] > 100 or ran.profile.clock == "timer"


def test_sources_of_the_targets_compile_alike():
    """The tables above are compiled anew: they must be those of the program that ran."""
    spec = importlib.util.spec_from_file_location("target_lines", TARGETS / "lines.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert module.hot.__code__.co_code == codes_of(TARGETS / "lines.py")["hot"][0].co_code
