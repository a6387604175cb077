"""24 chains a_i > b_i > c_i > d_i that change as fast as Python can call."""

CHAIN = """
def d_{0}(n):
    s = 0
    for k in range(n):
        s += k
    return s

def c_{0}(n):
    return d_{0}(n)  # -> d_{0}

def b_{0}(n):
    x = c_{0}(n)  # -> c_{0}
    return x + 1

def a_{0}(n):
    return b_{0}(n) + 1  # -> b_{0}
"""
SOURCES = {"<chains>": "".join(CHAIN.format(i) for i in range(24))}
exec(compile(SOURCES["<chains>"], "<chains>", "exec"))
ALL = [globals()[f"a_{i}"] for i in range(24)]


def step():
    for a in ALL:
        a(5)  # -> {a_0..a_23}
