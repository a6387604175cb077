"""Rates of currencies, smoothed over the days of a year."""

import random

DAYS, WINDOW = 900, 600
_IN_EURO = {"EUR": 1.0, "CHF": 1.04, "USD": 0.92, "SEK": 0.088}


def _days(rate):
    dice = random.Random(rate)
    return [rate * dice.uniform(0.98, 1.02) for _ in range(DAYS)]


def _smoothed(days):
    return [sum(days[max(0, day - WINDOW) : day + 1]) / (min(day, WINDOW) + 1) for day in range(len(days))]


SMOOTH = {name: [_smoothed(_days(rate * (1 + step / 1000)))[-1] for step in range(60)] for name, rate in _IN_EURO.items()}


def between(one, other):
    """How much of the other currency one is worth."""
    return SMOOTH[one][0] / SMOOTH[other][0]
