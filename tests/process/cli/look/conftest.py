from tests.support.day_rows import add_model

__all__ = ["add_model"]
