"""`reason solve --gif FILE`: the answer of each step as an animated picture."""
