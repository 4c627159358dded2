"""Training: one loop, everything it needs to resume, and what it writes down."""
