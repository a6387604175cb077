"""What counting the calls of the hottest functions costs programs that people have."""

import subprocess
from pathlib import Path
from typing import Callable, Dict, List

from . import child, figures
from .goals import Options, Row
from .pythons import ROOT, venv

MOST = 1.05  # times the program alone
# In Python, where it is in the wheel's compiled form otherwise: that is the harder case.
PACKAGES = ("--no-binary=mypy,black", "mypy", "black", "lxml")
READ = ROOT / "src" / "spprof" / "report"


def hot(options: Options) -> List[Row]:
    """CPU time of whole runs of the demo, mypy and black, alone, sampled and with `run --calls=hot`, in the same rounds."""
    rounds = options.rounds or (3 if options.quick else 11)
    try:
        found = next(venv(options.python.path, "programs", *PACKAGES).parent.glob("lib/python*/site-packages"))
    except subprocess.CalledProcessError as error:
        return [Row("the demo, mypy and black", f"skipped: pip cannot install them: {str(error.stderr)[-200:]}", None)]
    rows = []
    for program, words in _programs().items():
        options.note(program)
        done = child.interleaved(_variants(options, words, found), rounds, lambda text: None)
        rows.append(_row(program, done))
    return rows


def _programs() -> Dict[str, List[str]]:
    """None keeps a cache; mypy fails where it finds an error."""
    files = [str(path) for path in sorted(READ.glob("*.py"))[:6]]
    return {
        "pricing in the demo": [str(child.TARGETS / "pricing.py"), "400"],
        "mypy": ["-m", "mypy", "--cache-dir=/dev/null", "--config-file=", "--follow-imports=silent", files[0]],
        "black": ["-m", "black", "--check", "--quiet", "--workers=1", *files],
    }


def _variants(options: Options, words: List[str], packages: Path) -> Dict[str, Callable[[], child.Run]]:
    def run(*before: str) -> child.Run:
        with child.folder() as folder:  # a cache of black's, too
            environment = {"PYTHONPATH": str(packages), "BLACK_CACHE_DIR": str(folder)}
            command = [word.replace("PROFILE", str(folder / "p.spprof")) for word in (*before, *words)]
            done = child.run(command, environment, may_fail=True)
        if done.status not in (0, 1):
            raise child.Failed(f"{' '.join(command)}: exit status {done.status}\n{done.stderr[-1000:]}")
        return done

    spprof = options.python.spprof("run", "-q", "-o", "PROFILE")
    return {
        "alone": lambda: run(options.python.path),
        "sampled": lambda: run(*spprof),
        "hot": lambda: run(*spprof, "--calls=hot"),
    }


def _row(program: str, done: List[Dict[str, child.Run]]) -> Row:
    def ratio(name: str, of: str) -> figures.Figure:
        return figures.median([one[name].tree_cpu / one[of].tree_cpu for one in done])

    whole, sampled, more = ratio("hot", "alone"), ratio("sampled", "alone"), ratio("hot", "sampled")
    seconds = figures.median([one["alone"].tree_cpu for one in done])
    text = f"tree CPU {whole.text()} x of {seconds.value:.1f} s; samples alone {sampled.text()} x, hot to these {more.text()} x"
    raw = {"hot": whole.json(), "sampled": sampled.json(), "hot to sampled": more.json()}
    return Row(f"{program}: run --calls=hot <= {MOST} x", text, whole.at_most(MOST), raw)
