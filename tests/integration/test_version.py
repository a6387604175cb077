"""A short proof of what depends on the interpreter's version, for the gate's run on each of them: its frames, lines, contexts,
names of threads and how C calls Python.

That a run begins proves the layout, or it would be refused. All judgements are those of the other tests, on fewer programs."""

import sys

import pytest
from judging import adds_up, check, judge, until_seen, whole_deep_stacks
from ran import TARGETS
from refused import CALLS
from switches import native_frames
from test_labels import TRUTH, labelled
from test_late_names import renamed_and_ended
from test_lines import hot_expression_and_one_over_several_lines, own_stack
from test_native import TARGET, compiled, posix
from test_native import check as check_native
from truth import Truth


@pytest.mark.parametrize("program", ["chains", "recursion", "generators", "coroutines", "raising", "callbacks"])
def test_every_stack_is_possible(drive, program):
    judge(drive, program, interval_ms=0.1)


@pytest.mark.parametrize("program", ["coroutines", "threads"])
def test_every_stack_seen_from_outside_is_possible(drive, program):
    judge(drive, program, "wall", interval_ms=0.5)


def test_a_whole_deep_stack_is_kept(drive):
    whole_deep_stacks(drive)


def test_the_own_stack_is_as_the_interpreter_says(run_python, tmp_path):
    own_stack(run_python, tmp_path)


def test_lines_and_columns_are_those_of_the_code(drive):
    hot_expression_and_one_over_several_lines(drive)


def test_labels_are_those_of_the_context(run_python, tmp_path):
    seen, to_see = set(), set(TRUTH) - {"napping"}
    for _ in until_seen(seen, to_see):
        ran = run_python(TARGETS / "labels.py", tmp_path / "out.spprof", "cpu")
        seen |= {name for name, n in labelled(ran.profile).items() if n}


def test_a_thread_that_was_renamed_and_ended_has_its_last_name(tmp_path):
    renamed_and_ended(tmp_path / "p.spprof", "cpu", by_itself=True)


@posix
@pytest.mark.skipif(not native_frames(), reason="no native frames here")
def test_native_frames_are_in_the_order_of_calls(run_python, tmp_path):
    library = compiled(tmp_path / "frames.so")
    seen, to_see = set(), {"apply_plain", "cb_plain", "apply_qsort", "cb_qsort", "cb_generator", "cb_key"}
    for seconds in until_seen(seen, to_see, 0.5):
        ran = run_python(TARGET, tmp_path / "out.spprof", seconds, 0.2, "True", library, "cpu")
        check_native(ran)
        seen |= {frame.name for frames in ran.profile.aggregate() for frame in frames}


@pytest.mark.skipif("perf_event_open" not in CALLS, reason="no perf events that could be refused")
def test_stacks_where_perf_events_are_refused(run_python, tmp_path):
    truth, n, seen, refused = Truth("generators"), 0, set(), TARGETS.parent / "refused.py"
    for seconds in until_seen(seen, {"100 samples"}):
        command = [sys.executable, TARGETS / "drive.py", TARGETS / "generators.py", tmp_path / "out.spprof", "cpu", "auto", 1]
        ran = run_python(refused, "perf_event_open", *command, seconds)
        assert ran.json["clock"] not in ("perf", "perf-user")
        n += check(ran.profile, truth)
        adds_up(ran)
        seen |= {"100 samples"} if n >= 100 else set()
