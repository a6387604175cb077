"""ray: processes of its own around this one, tasks and an actor in worker processes, shared memory, and threads of gRPC."""

import os

import ray
from _truth import burn, part

PYPI = ["ray"]
HEAVY = True
ENV = {"RAY_DEDUP_LOGS": "0", "RAY_USAGE_STATS_ENABLED": "0", "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0"}


@ray.remote
def task(n):
    return burn(30000 + n)


@ray.remote
class Counter:
    def __init__(self):
        self.n = 0

    def add(self, n):
        self.n += n
        return self.n


def heavy(n):
    return burn(n)


def main():
    ray.init(  # -> *
        num_cpus=2, include_dashboard=False, log_to_driver=False, configure_logging=False, object_store_memory=100 << 20,
        _temp_dir=os.path.join("/tmp", f"ray-{os.getpid()}"), _node_ip_address="127.0.0.1",
    )  # fmt: skip
    results = ray.get([task.remote(i) for i in range(30)])  # -> *
    counter = Counter.remote()  # -> *
    counts = ray.get([counter.add.remote(i) for i in range(50)])  # -> *
    shared = ray.put(bytes(5 << 20))  # -> *
    sizes = len(ray.get(shared))  # -> *
    with part("heavy"):
        total = heavy(6000000)
    print(sum(results), counts[-1], sizes, total)
    ray.shutdown()  # -> *


if __name__ == "__main__":
    main()
