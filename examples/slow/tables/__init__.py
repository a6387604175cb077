"""Tables of the converter."""
