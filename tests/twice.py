"""Runs pytest; a few failures that chance can explain are tried once more, and told.

    python tests/twice.py PYTEST_ARGUMENT...

.ci/run makes some 6,000 test runs on a machine that others use too, and most of them judge what a clock, a scheduler and
a browser did in that moment. So a failure here is tried again, by itself, in a process of its own; it must pass then, and the
line "UNSTABLE" tells of it all the same. What no second try takes away is final: a stack that cannot be, a program that died of
a signal, wrong lines, a sanitizer's finding, and more failures than a few. `python -m pytest` tries nothing twice."""

import os
import re
import subprocess
import sys

import pytest

MOST = 3
FINAL_TEXT = re.compile(r"impossible|exit -\d|assert -(?:4|6|7|8|11) ==|Sanitizer|runtime error:|Fatal Python error")
FINAL_FILES = ("tests/integration/test_stacks.py", "tests/integration/test_lines.py")


class Failures:
    """A plugin: what each failed test said, by the test's node id."""

    def __init__(self) -> None:
        self.said: dict = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self.said[report.nodeid] = self.said.get(report.nodeid, "") + report.longreprtext


def main() -> int:
    sys.path[0] = os.getcwd()  # as `python -m pytest` has it
    failures = Failures()
    code = pytest.main(sys.argv[1:], plugins=[failures])
    said = failures.said
    if code != pytest.ExitCode.TESTS_FAILED or len(said) > MOST:
        return int(code)
    if any(test.startswith(FINAL_FILES) or FINAL_TEXT.search(text) for test, text in said.items()):
        return int(code)
    print(f"\n=== once more: {' '.join(said)}", flush=True)
    code = subprocess.call([sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--color=no", *said])
    for test, text in said.items():
        lines = re.findall(r"^E +(\S.*)", text, re.MULTILINE) or [text.splitlines()[-1]]
        print(f"UNSTABLE {test}: {'failed twice' if code else 'failed, then passed'}: {lines[0]}")
    return code


if __name__ == "__main__":
    sys.exit(main())
