import pytest


def fibonacci(n):
    return n if n < 2 else fibonacci(n - 1) + fibonacci(n - 2)


@pytest.mark.parametrize("n", [24, 25, 26, 27])
def test_fibonacci(n):
    assert fibonacci(n) > 0


def test_words():
    assert sorted("shop") == ["h", "o", "p", "s"]
