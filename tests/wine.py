"""Whether this is wine, which lacks some of what Windows has (docs/other-systems.md)."""

import ctypes
import os

WINE = os.name == "nt" and hasattr(ctypes.WinDLL("ntdll"), "wine_get_version")
