"""Code objects that live for an instant: every name says which file it must come from."""

TEXT = """
def inner_{0}(n):
    return sum([k for k in range(n)])  # -> inner_{0}.<locals>.<listcomp>

def outer_{0}(n):
    for _ in range(n):
        inner_{0}(30)  # -> inner_{0}

outer_{0}(20)  # -> outer_{0}
"""
N = 200
SOURCES = {f"<made {i}>": TEXT.format(i) for i in range(N)}
at = 0


def step():
    global at
    at = (at + 1) % N
    name = f"<made {at}>"
    exec(compile(SOURCES[name], name, "exec"), {})  # -> <module>
