"""Runs pytest; a few failures that chance can explain are tried once more, and told.

    python tests/twice.py PYTEST_ARGUMENT...

.ci/run makes some 6,000 test runs on a machine that others use too, and most of them judge what a clock, a scheduler and
a browser did in that moment. So a failure here is tried again, by itself, in a process of its own; it must pass then, and the
line "UNSTABLE" tells of it all the same. What no second try takes away is final: a stack that cannot be, wrong lines, a process
that a signal killed or that did not end, a sanitizer's finding, more failures than a few; and .ci/run fails if one test was
unstable twice. `python -m pytest` tries nothing twice."""

import os
import re
import subprocess
import sys

import pytest

MOST = 3
FINAL = re.compile(
    r"impossible|exit -\d|died with <Signals|Sanitizer|runtime error:|Fatal Python error|Segmentation fault"
    r"|\bSIG(?:SEGV|ABRT|BUS|TRAP|FPE|ILL)\b|timed out after \d{3}|Timeout \(>|crashed while running"
)
# Exit statuses of what a signal killed, as Python and as a shell tell them, in what pytest shows of an assertion.
FINAL_STATUS = re.compile(r"(?<![\w.])-(?:4|5|6|7|8|11|16|27)(?=[ ,)\]]|$)|\b(?:4|6|7|8|11|13[2-9]) == 0\b", re.MULTILINE)
FINAL_FILES = ("tests/integration/test_stacks.py", "tests/integration/test_lines.py")


class Failures:
    """A plugin: what went wrong in each failed test, by the test's node id, and what was printed there."""

    def __init__(self) -> None:
        self.said: dict = {}
        self.printed = ""
        self.stopped = False

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            errors = re.findall(r"^E +(\S.*)", report.longreprtext, re.MULTILINE) or [report.longreprtext]
            self.said.setdefault(report.nodeid, []).extend(errors)
            self.printed += report.capstdout + report.capstderr

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        self.stopped = bool(session.shouldfail or session.shouldstop)

    def final(self) -> bool:
        errors = "\n".join(error for said in self.said.values() for error in said)
        return (
            self.stopped
            or not 0 < len(self.said) <= MOST
            or any(test.startswith(FINAL_FILES) for test in self.said)
            or bool(FINAL.search(errors + self.printed) or FINAL_STATUS.search(errors))
        )


def main() -> int:
    sys.path[0] = os.getcwd()  # as `python -m pytest` has it
    failures = Failures()
    code = int(pytest.main(sys.argv[1:], plugins=[failures]))
    if code != pytest.ExitCode.TESTS_FAILED or failures.final():
        return code
    print(f"\n=== once more: {' '.join(failures.said)}", flush=True)
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--color=no", *failures.said]
    again = subprocess.run(command, stdout=subprocess.PIPE, text=True)
    print(again.stdout)
    passed = again.returncode == 0 and re.search(rf"\b{len(failures.said)} passed\b", again.stdout)  # not skipped
    for test, errors in failures.said.items():
        print(f"UNSTABLE {test}: {'passed the second time' if passed else 'tried twice'}: {errors[0].splitlines()[0]}")
    return 0 if passed else again.returncode or code


if __name__ == "__main__":
    sys.exit(main())
