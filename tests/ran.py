"""Programs that run under the interpreter that runs the tests, and what they leave."""

import json
import os
import subprocess
import sys
from pathlib import Path

TARGETS = Path(__file__).resolve().parent / "targets"


class Ran:
    """A program that ran: its code, output, and the profile that it left."""

    def __init__(self, code, out, err, path):
        self.code, self.out, self.err, self.path = code, out, err, path

    @property
    def json(self):
        return json.loads(self.out.splitlines()[-1])

    @property
    def profile(self):
        import spprof

        return spprof.Profile.load(self.path)


def runner(folder):
    """run_python for a profile in this folder."""

    def run(*args, ok=True, timeout=240, cwd=None, env=None, **options):
        result = subprocess.run(
            [sys.executable, *map(str, args)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=timeout,
            cwd=cwd or folder, env={**os.environ, **(env or {})}, text=True, **options,
        )  # fmt: skip
        if ok:
            assert result.returncode == 0, f"exit {result.returncode}\n{result.stdout[-2000:]}\n{result.stderr[-4000:]}"
        return Ran(result.returncode, result.stdout, result.stderr, folder / "out.spprof")

    return run
