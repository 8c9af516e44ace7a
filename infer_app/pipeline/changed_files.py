"""Resets rejections whose file has changed since, so that their images are pending again."""

from __future__ import annotations

import logging
from contextlib import closing
from itertools import islice

from infer_app.database.results.forget_results import forget_rejections
from infer_app.day import Day
from infer_app.errors import ModelError
from infer_app.images.read.read_image import stat_all
from infer_app.locations import is_local
from infer_app.pipeline.job import Job
from infer_app.workers.isolated_call import run_in_process

log = logging.getLogger(__name__)

FILES_AT_ONCE = 5000  # rejected files that one process checks
STAT_TIMEOUT_S = 30.0  # for FILES_AT_ONCE files


def reset_changed_rejections(job: Job, day: Day, model_id: str) -> int:
    """Delete the final rejections whose file has changed since; return their number.

    Another process checks the files: a process that waits for storage that does not answer can't be ended.
    """
    day_queries = job.project.day_queries
    changed: list[str] = []
    try:
        with closing(day_queries.final_rejections(day, model_id)) as stored:  # a server keeps a transaction open
            rejections = (one for one in stored if is_local(one.location))
            while some := list(islice(rejections, FILES_AT_ONCE)):
                locations = [rejected.location for rejected in some]
                files = run_in_process(stat_all, locations, job.read.path_map, timeout_s=STAT_TIMEOUT_S)
                changed += [
                    rejected.image_id
                    for rejected, now in zip(some, files, strict=True)
                    if now.size is not None and rejected.differs(now)
                ]
    except ModelError:
        log.warning("rejected images of %s were not checked for changes: their storage does not answer", day)
    return forget_rejections(job.project.database, changed, model_id)
