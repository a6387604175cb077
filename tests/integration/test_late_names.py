"""Names that threads get while they run."""

from __future__ import annotations

import threading

import pytest

import spprof
from spprof import Profile


@pytest.mark.parametrize("mode", ["cpu", "wall"])
@pytest.mark.parametrize("by_itself", [True, False])
def test_a_thread_that_was_renamed_and_ended_has_its_last_name(tmp_path, mode, by_itself):
    renamed_and_ended(tmp_path / "p.spprof", mode, by_itself)


def renamed_and_ended(path, mode, by_itself):
    reported, renamed, done = [], threading.Event(), threading.Event()

    def work():
        reported.append(threading.get_native_id())
        if by_itself:
            threading.current_thread().name = "in between"
            threading.current_thread().name = "late"
            renamed.set()
        while not done.is_set():
            sum(range(1000))

    spprof.start(output_path=path, mode=mode)
    try:
        thread = threading.Thread(target=work, name="early")
        thread.start()
        if not by_itself:
            thread.name = "late"
            renamed.set()
        renamed.wait()
        while not any(each.tid in reported and each.samples for each in Profile(path).threads):  # until it was found
            spprof.flush()
        done.set()
        thread.join()
        # Of a thread that ended; its id may be another's by now.
        thread.name = "after its end"
    finally:
        done.set()
        profile = spprof.stop()
    assert [each.name for each in profile.threads if each.tid == reported[0]] == ["late"]
