"""Other profilers on the same programs, in the same rounds. What cannot be installed or run here is said so."""

import json
import re
import subprocess
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any, Callable, Dict, Iterator, List, NamedTuple, Optional, Sequence, Tuple

from . import chains, child, figures
from .goals import Options, Row
from .pythons import matrix, venv, version_if_able

BUSY = child.TARGETS / "busy.py"
NESTED = child.TARGETS / "nested.py"
NATIVE_RATES = (100, 1000)
_LINK = re.compile(r"\b([abcd])_(\d+)\b")


class Tool(NamedTuple):
    """A profiler. `command(rate, file)` is what precedes `SCRIPT ARGS`; `stacks(file)` gives (names from the root, samples),
    None where the tool keeps no whole stacks; `samples(file)` how many samples it took, None where it does not say."""

    name: str
    version: str
    python: str
    rates: Tuple[int, ...]
    command: Callable[[int, str], List[str]]
    samples: Optional[Callable[[str], int]]
    stacks: Optional[Callable[[str], Iterator[Tuple[str, int]]]]
    judged: bool = True  # whether its stacks are also counted on a program of known chains


def _collapsed(file: str) -> Iterator[Tuple[str, int]]:
    with open(file, errors="replace") as lines:
        for line in lines:
            if line.strip() and not line.startswith("#"):
                stack, _, number = line.rstrip("\n").rpartition(" ")
                yield stack, int(number)


def _in_work(stacks: Iterator[Tuple[str, int]]) -> int:
    return sum(n for stack, n in stacks if re.search(r"\bmain\b", stack))


def _spprof(name: str, python: str, more: Sequence[str] = ()) -> Tool:
    def stacks(file: str) -> Iterator[Tuple[str, int]]:
        text = file + ".collapsed"
        subprocess.run([python, "-m", "spprof", "convert", file, "-f", "collapsed", "-o", text], check=True, capture_output=True)
        return _collapsed(text)

    return Tool(
        name,
        "",
        python,
        (1000, 10000),
        lambda rate, file: [python, "-m", "spprof", "run", "-q", *more, "--rate", str(rate), "-f", "spprof", "-o", file],
        lambda file: _in_work(stacks(file)),
        stacks,
    )


def _py_spy(folder: Path, version: str, python: str, more: List[str]) -> Tool:
    return Tool(
        "py-spy" + "".join(f" {word}" for word in more),
        version,
        python,
        (1000, 10000),
        lambda rate, file: [
            str(folder / "py-spy"),
            "record",
            *more,
            "-r",
            str(rate),
            "-f",
            "raw",
            "-o",
            file,
            "--",
            python,
        ],
        lambda file: _in_work(_collapsed(file)),
        _collapsed,
    )


def _austin(folder: Path, version: str, python: str, name: str = "austin") -> Tool:
    program = _able_to_run(str(folder / name))

    def stacks(file: str) -> Iterator[Tuple[str, int]]:
        # One line a sample; the number is microseconds.
        text = file + ".txt"
        subprocess.run([str(folder / "mojo2austin"), file, text], check=True, capture_output=True)
        return ((stack, 1) for stack, _ in _collapsed(text))

    return Tool(
        name,
        version,
        python,
        (1000, 10000),
        lambda rate, file: [*program, "-i", str(1_000_000 // rate), "-o", file, python],
        lambda file: _in_work(stacks(file)),
        stacks,
    )


def _able_to_run(program: str) -> List[str]:
    """`program`, if need be by the loader of an interpreter that has a newer C library than the system."""
    commands = [[program]]
    for python in matrix().values():
        output = subprocess.run(["readelf", "-l", python], capture_output=True, text=True).stdout
        loader = re.search(r"interpreter: (.*)\]", output)
        if loader:
            commands.append([loader.group(1), "--library-path", str(Path(loader.group(1)).parent), program])
    errors = ""
    for command in commands:
        done = subprocess.run([*command, "--version"], capture_output=True, text=True)
        if done.returncode == 0:
            return command
        errors = errors or done.stderr
    raise OSError(errors.strip().splitlines()[-1] if errors.strip() else "it does not run")


def _pyinstrument(folder: Path, version: str, python: str) -> Tool:
    def samples(file: str) -> int:
        return int(json.loads(Path(file).read_text())["sample_count"])

    return Tool(
        "pyinstrument",
        version,
        python,
        (1000,),
        lambda rate, file: [str(folder / "pyinstrument"), "-i", str(1 / rate), "-r", "json", "-o", file],
        samples,
        None,
    )


def _scalene(folder: Path, version: str, python: str) -> Tool:
    return Tool(
        "scalene --cpu-only",
        version,
        python,
        (1000,),
        lambda rate, file: [
            str(folder / "scalene"),
            "run",
            "--cpu-only",
            "--cpu-sampling-rate",
            str(1 / rate),
            "-o",
            file,
        ],
        None,
        None,
    )


def _tachyon(python: str, version: str, more: List[str]) -> Tool:
    return Tool(
        "profiling.sampling" + "".join(f" {word}" for word in more),
        version,
        python,
        (1000, 10000),
        lambda rate, file: [
            python,
            "-m",
            "profiling.sampling",
            "run",
            *more,
            "-r",
            str(rate),
            "--collapsed",
            "-o",
            file,
        ],
        lambda file: _in_work(_collapsed(file)),
        _collapsed,
    )


def found(options: Options) -> Tuple[List[Tool], List[str]]:
    """The tools that run here, and what is missing with the reason."""
    tools, missing = _installed(
        options,
        ("py-spy", [], lambda *a: [_py_spy(*a, []), _py_spy(*a, ["--nonblocking"])]),
        ("austin-dist", ["austin-python"], lambda *a: [_austin(*a)]),
        ("pyinstrument", [], lambda *a: [_pyinstrument(*a)]),
        ("scalene", [], lambda *a: [_scalene(*a)]),
    )
    tools.insert(0, _spprof("spprof", options.python.path))
    newest = matrix(["3.15"]).get("3.15")
    if newest:
        tools += [_tachyon(newest, "3.15", []), _tachyon(newest, "3.15", ["--blocking"])]
        if version_if_able(newest):
            tools.append(_spprof("spprof on 3.15", newest))
    else:
        missing.append("profiling.sampling: no Python 3.15 (tools/matrix)")
    return tools, missing


def _installed(options: Options, *packages: Tuple[str, List[str], Callable[..., List[Tool]]]) -> Tuple[List[Tool], List[str]]:
    tools: List[Tool] = []
    missing = []
    for package, more, make in packages:
        try:
            folder = venv(options.python.path, f"peer-{package}", package, *more)
            output = f"import importlib.metadata as m, json; print(json.dumps(m.version({package!r})))"
            version = str(child.ask([folder / "python", "-c", output]))
            tools += make(folder, version, str(folder / "python"))
        except (subprocess.CalledProcessError, OSError, child.Failed) as error:
            words = (getattr(error, "stderr", None) or str(error)).strip().splitlines()
            missing.append(f"{package}: {words[-1] if words else error}")
    return tools, missing


def run_under(tool: Tool, rate: int, words: List[str]) -> child.Run:
    """One run under the tool; `says` gets the number of samples and of impossible stacks."""
    with tempfile.TemporaryDirectory(dir=child.WORK) as folder:
        file = str(Path(folder) / "out")
        cut = ["---"] if tool.name.startswith("scalene") else []
        run = child.run([*tool.command(rate, file), words[0], *cut, *words[1:]], may_fail=True)
        if "began_ns" not in run.says:
            raise child.Failed(f"the program did not run to its end under it (exit status {run.status}): {run.stderr[-300:]!r}")
        run.says["samples"] = tool.samples(file) if tool.samples else None
        if tool.stacks:
            run.says["chains"] = _judge(tool.stacks(file))
        return run


def _judge(stacks: Iterator[Tuple[str, int]]) -> Dict[str, int]:
    """How many stacks of bench/chains.py there are, and how many of them cannot exist."""
    counted: Counter = Counter()
    for stack, n in stacks:
        links = _LINK.findall(stack)
        if links:
            letters, chain = "".join(letter for letter, _ in links), {number for _, number in links}
            counted["all"] += n
            counted["impossible"] += n * (not ("abcd".startswith(letters) and len(chain) == 1))
    return dict(counted)


def _alone(python: str, words: List[str]) -> Callable[[], child.Run]:
    return lambda: child.run([python, *words])


def peers(options: Options) -> List[Row]:
    """py-spy, austin, pyinstrument, scalene and 3.15's profiling.sampling beside spprof: cost, samples, impossible stacks."""
    child.WORK.mkdir(parents=True, exist_ok=True)
    return _beside(options, BUSY, *found(options))


def peers_native(options: Options) -> List[Row]:
    """py-spy --native and austinp beside spprof --native: cost and samples."""
    child.WORK.mkdir(parents=True, exist_ok=True)
    tools, missing = _installed(
        options,
        ("py-spy", [], lambda *a: [_py_spy(*a, ["--native"])]),
        ("austin-dist", ["austin-python"], lambda *a: [_austin(*a, "austinp")]),
    )
    tools.insert(0, _spprof("spprof --native", options.python.path, ["--native"]))
    return _beside(options, NESTED, [tool._replace(rates=NATIVE_RATES, judged=False) for tool in tools], missing)


def _beside(options: Options, program: Path, tools: List[Tool], missing: List[str]) -> List[Row]:
    seconds, rounds = (0.5, 2) if options.quick else (2.0, min(options.rounds or 5, 9))
    units = str(child.units_for(options.python.path, program, seconds))
    variants: Dict[str, Callable[[], child.Run]] = {}
    broken: Dict[str, str] = {}

    def kept(name: str, call: Callable[[], child.Run]) -> Callable[[], child.Run]:
        def guarded() -> child.Run:
            try:
                return call()
            except (child.Failed, OSError, subprocess.CalledProcessError, ValueError, KeyError) as error:
                broken[name] = str(error)
                return child.Run(float("nan"), float("nan"), {}, "", 1)

        return guarded

    for tool in tools:
        variants.setdefault(f"alone {tool.python}", _alone(tool.python, [str(program), units]))
        for rate in tool.rates:
            name = f"{tool.name} {rate}"
            variants[name] = kept(name, lambda tool=tool, rate=rate: run_under(tool, rate, [str(program), units]))
    done = child.interleaved(variants, rounds, lambda text: options.note(text.split(":")[0]), child.PEERS_SLOW)
    rows = []
    for tool in tools:
        for rate in tool.rates:
            name = f"{tool.name} {rate}"
            title = f"{tool.name} {tool.version} at {rate:,} Hz".replace("  ", " ")
            tried = [one for one in done if name in one]
            good = [one for one in tried if one[name].says]
            if not good:
                rows.append(Row(title, f"failed: {broken[name].strip()[:300]}", None, {"error": broken[name]}))
                continue
            row = _compare(title, tool, rate, name, good)
            if len(good) < len(tried):
                row = row._replace(measured=f"{row.measured}; failed in {len(tried) - len(good)} of {len(tried)} rounds")
            rows.append(row)
            options.note(f"{title}: {rows[-1].measured}")
    return rows + [Row(one.split(":")[0], "skipped: " + one.split(":", 1)[1].strip(), None) for one in missing]


def _compare(title: str, tool: Tool, rate: int, name: str, done: List[Dict[str, child.Run]]) -> Row:
    alone = f"alone {tool.python}"

    def lasted(run: child.Run) -> float:
        return (run.says["ended_ns"] - run.says["began_ns"]) * 1e-9

    slower = figures.median([lasted(one[name]) / lasted(one[alone]) for one in done])
    tree = figures.median([one[name].tree_cpu / one[alone].tree_cpu for one in done])
    text = f"work {slower.value:.2f} x, tree CPU {tree.value:.2f} x"
    raw: Dict[str, Any] = {"slowdown": slower.json(), "tree": tree.json()}
    if tool.samples:
        # spprof counts CPU time, the others wall time; here the thread is always busy.
        clock = (lambda run: run.says["thread_cpu_ns"] * 1e-9) if tool.name.startswith("spprof") else lasted
        got = figures.median([one[name].says["samples"] / (rate * clock(one[name])) for one in done])
        text += f", samples / expected {got.value:.2f}"
        raw["samples"] = got.json()
    if tool.stacks and tool.judged:
        try:
            judged = run_under(tool, rate, [str(chains.write()), "3"]).says["chains"]
        except (child.Failed, OSError, subprocess.CalledProcessError) as error:
            return Row(title, f"{text}, impossible stacks not measured: {error}"[:500], None, raw)
        share = judged.get("impossible", 0) / max(1, judged.get("all", 0))
        text += f", impossible stacks {share:.1%} of {judged.get('all', 0):,}"
        raw["chains"] = judged
    return Row(title, text, None, raw)
