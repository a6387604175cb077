"""What is said of a thread of another process that does not stop in time."""

import os
import sys

import pytest

from spprof.errors import SpprofError

if sys.platform != "linux":
    pytest.skip("spprof attaches on Linux alone", allow_module_level=True)
from spprof.launching import stopped


@pytest.mark.parametrize("state, what", [("R", "a processor"), ("D", "a disk or a child")])
def test_a_thread_that_stops_late_is_said_to_wait_for_something(state, what, monkeypatch):
    monkeypatch.setattr(os, "waitpid", lambda *_: (0, 0))
    monkeypatch.setattr(stopped, "_state", lambda *_: state)
    with pytest.raises(SpprofError, match=f"thread 7 of process 5 waits for {what}, and cannot be stopped"):
        stopped.Stopped(5)._wait(7, 0.0)
