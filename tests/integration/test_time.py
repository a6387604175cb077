"""Weights are the truth: known shares of work for every clock, privileged or not, against clocks that the program reads.

What holds at every instant is judged of tests/targets/clocks.py; shares, and what is near another clock, of shares.py."""

import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from ran import TARGETS, runner

import spprof
from spprof import _core
from spprof.model import COARSE, KERNEL, OFF_CPU, intervals

TARGET = TARGETS / "shares.py"
NOBODY = 65534
CLOCKS = [
    ("cpu", "perf"),
    ("cpu", "perf-user"),
    ("cpu", "signal"),
    ("cpu", "timer"),
    ("wall", "perf"),
    ("wall", "signal"),
    ("wall", "timer"),
]
USERS = ["self"] + (["nobody"] if os.getuid() == 0 else [])
GROUPS = {
    "functions": ["six", "three", "one"],
    "lines": ["six tenths", "three tenths", "one tenth"],
    "kernel": ["reading", "computing"],
    "loop": ["early", "late"],
    "bursts": ["burst_long", "burst_short", "nap"],
    "threads": ["thread_six", "thread_three", "thread_one"],
}
COMPARISONS = len(CLOCKS) * len(USERS) * sum(map(len, GROUPS.values()))
# All of them together fail by chance less than once in a hundred thousand runs (two-sided, Bonferroni).
Z = -statistics.NormalDist().inv_cdf(1e-5 / COMPARISONS / 2)
shares = pytest.mark.statistical(
    "all runs together: 1 in 100,000 by chance (Bonferroni), where threads soon get a processor. In wall mode what one waits for "
    "it goes to its next sample, in whatever that is: beside 20 others on two processors some of `wall` failed"
)


def as_nobody(folder):
    """Command prefix and keyword arguments to run this interpreter as an unprivileged user, with a copy of the package."""
    package = Path(spprof.__file__).parent
    copy = folder / "package" / "spprof"
    shutil.copytree(package, copy, symlinks=False, ignore=shutil.ignore_patterns("__pycache__"))
    core = Path(__import__("spprof._core", fromlist=["_core"]).__file__)
    if not (copy / core.name).exists():
        shutil.copy(core, copy)  # an editable installation keeps it elsewhere
    shutil.copy(TARGET, folder)
    env = {**os.environ, "HOME": str(folder), "PYTHONPATH": str(copy.parent), "PYTHONDONTWRITEBYTECODE": "1"}
    for path in [folder, *folder.rglob("*")]:
        os.chown(path, NOBODY, NOBODY)
    options = {"cwd": folder, "env": env}
    # Where the interpreter itself is out of an unprivileged user's reach (in /root), one capability opens files for reading;
    # it allows nothing of what clocks need.
    setpriv = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]
    reading = ["--inh-caps=+dac_read_search", "--ambient-caps=+dac_read_search"]
    problems = []
    for prefix in (setpriv, setpriv + reading):
        try:
            subprocess.run(
                [*prefix, sys.executable, "-c", "import spprof.recording.api"], check=True, stderr=subprocess.PIPE, **options
            )
            return prefix, options
        except (subprocess.CalledProcessError, OSError) as error:
            problems.append(f"{error} {getattr(error, 'stderr', '')}")
    pytest.skip(f"an unprivileged user cannot run {sys.executable}: {problems[-1]}")


class Run:
    """One run of shares.py, summed up by function, line and thread."""

    def __init__(self, mode, clock, user):
        self.clock = clock
        folder = Path(tempfile.mkdtemp(prefix="spprof-time-"))
        try:
            prefix, options = as_nobody(folder) if user == "nobody" else ([], {"cwd": folder})
            # The system's refusal is its right; ours would be a failure.
            probe = f"from spprof import _core; _core.choose_clock({clock!r})"
            refused = subprocess.run([*prefix, sys.executable, "-c", probe], stderr=subprocess.PIPE, text=True, **options)
            if refused.returncode:
                assert "PermissionError" in refused.stderr, refused.stderr
                pytest.skip(f"the system refuses the clock {clock} to {user}")
            out = folder / "out.spprof"
            target = folder / TARGET.name if user == "nobody" else TARGET
            command = [*prefix, sys.executable, target, out, mode, clock, "1"]
            done = subprocess.run(command, stdout=subprocess.PIPE, text=True, timeout=200, **options)
            assert done.returncode == 0
            self.said = json.loads(done.stdout)
            assert self.said["uid"] == (NOBODY if user == "nobody" else os.getuid())
            self.profile = spprof.Profile.load(out)
        finally:
            shutil.rmtree(folder)
        assert self.profile.clock == clock and self.profile.warning is None
        self.mode, self.took = mode, self.said["took"]
        self.rows = {}  # name of a function or line -> [(weight, count)]
        self.unknown, self.off_cpu = {}, {}  # the same -> of its weight: sampled at the kernel's tick; of a blocked thread
        names_of_line = {line: name for name, line in self.said["lines"].items()}
        for sample in self.profile.samples():
            names = {f.name for f in sample.frames}
            names |= {names_of_line[f.line] for f in sample.frames if f.name == "lines" and f.line in names_of_line}
            for name in names:
                self.rows.setdefault(name, []).append((sample.weight, sample.count))
                kind = self.off_cpu if sample.flags & OFF_CPU else self.unknown if sample.flags & (COARSE | KERNEL) else {}
                kind[name] = kind.get(name, 0) + sample.weight

    def weight(self, name):
        return sum(weight for weight, _ in self.rows.get(name, ()))

    def samples(self, names):
        """The number of independent samples that is worth as much as these, which are not all of one weight (Kish 1965)."""
        rows = [row for name in names for row in self.rows.get(name, ())]
        squares = sum(weight * weight / count for weight, count in rows)
        return min(sum(weight for weight, _ in rows) ** 2 / squares, sum(count for _, count in rows))

    def whole(self, names):
        """What their shares of each other are of."""
        rows = [row for name in names for row in self.rows.get(name, ())]
        return intervals.whole(*zip(*rows), sum(self.unknown.get(name, 0) for name in names))


@pytest.fixture(scope="module", params=[(*c, u) for u in USERS for c in CLOCKS], ids="-".join)
def run(request):
    return Run(*request.param)


# Thread-CPU timers are looked at by the kernel's own tick only (CONFIG_HZ), so they cannot be jittered: a program in step
# with that tick (a loop of exactly 2 ms, bursts between sleeps that end on it) is sampled at the same phases again and
# again. Of `perf-user`, that holds for time in the kernel: most of what a nap uses. There the truth lies in the interval that
# spprof shows, wide as it is (docs/intervals.md). tests/integration/test_in_step.py shows that it has to be.
IN_STEP = {("timer", "loop"), ("timer", "bursts"), ("perf-user", "loop"), ("perf-user", "bursts")}


def check_interval(run, group):
    whole = run.whole(GROUPS[group])
    truth_all = sum(run.took[name] for name in GROUPS[group])
    if run.clock == "timer":  # all but its off-CPU time, also for want of a processor
        assert whole.unknown_weight + sum(run.off_cpu.get(name, 0) for name in GROUPS[group]) == whole.weight
        assert whole.unknown_share > 0.99 or run.mode == "wall"
    if run.clock == "perf-user":
        assert 0 < whole.unknown_share < 0.5, "it is the kernel's time alone"
    for name in GROUPS[group]:
        shown = whole.share(run.weight(name), 1 - 1e-5 / COMPARISONS)
        assert shown.low <= run.took[name] / truth_all <= shown.high, f"{name}: {shown}, truth {run.took[name] / truth_all:.4f}"


@shares
@pytest.mark.parametrize("group", sorted(GROUPS))
def test_shares_within_the_binomial_interval(run, group):
    if (run.clock, group) in IN_STEP:
        check_interval(run, group)
        return
    names = GROUPS[group]
    truth_all = sum(run.took[name] for name in names)
    weight_all = sum(map(run.weight, names))
    n = run.samples(names)
    sampled = sum(count for name in names for _, count in run.rows.get(name, ()))
    assert sampled > 50 and (n > 50 or run.clock == "timer")  # 250 or so by a tick of 4 ms, of which a few may weigh most
    for name in names:
        truth, share = run.took[name] / truth_all, run.weight(name) / weight_all
        bound = Z * (truth * (1 - truth) / n) ** 0.5
        assert abs(share - truth) <= bound, f"{name}: {share:.4f}, truth {truth:.4f} +- {bound:.4f} ({n:.0f} samples)"


@shares
@pytest.mark.parametrize("case", [name for name in GROUPS if name != "threads"])
def test_total_weight_is_the_threads_clock(run, case):
    """In wall mode a thread that waits for a processor cannot be looked at: that time goes to its next sample, which may lie in
    the case after it. The kernel says how long it waited."""
    waited, cases = run.said["waited"], list(run.said["waited"])
    at = cases.index(case)
    unseen = waited[case] + waited[cases[max(0, at - 1)]] if run.mode == "wall" else 0
    # The kernel's tick may meet nobody for many turns of `bursts`: what crosses an end is in one sample.
    crossing = 0
    if run.clock == "timer":
        crossing = max(w / n for name in (case, cases[at + 1]) for w, n in run.rows.get(name, [(0, 1)]))
    allowed = 0.02 * run.took[case] + unseen + min(crossing, 0.2 * run.took[case])
    assert run.weight(case) == pytest.approx(run.took[case], abs=allowed)


@shares
@pytest.mark.parametrize("thread", GROUPS["threads"])
def test_total_weight_of_each_thread(run, thread):
    # What a thread runs after its last tick is in no sample, and it may have begun within a tick.
    tick = max(weight / count for weight, count in run.rows[thread])
    assert run.weight(thread) == pytest.approx(run.took[thread], rel=0.02, abs=min(2 * tick, 0.2 * run.took[thread]))
    by_thread = [t for t in run.profile.threads if t.name == thread]
    assert len(by_thread) == 1
    # Nothing of it was given to another thread.
    assert by_thread[0].weight >= run.weight(thread)


@shares
def test_sleepers_get_their_wall_time_and_no_cpu_time(run):
    if run.mode == "wall":
        assert run.weight("asleep") == pytest.approx(run.took["asleep"], rel=0.05)
    else:
        # Its weight is measured CPU time and so never more than its clock; one tick may cut across. The instants of the clock
        # `signal` meet it as often as chance has it.
        tick = 10_000_000 if run.clock == "timer" else 1_000_000
        chance = Z * (run.took["asleep"] * tick) ** 0.5 if run.clock == "signal" else 0
        assert run.weight("asleep") <= run.took["asleep"] + tick + chance


@shares
def test_naps_get_their_wall_time(run):
    if run.mode != "wall":
        pytest.skip("a question of wall mode")
    # Time that its thread waited for a processor goes to its next sample, as above.
    allowed = 0.05 * run.took["nap"] + run.said["waited"]["bursts"]
    if (run.clock, "bursts") not in IN_STEP:
        assert run.weight("nap") == pytest.approx(run.took["nap"], abs=allowed)
        return
    # Its off-CPU time is known; what it used of the CPU is any part of what was sampled at the tick.
    off_cpu_time, unknown = run.off_cpu["nap"], sum(run.unknown.get(name, 0) for name in GROUPS["bursts"])
    assert off_cpu_time - allowed <= run.took["nap"] <= off_cpu_time + unknown + allowed


@shares
def test_the_weight_of_a_run_is_the_programs_cpu_time(run):
    """In CPU mode also what the kernel counted for the process, of which the profiler's own thread is a part."""
    if run.mode == "cpu":
        assert sum(run.profile.column("weight")) <= run.said["stats"]["cpu_ns"] * 1.001


class Exact:
    """One run of clocks.py: what holds at every instant, on every machine."""

    def __init__(self, folder, mode, clock):
        try:
            _core.choose_clock(clock)
        except PermissionError as error:
            pytest.skip(f"the system refuses the clock {clock}: {error}")
        ran = runner(folder)(TARGETS / "clocks.py", "out.spprof", mode, clock)
        self.mode, self.clock, self.said, self.stats, self.profile = mode, clock, ran.json, ran.json["stats"], ran.profile
        assert self.profile.clock == clock and self.profile.warning is None
        # A thread that had no tick may not be in the file.
        weights = {thread.tid: thread.weight for thread in self.profile.threads}
        self.main, self.sleeper = weights[self.said["main"]], weights.get(self.said["sleeper"], 0)


@pytest.fixture(
    scope="module", params=[(m, c) for m in ("cpu", "wall") for c in ("perf", "perf-user", "signal", "timer")], ids="-".join
)
def exact(request, tmp_path_factory):
    if sys.platform != "linux":
        pytest.skip("Linux's clocks")
    return Exact(tmp_path_factory.mktemp("clocks"), *request.param)


ROUNDED = 4000  # the file keeps each thread's sum of weights to 2 us


def test_the_tick_stats_add_up(exact):
    stats = exact.stats
    assert stats["expected"] == stats["taken"] + stats["repeated"] + sum(stats["losses"].values())
    assert stats["taken"] + stats["repeated"] == sum(exact.profile.column("count"))
    assert stats["taken"] >= 60


def test_timestamps_are_on_the_monotonic_clock(exact):
    """Each sample of a phase was taken in that phase, to the microsecond that the file keeps."""
    phases, n = exact.said["phases"], 0
    for sample in exact.profile.samples():
        own = {f.name for f in sample.frames} & {"alternate_a", "alternate_b"}
        if own:
            n += 1
            at = sample.timestamp_ns
            inside = [i for i, (begin, end) in enumerate(phases) if begin - 2000 <= at <= end + 2000]
            name = "alternate_" + "ab"[inside[0] % 2] if inside else "no phase"
            assert {name} == own, f"{at}: {own}; nearest begins {min((b - at for b, _ in phases), key=abs)} ns later"
    assert n or exact.mode == "wall"  # where all may be of the sleeper


def test_a_weight_is_what_the_threads_clock_says(exact):
    """The time of what was lost goes to the next sample, so all until a reading of the clock is there when one more was taken."""
    if exact.mode == "wall":
        least, most = exact.said["passed"]
    else:  # not `cpu_ns`: the process's clock is read at other instants than the thread's, and less what our threads used
        least, most = exact.said["used"]
    # By `signal` a sample stands for an interval, and by `perf-user` for a period of an event that counts also time stolen from a
    # virtual machine, while some of the kernel's time is due yet: their sums come near the clock, which the tests above judge.
    if exact.clock in ("perf", "timer"):
        assert least - ROUNDED <= exact.main <= most + ROUNDED
    assert exact.main > 0


def test_a_sleeper_gets_its_wall_time_and_no_cpu_time(exact):
    if exact.mode == "cpu":
        assert exact.sleeper <= exact.said["slept"], "it did not run"
        return
    assert exact.said["passed"][0] - ROUNDED <= exact.sleeper <= exact.said["passed"][1] + ROUNDED
    tids = {thread.id: thread.tid for thread in exact.profile.threads}
    frames = [{f.name for f in s.frames} for s in exact.profile.samples() if tids[s.thread] == exact.said["sleeper"]]
    # `[unknown stack]`: where the sampler found no processor for long it says what it does not know.
    assert all("asleep" in names or names == {"[unknown stack]"} for names in frames), frames


def test_time_at_the_kernels_tick_is_unknown_and_no_other(exact):
    unknown = exact.profile.whole("MainThread").unknown_share
    if exact.clock == "timer":  # its off-CPU time is known, in wall mode
        assert unknown == 1.0 or exact.mode == "wall"
    elif exact.clock != "perf-user":
        assert unknown == 0.0


@pytest.mark.statistical(
    "not by chance: it fails where what our threads used in their last 64 looks, which they have yet to report, is over 50 ms"
)
@pytest.mark.skipif(sys.platform != "linux", reason="how much each thread used is asked of Linux's scheduler")
@pytest.mark.parametrize("native", [False, True])
def test_the_cpu_time_of_a_run_is_the_programs_and_not_the_profilers(run_python, tmp_path, native):
    """The summary said 1.05 s on CPU of a program that had used 0.88 s (with native frames: the drain thread makes their tables).
    Here the sampler uses as much as the program."""
    if native and not spprof.native_unwinding_available():
        pytest.skip("no native frames here")
    (tmp_path / "p.py").write_text(
        """
import json, os, sys, threading, time
import spprof
def own():
    total = 0
    for tid in os.listdir("/proc/self/task"):
        with open(f"/proc/self/task/{tid}/comm") as comm, open(f"/proc/self/task/{tid}/schedstat") as stat:
            total += int(stat.read().split()[0]) if comm.read().startswith("spprof-") else 0
    return total
def used():  # the system reports it after the time has passed, and our threads go on
    return own(), time.thread_time_ns()
done = threading.Event()
threads = [threading.Thread(target=done.wait) for _ in range(50)]
for thread in threads:
    thread.start()
late, before = time.monotonic() + 60, time.process_time_ns()
spprof.start(0.05, "wall", native=sys.argv[1] == "True")
began = used()
while own() < 300_000_000 and time.monotonic() < late:
    sum(range(1000))
spprof.flush()
reported, now = spprof.stats()["cpu_ns"], used()
spprof.stop()
whole = time.process_time_ns() - before
done.set()
print(json.dumps([now[0] - began[0], now[1] - began[1], whole, reported, spprof.stats()["cpu_ns"]]))
"""
    )
    own, program, whole, so_far, reported = run_python("p.py", native).json
    assert own >= 0.2e9
    for cpu_ns in (so_far, reported):
        assert program - 50_000_000 <= cpu_ns <= whole - own + 50_000_000  # it may be behind by what our threads use in 64 looks


@pytest.mark.statistical("not by chance: it fails where samplers wait for processors of others at half of their looks")
@pytest.mark.skipif(sys.platform != "linux", reason="the time that a thread is woken too late can be set on Linux alone")
def test_a_sampler_that_is_woken_late_is_not_one_that_waited_for_a_processor(run_python, tmp_path):
    """As on a virtual machine: each sampler is woken 200 us late. Its instants are random all the same, and are not put off."""
    ran = run_python("-c", f"""
import json, os, time, spprof
from spprof.model import COARSE
out, set_for = {str(tmp_path / "out.spprof")!r}, set()
spprof.start(0.2, "cpu", out)
def burn(seconds):
    end = time.thread_time() + seconds
    while time.thread_time() < end: sum(range(1000))
def set_slack():
    for tid in os.listdir("/proc/self/task"):
        try:
            with open(f"/proc/{{tid}}/comm") as comm:
                if comm.read().strip() != "spprof-signal": continue
            with open(f"/proc/{{tid}}/timerslack_ns", "w") as slack: slack.write("200000")
        except OSError: continue
        set_for.add(tid)
set_slack()
def slow(): burn(1)
slow()
clock = spprof.stats()["clock"]
spprof.stop()
flags = [sample.flags & COARSE != 0 for sample in spprof.Profile.load(out).samples()
         if "slow" in [frame.name for frame in sample.frames]]
print(json.dumps([clock, len(set_for), len(flags), sum(flags)]))
""")  # fmt: skip
    clock, samplers, samples, coarse = ran.json
    if clock != "signal" or samplers == 0:
        pytest.skip("no clock `signal`, or only root may say how late a thread is woken")
    assert samples >= 500
    assert coarse < samples / 2
