import multiprocessing


def checksum(number):
    total = 0
    for i in range(1_500_000 + number):
        total = (total * 31 + i) % 65521
    return total


if __name__ == "__main__":
    with multiprocessing.Pool(2) as pool:
        print(sum(pool.map(checksum, range(8), chunksize=1)))
