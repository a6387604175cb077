"""`python -m spprof` is the `spprof` command."""

from __future__ import annotations

import os
import sys


def _leave_the_working_folder() -> None:
    """Python looks for modules in the working folder first, where the program may have a json.py or signal.py of its own. Those
    are not for us, whose modules are found already."""
    if sys.flags.isolated or getattr(sys.flags, "safe_path", False):
        return
    try:
        if sys.path[:1] == [os.getcwd()]:
            del sys.path[0]
    except OSError:  # the folder is gone, and then Python has not put it there
        pass


if __name__ == "__main__":
    _leave_the_working_folder()
    from .cli import main

    sys.exit(main())
