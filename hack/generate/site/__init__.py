"""The site of docs/: what its builder is told beside mkdocs.yml."""
