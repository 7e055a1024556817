"""The site of docs/: its builder's inputs in addition to mkdocs.yml."""
