"""Burns until it is killed, and writes the monotonic clock to a pipe as it goes: busy.py OUT MODE FD"""

import os
import struct
import sys
import time

import spprof


def burn():
    sum(range(2000))


spprof.start(1, sys.argv[2], sys.argv[1])
fd = int(sys.argv[3])
while True:
    burn()
    os.write(fd, struct.pack("q", time.monotonic_ns()))
