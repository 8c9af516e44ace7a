"""Measure loading strategies for `infer bench`, each in a process of its own."""
