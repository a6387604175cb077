"""_judge.py PROGRAM FOLDER: looks at each profile in a folder, on the interpreter that wrote it; prints what is wrong as JSON.

Each must be whole and its tick stats add up. A frame must be a function of its file at one of its lines, a call from a line of
the program one that this line names (../oracle.py). What a function got must be what its process's own clocks say (_truth.py)."""

import json
import math
import sys
from collections import Counter, defaultdict
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
from oracle import NO_PYTHON, Oracle  # noqa: E402

import spprof  # noqa: E402
from spprof.model import TRUNCATED, UNPAIRED  # noqa: E402

NEAR = 0.05  # of what a function took
SIGMAS = 5
UNKNOWN = "[unknown stack]"  # time of many lost ticks in a row


# A warning of the interpreter's (forks of programs with threads) is shown by these, from any line.
ANYWHERE = ["_showwarnmsg", "warn_explicit"]


class Facts:
    """What the rig read from the program, as the oracle asks for it."""

    def __init__(self, given):
        self.__dict__.update({name: set(value) if name in ("ROOTS", "ANYWHERE") else value for name, value in given.items()})


class ProgramOracle(Oracle):
    def __init__(self, program, given):
        super().__init__(Facts({**given, "ANYWHERE": [*ANYWHERE, *given.get("ANYWHERE", [])]}))
        self.program = str(program)
        self.roots_here = {"<module>", *given.get("ROOTS", ())}

    def wrong(self, frames, main):
        if frames[0].file == self.program and frames[0].name not in self.roots_here:
            return f"the root of a stack is {frames[0].qualname}:{frames[0].line}"
        for i, frame in enumerate(frames):
            below = frames[i + 1].name if i + 1 < len(frames) else None
            problem = self._place(frame, below is None or below in self.anywhere) if Path(frame.file).is_file() else None
            if problem is None and i and frames[i - 1].name != "<module>":  # which decorates and imports
                problem = self._edge(frames[i - 1], frame)
            if problem:
                return problem
        return None

    def _place(self, frame, may_begin):
        if (may_begin or self.traced) and frame.name == "<module>" and frame.line <= 1:
            return None  # about to execute its first instruction, whatever its first line is
        return super()._place(frame, may_begin)

    def _edge(self, a, b):
        return None if self.traced and b.file != self.program else super()._edge(a, b)  # a tracer is called from any line

    def _is_case(self, file):
        return file == self.program


def look(path, profile, oracle, given, got):
    """(problems, figures). got: what each function of its process got; one that exec replaces has two profiles."""
    problems, seen, unpaired, cut, samples = Counter(), {}, 0, 0, 0
    for sample in profile.samples():
        samples += 1
        unpaired += bool(sample.flags & UNPAIRED)
        cut += bool(sample.flags & TRUNCATED)
        frames = tuple(frame for frame in sample.frames if not frame.native)
        for name in {frame.name for frame in sample.frames if not frame.native or frame.name == UNKNOWN}:
            got[name] += sample.weight
        if frames and frames[0].name != NO_PYTHON and not sample.flags & (TRUNCATED | UNPAIRED) and frames not in seen:
            seen[frames] = wrong = oracle.wrong(frames, sample.thread_name == "MainThread")
            if wrong:
                problems[f"impossible: {wrong}"] += 1
    if profile.warning or (profile.end is None and not given.get("MAY_LACK_END")):
        problems[
            f"{Path(path).name} of {profile.header.get('argv', '?')} is not whole: {profile.warning}, {samples} samples"
        ] += 1
    stats = profile.stats
    lost = sum(stats.get("losses", {}).values())
    if stats and stats["expected"] != stats["taken"] + stats["repeated"] + lost:
        problems["the tick stats do not add up"] += 1
    if cut > 2 + samples / 100 and not given.get("DEEP"):
        problems[f"{cut} of {samples} stacks are truncated"] += 1
    figures = {"samples": samples, "expected": stats.get("expected", 0), "lost": lost, "unpaired": unpaired, "cut": cut}
    reasons = {name: n for name, n in stats.get("losses", {}).items() if n}
    return problems, {**figures, "shares": {}, "losses": reasons, "clock": profile.clock}


def compare(profile, given, took_by_name, got):
    """(problems, shares): what a process's functions took by its own clocks, and what they got."""
    problems = []
    column = 0 if profile.mode == "cpu" else 1
    tick = max(profile.interval_ns, 4e6 if profile.clock == "timer" else 0)
    shares = {}
    for name, took in took_by_name.items():
        spread = SIGMAS * math.sqrt(max(took[column], tick) * tick)
        shares[name] = round(got[name] / took[column], 3) if took[column] else None
        near = NEAR * took[column] + spread + given.get("SLACK_NS", 0)
        if not -near <= took[column] - got[name] <= near + got[UNKNOWN]:  # what nobody saw may be its
            problems.append(f"{name} took {took[column] / 1e6:.1f} ms, the profile says {got[name] / 1e6:.1f}")
    return problems, shares


def main():
    program, folder = Path(sys.argv[1]).resolve(), Path(sys.argv[2])
    given = json.loads(sys.argv[3])
    truth = {path.stem: json.loads(path.read_text()) for path in (folder / "truth").glob("*.json")}
    problems, figures, profiles, processes, got = Counter(), [], 0, {}, defaultdict(Counter)
    oracle = ProgramOracle(program, given)
    for path in sorted(folder.glob("*.spprof")):
        profiles += 1
        try:
            profile = spprof.Profile.load(path)
            pid = str(profile.header.get("pid"))
            found, reported = look(path, profile, oracle, given, got[pid])
            processes[pid] = profile, reported
        except spprof.BadFile as error:
            problems[f"{path.name} cannot be read: {error}"] += 1
            continue
        problems.update(found)
        figures.append(reported)
    for pid, (profile, reported) in processes.items():
        found, reported["shares"] = compare(profile, given, truth.get(pid, {}), got[pid])
        problems.update(found)
    if profiles < given.get("PROFILES", 1):
        problems[f"{profiles} profiles"] += 1
    print(json.dumps({"problems": [f"{text} ({n} times)" for text, n in problems.most_common(8)], "figures": figures}))


if __name__ == "__main__":
    main()
