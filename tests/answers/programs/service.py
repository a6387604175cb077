"""Runs for long: what `attach`, `dump` and `ctl` look at. Says so when it is ready."""

import sys
import time

from words import normalized


def serve(end):
    while time.monotonic() < end:
        normalized("The Quick, Brown Fox; " * 200)


print("ready", flush=True)
serve(time.monotonic() + float(sys.argv[1]))
