"""The report's parts: tables, charts, one self-contained page. They read results, never models."""
