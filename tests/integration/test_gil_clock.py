"""The clock `gil`, for where threads may not be suspended: true stacks too, and no promise that it cannot keep."""

import pytest
from judging import judge

import spprof
from spprof import _core

pytestmark = pytest.mark.skipif("gil" not in _core.CLOCKS, reason="this system sends signals to threads: no such clock")


@pytest.mark.parametrize("program", ["chains", "generators", "threads"])
def test_stacks_are_possible(drive, program):
    ran = judge(drive, program, clock="gil", interval_ms=1, least=50)
    assert ran.json["clock"] == "gil" == ran.profile.clock


@pytest.mark.parametrize("options", [{"mode": "wall"}, {"native": True}])
def test_what_it_cannot_show_is_refused(options, tmp_path):
    with pytest.raises(spprof.BadOption, match="gil"):
        spprof.start(1, output_path=tmp_path / "x.spprof", clock="gil", **options)
    assert not spprof.is_active() and not (tmp_path / "x.spprof").exists()
