"""Sources for black: those of the standard library, a few."""

import json
import os
import shutil

os.makedirs("black_src", exist_ok=True)
for name in "decoder", "encoder", "scanner", "tool":
    shutil.copy(os.path.join(os.path.dirname(json.__file__), f"{name}.py"), "black_src")
