"""Prints the lists of commands: tables, JSON, YAML, names; once, and as they change."""
