"""Runs pytest up to three times, each time only what failed, for tests that chance may fail (the statistical ones).

    python tests/tries.py PYTEST_ARGUMENT...

Each try is a process of its own, so that fixtures of a module are made again. The exit status
is 0 if everything passed in one of three tries, else 1; a line "UNSTABLE" says what passed late. What
is no failure of a test (a crash, a wrong argument, nothing collected) is not tried again: the exit
status is pytest's. Nor does a test that failed pass by being skipped."""

import json
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from xml.etree import ElementTree

TRIES = 3
BUILD = Path(__file__).resolve().parent.parent / "build"


def main(arguments, folder):
    cache, report, failures, failed = folder / "cache", folder / "report.xml", Counter(), []
    # --maxfail: what would not run after the first failure would not be tried at all. -p: also where the arguments turn the cache
    # off, because the folder is others'.
    own = ["--maxfail=0", "-p", "cacheprovider", "-o", f"cache_dir={cache}", f"--junitxml={report}"]
    command = [sys.executable, "-m", "pytest", *arguments, *own]
    for again in range(TRIES):
        report.unlink(missing_ok=True)
        code = subprocess.run([*command, *(["--lf", "--lfnf=none"] if again else [])]).returncode
        if code not in (0, 1) or not report.exists():  # it is written when pytest ends as it should
            return code or 1
        if again and int(ElementTree.parse(report).find("testsuite").get("skipped")):
            print("\nwhat failed before was skipped now")
            return 1
        failed = json.loads((cache / "v/cache/lastfailed").read_text()) if code else []
        failures.update(list(failed))
        if not failed:
            break
    for test, times in failures.items():
        print(f"{'FAILED' if test in failed else 'UNSTABLE'} {test}: failed {times} of {TRIES}")
    return 1 if failed else 0


if __name__ == "__main__":
    BUILD.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="tries-", dir=BUILD) as made:
        sys.exit(main(sys.argv[1:], Path(made)))
