"""Pre-fork servers under load, their workers profiled: every answer is right, and each worker's file holds what it served."""

import collections
import http.client
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from spprof import Profile
from spprof.model import OFF_CPU

APP = """
import os
def leaf(n):
    return sum([i * i for i in range(n)])
def serve_page(path):
    return b"%d %s %d" % (leaf(20000 + len(path)), path.encode(), os.getpid())
def app(environ, start_response):
    body = serve_page(environ["PATH_INFO"])
    start_response("200 OK", [("Content-Type", "text/plain"), ("Content-Length", str(len(body)))])
    return [body]
"""
# Its workers are made by C, and so are their threads: the application starts a profile in each, as a user would. The threads
# block every signal, until the application lets those of ticks through (docs/troubleshooting.md).
UWSGI_APP = """
import signal, sys
import spprof, uwsgi
def first(environ, start_response):
    if sys.argv[2] == "through":
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGTRAP, signal.SIGURG])
    return app(environ, start_response)
def begin():
    spprof.start(0.5, sys.argv[1], f"p.{os.getpid()}.spprof")
uwsgi.post_fork_hook = begin
uwsgi.atexit = spprof.stop
"""
STACK = ["app", "serve_page", "leaf", "<listcomp>"]
REQUESTS, CLIENTS = 100, 6


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


def ask(port, number, answers, requests=REQUESTS):
    for i in range(requests):
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        path = f"/{number}/{i}"
        connection.request("GET", path)
        response = connection.getresponse()
        answers.append((response.status, path, response.read().split()))
        connection.close()


def waits(pid):
    """Whether every thread of a worker sleeps. uWSGI runs no exit hooks in a worker that is busy, if only with closing."""
    stats = [(task / "stat").read_text() for task in Path(f"/proc/{pid}/task").iterdir()]
    return all("(spprof" in stat or stat.rpartition(")")[2].split()[0] == "S" for stat in stats)


def serve(command, folder, port, ready):
    """Runs a server, asks it from several threads once it said `ready` twice, ends it by SIGTERM. Its pid, those of workers
    that answered often."""
    server = subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, bufsize=1)
    log, booted = [], 0
    for line in server.stderr:
        log.append(line)
        booted += ready in line
        if booted == 2:
            break
    assert booted == 2, "".join(log)
    rest = threading.Thread(target=lambda: log.extend(server.stderr))
    rest.start()
    answers = []
    clients = [threading.Thread(target=ask, args=(port, number, answers)) for number in range(CLIENTS)]
    for client in clients:
        client.start()
    for client in clients:
        client.join()
    for pid in {int(answer[2][2]) for answer in answers}:
        while not waits(pid):
            pass
    server.send_signal(signal.SIGTERM)
    code = server.wait(timeout=60)
    rest.join()
    assert code == 0, "".join(log)
    assert len(answers) == CLIENTS * REQUESTS
    pids = collections.Counter()
    for status, path, (number, said, pid) in answers:
        assert (status, said.decode()) == (200, path)
        assert int(number) == sum(i * i for i in range(20000 + len(path)))
        pids[int(pid)] += 1
    return server.pid, [pid for pid, n in pids.items() if n >= 100]  # about a millisecond of work each


def served_in(profile):
    """Whether an answer was sampled."""
    return any(frame.name == "serve_page" for frames in profile.aggregate() for frame in frames)


def served(profile, others):
    """The time of a worker's profile that went to answers; its stacks are those of the application, or `others`."""
    assert profile.end is not None and profile.warning is None
    total = 0
    for frames, sums in profile.aggregate().items():
        names = [f.name for f in frames if os.path.basename(f.file) == "application.py" and f.name != "first"]
        assert names == STACK[: len(names)] or names in others, f"impossible: {names}"
        total += sums.weight if "serve_page" in names else 0
    return total


def test_gunicorns_workers_each_have_a_file(tmp_path):
    """One worker and one client, which asks until the worker's file has seen it serve."""
    pytest.importorskip("gunicorn", reason="gunicorn is not installed")
    (tmp_path / "application.py").write_text(APP)
    port = free_port()
    command = [sys.executable, "-m", "spprof", "run", "--mode", "cpu", "--subprocesses", "-o", "p.spprof",
               "-m", "gunicorn", "--workers", "1", "--bind", f"127.0.0.1:{port}", "application:app"]  # fmt: skip
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as server:
        try:
            log = []
            for line in server.stderr:
                log.append(line)
                if "Booting worker" in line:
                    break
            rest = threading.Thread(target=lambda: log.extend(server.stderr))
            rest.start()
            late, seen = time.monotonic() + 60, False
            while not seen and time.monotonic() < late:
                answers = []
                ask(port, 0, answers, 20)
                assert [(status, path) for status, path, _ in answers] == [(200, said[1].decode()) for *_, said in answers]
                (pid,) = {int(said[2]) for *_, said in answers}
                worker = tmp_path / f"p.{pid}.spprof"
                seen = worker.exists() and served_in(Profile.load(worker))
            server.send_signal(signal.SIGTERM)
            code = server.wait(timeout=60)
            rest.join()
        finally:
            server.kill()
    assert code == 0 and seen, "".join(log)
    assert served(Profile.load(worker), [["<module>"]]) > 0
    master = Profile.load(tmp_path / "p.spprof")
    assert master.header["pid"] == server.pid != pid and not served_in(master)


@pytest.mark.stress
@pytest.mark.parametrize("mode", ["cpu", "wall"])
def test_gunicorn_and_its_workers(tmp_path, mode):
    pytest.importorskip("gunicorn", reason="gunicorn is not installed")
    (tmp_path / "application.py").write_text(APP)
    port = free_port()
    command = [sys.executable, "-m", "spprof", "run", "--mode", mode, "--rate", "2000", "--subprocesses", "-o", "p.spprof",
               "-m", "gunicorn", "--workers", "2", "--bind", f"127.0.0.1:{port}", "application:app"]  # fmt: skip
    pid, workers = serve(command, tmp_path, port, "Booting worker")
    for worker in workers:
        assert served(Profile.load(tmp_path / f"p.{worker}.spprof"), [["<module>"]]) > 0
    master = Profile.load(tmp_path / "p.spprof")
    assert master.header["pid"] == pid and pid not in workers
    assert not served_in(master)


@pytest.mark.stress
@pytest.mark.skipif(sys.version_info >= (3, 14), reason="uWSGI has no wheels for 3.14 and later")
@pytest.mark.parametrize("signals", ["blocked", "through"])
@pytest.mark.parametrize("mode", ["cpu", "wall"])
def test_uwsgi_and_its_workers(tmp_path, mode, signals):
    pytest.importorskip("pyuwsgi", reason="pyuwsgi is not installed")
    (tmp_path / "application.py").write_text(APP + UWSGI_APP)
    port = free_port()
    command = [sys.executable, "-c", "import pyuwsgi; pyuwsgi.run()", "--http-socket", f"127.0.0.1:{port}", "--master",
               "--processes", "2", "--threads", "3", "--enable-threads", "--die-on-term", "--wsgi", "application:first",
               "--pyargv", f"{mode} {signals}", "--disable-logging"]  # fmt: skip
    pid, workers = serve(command, tmp_path, port, "spawned uWSGI worker")
    assert pid not in workers
    for worker in workers:
        profile = Profile.load(tmp_path / f"p.{worker}.spprof")
        assert served(profile, [["begin"]]) > 0
        assert {f"uWSGIWorker{n}Core{core}" for n in "12" for core in "12"} & {thread.name for thread in profile.threads}
        threads = {s.thread_name for s in profile.samples() if not s.flags & OFF_CPU and any(f.name == "leaf" for f in s.frames)}
        blocked = profile.stats["losses"]["signals_blocked"]
        if signals == "blocked":
            assert blocked > 0  # until a timer serves them
        else:
            assert len(threads) > 1 and blocked == 0


RUNSERVER = """
import sys
from django.conf import settings
settings.configure(DEBUG=True, ROOT_URLCONF=__name__, SECRET_KEY="x", ALLOWED_HOSTS=["*"])
from django.http import HttpResponse
from django.urls import path
def leaf(n):
    return sum([i * i for i in range(n)])
def view(request, id):
    return HttpResponse(str(leaf(300_000)))
urlpatterns = [path("<int:id>/", view)]
if __name__ == "__main__":
    from django.core.management import execute_from_command_line
    execute_from_command_line(sys.argv)
"""


@pytest.mark.stress
@pytest.mark.parametrize("server", ["gunicorn", "runserver"])
def test_a_server_of_several_processes_is_one_program(tmp_path, server):
    """By the command that one types: one summary, in which the function that the requests spend their time in is near the top."""
    pytest.importorskip("django" if server == "runserver" else "gunicorn")
    (tmp_path / "application.py").write_text(APP if server == "gunicorn" else RUNSERVER)
    port = free_port()
    words = {
        "gunicorn": ["-m", "gunicorn", "--workers", "4", "--bind", f"127.0.0.1:{port}", "application:app"],
        "runserver": ["application.py", "runserver", f"127.0.0.1:{port}"],
    }[server]
    command = [sys.executable, "-m", "spprof", "run", "--subprocesses", *words]
    group = {"start_new_session": True, "preexec_fn": lambda: signal.signal(signal.SIGINT, signal.default_int_handler)}
    with (
        open(tmp_path / "said", "w+") as said,
        subprocess.Popen(command, cwd=tmp_path, stdout=said, stderr=said, **group) as running,
    ):
        try:
            late = time.monotonic() + 60
            while time.monotonic() < late:
                try:
                    ask(port, 0, [], 1)
                    break
                except OSError:
                    time.sleep(0.1)
            if server == "gunicorn":
                ask(port, 1, [], 300)
            else:
                for number in range(60):
                    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
                    connection.request("GET", f"/{number}/")
                    assert connection.getresponse().status == 200
            os.killpg(running.pid, signal.SIGINT)  # Ctrl-C
            running.wait(timeout=60)
        finally:
            running.kill()
        said.seek(0)
        text = said.read()
    number = 5 if server == "gunicorn" else 2
    assert len(list(tmp_path.glob("*.spprof"))) == number
    summary = text[text.rindex(f"of {number} processes") :].splitlines()
    assert any("leaf" in line for line in summary[:10]), text
