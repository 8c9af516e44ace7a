"""Lists of images, brought up to date with a table of the user's as a run does it."""

from dataclasses import replace

from infer_app.tables.listing.image_registry import DatedImage
from infer_app.tables.listing.source import Source
from infer_app.tables.listing.update_list import update_list
from infer_app.tables.listing.user_table import FIRST_DAY, LAST_DAY, PAGE_SIZE, UserTable
from tests.conftest import DAY, MODEL

ALL_DAYS = replace(FIRST_DAY, end=LAST_DAY.end)


def listed(database, settings=None, listing=None, page_size=PAGE_SIZE, camera=None):
    """What is registered or, with settings, all rows of a table of `listing`, by default of the same database."""
    source = source_of(database, settings, listing, page_size, camera)
    update_list(source, ALL_DAYS, recent=0)
    return source


def source_of(database, settings=None, listing=None, page_size=PAGE_SIZE, camera=None):
    """As `listed`, with what was listed before."""
    table = None if settings is None else UserTable(listing or database, settings)
    return Source(database, table, camera, page_size)


def select_new(database, settings=None, day=DAY, model_id=MODEL.model_id):
    return list(listed(database, settings).select_new(day, model_id))


def at(time, queued_at=None):
    return lambda new: [DatedImage(file, time, queued_at) for file in new]
