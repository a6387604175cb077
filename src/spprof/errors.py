"""Every exception that spprof raises on purpose. All are `SpprofError`."""

from __future__ import annotations


class SpprofError(RuntimeError):
    """Base of all errors of spprof."""

    exit_code = 2  # of a verb that ends by it


class AlreadyActive(SpprofError):
    """`start` while a profile is being taken."""


class NotActive(SpprofError):
    """`stop`, `pause` or `resume` while no profile is being taken."""


class BadOption(SpprofError, ValueError):
    """A rate, mode, clock, depth or format that does not exist or lies out of range."""


class BadFile(SpprofError, ValueError):
    """A file that is not a .spprof file, or whose header is lost."""


class CannotWrite(SpprofError, OSError):
    """The output cannot be created or written."""


TAKEN = 4  # exit code where a file of ours was taken by others meanwhile


class Taken(CannotWrite):
    """What is at the path was written or replaced meanwhile, by the program or by others."""

    exit_code = TAKEN


class Unsupported(SpprofError):
    """This interpreter cannot be profiled, or the kernel refuses the clock that was asked for."""
