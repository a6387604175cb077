"""`spprof run --subprocesses`: every kind of child process is profiled, into a file of its own that names what it ran."""

import glob
import json
import os
import subprocess
import sys

import pytest

from spprof import Profile

WORK = """
import json, multiprocessing, os, subprocess, sys, time
def burn(n):
    return sum([i * i for i in range(n)])
def works(seconds):
    end = time.thread_time() + seconds
    while time.thread_time() < end:  # read when it may have been used up: docs/troubleshooting.md, "Hardly any samples"
        until = time.monotonic() + end - time.thread_time()
        while time.monotonic() < until: burn(300)
def work():
    "Until some samples were taken, if a profile is. Only a hang reaches the minute."
    try: import spprof
    except ImportError: return works(0.01)  # with -S
    if not spprof.is_active(): return works(0.01)
    stats = spprof.stats
    wanted, late, step = stats()["taken"] + 20, time.monotonic() + 60, 0.02
    while stats()["taken"] < wanted and time.monotonic() < late:
        works(step)
        step = min(2 * step, 0.2)  # timers may give a tick each 10 ms
"""
FORKS = (
    WORK
    + """
def in_child():
    work()
pid = os.fork()
if pid == 0:
    in_child()
    sys.exit(7)
print(os.WEXITSTATUS(os.waitpid(pid, 0)[1]), [pid])
"""
)
EXECS = (
    WORK
    + """
child = subprocess.Popen([sys.executable, "child.py", "an argument"], stdout=subprocess.PIPE)
text = child.communicate()[0].decode().strip()
print(text, child.returncode, [child.pid])
"""
)
CHILD = (
    WORK
    + """
def in_child():
    work()
in_child()
print(sys.argv[1:], [path for path in sys.path if "startup" in path and "site" in sys.modules])
sys.exit(5)
"""
)
POOLS = (
    WORK
    + """
def in_child(n):
    work()
    return os.getpid()
if __name__ == "__main__":
    context = multiprocessing.get_context(METHOD)
    with context.Pool(2) as pool:
        pids = sorted(set(pool.map(in_child, range(4), chunksize=1)))
        pool.close()
        pool.join()
    print(len(pids) <= 2, pids)
"""
)
REPLACED = (
    WORK
    + """
def before():
    work()
pid = os.fork()
if pid == 0:
    before()
    import spprof
    if spprof.is_active(): spprof.flush()  # up to 100 ms are missing else
    os.execv(sys.executable, [sys.executable, "child.py", "an argument"])
print(os.WEXITSTATUS(os.waitpid(pid, 0)[1]), [pid])
"""
)
PREPARED = (
    WORK
    + """
child = subprocess.Popen([sys.executable, "child.py"], stdout=subprocess.DEVNULL, preexec_fn=lambda: works(0.1))
print(child.wait(), [child.pid])
"""
)


@pytest.fixture
def run(tmp_path):
    (tmp_path / "child.py").write_text(CHILD)

    def start(text, *options, env=None):
        """(stdout of the program, pids that it printed, files by pid)"""
        (tmp_path / "p.py").write_text(text)
        command = ["-m", "spprof", "run", "--subprocesses", *options, "p.py"]
        environment = {**os.environ, **(env or {})}
        alone = [sys.executable, "p.py"]
        plain = subprocess.run(alone, cwd=tmp_path, stdout=subprocess.PIPE, text=True, timeout=200, env=environment)
        ran = subprocess.run([sys.executable, *command], cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                             timeout=200, env=environment)  # fmt: skip
        assert ran.returncode == 0, ran.stderr
        said, _, pids = ran.stdout.rpartition("[")
        assert said == plain.stdout.rpartition("[")[0]
        files = {}
        for path in glob.glob(str(tmp_path / "*.spprof")):
            files.setdefault(Profile.load(path).header["pid"], []).append(path)
        return ran, json.loads("[" + pids), files

    return start


def names(path):
    return {f.name for frames in Profile.load(path).aggregate() for f in frames}


def weight(path, name):
    return sum(row.total_weight for row in Profile.load(path).functions() if row.name == name)


@pytest.mark.parametrize("text", [FORKS, EXECS], ids=["fork", "subprocess"])
def test_a_child_has_a_file_with_all_that_it_ran(run, text):
    ran, (pid,), files = run(text)
    assert len(files) == 2
    (path,) = files[pid]
    assert path.endswith(f"p.{pid}.spprof")
    assert {"in_child", "work", "burn"} <= names(path)
    assert Profile.load(path).end is not None
    (own,) = (one for of_process in files.values() for one in of_process if one != path)
    report = f"  spprof report {os.path.basename(own)} {os.path.basename(path)}\n"
    assert "Child processes: 1 file." in ran.stderr and report in ran.stderr
    assert "time of 2 processes" in ran.stderr, "one summary of all"
    assert [thread.name for thread in Profile.load(path).threads if thread.tid == pid] == ["MainThread"]


def test_another_format_is_one_file_of_all(run, tmp_path):
    ran, (pid,), files = run(FORKS, "-o", "all.collapsed")
    assert not files, "they are in that file"
    text = (tmp_path / "all.collapsed").read_text()
    assert f"MainThread, p.py {pid};" in text and "in_child (" in text
    assert "Child processes: 1, in the same file." in ran.stderr and ran.stderr.count("Written: ") == 1


@pytest.mark.statistical("none by chance; a full machine may lose ticks")
@pytest.mark.parametrize("text", [FORKS, EXECS, POOLS], ids=["fork", "subprocess", "pool"])
def test_the_files_of_children_have_the_time_that_they_took(run, tmp_path, text):
    took = ("    work()\n", "    works(0.5)\n")
    (tmp_path / "child.py").write_text(CHILD.replace(*took))
    _, pids, files = run(text.replace(*took).replace("METHOD", "'fork'"))
    whole = sum(weight(path, "in_child") for pid in pids for path in files[pid])
    assert whole == pytest.approx(2.0e9 if text is POOLS else 0.5e9, rel=0.1)


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_the_workers_of_multiprocessing(run, method):
    _, pids, files = run(POOLS.replace("METHOD", repr(method)))
    for pid in pids:
        (path,) = files[pid]
        assert "in_child" in names(path)
        assert Profile.load(path).end is not None


@pytest.mark.parametrize("options", [[], ["-o", "p.spprof"]], ids=["", "-o"])
def test_a_child_that_replaces_itself_has_two_files(run, options):
    _, (pid,), files = run(REPLACED, *options)
    first, second = sorted(files[pid], key=len)
    assert second == first[:-7] + ".2.spprof"
    assert "before" in names(first) and "in_child" in names(second)


def test_subprocess_with_a_function_that_runs_before_the_program(run):
    _, (pid,), files = run(PREPARED, "--rate", "10000")
    (path,) = files[pid]
    assert "in_child" in names(path)


def test_the_sitecustomize_of_the_child_runs_too(run, tmp_path):
    site = tmp_path / "site"
    site.mkdir()
    (site / "sitecustomize.py").write_text("import builtins\nbuiltins.customized = True\n")
    (tmp_path / "child.py").write_text(CHILD.replace("print(", "print(customized, "))
    ran, _, files = run(EXECS, env={"PYTHONPATH": str(site)})
    assert ran.stdout.startswith("True ['an argument'] [] 5") and len(files) == 2


def test_a_closed_interpreter_that_a_shell_starts_is_left_alone(run):
    text = EXECS.replace("[sys.executable, ", """["/bin/sh", "-c", 'exec "$0" -S "$@"', sys.executable, """)
    ran, (pid,), files = run(text)
    assert pid not in files and ran.stdout.startswith("['an argument']")


def test_report_adds_up_the_files(run, tmp_path):
    _, (pid,), files = run(EXECS)
    paths = [path for several in files.values() for path in several]
    report = [sys.executable, "-m", "spprof", "report", "-v", "--limit", "1000", "--sort", "total", *paths]
    text = subprocess.run(report, stdout=subprocess.PIPE, text=True, check=True, cwd=tmp_path).stdout
    assert "of 2 processes" in text
    taken = sum(Profile.load(path).stats["taken"] for path in paths)
    assert f" = {taken:,} taken" in text
    (line,) = [line for line in text.splitlines() if "in_child (child.py" in line]
    total, unit = line.split()[4:6]
    assert float(total) == pytest.approx(weight(files[pid][0], "in_child") / {"s": 1e9, "ms": 1e6}[unit], abs=0.01)
