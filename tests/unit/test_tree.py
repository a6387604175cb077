"""The tree of stacks against slow twins that keep each stack as a list of its frames."""

from __future__ import annotations

import random

import pytest
from spprof_file import Writer

from spprof import Profile
from spprof.model.tree import Tree


@pytest.fixture
def grown():
    """A tree of random stacks with much recursion, and its stacks: node -> frames from root to leaf."""
    chance, tree, stacks = random.Random(17), Tree(), {}
    for _ in range(300):
        frames = [chance.randrange(4) for _ in range(chance.randrange(1, 9))]
        node = 0
        for frame in frames:
            node = tree.child(node, frame)
        stacks[node] = frames
    return tree, stacks


def test_a_stack_is_named_by_its_node(grown):
    tree, stacks = grown
    assert {node: tree.path(node) for node in stacks} == stacks and tree.path(0) == []
    assert len({tuple(frames) for frames in stacks.values()}) == len(stacks)
    assert all(tree.parents[node] < node for node in range(1, len(tree)))


def test_totals_and_recursion(grown):
    tree, stacks = grown
    sums = {node: 1 + node % 3 for node in stacks}, {node: 10 * node for node in stacks}
    labels = [frame % 2 for frame in tree.frames]
    expected = {0: [0, 0, 0, 0], 1: [0, 0, 0, 0]}
    for node, frames in stacks.items():
        expected[frames[-1] % 2][0] += sums[0][node]
        expected[frames[-1] % 2][1] += sums[1][node]
        for label in {frame % 2 for frame in frames}:
            expected[label][2] += sums[0][node]
            expected[label][3] += sums[1][node]
    totals = tree.totals(sums)
    assert totals.figures(labels) == {label: tuple(figures) for label, figures in expected.items()}
    assert (totals.samples[0], totals.nanoseconds[0]) == (sum(sums[0].values()), sum(sums[1].values()))


def test_few_stacks_of_a_large_tree_add_up_alike(grown, monkeypatch):
    tree, stacks = grown
    few = dict.fromkeys(list(stacks)[:9:2], 3)
    labels = [frame % 3 for frame in tree.frames]
    found = []
    for limit in (1 << 40, 0):  # never, and always, copied out of the tree
        monkeypatch.setattr("spprof.model.tree._FEW", limit)
        totals = tree.totals((few, few))
        found.append(totals.figures(labels))
        assert len(totals.samples) == (len(tree) if limit else len(tree.with_callers(few)) + 1)
    assert found[0] == found[1] and sum(figure[0] for figure in found[0].values()) == 15


def test_graft_replaces_leaves_out_and_joins(grown):
    tree, stacks = grown
    made = {0: (7, 8), 1: (), 2: (2,), 3: (2,)}
    target = Tree()
    target.child(0, 99)
    moved = target.graft(tree, stacks, made.__getitem__)
    for node, frames in stacks.items():
        assert target.path(moved[node]) == [each for frame in frames for each in made[frame]]
    assert len(set(zip(target.parents, target.frames))) == len(target)  # equal stacks are one
    assert moved == target.graft(tree, stacks, made.__getitem__)  # nothing new the second time


def test_truncated_and_empty_stacks_are_nodes_of_their_own():
    """One node of the file at which whole and truncated stacks end; stacks without frames, whole and truncated."""
    f, g = ("f", "f", "m.py", 1, 2), ("g", "g", "m.py", 5, 6)
    writer = Writer()
    for number, (stack, flags) in enumerate([([f, g], 0), ([f, g], 1), ([f], 1), ([], 0), ([], 1), ([f, g], 1)]):
        writer.sample(stack, 6000 + number, 1 << number, flags=flags)
    writer.flush()
    profile = Profile(writer.data)
    keys = list(profile.stack_keys())
    assert keys[1] == keys[5] and len(set(keys)) == 5
    shown = [" ".join(frame.name for frame in sample.frames) for sample in profile]
    cut = "[truncated] f g"
    assert shown == ["f g", cut, "[truncated] f", "[no Python frames]", "[truncated] [no Python frames]", cut]
    tree = profile.tree
    (top,) = {tree.path(key)[0] for key in (keys[1], keys[2], keys[4])}
    assert (
        profile.frame(top).name == "[truncated]"
        and profile.is_placeholder(top)
        and not profile.is_placeholder(tree.path(keys[0])[0])
    )
    rows = {row.name: (row.self_samples, row.total_samples) for row in profile.functions()}
    assert rows == {"g": (3, 3), "f": (1, 4), "[no Python frames]": (2, 2), "[truncated]": (0, 4)}
