"""uWSGI: a master, two workers with two threads each that end after 40 requests and are restarted. It sets its own handlers."""

import os
import subprocess
import sys
import time
import urllib.request

from _truth import burn

PYPI = ["pyuwsgi"]
SUBPROCESSES = True
PROFILES = 2
ONLY = ["3.9", "3.10", "3.11", "3.12", "3.13"]
ROOTS = ["application"]
MAY_LACK_END = True  # its master ends workers by SIGKILL now and then


def application(environment, start_response):
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [b"%d" % burn(20000 + int(environment["QUERY_STRING"]))]


def ask(port, number):
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/?{number}", timeout=60) as answer:  # -> *
        return int(answer.read())  # -> *


def main():
    port = 20000 + os.getpid() % 20000
    options = ["--http-socket", f"127.0.0.1:{port}", "--wsgi-file", __file__, "--processes", "2", "--threads", "2"]
    options += ["--master", "--need-app", "--die-on-term", "--max-requests", "40", "--disable-logging", "--lazy-apps"]
    options += ["--pythonpath", os.path.dirname(os.path.abspath(__file__))]
    code = f"import sys, pyuwsgi; pyuwsgi.run({options!r})"
    server = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)  # -> *
    answers = []
    while True:
        try:
            answers.append(ask(port, 0))
            break
        except OSError:
            if server.poll() is not None:  # -> *
                sys.exit("the server ended")
            time.sleep(0.01)
    for i in range(150):
        try:
            answers.append(ask(port, i % 7))
        except OSError as error:
            answers.append(str(error))
    server.terminate()  # -> *
    print(answers == [burn(20000)] + [burn(20000 + i % 7) for i in range(150)], server.wait(60))  # -> *


if __name__ == "__main__":
    main()
