"""Programs that run another program in their own process, and do with `__main__`, `sys.argv` and `sys.modules` what they like:
each is recorded to its end. And how the recorder gets into an interpreter at all, whatever else wants to."""

import glob
import os
import re
import subprocess
import sys

import pytest
from hosts import host

from spprof import Profile

no_exec = pytest.mark.skipif(os.name == "nt", reason="Windows replaces no program by another")
only_linux = pytest.mark.skipif(sys.platform != "linux", reason="elsewhere the recorder cannot come into such an interpreter")

JOB = """
import sys, time
def job():
    import spprof
    wanted, late = spprof.stats()["taken"] + 10, time.monotonic() + 60  # only a hang reaches the minute
    while spprof.stats()["taken"] < wanted and time.monotonic() < late:
        until = time.monotonic() + 0.05
        while time.monotonic() < until: sum(range(999))
if __name__ == "__main__":
    job()
    print("job done")
"""
FILES = {
    "job.py": JOB,
    "test_job.py": "import unittest, job\nclass Test(unittest.TestCase):\n    def test(self): job.job()\n",
    "main.py": """
import sys, types
module = types.ModuleType("__main__")
module.__file__ = sys.argv[1]
sys.modules["__main__"] = module
exec(compile(open(sys.argv[1]).read(), sys.argv[1], "exec"), module.__dict__)
""",
    "emptied.py": """
def main(path, builtins):
    import __main__
    __main__.__dict__.clear()
    __main__.__dict__.update(__name__="__main__", __spec__=None, __builtins__=builtins)
    builtins.exec(builtins.compile(builtins.open(path).read(), path, "exec"), __main__.__dict__)
if __name__ == "__main__":
    import builtins, sys
    main(sys.argv[1], builtins)
""",
    "shifted.py": "import runpy, sys\ndel sys.argv[0]\nrunpy.run_path('job.py', run_name='__main__')\n",
    "gone.py": JOB + "    del sys.modules['__main__']\n",
    "none.py": JOB + "    sys.modules['__main__'] = None\n",
    "folder/__main__.py": JOB,
    "package/__init__.py": JOB.replace('if __name__ == "__main__"', "if True") + "    sys.exit(int(sys.argv[1]))\n",
    "broken/__init__.py": JOB.replace('if __name__ == "__main__"', "if True") + "    1 / 0\n",
}
RUNNERS = {
    "cProfile": "-m cProfile -o out.pstats job.py",
    "profile": "-m profile -o out.pstats job.py",
    "pdb": "-m pdb -c continue -c q job.py",
    "trace": "-m trace --count -C counts job.py",
    "unittest": "-m unittest test_job",
    "timeit": "-m timeit -n 1 -r 1 -s importZjob job.job()",
    "runpy": "-m runpy job",
    "pytest": "-m pytest -q -p no:cacheprovider test_job.py",
    "IPython": "-m IPython job.py",
    "coverage": "-m coverage run job.py",
    "kernprof": "-m kernprof -l job.py",
    "viztracer": "-m viztracer -o trace.json job.py",
    "a new __main__": "-m main job.py",
    "an emptied __main__": "-m emptied job.py",
    "arguments shifted to a -m": "-m shifted -m job",
    "no __main__": "-m gone",
    "None for __main__": "-m none",
    "a script": "main.py job.py",
    "a folder": "folder",
}


def run(where, *words, **more):
    command = [sys.executable, "-m", "spprof", "run", *words]
    return subprocess.run(command, cwd=where, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=120, **more)


@pytest.fixture
def programs(tmp_path):
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


@pytest.mark.parametrize("runner", RUNNERS)
def test_a_program_that_another_one_runs_is_recorded_to_its_end(programs, runner):
    words = [word.replace("Z", " ") for word in RUNNERS[runner].split()]
    host(*{"IPython", "coverage", "kernprof", "viztracer"}.intersection(words))
    done = run(programs, "-q", "-o", "p.spprof", *words, input="", env={**os.environ, "HOME": str(programs)})
    assert done.returncode == 0, done.stderr
    profile = Profile.load(programs / "p.spprof")
    assert profile.end["reason"] == "stop"  # the recorder's own word: it saw the end
    assert any(frame.name == "job" for stack in profile.aggregate() for frame in stack)


@pytest.mark.parametrize("words, code", [(["broken"], 1), (["package", "0"], 0), (["package", "3"], 3)])
def test_a_package_that_ends_while_it_is_imported_is_recorded(programs, words, code):
    done = run(programs, "-q", "-o", "p.spprof", "-m", *words)
    assert done.returncode == code, done.stderr
    assert any(frame.name == "job" for stack in Profile.load(programs / "p.spprof").aggregate() for frame in stack)


NOTHING = [["-m", "folder.nosuch"], ["-m", "nosuch"], ["-m", "email"], ["-m", "na.mes.paces.nosuch"], ["nothing"]]


@pytest.mark.parametrize("words", NOTHING, ids=" ".join)
def test_without_a_program_python_says_so_and_no_file_is_left(programs, words):
    for name in ("nothing", "na/mes/paces"):
        (programs / name).mkdir(parents=True)
    done = run(programs, "-o", "p.spprof", *words)
    alone = subprocess.run([sys.executable, *words], cwd=programs, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert (done.returncode, done.stderr) == (alone.returncode, alone.stderr)
    assert not glob.glob(str(programs / "*.spprof"))


@only_linux
@pytest.mark.parametrize("options", ["-I", "-E", "-S", "-sE", ""])
def test_a_program_that_goes_on_in_another_interpreter_is_recorded(programs, options):
    code = f"import os, sys; os.execv(sys.executable, [sys.executable, *{options.split()!r}, 'next.py'])"
    (programs / "next.py").write_text("import os; print([x for x in ('LD_PRELOAD', 'SPPROF_RECORD') if x in os.environ])")
    done = run(programs, "-q", "-o", "p.spprof", "-c", code)
    assert (done.returncode, done.stdout, done.stderr) == (0, "[]\n", "")
    assert Profile.load(programs / "p.spprof").end["reason"] == "exec"
    second = Profile.load(programs / "p.2.spprof")
    assert second.header["argv"] == ["next.py"] and not second.unfinished


def test_modules_of_the_working_folder_are_the_programs(programs):
    for name in (
        "json",
        "fnmatch",
        "signal",
        "argparse",
        "shlex",
        "glob",
        "subprocess",
        "tempfile",
        "zlib",
        "array",
    ):  # none that runpy needs
        (programs / f"{name}.py").write_text(f"text = 'the {name} of the program'\n")
    (programs / "own.py").write_text("import json; print(json.text)")
    done = run(programs, "-o", "p.spprof", "own.py")
    assert (done.returncode, done.stdout) == (0, "the json of the program\n"), done.stderr
    assert "Written: p.spprof" in done.stderr
    command = [sys.executable, "-m", "spprof", "report", "p.spprof"]
    report = subprocess.run(command, cwd=programs, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert report.returncode == 0 and "Clock: " in report.stdout, report.stderr


# A tool's own sitecustomize, found before ours: what it does about the next one.
CHAINS = {
    "imports the next": """
import sys
sys.path.remove(HERE)
mine = sys.modules.pop("sitecustomize")
try: import sitecustomize
except ImportError: pass
sys.modules["sitecustomize"] = mine
sys.path.insert(0, HERE)
""",
    "loads the next by its path": """
import importlib.machinery, importlib.util, sys
spec = importlib.machinery.PathFinder.find_spec("sitecustomize", [path for path in sys.path if path != HERE])
if spec is not None: spec.loader.exec_module(importlib.util.module_from_spec(spec))
""",
    "runs the next by its path": """
import os, runpy, sys
for folder in sys.path:
    if folder != HERE and os.path.exists(folder + "/sitecustomize.py"):
        runpy.run_path(folder + "/sitecustomize.py")
        break
""",
    "does nothing": "",
}
SAYS = "import builtins; builtins.order = getattr(builtins, 'order', '') + {name!r}\n"


@only_linux
@pytest.mark.parametrize("way, shell", [(way, shell) for way in CHAINS for shell in ("", "sh") if CHAINS[way] or not shell])
def test_a_tool_with_a_sitecustomize_of_its_own_keeps_no_child_out(programs, way, shell):
    """Each is run once, and in order, as without us, and the child is recorded. What passes options to its own children comes
    first, once."""
    tool, last = programs / "tool", programs / "last"
    for folder in (tool, last):
        folder.mkdir()
    (tool / "sitecustomize.py").write_text(SAYS.format(name="tool ") + f"HERE = {str(tool)!r}\n" + CHAINS[way])
    (last / "sitecustomize.py").write_text(SAYS.format(name="last "))
    code = "import os; print(order, os.environ['PYTHONPATH'].split(os.pathsep)[FROM:], 'LD_PRELOAD' in os.environ)"
    (programs / "child.py").write_text(code.replace("FROM", "'SPPROF_RECORD' in os.environ"))
    (programs / "parent.py").write_text(
        "import os, subprocess, sys\n"
        f"os.environ['PYTHONPATH'] = {str(tool)!r} + os.pathsep + os.environ['PYTHONPATH']\n"
        f"shell = {shell!r} and ['sh', '-c', '\"$@\"; exit', 'sh']\n"
        "sys.exit(subprocess.call([*shell, sys.executable, 'child.py']))\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(last)}
    alone = subprocess.run([sys.executable, "parent.py"], cwd=programs, stdout=subprocess.PIPE, text=True, env=environment)
    done = run(programs, "-q", "--subprocesses", "-o", "p.spprof", "parent.py", env=environment)
    assert (done.returncode, done.stdout, done.stderr) == (0, alone.stdout, "")
    assert alone.stdout == f"tool {'last ' if CHAINS[way] else ''} {[str(tool), str(last)]} False\n"
    [child] = glob.glob(str(programs / "p.*.spprof"))
    assert Profile.load(child).header["begun"] == "child"


@pytest.mark.skipif(os.name == "nt", reason="Windows does not say what children used")
@pytest.mark.parametrize("own, others, reported", [("0.1", "0.5", True), ("0.5", "0", False)])
def test_what_other_processes_used_is_reported(programs, own, others, reported):
    (programs / "burn.py").write_text(
        "import sys, time\ndef burn():\n    while time.process_time() < float(sys.argv[1]): sum(range(9999))\nburn()\n"
    )
    (programs / "parent.py").write_text(
        f"import subprocess, sys, burn\nif {others} > 0: subprocess.call([sys.executable, 'burn.py', '{others}'])\n"
    )
    done = run(programs, "-o", "p.spprof", "parent.py", own)
    assert done.returncode == 0 and ("Other processes that the program started used" in done.stderr) == reported, done.stderr
    if reported:
        done = run(programs, "--subprocesses", "-o", "q.spprof", "parent.py", own)
        assert done.returncode == 0 and "Other processes" not in done.stderr


def test_a_failure_in_another_environment_has_a_hint(programs):
    """spprof of pipx or uv, while another environment is active."""
    environment = {**os.environ, "VIRTUAL_ENV": str(programs)}
    done = run(programs, "-q", "-o", "p.spprof", "-c", "import only_there", env=environment)
    assert "ModuleNotFoundError" in done.stderr and f"not in the active environment {programs}" in done.stderr
    for code, active in (("pass", str(programs)), ("import only_there", sys.prefix)):
        done = run(programs, "-q", "-o", "q.spprof", "-c", code, env={**os.environ, "VIRTUAL_ENV": active})
        assert "environment" not in done.stderr


CROWDED = """
import os, time
def queued():
    return int(open("/proc/self/schedstat").read().split()[1]) / 1e9
pid, began, before = os.getpid(), time.monotonic(), queued()
os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:1])
if os.fork() == 0:
    while os.getppid() == pid: sum(range(1000))
    os._exit(0)
while queued() - before < max(0.5, 0.3 * (time.monotonic() - began)) or time.thread_time() < 0.6:
    sum(range(3_000_000))  # long: without a GIL open() yields the processor, and the other process never does
"""


@pytest.mark.skipif(not os.path.exists("/proc/self/schedstat"), reason="the kernel does not count the time in run queues")
def test_time_without_a_processor_is_said(tmp_path, run_python):
    (tmp_path / "crowded.py").write_text(CROWDED)
    done = run(tmp_path, "crowded.py")
    (line,) = re.findall(r"^On CPU: .*", done.stderr, re.M)
    said = re.search(r" For (\d+\.\d+) s its main thread was ready and had no processor", line)
    assert said and float(said[1]) >= 0.5
    (path,) = tmp_path.glob("crowded.*.spprof")
    for verb in "report", "why":  # the file has it
        assert line in run_python("-m", "spprof", verb, str(path)).out
