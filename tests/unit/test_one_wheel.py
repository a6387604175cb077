"""tools/one_wheel.py: one wheel of several."""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import zipfile
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path

import pytest

TOOL = Path(__file__).resolve().parents[2] / "tools" / "one_wheel.py"
if not TOOL.exists():
    pytest.skip("the tests were taken out of the tree", allow_module_level=True)
loader = SourceFileLoader("one_wheel", str(TOOL))
one_wheel = module_from_spec(spec_from_loader("one_wheel", loader))
loader.exec_module(one_wheel)
WHEEL = "Wheel-Version: 1.0\nRoot-Is-Purelib: false\nTag: {0}-{0}-{1}\n"


def made(folder, tag, abi, platform, text="pass"):
    path = folder / f"spprof-1-{tag}-{abi}-{platform}.whl"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("spprof/__init__.py", text)
        archive.writestr("spprof/launching/enter.so", "the same")
        archive.writestr("spprof.pth", "import os")
        archive.writestr(f"spprof/_core.cpython-{abi[2:]}-x86_64-linux-gnu.so", f"of {abi}")
        archive.writestr("spprof-1.dist-info/WHEEL", WHEEL.format(tag, platform))
        archive.writestr("spprof-1.dist-info/RECORD", "another one")
    return path


def test_it_has_all_cores_and_a_right_record(tmp_path):
    wheels = [
        made(tmp_path, "cp39", "cp39", "manylinux_2_17_x86_64.manylinux2014_x86_64"),
        made(tmp_path, "cp313", "cp313t", "manylinux_2_28_x86_64"),
    ]
    one = one_wheel.merge(wheels, tmp_path, 1700000000)
    assert one.name == "spprof-1-py3-none-manylinux_2_28_x86_64.whl"
    again = one.read_bytes()
    assert one_wheel.merge(wheels, tmp_path, 1700000000).read_bytes() == again
    with zipfile.ZipFile(one) as archive:
        content = {name: archive.read(name) for name in archive.namelist()}
    assert content["spprof.pth"] == b"import os"
    for abi in ("39", "313t"):
        assert content[f"spprof/_core.cpython-{abi}-x86_64-linux-gnu.so"] == f"of cp{abi}".encode()
    tags = [line for line in content["spprof-1.dist-info/WHEEL"].decode().splitlines() if line.startswith("Tag")]
    assert tags == ["Tag: py3-none-manylinux_2_28_x86_64"]
    rows = {row[0]: row[1:] for row in csv.reader(io.StringIO(content["spprof-1.dist-info/RECORD"].decode()))}
    assert rows.pop("spprof-1.dist-info/RECORD") == ["", ""] and rows.keys() == content.keys() - {"spprof-1.dist-info/RECORD"}
    for name, (digest, size) in rows.items():
        assert digest == "sha256=" + base64.urlsafe_b64encode(hashlib.sha256(content[name]).digest()).rstrip(b"=").decode()
        assert size == str(len(content[name]))


def test_wheels_of_other_sources_are_refused(tmp_path):
    wheels = [made(tmp_path, "cp39", "cp39", "linux_x86_64"), made(tmp_path, "cp310", "cp310", "linux_x86_64", "fail")]
    with pytest.raises(SystemExit, match=r"spprof/__init__\.py"):
        one_wheel.merge(wheels, tmp_path, 1700000000)
