from tests.support.day_rows import add_model, add_run

__all__ = ["add_model", "add_run"]
