"""Following a profile while it is taken."""
