"""Features that can be deleted, one folder each, found by listing. No other package imports them."""
