"""A gallery: workers make thumbnails, and the main thread answers who looks at it.

"The main thread does nearly nothing, and visitors wait for it. There are processors enough."
"""

import threading
import time

WORKERS = 2
SECONDS = 2.0
WIDTH = HEIGHT = 96


def picture(number):
    """Grey values, row by row."""
    return [[(x * y + number) & 255 for x in range(WIDTH)] for y in range(HEIGHT)]


def shrink(rows, factor):
    """Each square of pixels becomes one."""
    return [
        [sum(rows[y + dy][x + dx] for dy in range(factor) for dx in range(factor)) // factor**2 for x in range(0, WIDTH, factor)]
        for y in range(0, HEIGHT, factor)
    ]


def work(seconds, made):
    """A worker."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        made.append(shrink(picture(len(made)), 4))


def answer(made):
    """To a visitor."""
    return f"<p>{len(made)} thumbnails</p>"


def main():
    """Prints how many visitors got an answer."""
    made, visitors, until = [], 0, time.monotonic() + SECONDS
    for _ in range(WORKERS):
        threading.Thread(target=work, args=(SECONDS, made)).start()
    while time.monotonic() < until:
        time.sleep(0.001)  # the next one comes
        answer(made)
        visitors += 1
    print(f"{len(made)} thumbnails, {visitors} visitors")


if __name__ == "__main__":
    main()
