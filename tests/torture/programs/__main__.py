"""python -m tests.torture.programs: programs of real libraries, run as they are and under `spprof run`, and compared.

  python -m tests.torture.programs                            every program, on 3.12 and 3.11
  python -m tests.torture.programs --python 3.14,3.13t        on others that tools/matrix has built
  python -m tests.torture.programs --only jpype_calls,ray_tasks --times 5
  python -m tests.torture.programs --short                    each that is cheap, in one way: minutes
  python -m tests.torture.programs --every                    in every way that there is, not only in the nine below
  python -m tests.torture.programs --list                     the programs, and what each needs

A program is a file beside this one, with capitals that say what it needs (FACTS in __main__.py). The rig installs packages of
PyPI by itself, wheels only, into build/venvs/NAME-programs, which sees the spprof of build/venvs/NAME. Packages of the system are
named if they are missing. What a program prints must not depend on time. With spprof it must print the same and end with the same
status; its profiles must be whole, their stacks possible, and the shares those of its own clocks (_judge.py).
Exits with 1 if anything was wrong. Each run is a line of JSON in build/torture/programs.jsonl."""

import argparse
import ast
import itertools
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from ..process import finish

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent.parent
VENVS = ROOT / "build" / "venvs"
LOG = ROOT / "build" / "torture" / "programs.jsonl"
TIMEOUT = 120
# PYPI: packages; FILES, COMMANDS: of the system, and Debian's package that has each; ENV: environment ({folder}: a new one);
# AROUND: a command before the interpreter's; SUBPROCESSES: profiled too; STATUS: its exit status; ONLY, CLOCKS, MOST_HZ:
# interpreters, clocks and rates, where not all; VARIANTS: a name and more of these for each; HEAVY: left out of the short form;
# MAY_LACK_END: processes are killed; PROFILES: how many there are at least; SLACK_NS: how far a share may be off besides;
# ROOTS, TRACED, DEEP, ANYWHERE: as in torture's cases.
FACTS = set(
    "PYPI FILES COMMANDS ENV AROUND SUBPROCESSES STATUS ONLY CLOCKS MOST_HZ VARIANTS HEAVY MAY_LACK_END PROFILES SLACK_NS "
    "ROOTS TRACED DEEP ANYWHERE".split()
)
# Mode, rate, native frames, clock. Every two values of two columns meet, but where the clock is the kernel's best.
WAYS = [
    ("cpu", 1000, False, "best"),
    ("cpu", 10000, True, "best"),
    ("wall", 1000, True, "best"),
    ("wall", 10000, False, "best"),
    ("cpu", 10000, False, "perf-trap"),
    ("cpu", 1000, True, "timer"),
    ("wall", 10000, True, "timer"),
    ("cpu", 10000, True, "perf"),
    ("wall", 1000, False, "perf-trap"),
]
EVERY = list(
    itertools.product(("cpu", "wall"), (1000, 10000), (False, True), ("best", "perf", "perf-user", "perf-trap", "timer"))
)


def facts(program):
    """What a program needs, read without running it: a dictionary for each variant, by name."""
    given = {}
    for node in ast.parse(program.read_text()).body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and node.targets[0].id in FACTS:
            given[node.targets[0].id] = ast.literal_eval(node.value)
    variants = given.pop("VARIANTS", {"": {}})
    return {program.stem + (f"-{name}" if name else ""): {**given, **more} for name, more in variants.items()}


def missing(given):
    """Packages of the system that are not here."""
    lacking = [package for file, package in given.get("FILES", {}).items() if not Path(file).exists()]
    return lacking + [package for command, package in given.get("COMMANDS", {}).items() if not shutil.which(command)]


class Interpreter:
    def __init__(self, name):
        self.name = name
        self.base = VENVS / name / "bin" / "python"
        self.venv = VENVS / f"{name}-programs"
        self.python = self.venv / "bin" / "python"
        self.lacks = {}  # package -> why there is none
        if not self.base.exists():
            sys.exit(f"programs: no {self.base}; tools/matrix --build-only --only {name} makes it")
        if not self.python.exists():
            subprocess.run([self.base, "-m", "venv", self.venv], check=True)
        ask = "import sysconfig; print(sysconfig.get_path('purelib'))"
        packages, ours = (subprocess.check_output([p, "-c", ask], text=True).strip() for p in (self.python, self.base))
        (Path(packages) / "spprof-of-the-matrix.pth").write_text(ours + "\n")

    def install(self, packages):
        """Why they cannot be installed, or None. What was installed once stays."""
        for package in packages:
            stamp = self.venv / "installed" / package
            if stamp.exists() or package in self.lacks:
                continue
            command = [self.python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--only-binary", ":all:"]
            done = subprocess.run([*command, package], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
            if done.returncode:
                self.lacks[package] = done.stdout.strip().splitlines()[-1][:150]
                continue
            stamp.parent.mkdir(exist_ok=True)
            stamp.touch()
        return next((f"{package}: {self.lacks[package]}" for package in packages if package in self.lacks), None)


def run(interpreter, program, given, folder, way):
    """(exit status or a word, what it printed, what it complained, seconds), profiled in a way or, if that is None, alone."""
    own = folder / "own"
    (folder / "truth").mkdir()
    own.mkdir()
    profiled = []
    if way:
        mode, rate, native, clock = way
        profiled = ["-m", "spprof", "run", "-q", "--mode", mode, "--rate", str(rate), "-o", str(folder / "out.spprof")]
        profiled += ["--native"] if native else []
        profiled += ["--clock", clock] if clock != "best" else []
        profiled += ["--subprocesses"] if given.get("SUBPROCESSES") else []
    around = [part.format(folder=own, python=interpreter.python, here=HERE) for part in given.get("AROUND", [])]
    command = [*around, str(interpreter.python), "-X", "faulthandler", *profiled, str(program)]
    environment = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV")}
    environment.update({k: v.format(folder=own) for k, v in given.get("ENV", {}).items()})
    environment.update(TORTURE_TRUTH=str(folder / "truth"), PATH=f"{interpreter.venv / 'bin'}:{os.environ['PATH']}")
    began = time.monotonic()
    process = subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, errors="replace", cwd=own,
        env=environment, start_new_session=True,
    )  # fmt: skip
    status, text, errors = finish(process, TIMEOUT)
    try:
        os.killpg(process.pid, signal.SIGKILL)
        left = True
    except ProcessLookupError:
        left = False
    return status, text.splitlines(), errors + ("\n(processes were left)" if left else ""), round(time.monotonic() - began, 2)


def differences(plain, profiled):
    problems = []
    if profiled[0] != plain[0]:
        problems.append(f"exit status {profiled[0]}, alone {plain[0]}: {profiled[2][-1500:]}")
    if profiled[1] != plain[1]:
        apart = [(a, b) for a, b in itertools.zip_longest(profiled[1], plain[1]) if a != b]
        problems.append(f"printed {apart[0][0]!r}, alone {apart[0][1]!r}: {profiled[2][-1500:]}")
    return problems


def judged(interpreter, program, given, folder):
    command = [interpreter.python, HERE / "_judge.py", program, folder, json.dumps(given)]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=TIMEOUT)
    if done.returncode:
        return [f"the profiles cannot be judged: {done.stderr[-800:]}"], []
    got = json.loads(done.stdout)
    return got["problems"], got["figures"]


def describe(way):
    return "{} {:g} kHz{}, {}".format(way[0], way[1] / 1000, " native" if way[2] else "", way[3])


def suits(ways, given, number):
    """The ways in which a program is run; only one of them if it is given a number."""
    found = [way for way in ways if way[1] <= given.get("MOST_HZ", way[1]) and way[3] in given.get("CLOCKS", [way[3]])]
    return found if number is None or not found else [found[number % len(found)]]


class Rig:
    def __init__(self, keep):
        self.runs = self.wrong = 0
        self.left_out = []
        self.keep = keep

    def alone(self, interpreter, program, name, given):
        """Its run without a profiler, or None if it does not run here even so."""
        with tempfile.TemporaryDirectory(prefix="programs-") as folder:
            plain = run(interpreter, program, given, Path(folder), None)
        if plain[0] == given.get("STATUS", 0) and plain[1]:
            return plain
        self.left_out.append(f"{name} on {interpreter.name}: alone it ends with {plain[0]}: {plain[2].strip()[-500:]}")
        return None

    def once(self, interpreter, program, name, given, way, plain):
        folder = Path(tempfile.mkdtemp(prefix="programs-"))
        profiled = run(interpreter, program, given, folder, way)
        problems = differences(plain, profiled)
        more, figures = judged(interpreter, program, given, folder)
        problems += more
        self.runs += 1
        self.wrong += bool(problems)
        line = {"at": int(time.time()), "python": interpreter.name, "program": name, "way": describe(way), "seconds": profiled[3],
                "alone": plain[3], "figures": figures, "problems": problems}  # fmt: skip
        LOG.parent.mkdir(parents=True, exist_ok=True)
        with LOG.open("a") as log:
            log.write(json.dumps(line) + "\n")
        self.show(line)
        if problems and self.keep:
            print(f"        kept: {folder}")
        else:
            shutil.rmtree(folder, ignore_errors=True)

    def show(self, line):
        sums = {key: sum(got[key] for got in line["figures"]) for key in ("samples", "expected", "lost", "unpaired", "cut")}
        shares = [f"{name} {share:.3f}" for got in line["figures"] for name, share in got["shares"].items() if share is not None]
        print(
            f"{'FAILED' if line['problems'] else 'ok':7}{line['python']:6}{line['program']:24}{line['way']:28}"
            f"{sums['samples']:7,} samples{sums['lost'] / (sums['expected'] or 1):6.1%} lost, {sums['unpaired']} unpaired, "
            f"{sums['cut']} cut, {line['seconds']} s ({line['alone']}){'; ' + ', '.join(shares[:4]) if shares else ''}",
            flush=True,
        )
        for problem in line["problems"][:6]:
            print(f"FAILED    {problem}", flush=True)


def arguments():
    parser = argparse.ArgumentParser(
        prog="python -m tests.torture.programs", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", help="programs, by name, with or without a variant")
    parser.add_argument("--python", default="3.12,3.11", help="interpreters of tools/matrix (3.12,3.11)")
    parser.add_argument("--times", type=int, default=1)
    parser.add_argument("--way", help="only ways that have this in their description, such as `wall 10 kHz` or timer")
    parser.add_argument("--every", action="store_true", help="every way")
    parser.add_argument("--short", action="store_true", help="one way each, without those that are heavy")
    parser.add_argument("--list", action="store_true", help="name the programs and what they need")
    parser.add_argument("--keep", action="store_true", help="keep the profiles of runs that failed")
    return parser.parse_args()


def main():
    asked = arguments()
    programs = [(path, name, given) for path in sorted(HERE.glob("[a-z]*.py")) for name, given in facts(path).items()]
    if asked.only:
        wanted = set(asked.only.split(","))
        programs = [one for one in programs if wanted & {one[1], one[0].stem}]
    if asked.list:
        for _, name, given in programs:
            print(f"{name:28}{', '.join([*given.get('PYPI', []), *missing(given)])}")
        return
    rig = Rig(asked.keep)
    ways = [way for way in (EVERY if asked.every else WAYS) if not asked.way or asked.way in describe(way)]
    for python in asked.python.split(","):
        interpreter = Interpreter(python)
        for number, (program, name, given) in enumerate(programs):
            if (asked.short and given.get("HEAVY")) or python not in given.get("ONLY", [python]):
                continue
            lacking = missing(given) or interpreter.install(given.get("PYPI", []))
            if lacking:
                rig.left_out.append(f"{name} on {python}: there is no {lacking}")
                continue
            plain = rig.alone(interpreter, program, name, given)
            for _ in range(asked.times if plain else 0):
                for way in suits(ways, given, number if asked.short else None):
                    rig.once(interpreter, program, name, given, way, plain)
    for text in rig.left_out:
        print(f"not run: {text}")
    print(f"programs: {rig.runs} runs, {rig.wrong} with a problem")
    sys.exit(1 if rig.wrong else 0)


if __name__ == "__main__":
    main()
