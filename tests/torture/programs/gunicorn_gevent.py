"""gunicorn with two workers of gevent and ten clients at a time. In between it is restarted (SIGHUP)."""

import os
import signal
import subprocess
import sys
import threading
import time
import urllib.request

from _truth import burn

PYPI = ["gunicorn", "gevent"]
SUBPROCESSES = True
PROFILES = 3
ROOTS = ["application"]


def application(environment, start_response):
    total = burn(8000 + int(environment["QUERY_STRING"]))
    time.sleep(0.002)  # -> *
    start_response("200 OK", [("Content-Type", "text/plain")])  # -> *
    return [b"%d" % total]


def ask(port, number):
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/?{number}", timeout=60) as answer:  # -> *
        return int(answer.read())  # -> *


def until_it_answers(port, server):
    while True:
        try:
            return ask(port, 0)
        except OSError:
            if server.poll() is not None:  # -> *
                sys.exit("the server ended")
            time.sleep(0.01)


def main():
    port = 20000 + os.getpid() % 20000
    command = [sys.executable, "-m", "gunicorn", "-w", "2", "-k", "gevent", "-b", f"127.0.0.1:{port}", "--log-level", "critical"]
    command += ["--chdir", os.path.dirname(os.path.abspath(__file__)), "gunicorn_gevent:application"]
    server = subprocess.Popen(command)  # -> *
    wrong = []

    def client(first):
        for i in range(20):
            try:
                if ask(port, first + i) != burn(8000 + first + i):
                    wrong.append(i)
            except OSError as error:
                wrong.append(str(error))

    for turn in range(2):
        until_it_answers(port, server)
        threads = [threading.Thread(target=client, args=(n * 3,)) for n in range(10)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if turn == 0:
            server.send_signal(signal.SIGHUP)  # -> *
            time.sleep(1)
    server.terminate()  # -> *
    print(wrong, server.wait(60))  # -> *


if __name__ == "__main__":
    main()
