"""What stops another process asks for the scheduler's first rank, and gives it back (rank.py, stopped.py)."""

import os
import subprocess
import sys

import pytest

if sys.platform != "linux":
    pytest.skip("spprof stops threads on Linux alone", allow_module_level=True)

from spprof.launching import stopped
from spprof.outside.rank import FirstInRank


def rank():
    return os.sched_getscheduler(0), os.sched_getparam(0).sched_priority


def may_be_first():
    before = os.sched_getscheduler(0), os.sched_getparam(0)
    try:
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
    except OSError:
        return False
    os.sched_setscheduler(0, *before)
    return True


def test_the_first_rank_ends_with_an_exception_too():
    before = rank()
    with pytest.raises(KeyError), FirstInRank():
        assert rank() == ((os.SCHED_FIFO, 1) if may_be_first() else before)
        raise KeyError
    assert rank() == before


def test_without_the_right_a_process_is_stopped_all_the_same(monkeypatch):
    def refuse(*_):
        raise PermissionError

    before = rank()
    monkeypatch.setattr(os, "sched_setscheduler", refuse)
    with FirstInRank():
        assert rank() == before


def test_a_process_is_stopped_by_the_FirstInRank():
    """It is given back when the process cannot be stopped, too."""
    before, expected = rank(), (os.SCHED_FIFO, 1) if may_be_first() else rank()
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        with stopped.Stopped(process.pid) as one:
            assert rank() == expected
            assert one.threads == [process.pid]
        assert rank() == before
        process.communicate()
    with pytest.raises(OSError):
        with stopped.Stopped(process.pid):
            pass
    assert rank() == before
