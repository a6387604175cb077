"""Compiles empty.c, once for each content of it."""

import hashlib
import os
import shutil
import subprocess
from pathlib import Path
from typing import Optional

from .child import WORK

SOURCE = Path(__file__).with_name("empty.c")


def library() -> Optional[Path]:
    """The shared library, or None where no C compiler is at hand."""
    compiler = shutil.which(os.environ.get("CC", "cc")) or shutil.which("gcc")
    made = WORK / f"empty-{hashlib.sha256(SOURCE.read_bytes()).hexdigest()[:12]}.so"
    if made.exists():
        return made
    if compiler is None:
        return None
    WORK.mkdir(parents=True, exist_ok=True)
    subprocess.run([compiler, "-O2", "-fPIC", "-shared", "-Wall", "-Wextra", str(SOURCE), "-o", str(made), "-lrt"], check=True)
    return made
