"""Run directories: made, packed into one file, and turned into a trainer."""
