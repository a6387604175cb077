"""python -m tests.torture.counts: exact counts of calls against an oracle in C and against cProfile, on some 70 programs.

  python -m tests.torture.counts                             on each interpreter of tools/matrix
  python -m tests.torture.counts --python 3.9,3.15 --only counted,torture.dying
  python -m tests.torture.counts --list                      the programs

Programs: tests/targets/counted.py and libraries.py, cases of tests/torture, and CPython's own tests where the interpreter has
them. Each runs beside each counter (counting.py). A difference is WRONG, but for those that docs/counts.md gives a reason for.
Exits with 1 if anything was wrong."""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections import defaultdict
from pathlib import Path

from .__main__ import environment, interpreters

HERE = Path(__file__).resolve().parent
TARGETS = HERE.parent / "targets"
CASES = "callbacks cstack dying interps jumps libraries shared".split()
CPYTHON = """
test_asyncgen test_call test_contextlib test_coroutines test_dataclasses test_descr test_enum test_exceptions test_fractions
test_functools test_generators test_genexps test_heapq test_itertools test_json test_queue test_re test_sort test_super test_with
test_yield_from
""".split()


def names_of(file, *lists):
    """The functions in the lists of a target that end it."""
    text = (TARGETS / f"{file}.py").read_text()
    found = []
    for name in lists:
        found += text.rpartition(f"\n{name} = [")[2].partition("]")[0].replace(",", " ").split()
    return [f"{file}.{one}" for one in found]


ALIKE = [*names_of("counted", "CASES"), *names_of("libraries", "CASES")]  # call the same each time
ALL = [
    *ALIKE,
    "counted.threads",
    *names_of("libraries", "CHANCE"),
    *(f"torture.{case}" for case in CASES),
    *(f"cpython.{module}" for module in CPYTHON),
]


def compiled(python, folder):
    """The oracle for an interpreter."""
    include = subprocess.check_output([python, "-c", "import sysconfig; print(sysconfig.get_path('include'))"], text=True).strip()
    made = Path(folder) / "counter.so"
    command = [os.environ.get("CC", "cc"), "-shared", "-fPIC", "-O1", f"-I{include}", str(HERE.parent / "native" / "counter.c")]
    subprocess.run([*command, "-o", str(made)], check=True)
    return made


def compared(python, library, names, how):
    """What counting.py says of each program, as it comes."""
    command = [str(python), "-X", "faulthandler", str(HERE / "counting.py"), str(library), ",".join(names), how]
    silent = list(names)
    if not names:
        return
    with tempfile.TemporaryDirectory(prefix="counts-") as folder, tempfile.TemporaryFile("w+", errors="replace") as errors:
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=errors, text=True, cwd=folder, env=environment(python, {}),
            stdin=subprocess.DEVNULL, errors="replace",
        )  # fmt: skip
        with process:
            for line in process.stdout:
                if line.startswith('{"name"'):
                    said = json.loads(line)
                    silent.remove(said["name"])
                    yield said
        errors.seek(0)
        why = f"exit status {process.returncode}: {errors.read()[-800:]}"
    yield from ({"name": name, "error": why} for name in silent)


def main():
    parser = argparse.ArgumentParser(prog="python -m tests.torture.counts", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)  # fmt: skip
    parser.add_argument("--python", help="interpreters, as tools/matrix names them")
    parser.add_argument("--only", help="programs, or what their names begin with")
    parser.add_argument("--how", default="at-once,apart,cProfile", help="default: at-once,apart,cProfile")
    parser.add_argument("--list", action="store_true", help="only name the programs")
    asked = parser.parse_args()
    programs = [name for name in ALL if not asked.only or name.startswith(tuple(asked.only.split(",")))]
    if asked.list:
        print("\n".join(programs))
        return
    wrong = 0
    for version, python in interpreters(asked.python).items():
        with tempfile.TemporaryDirectory(prefix="counts-") as folder:
            wrong += on(version, python, compiled(python, folder), programs, asked.how.split(","))
    print(f"counts: {wrong} comparisons with a difference")
    sys.exit(1 if wrong else 0)


def on(version, python, library, programs, hows):
    has_suite = subprocess.run([python, "-c", "import test.support"], capture_output=True).returncode == 0
    wrong, done, calls = 0, 0, 0
    known, left_out = defaultdict(list), defaultdict(list)
    able = [name for name in programs if has_suite or not name.startswith("cpython.")]
    for how in hows:
        for said in compared(python, library, [name for name in able if how != "apart" or name in ALIKE], how):
            name = said["name"]
            if said.get("left_out"):
                left_out[said["left_out"]].append(name)
                continue
            problem = said.get("error") or said["missing"]
            problem = problem or "; ".join(f"{key}: {a} and not {b}" for key, a, b in said["differ"])
            done, calls = done + 1, calls + said.get("calls", 0)
            if problem and said.get("reason"):
                known[said["reason"]].append(f"{name} ({how})")
            elif problem:
                wrong += 1
                print(f"WRONG  {version} {name} {how}: {problem[:1500]}", flush=True)
    for reason, names in known.items():
        print(f"{version}: the other counter is wrong in {', '.join(names)}: {reason}")
    for reason, names in left_out.items():
        print(f"{version}: not compared with cProfile: {', '.join(names)}: {reason}")
    suite = "" if has_suite else ", without CPython's tests, which it does not have"
    print(f"{version}: {done} comparisons of {calls:,} calls, {wrong} differ{suite}", flush=True)
    return wrong


if __name__ == "__main__":
    main()
