def similarity(one, other):
    """Of two texts, the slow way."""
    same = 0
    for a in one:
        for b in other:
            same += a == b
    return same / (len(one) * len(other))
