"""Sources of a database, and those of another one, which here is the same."""

import pytest

from infer_app.base.settings.sections import SourceSettings
from infer_app.tables.listing.cross_database_source import CrossDatabaseSource
from infer_app.tables.listing.image_registry import DatedImage
from infer_app.tables.listing.source import Source
from tests.conftest import DAY, MODEL

LISTINGS = pytest.mark.parametrize("listing", [Source, CrossDatabaseSource])


def open_source(listing, database, settings, page_size=1000):
    """A source of the database, or one of another database, which here is the same."""
    return listing(database, settings, *([database] if listing is CrossDatabaseSource else []), page_size)


def select_new(database, settings=None, day=DAY, model_id=MODEL.model_id):
    return list(Source(database, settings or SourceSettings()).select_new(day, model_id))


def at(time, queued_at=None):
    return lambda new: [DatedImage(file, time, queued_at) for file in new]
