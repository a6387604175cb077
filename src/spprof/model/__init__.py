"""What a profile is, without files: records, the tree of stacks, sums, intervals.

The records are found here by their old name too: pickles of a `Sample` name `spprof.model`.
"""

from .records import (
    COARSE,
    GAP,
    KERNEL,
    NO_FRAMES,
    OFF_CPU,
    TRUNCATED,
    TRUNCATION,
    UNPAIRED,
    Frame,
    FunctionRow,
    Marker,
    NativeCall,
    Sample,
    Thread,
    Total,
)

__all__ = [
    "COARSE",
    "GAP",
    "KERNEL",
    "NO_FRAMES",
    "OFF_CPU",
    "TRUNCATED",
    "TRUNCATION",
    "UNPAIRED",
    "Frame",
    "FunctionRow",
    "Marker",
    "NativeCall",
    "Sample",
    "Thread",
    "Total",
]
