"""`python -m datasets_gen show`: a puzzle drawn, and the statistics of its set."""
