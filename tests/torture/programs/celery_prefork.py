"""Celery's workers by prefork: billiard puts its handler on every signal there is. Broker and results are folders."""

import os
import subprocess
import sys
import tempfile

from _truth import burn
from celery import Celery

PYPI = ["celery"]
SUBPROCESSES = True
PROFILES = 3
MAY_LACK_END = True  # billiard ends its workers by os._exit and SIGKILL
FOLDER = os.environ.get("CELERY_PROGRAM_FOLDER") or tempfile.mkdtemp(dir=".")
for name in ("queue", "control", "results"):
    os.makedirs(os.path.join(FOLDER, name), exist_ok=True)
app = Celery("celery_prefork", broker="filesystem://", backend="file://" + os.path.abspath(os.path.join(FOLDER, "results")))
app.conf.update(
    broker_transport_options={
        "data_folder_in": os.path.join(FOLDER, "queue"),
        "data_folder_out": os.path.join(FOLDER, "queue"),
        "control_folder": os.path.join(FOLDER, "control"),
    },
    worker_prefetch_multiplier=1,
    worker_max_tasks_per_child=15,
    broker_connection_retry_on_startup=True,
)


@app.task(name="work")
def work(n):
    return burn(30000 + n)


@app.task(name="fails")
def fails(n):
    raise ValueError(n)


def main():
    environment = {**os.environ, "CELERY_PROGRAM_FOLDER": os.path.abspath(FOLDER)}  # -> *
    here = os.path.dirname(os.path.abspath(__file__))
    command = [sys.executable, "-m", "celery", "-A", "celery_prefork", "worker", "--concurrency", "2", "--pool", "prefork"]
    command += ["--loglevel", "CRITICAL", "--without-gossip", "--without-mingle", "--without-heartbeat"]
    quiet = subprocess.DEVNULL
    jobs = [work.delay(i) for i in range(40)]  # -> *
    broken = [fails.delay(i) for i in range(4)]  # -> *
    worker = subprocess.Popen(command, env=environment, cwd=here, stdout=quiet, stderr=quiet)  # -> *
    good = 0
    for i, job in enumerate(jobs):
        try:
            good += job.get(timeout=40) == burn(30000 + i)  # -> *
        except Exception as error:
            print(type(error).__name__)
            break
    failed = sum(isinstance(job.get(timeout=40, propagate=False), ValueError) for job in broken) if good == 40 else -1  # -> *
    worker.terminate()  # -> *
    try:
        status = worker.wait(30)  # -> *
    except subprocess.TimeoutExpired:
        worker.kill()  # -> *
        status = "does not end"
    print(good, failed, status)


if __name__ == "__main__":
    main()
