"""Everything stored or sent, as versions wrote it; `tests/unit/test_golden_formats.py` reads it."""
