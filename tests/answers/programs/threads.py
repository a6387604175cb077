"""Two named workers: one does nearly all."""

import threading

from words import normalized


def work(times):
    for _ in range(times):
        normalized("The Quick, Brown Fox; " * 2000)


workers = [threading.Thread(target=work, args=(times,), name=name) for name, times in (("indexer", 100), ("mailer", 5))]
for worker in workers:
    worker.start()
for worker in workers:
    worker.join()
