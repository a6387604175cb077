"""pricing.py ORDERS: prices so many orders of examples/demo.py, which itself is open for a time, however much it does in it."""

import random
import runpy
import sys
from pathlib import Path

demo = runpy.run_path(str(Path(__file__).resolve().parent.parent.parent / "examples" / "demo.py"), run_name="demo")
dice = random.Random(1)
for _ in range(int(sys.argv[1])):
    items = [dice.randrange(400) for _ in range(24)]
    sum(demo["price_of"](item) for item in items) - demo["discount"](items)
