"""Inputs for the builder of the site from docs/, in addition to mkdocs.yml."""
