"""Profiles and their files: `Profile`, whether a file is still being written, debug information added afterwards."""
