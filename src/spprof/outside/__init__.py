"""What a process does, read from outside: nothing is run in it. `dump` is the way in."""
