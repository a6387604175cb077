from . import tables as tables
