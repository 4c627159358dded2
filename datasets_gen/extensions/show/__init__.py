"""`python -m datasets_gen show`: draws a puzzle and prints the statistics of its set."""
