"""multiprocessing: a manager's dictionary and queue, a pool, shared memory, by each way to begin a process."""

import multiprocessing
import multiprocessing.shared_memory
import os

from _truth import burn, part, write

SUBPROCESSES = True
PROFILES = 8
MAY_LACK_END = True  # a pool ends its workers by SIGTERM
ANYWHERE = ["_on_queue_feeder_error", "_run_finalizers"]


def alone(n):
    return burn(n)


def fills(number, shared, queue, lock, name):
    block = multiprocessing.shared_memory.SharedMemory(name=name)  # -> *
    with part("alone"):
        total = alone(1500000)
    for i in range(30):
        with lock:  # -> *
            shared[i % 5] = shared.get(i % 5, 0) + number  # -> *
    block.buf[number] = 7  # -> *
    block.close()  # -> *
    queue.put((number, total))  # -> *
    write()


def square(n):
    return burn(20000) + n * n


def main():
    for way in ("fork", "spawn", "forkserver"):
        context = multiprocessing.get_context(way)  # -> *
        block = multiprocessing.shared_memory.SharedMemory(create=True, size=64)  # -> *
        with context.Manager() as manager:  # -> *
            shared, queue, lock = manager.dict(), manager.Queue(), manager.Lock()  # -> *
            jobs = [context.Process(target=fills, args=(i, shared, queue, lock, block.name)) for i in range(1, 4)]  # -> *
            for job in jobs:
                job.start()  # -> *
            answers = sorted(queue.get() for _ in jobs)  # -> *
            for job in jobs:
                job.join()  # -> *
            print(way, answers, sorted(shared.items()), [job.exitcode for job in jobs], bytes(block.buf[:5]))  # -> *
        block.close()  # -> *
        block.unlink()  # -> *
        with context.Pool(3, maxtasksperchild=5) as pool:  # -> *
            print(sum(pool.imap_unordered(square, range(60))))  # -> *
            pool.close()  # -> *
            pool.join()  # -> *
        if os.cpu_count() is None:
            break


if __name__ == "__main__":
    main()
