"""How commands print lists: tables, JSON, YAML, names; once, and as they change."""
