import subprocess
import sys

subprocess.run([sys.executable, "pool.py"], check=True)
