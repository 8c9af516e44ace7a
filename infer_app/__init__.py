"""Predict the day's new images every day and write the results back."""

__version__ = "0.1.0"
