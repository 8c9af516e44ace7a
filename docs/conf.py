"""Sphinx: `make docs`. Warnings are errors."""

project = "infer_app"
extensions = ["myst_parser"]
html_theme = "furo"
html_title = "infer_app"
html_copy_source = False
exclude_patterns = ["_build"]
myst_heading_anchors = 3
myst_enable_extensions = ["colon_fence"]
