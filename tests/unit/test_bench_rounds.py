"""What the bench makes of rounds: intervals of shares, verdicts, and how often a slow variant runs."""

import pytest

child = pytest.importorskip("bench.child", reason="the bench was taken out of the tree")
figures = pytest.importorskip("bench.figures")


@pytest.mark.parametrize("held, of, low, high", [(81, 263, 0.2553, 0.3662), (15, 148, 0.0624, 0.1605), (0, 20, 0.0, 0.1611)])
def test_intervals_of_shares(held, of, low, high):
    """The first three examples of R. G. Newcombe, Statistics in Medicine 17 (1998), table I, method 3."""
    found = figures.proportion(held, of)
    assert (found.value, round(found.low, 4), round(found.high, 4)) == (held / of, low, high)


def test_a_goal_is_met_only_if_the_interval_shows_it():
    between = (0.99, 1.01), (0.97, 1.01), (1.1, 1.2)
    shown, not_shown, refuted = (figures.Figure(1.0, low, high, 9, True) for low, high in between)
    assert [one.between(0.98, 1.02) for one in (shown, not_shown, refuted)] == [True, figures.OPEN, False]
    assert figures.proportion(90, 92).at_least(0.97) == figures.OPEN
    assert figures.proportion(990, 1000).at_least(0.97) is True and figures.proportion(900, 1000).at_least(0.97) is False


def test_a_slow_variant_has_fewer_rounds_but_some():
    lasts = {"alone": 1.0, "slower": 7.9, "slow": 8.0, "slowest": 27.0, "failed": float("nan")}
    ran = dict.fromkeys(lasts, 0)

    def variant(name):
        def run():
            ran[name] += 1
            return child.Run(lasts[name], lasts[name], {}, "", 0)

        return run

    done = child.interleaved({name: variant(name) for name in lasts}, 12, lambda text: None, slow=8)
    assert ran == {"alone": 12, "slower": 12, "slow": 6, "slowest": 3, "failed": 12}
    assert {name: sum(name in one for one in done) for name in lasts} == ran
