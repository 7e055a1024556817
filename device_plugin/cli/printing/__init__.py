"""Prints the lists of commands as tables, JSON, YAML or names, once or again after each change."""
