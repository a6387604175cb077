"""The unwinder beside libunwind, at the same instants, on the stacks of numpy, lxml, sqlite and zlib."""

import importlib.util
import json
import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from switches import switch

ROOT = Path(__file__).resolve().parent.parent.parent
SAMPLES = int(os.environ.get("SPPROF_TEST_UNWINDS", "1000"))  # 5 ms each, nearly all of it libunwind's
pytestmark = [
    pytest.mark.skipif(platform.machine() != "x86_64", reason="its oracle reads x86_64's registers"),
    pytest.mark.skipif(switch("SPPROF_SANITIZED"), reason="the sanitizers' own frames are not what is compared"),
    *(
        pytest.mark.skipif(importlib.util.find_spec(name) is None, reason=f"{name} is not installed (tests/wheels.txt)")
        for name in ("numpy", "lxml")
    ),
]


@pytest.fixture(scope="module")
def oracle():
    """tests/native/oracle.c with the core and libunwind, which nothing else here needs: one for all interpreters."""
    made, source = ROOT / "build" / "oracle.so", ROOT / "tests" / "native" / "oracle.c"
    asked = ["gcc", "-E", "-include", "libunwind.h", "-xc", os.devnull]
    if shutil.which("gcc") is None or subprocess.run(asked, capture_output=True).returncode:
        pytest.skip("libunwind's headers are not installed (Debian: libunwind-dev)")
    made.parent.mkdir(exist_ok=True)
    parts = [source, ROOT / "tools" / "core-library", *(ROOT / "csrc").rglob("*.[ch]")]
    if not made.exists() or made.stat().st_mtime < max(part.stat().st_mtime for part in parts):
        subprocess.run([ROOT / "tools" / "core-library", made, source, "-lunwind"], check=True)
    return made


@pytest.mark.statistical("not measured: instants that no rule covers decide; 3 and 1 in 1,000 samples are allowed")
def test_agrees_with_libunwind_frame_by_frame(oracle):
    """Code without unwind information (assembly of OpenBLAS and of the vDSO) has no witness but the callers that libunwind found
    of it in other samples: hardly 3 % here, and what another processor's assembly takes of the time."""
    target = ROOT / "tests" / "targets" / "oracle.py"
    command = [sys.executable, target, oracle, str(SAMPLES), "1000"]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=240 + SAMPLES / 50)
    assert ran.returncode == 0, ran.stderr
    reported = json.loads(ran.stdout)
    print(reported)
    assert reported["samples"] >= SAMPLES
    assert reported["samples"] == sum(reported[kind] for kind in ("equal", "untold", "blind", "early", "ours", "other"))
    assert reported["samples"] - reported["reached"] <= 0.001 * reported["samples"] + 3, reported
    assert reported["early"] + reported["ours"] + reported["other"] <= 0.001 * reported["samples"] + 3, reported
    assert reported["untold"] + reported["blind"] <= 0.1 * reported["samples"], reported
    if SAMPLES >= 20000:  # fewer may not meet those callers in any other sample
        assert reported["witnessed"] >= 0.9 * reported["untold"], reported
