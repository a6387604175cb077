"""python -m tests.answers: what users want to know of real frameworks, by what they type first. Prints a table in Markdown.

  python -m tests.answers                       every task, by the interpreter of .venv
  python -m tests.answers --peers               the best other profiler beside each
  python -m tests.answers --only pandas,black   tasks whose words have one of these
  python -m tests.answers --show                with the text of each answer

The rig installs the frameworks by itself into a folder of build/answers, which sees the spprof of .venv, or of an interpreter of
tools/matrix (--python 3.13). Each task runs in a folder of its own. Exit status 1: an answer was not there, or not within MOST
lines."""

import argparse
import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from pathlib import Path

from .tasks import PY_SPY, TASKS

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
PACKAGES = "django fastapi uvicorn gunicorn celery flask pandas scikit-learn pytest pytest-xdist requests ipython uv".split()
PURE = ["black"]  # whose wheels have no functions of Python
PEERS = "py-spy pyinstrument memray scalene line_profiler viztracer".split()
MOST = 10  # lines until the answer
LIMIT = 120  # seconds
VERSION = "import sys; print(*sys.version_info[:2])"
ASKED = 3  # seconds for which a server is asked
PICTURES = ("cat peer.txt", "grep ")  # what looks for the answer in a file that is made to be looked at
BEGINS = re.compile(r"[\d.,]+ m?s of (CPU|wall|threads') time|No samples")


def install(base, venv, peers):
    """An environment with the frameworks that sees the spprof of another."""
    python = venv / "bin" / "python"
    if not python.exists():
        subprocess.run([base, "-m", "venv", venv], check=True)
        pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*pip, "--only-binary", ":all:", *PACKAGES], check=True)
        subprocess.run([*pip, "--no-binary", "black", *PURE], check=True)
    if peers and not (venv / "bin" / "py-spy").exists():
        subprocess.run([python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *PEERS], check=True)
    ask = "import sysconfig; print(sysconfig.get_path('purelib'))"
    own, packages = (Path(subprocess.check_output([each, "-c", ask], text=True).strip()) for each in (base, python))
    (packages / "spprof-of-this-tree.pth").write_text(f"{own}\n")
    script(venv / "bin" / "spprof", venv, "from spprof.cli import main")


def script(path, venv, imports):
    """A command as installers write it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!{venv}/bin/python\nimport sys\n{imports}\nsys.exit(main())\n")
    path.chmod(0o755)


class Place:
    """A folder with the programs, and the environment in which they run."""

    def __init__(self, folder, venv):
        self.folder = folder / "work"
        shutil.copytree(HERE / "programs", self.folder)
        (self.folder / "run.sh").chmod(0o755)
        other = self.folder / "other"
        subprocess.run([venv / "bin" / "python", "-m", "venv", "--without-pip", other], check=True)
        tools = self.folder / "bin"
        for path, its in (tools / "shop-words", venv), (other / "bin" / "shop-words", other):
            script(path, its, f"sys.path.insert(0, {str(self.folder)!r})\nfrom words import main")
        tachyon = ROOT / "build" / "venvs" / "3.15" / "bin"  # python3.15, whose own profiler is one of the others
        path = os.pathsep.join(map(str, (tools, venv / "bin", os.environ["PATH"], tachyon)))
        self.environment = {**os.environ, "PATH": path, "VIRTUAL_ENV": str(venv), "COLUMNS": "100"}
        self.environment.pop("PYTHONPATH", None)

    def start(self, command):
        return subprocess.Popen(
            shlex.split(command), cwd=self.folder, env=self.environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True, errors="replace", start_new_session=True,
        )  # fmt: skip


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def get(url):
    try:
        with urllib.request.urlopen(url, timeout=10) as answer:
            return answer.status
    except OSError:
        return None


def ask(process, port, urls):
    """A server, for ASKED seconds from its first answer on."""
    late = time.monotonic() + LIMIT / 2
    while get(f"http://127.0.0.1:{port}{urls[0]}") is None and time.monotonic() < late and process.poll() is None:
        time.sleep(0.05)
    end = time.monotonic() + ASKED
    while time.monotonic() < end:
        for url in urls:
            get(f"http://127.0.0.1:{port}{url}")


def await_end(process, folder):
    late = time.monotonic() + LIMIT / 2
    while any(folder.iterdir()) and time.monotonic() < late and process.poll() is None:
        time.sleep(0.05)


def interrupt(process):
    """Ctrl-C."""
    try:
        os.killpg(process.pid, signal.SIGINT)
    except ProcessLookupError:
        pass


def run(place, command, urls=(), until="", pid=0):
    """What it prints."""
    port = free_port()
    process = place.start(command.replace("{port}", str(port)).replace("{pid}", str(pid)))
    said = []
    reader = threading.Thread(target=lambda: said.extend(process.stdout))
    reader.start()
    try:
        if urls:
            ask(process, port, urls)
        elif until:
            await_end(process, place.folder / until)
        if urls or until:
            interrupt(process)
        reader.join(LIMIT)
        if reader.is_alive():
            said.append(f"(not done after {LIMIT} s)\n")
    finally:
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        process.wait()
        reader.join()
    return "".join(said)


def answer(venv, command, then, says, task):
    """(lines until it, the text); no lines: it is not there."""
    folder = Path(tempfile.mkdtemp(prefix="answers-"))
    place = Place(folder, venv)
    beside = None
    try:
        if task.first:
            run(place, task.first)
        if task.beside:
            beside = place.start(task.beside)
            beside.stdout.readline()
        text = run(place, command, task.urls, task.until, beside.pid if beside else 0)
        if beside and then:
            beside.stdout.read()
        if then:
            text = text + run(place, then) if not command.startswith("spprof") else run(place, then)
    finally:
        if beside:
            try:
                os.killpg(beside.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            beside.wait()
        shutil.rmtree(folder, ignore_errors=True)
    text = re.sub(r"\x1b\[[\d;]*m", "", text)  # colours
    lines = text.splitlines()
    begin = next((n for n, line in enumerate(lines) if BEGINS.search(line)), 0)
    return next((n for n, line in enumerate(lines[begin:], 1) if re.search(says, line)), None), text


def compared(task, lines, of_peer):
    """The row's columns about another profiler."""
    if not task.peer:
        return " none | | |"
    picture = task.peer_then.startswith(PICTURES)
    if lines is None or (of_peer and not picture and lines >= 2 * of_peer):
        word = "worse"
    else:
        word = "better" if not of_peer or (not picture and of_peer >= 2 * lines) else "as good"
    shown = task.peer.replace(PY_SPY, "py-spy record").replace("python3.15 -m profiling.sampling", "Tachyon")
    return f" `{shown}` | {'picture' if of_peer and picture else of_peer or 'no'} | {word} |"


def main():
    parser = argparse.ArgumentParser(
        prog="python -m tests.answers", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", default="", help="tasks whose words have one of these")
    parser.add_argument("--python", default="", help="an interpreter of tools/matrix (that of .venv)")
    parser.add_argument("--peers", action="store_true", help="the best other profiler beside each")
    parser.add_argument("--show", action="store_true", help="the text of each answer")
    asked = parser.parse_args()
    name = asked.python or ".venv"
    base = (ROOT / "build" / "venvs" / name if asked.python else ROOT / name) / "bin" / "python"
    venv = (ROOT / "build" / "answers" / name).resolve()
    install(base, venv, asked.peers)
    version = tuple(map(int, subprocess.check_output([venv / "bin" / "python", "-c", VERSION], text=True).split()))
    wrong = 0
    print("| to know | spprof | lines |" + (" another profiler | lines | spprof is |" if asked.peers else ""))
    print("|---|---|---|" + ("---|---|---|" if asked.peers else ""))
    tasks = [task for task in TASKS if any(word in task.asks + task.command for word in asked.only.split(","))]
    for task in tasks:
        if version < task.since:
            print(f"| {task.asks} | `{task.command}` | not run: Python {'.'.join(map(str, task.since))} and later |", flush=True)
            continue
        lines, text = answer(venv, task.command, task.then, task.says, task)
        row = f"| {task.asks} | `{task.command}`{f', `{task.then}`' if task.then else ''} | {lines or 'no'} |"
        bad = lines is None or lines > MOST
        wrong += bad
        shown = [("", text)] if asked.show or bad else []
        if asked.peers:
            says = task.peer_says or task.says
            found, of_peer = answer(venv, task.peer, task.peer_then, says, task) if task.peer else (None, "")
            row += compared(task, lines, found)
            shown += [("peer: ", of_peer)] if asked.show else []
        print(row, flush=True)
        for title, said in shown:
            for line in said.splitlines()[-60:]:
                print(f"    {title}{line[:200]}", flush=True)
    tasks = [task for task in tasks if version >= task.since]
    print(f"{len(tasks) - wrong} passed, {wrong} failed")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
