"""Sums of samples by stack. A stack is named by its node in the tree (`tree.py`)."""

from __future__ import annotations

from typing import Dict, Iterable, Sequence, Tuple

Sums = Tuple[Dict[int, int], Dict[int, int]]  # stack -> samples, stack -> nanoseconds


def sums_by_thread(
    threads: Sequence[int], stacks: Sequence[int], counts: Sequence[int], weights: Sequence[int]
) -> Dict[int, Sums]:
    """One pass over the samples: thread id -> its sums."""
    result: Dict[int, Sums] = {thread: ({}, {}) for thread in set(threads)}
    for thread, stack, count, weight in zip(threads, stacks, counts, weights):
        samples, nanoseconds = result[thread]
        if stack in samples:
            samples[stack] += count
            nanoseconds[stack] += weight
        else:
            samples[stack] = count
            nanoseconds[stack] = weight
    return result


def squares_by_thread(
    threads: Sequence[int], stacks: Sequence[int], counts: Sequence[int], weights: Sequence[int]
) -> Dict[int, Dict[int, float]]:
    """Thread id -> stack -> the sum of weight^2 / ticks (`intervals.Whole.samples_of`)."""
    result: Dict[int, Dict[int, float]] = {thread: {} for thread in set(threads)}
    for thread, stack, count, weight in zip(threads, stacks, counts, weights):
        squares = result[thread]
        squares[stack] = squares.get(stack, 0.0) + weight * weight / (count or 1)
    return result


def merged(parts: Iterable[Sums]) -> Sums:
    """The sums of several threads together."""
    first, *others = list(parts) or [({}, {})]
    samples, nanoseconds = dict(first[0]), dict(first[1])
    for some_samples, some_nanoseconds in others:
        for stack, count in some_samples.items():
            samples[stack] = samples.get(stack, 0) + count
        for stack, weight in some_nanoseconds.items():
            nanoseconds[stack] = nanoseconds.get(stack, 0) + weight
    return samples, nanoseconds


def moved(sums: Sums, to: Dict[int, int]) -> Sums:
    """The same with other names of stacks; those that `to` lacks keep theirs."""
    return merged([({to.get(stack, stack): count}, {to.get(stack, stack): sums[1][stack]}) for stack, count in sums[0].items()])
