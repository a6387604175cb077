"""Switches of the environment. All of our own are read here, by tests, targets and the torture rig."""

import os


def switch(name):
    """Whether the environment asks for it. Missing, empty, `0`, `false` and `no` mean no; all else means yes."""
    return os.environ.get(name, "").strip().lower() not in ("", "0", "false", "no")
