"""Sphinx builds the pages for `make lint`: a broken link, a missing page or an unknown directive is an error."""

project = "vgpu"
extensions = ["myst_parser"]
root_doc = "docs/index"
include_patterns = ["README.md", "docs/**", "manifests/README.md"]
exclude_patterns = [".*", "build", "device_plugin", "hack", "tests", "vgpu_runtime"]
# Links to headings of a page, as people and GitHub write them.
myst_heading_anchors = 3
# No fonts or scripts from elsewhere.
html_theme = "alabaster"
