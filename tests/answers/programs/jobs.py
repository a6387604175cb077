"""Celery. `python jobs.py` queues jobs; broker and results are folders."""

import os

from celery import Celery

for name in "queue", "control":
    os.makedirs(name, exist_ok=True)
app = Celery("jobs", broker="filesystem://")
app.conf.update(
    broker_transport_options={"data_folder_in": "queue", "data_folder_out": "queue", "control_folder": "control"},
    worker_prefetch_multiplier=1,
    broker_connection_retry_on_startup=True,
)


def thumbnail(size):
    total = 0
    for i in range(size):
        total += i * i % 7
    return total


@app.task
def resize(size):
    return thumbnail(size)


if __name__ == "__main__":
    for number in range(40):
        resize.delay(800_000 + number)
