"""Features beyond HRM, TRM and CMM: one folder each, found by listing this one (`reason.plugins`).

The core imports none of them. A folder that is deleted takes its commands, settings and report sections with it.
"""
