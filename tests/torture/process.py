"""The end of a program that the rig started as a session of its own, or what it had printed when it hung."""

import os
import signal
import subprocess
import time


def finish(process, timeout):
    """Returns (exit status or "hangs", standard output, standard error)."""
    try:
        text, errors = process.communicate(timeout=timeout)
        return process.returncode, text, errors
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGABRT)  # faulthandler says where it hangs
        time.sleep(1)
        os.killpg(process.pid, signal.SIGKILL)
        text, errors = process.communicate()
        return "hangs", text, errors
