"""One wheel of several: the same package, with the core of each CPython."""

import base64
import hashlib
import re
import sys
import time
import zipfile
from pathlib import Path
from typing import Dict, List

_PLATFORM = re.compile(r"-cp\d+-cp\d+t?-(.+)\.whl$")
_CORE = re.compile(r"spprof/_core\..*\.(so|pyd)$")


def _platform(name: str) -> str:
    found = _PLATFORM.search(name)
    if found is None:
        sys.exit(f"tools/wheels: {name} is no wheel for one CPython")
    return found.group(1)


def _newest(platform: str) -> List[int]:
    """How new a C library has to be: manylinux_2_17_x86_64."""
    return max(([int(number) for number in pair] for pair in re.findall(r"linux_(\d+)_(\d+)_", platform)), default=[0, 0])


def merge(wheels: List[Path], folder: Path, made_at: int) -> Path:
    """Puts the cores of all into what the first one has, as a wheel for any Python 3 of the platform, with that Unix time.
    Exits if the wheels are not of the same sources."""
    content: Dict[str, bytes] = {}
    modes: Dict[str, int] = {}
    for wheel in wheels:
        with zipfile.ZipFile(wheel) as archive:
            for info in archive.infolist():
                data = archive.read(info)
                if info.filename.endswith(".py") and content.setdefault(info.filename, data) != data:
                    sys.exit(f"tools/wheels: {info.filename} of {wheel.name} is another one than that of {wheels[0].name}")
                if wheel is wheels[0] or _CORE.match(info.filename):
                    content[info.filename], modes[info.filename] = data, info.external_attr
    platform = max((_platform(wheel.name) for wheel in wheels), key=_newest)
    (record,) = (name for name in content if name.endswith(".dist-info/RECORD"))
    about = record[: -len("RECORD")] + "WHEEL"
    lines = [line for line in content[about].decode().splitlines() if line and not line.startswith("Tag:")]
    lines += [f"Tag: py3-none-{tag}" for tag in platform.split(".")]
    content[about] = "\n".join([*lines, ""]).encode()
    content[record] = b"".join(
        [*(_line(name, data) for name, data in sorted(content.items()) if name != record), f"{record},,\n".encode()]
    )
    made = folder / f"{record.split('.dist-info', 1)[0]}-py3-none-{platform}.whl"
    when = time.gmtime(made_at)
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in sorted(content, key=lambda name: (".dist-info/" in name, name)):
            info = zipfile.ZipInfo(name, when[:6])
            info.external_attr, info.compress_type = modes[name], zipfile.ZIP_DEFLATED
            archive.writestr(info, content[name])
    return made


def _line(name: str, data: bytes) -> bytes:
    digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
    quoted = f'"{name}"' if "," in name else name
    return f"{quoted},sha256={digest},{len(data)}\n".encode()
