"""Imported by the fork server alone: it ends with the run that started it, and its workers with it.

By itself it would wait for its workers, and one that hangs would keep it.
"""

from infer_app.loading.nursery import die_with_parent

die_with_parent()
