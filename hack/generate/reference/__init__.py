"""Generates the reference pages below docs/ from the code; `make docs` writes them, and a test compares them."""
