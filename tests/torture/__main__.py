"""python -m tests.torture: runs programs that are hard on a profiler, and checks all that comes of it.

  python -m tests.torture                          every case, both modes, each interpreter of tools/matrix, once
  python -m tests.torture --minutes 10             again and again, until each interpreter has run ten minutes
  python -m tests.torture --only dying,forks --python 3.12 --units 20
  python -m tests.torture --short                  each case on some of the interpreters, as CI does
  python -m tests.torture --python 3.12-faults     a build of tools/matrix --faults, or 3.12-asan of --sanitize
  python -m tests.torture --python 3.14-windows    what tools/windows made: under wine
  python -m tests.torture --sum                    adds up the log of all runs so far

Each run is compared with the same program unprofiled: exit status, result and what it printed. Its profile must be whole,
each stack possible (oracle.py), tick stats that add up, and at least 95 % of the ticks that other clocks expect taken.
Each run is a line of JSON in build/torture/log.jsonl. Exits with 1 if anything was wrong."""

import argparse
import ast
import json
import os
import platform
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from importlib.machinery import SourceFileLoader
from pathlib import Path

from ..switches import switch
from .process import finish

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
LOG = ROOT / "build" / "torture" / "log.jsonl"
INTERVAL_MS = 0.1
LEAST = 0.95
TIMEOUT = 300  # seconds; a run that takes longer hangs


def interpreters(asked):
    venvs = ROOT / "build" / "venvs"
    found = {p.name: p / "bin" / "python" for p in sorted(venvs.iterdir()) if p.is_dir() and p.name[:1] == "3"}
    names = asked.split(",") if asked else [name for name in found if "-" not in name]
    missing = [name for name in names if name not in found]
    if missing:
        sys.exit(f"torture: no {', '.join(missing)} in {venvs}; tools/matrix --build-only makes them")
    return {name: found[name] for name in names}


def facts(case):
    """The capitals that a case sets for the rig, read without running it."""
    tree = ast.parse(case.read_text())
    return {
        node.targets[0].id: ast.literal_eval(node.value)
        for node in tree.body
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and node.targets[0].id in RIG_FACTS
    }


# LEAST: share of expected ticks by mode; NOT_ON: interpreters; SINCE: version; STATUS: exit status; MAY_LACK: the profile
# may end without an end block.
# NEEDS: packages without which it is not run; ENV: environment; POSIX: what of it Windows lacks; LINUX: release from which on it
# can end as without a profiler; DIES: interpreters on which it is killed by a signal now and then, also without a profiler.
RIG_FACTS = {"LEAST", "NOT_ON", "SINCE", "STATUS", "UNITS", "MAY_LACK_END", "NEEDS", "ENV", "POSIX", "LINUX", "DIES"}


def environment(python, more):
    """For this interpreter, which may be a special build of tools/matrix."""
    kept = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV")}
    if "-asan/" in str(python):
        matrix = SourceFileLoader("matrix", str(ROOT / "tools" / "matrix"))
        kept.update(matrix.load_module().sanitizer_environment())
    return {**kept, **more}


def lacks(python, packages):
    """Those of the packages that this interpreter cannot import."""
    return [name for name in packages if subprocess.run([python, "-c", f"import {name}"], stderr=subprocess.DEVNULL).returncode]


def path_for(python, path):
    """A path as this interpreter knows it: wine has all of Linux's files on a drive."""
    return "Z:" + str(path).replace("/", "\\") if "-windows/" in str(python) and path != "-" else str(path)


def run(python, case, out, mode, units, given, clock):
    """(status or a word, stdout but for the last line, what the driver said, stderr)"""
    command = [
        str(python),
        "-X",
        "faulthandler",
        path_for(python, HERE / "driver.py"),
        path_for(python, case),
        path_for(python, out),
        mode,
        str(INTERVAL_MS),
        str(units),
        clock,
    ]
    process = subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=case.parent,
        env=environment(python, given.get("ENV", {})), start_new_session=True,
    )  # fmt: skip
    status, text, errors = finish(process, TIMEOUT)
    lines = text.splitlines()
    said = [line for line in lines if line.startswith("torture ")]
    printed = [line for line in lines if not line.startswith("torture ")]
    return status, printed, json.loads(said[-1][8:]) if said else None, errors


def check(python, case, out, mode, said, given, loaded):
    """Problems of a profile, and its figures. The oracle runs on the same interpreter, whose line tables it needs."""
    command = [str(python), *(path_for(python, path) for path in (HERE / "judge.py", case, out))]
    done = subprocess.run(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(python, {"TORTURE_FAULTS": "1"} if "faults" in str(python) else {}),
    )
    if done.returncode != 0:
        return [f"the profile cannot be judged: {done.stderr[-600:]}"], {}
    judged = json.loads(done.stdout)
    problems = list(judged["problems"])
    if judged["warning"] or (not judged["ended"] and not given.get("MAY_LACK_END")):
        problems.append(f"the file is not whole: {judged['warning']}")
    figures = {"samples": judged["samples"], "stacks": judged["stacks"]}
    if switch("TORTURE_NATIVE"):
        figures["unpaired"] = judged["unpaired"]
    stats = (said or {}).get("stats")
    if stats is None:
        return problems, figures
    lost = {name: n for name, n in stats["losses"].items() if n}
    if stats["expected"] != stats["taken"] + stats["repeated"] + sum(lost.values()):
        problems.append("the tick stats do not add up")
    figures.update(lost=lost, clock=stats["clock"])
    truth = (said or {}).get("cpu_ns" if mode == "cpu" else "wall_ns")
    if truth is None:  # it is not known how many they should be
        return problems, figures
    took, expected = stats["taken"] if mode == "cpu" else judged["main_ticks"], truth / (INTERVAL_MS * 1e6)
    share = took / expected if expected else 1.0
    least = 0 if loaded else given.get("LEAST", {}).get(mode, LEAST)
    if stats["clock"].startswith("perf") and expected > 2000 and share < least:
        problems.append(f"{share:.1%} of the {expected:.0f} ticks were taken; lost: {lost}")
    return problems, {**figures, "expected": round(expected), "share": round(share, 4)}


def once(name, python, case, mode, units, log, loaded, clock="auto"):
    given = facts(case)
    units = units or given.get("UNITS", 4)
    with tempfile.TemporaryDirectory(prefix="torture-") as folder:
        out = Path(folder) / "out.spprof"
        # A program that dies by itself now and then has another try, with a profiler in the short form alone: one such death
        # would stand for a failure of ours there.
        failed = [0, 0]  # tries without the profiler, and with it
        while (plain := run(python, case, "-", mode, units, given, clock))[0] != given.get("STATUS", 0) and failed[0] < 3:
            failed[0] += 1
        while True:
            began = time.monotonic()
            status, printed, said, errors = run(python, case, out, mode, units, given, clock)
            took = time.monotonic() - began
            killed = isinstance(status, int) and -status in (signal.SIGSEGV, signal.SIGABRT)
            if not (killed and loaded and name in given.get("DIES", ()) and failed[1] < 2):
                break
            failed[1] += 1
        problems, figures = [], {}
        if status != plain[0] or status != given.get("STATUS", 0):
            problems.append(f"exit status {status}, unprofiled {plain[0]}: {errors[-1500:]}")
        if printed != plain[1]:
            problems.append(f"printed {printed[-3:]}, unprofiled {plain[1][-3:]}")
        if (said or {}).get("result") != (plain[2] or {}).get("result"):
            problems.append(f"result {(said or {}).get('result')}, unprofiled {(plain[2] or {}).get('result')}")
        if out.exists():
            more, figures = check(python, case, out, mode, said, given, loaded)
            problems += more
        else:
            problems.append("there is no profile")
    line = {"at": int(time.time()), "python": name, "case": case.stem, "mode": mode, "units": units, "seconds": round(took, 2),
            **figures, "failed_before": failed, "problems": problems}  # fmt: skip
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("a") as file:
        file.write(json.dumps(line) + "\n")
    return line


def show(line):
    lost = ", ".join(f"{k} {v}" for k, v in sorted(line.get("lost", {}).items(), key=lambda kv: -kv[1])[:3])
    died = "; died before, unprofiled {} times, profiled {}".format(*line["failed_before"])
    share = f"{line['share']:7.1%}" if "share" in line else "      ?"
    print(
        f"{'FAILED' if line['problems'] else 'ok':7}{line['python']:6} {line['case']:12} {line['mode']:5} "
        f"{line.get('samples', 0):8,} samples {share} {line['seconds']:6.1f} s  {lost}"
        f"{died if any(line['failed_before']) else ''}",
        flush=True,
    )
    for problem in line["problems"][:6]:
        print(f"FAILED    {problem}", flush=True)


def add_up(log):
    runs, samples, seconds, bad = Counter(), Counter(), Counter(), Counter()
    for text in log.read_text().splitlines() if log.exists() else []:
        line = json.loads(text)
        key = line["python"]
        runs[key] += 1
        samples[key] += line.get("samples", 0)
        seconds[key] += line["seconds"]
        bad[key] += bool(line["problems"])
    for key in sorted(runs, key=lambda k: [int("".join(filter(str.isdigit, part))) for part in k.split(".")]):
        print(f"{key:6} {runs[key]:6} runs {seconds[key] / 60:8.1f} min {samples[key]:12,} samples {bad[key]:4} with a problem")


def main():
    plain = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(prog="python -m tests.torture", description=__doc__, formatter_class=plain)
    parser.add_argument("--only", help="cases, by name")
    parser.add_argument("--python", help="interpreters, as tools/matrix names them (default: all that are built)")
    parser.add_argument("--mode", choices=["cpu", "wall"], help="one mode instead of both")
    parser.add_argument(
        "--clock", default="auto", help="of the profiles: signal, perf, perf-user, perf-trap or timer (default: the best)"
    )
    parser.add_argument("--units", type=int, help="how much each case does (default: its own, about 2 s)")
    parser.add_argument("--minutes", type=float, help="go on until each interpreter has run so many minutes")
    parser.add_argument(
        "--short",
        action="store_true",
        help="each case on two or three interpreters, --loaded",
    )
    parser.add_argument("--loaded", action="store_true", help="do not judge the share of ticks, which a loaded machine lowers")
    parser.add_argument("--native", action="store_true", help="with native frames")
    parser.add_argument("--log", type=Path, default=LOG)
    parser.add_argument("--sum", action="store_true", help="only add up the log")
    asked = parser.parse_args()
    if asked.sum:
        return add_up(asked.log)
    if asked.native:
        os.environ["TORTURE_NATIVE"] = "1"
    cases = sorted((HERE / "cases").glob("*.py"))
    if asked.only:
        wanted = asked.only.split(",")
        cases = [case for case in cases if case.stem in wanted]
        if len(cases) != len(wanted):
            sys.exit(f"torture: cases are {', '.join(sorted(c.stem for c in (HERE / 'cases').glob('*.py')))}")
    failed = ran = 0
    left_out = []
    kernel = tuple(int(part) for part in re.findall(r"\d+", platform.release())[:2])
    for number, (name, python) in enumerate(interpreters(asked.python).items()):
        version = tuple(int(part.rstrip("td")) for part in name.split("-")[0].split("."))
        here = []
        for i, case in enumerate(cases):
            given = facts(case)
            if asked.short and (i - number) % 4:
                continue
            if name.split("-")[0] in given.get("NOT_ON", ()) or version < tuple(given.get("SINCE", (3, 9))):
                continue
            if name.endswith("-windows") and "POSIX" in given:
                left_out.append(f"{case.stem} on {name} (Windows has no {given['POSIX']})")
                continue
            if sys.platform == "linux" and kernel < given.get("LINUX", (0, 0)):
                left_out.append(f"{case.stem} on {name} (Linux {given['LINUX']} and later)")
                continue
            missing = lacks(python, given.get("NEEDS", ()))
            if missing:
                left_out.append(f"{case.stem} on {name} (no {', '.join(missing)}; tests/wheels.txt)")
            else:
                here.append(case)
        began = time.monotonic()
        while here:
            for case in here:
                for mode in [asked.mode] if asked.mode else ["cpu", "wall"]:
                    line = once(name, python, case, mode, asked.units, asked.log, asked.short or asked.loaded, asked.clock)
                    show(line)
                    ran += 1
                    failed += bool(line["problems"])
            if asked.minutes is None or time.monotonic() - began > asked.minutes * 60:
                break
    for text in left_out:
        print(f"not run: {text}")
    print(f"torture: {ran} runs, {failed} with a problem; all runs so far:")
    add_up(asked.log)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
