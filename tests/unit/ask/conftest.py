from tests.support.day_rows import add_model, add_run, detect, figures, make_report, output_kind, write

__all__ = ["add_model", "add_run", "detect", "figures", "make_report", "output_kind", "write"]
