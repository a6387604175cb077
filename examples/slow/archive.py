"""Packs the letters of a day, each by itself.

"My processor is busy, and the profiler says that my program does nothing."
"""

import subprocess
import sys

LETTERS = 24
PACK = "import sys, zlib; sys.stdout.buffer.write(zlib.compress(sys.stdin.buffer.read(), 9))"


def letters(number):
    """The day's."""
    return [f"Dear customer {at},\nyour parcel is on its way.\n".encode() * 200 for at in range(number)]


def packed(letter):
    """The letter, smaller."""
    return subprocess.run([sys.executable, "-c", PACK], input=letter, stdout=subprocess.PIPE, check=True).stdout


def main():
    """Prints how much it was."""
    sizes = [(len(letter), len(packed(letter))) for letter in letters(LETTERS)]
    before, after = map(sum, zip(*sizes))
    print(f"{before} bytes became {after}")


if __name__ == "__main__":
    main()
