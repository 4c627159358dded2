"""Features that can be deleted: a folder each, found by listing. Nothing outside imports them."""
