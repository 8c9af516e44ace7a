"""Measures loading strategies, each in a process of its own: `infer bench`."""
