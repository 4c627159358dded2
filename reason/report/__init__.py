"""The report's parts: tables, charts, one self-contained page. They use results, never models."""
