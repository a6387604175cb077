"""A pre-fork server under load, its workers profiled: every answer is right, and each worker's file holds what it served."""

import http.client
import os
import signal
import socket
import subprocess
import sys
import threading

import pytest

from spprof import Profile

pytest.importorskip("gunicorn", reason="gunicorn is not installed")

APP = """
import os
def leaf(n):
    return sum([i * i for i in range(n)])
def serve_page(path):
    return b"%d %s %d" % (leaf(3000 + len(path)), path.encode(), os.getpid())
def app(environ, start_response):
    body = serve_page(environ["PATH_INFO"])
    start_response("200 OK", [("Content-Type", "text/plain"), ("Content-Length", str(len(body)))])
    return [body]
"""
REQUESTS, CLIENTS = 100, 6


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


def ask(port, number, answers):
    for i in range(REQUESTS):
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        path = f"/{number}/{i}"
        connection.request("GET", path)
        response = connection.getresponse()
        answers.append((response.status, path, response.read().split()))
        connection.close()


@pytest.mark.parametrize("mode", ["cpu", "wall"])
def test_gunicorn_and_its_workers(tmp_path, mode):
    (tmp_path / "application.py").write_text(APP)
    port = free_port()
    command = [sys.executable, "-m", "spprof", "run", "--mode", mode, "--rate", "2000", "--subprocesses", "-o", "p.spprof",
               "-m", "gunicorn", "--workers", "2", "--bind", f"127.0.0.1:{port}", "application:app"]  # fmt: skip
    server = subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True, bufsize=1)
    log, booted = [], 0
    for line in server.stderr:  # until both workers are there
        log.append(line)
        booted += "Booting worker" in line
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
    server.send_signal(signal.SIGTERM)
    code = server.wait(timeout=60)
    rest.join()
    assert code == 0, "".join(log)

    assert len(answers) == CLIENTS * REQUESTS
    pids = set()
    for status, path, (number, said, pid) in answers:
        assert (status, said.decode()) == (200, path)
        assert int(number) == sum(i * i for i in range(3000 + len(path)))
        pids.add(int(pid))
    served = 0
    for pid in pids:
        profile = Profile.load(tmp_path / f"p.{pid}.spprof")
        assert profile.end is not None and profile.warning is None
        for frames, total in profile.aggregate().items():
            names = [f.name for f in frames if os.path.basename(f.file) == "application.py"]
            assert names == ["app", "serve_page", "leaf", "<listcomp>"][: len(names)] or names in (["<module>"], []), names
            served += total.weight_ns if "serve_page" in names else 0
    master = Profile.load(tmp_path / "p.spprof")
    assert master.header["pid"] == server.pid
    assert served > 0
    assert not any(f.name == "serve_page" for frames in master.aggregate() for f in frames)
