import multiprocessing
from concurrent.futures import ProcessPoolExecutor

from pool import checksum

if __name__ == "__main__":
    with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("spawn")) as pool:
        print(sum(pool.map(checksum, range(8))))
