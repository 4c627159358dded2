"""Features beyond HRM, TRM and CMM: one folder each, found by listing this one (`reason.plugins`).

The core has no import statement of them; it asks for a few by name (`reason.plugins.extension`). A folder that is
deleted takes its commands, settings and report sections with it.
"""
