"""Which rejected images are pending again, since their files have changed."""

from dataclasses import replace

import pytest

from infer_app.base.domain import FileFacts, Reason
from infer_app.base.errors import ModelError
from infer_app.base.locations import NO_MAPPING
from infer_app.run.files.changed_files import FILES_AT_ONCE, reset_changed_rejections
from infer_app.tables.rows.results import read_rejections
from tests.conftest import DAY, MODEL
from tests.support.results import broken, commit

IDS = [str(number) for number in range(1, FILES_AT_ONCE + 2)]


@pytest.fixture
def database(users_file):
    return users_file


def look(_, locations, _path_map):
    """A storage of a file that was changed and of others that were not, which answers for FILES_AT_ONCE files."""
    if len(locations) < FILES_AT_ONCE:
        raise ModelError("no answer within 30 s")
    (before,) = broken("1")
    return [FileFacts(before.file.size + (one == "/1.jpg"), before.file.modified) for one in locations]


def test_what_had_changed_is_pending_again_though_the_storage_then_stopped_answering(tables, register):
    """The read that lists the rejected ones has ended by then: it would keep writes out of the file."""
    register(*(f"/{number}.jpg" for number in IDS))
    commit(tables.database, (), broken(*IDS))
    assert reset_changed_rejections(tables, NO_MAPPING, DAY, MODEL.model_id, look) == 1
    left = [str(one.picture) for one in read_rejections(tables, DAY, MODEL.model_id)]
    assert left == IDS[1:]


@pytest.mark.parametrize("location", ["/1.jpg", "https://host/1.jpg", "https://host/1.jpg?sig=a"])
def test_a_file_whose_bytes_were_read_and_are_cut_off_keeps_its_attempts(tables, register, location):
    """Its checksum is no part of an address that another one could be told by."""
    register(location)
    (cut_off,) = broken("1", reason=Reason.READ_ERROR)
    commit(tables.database, (), [replace(cut_off, ref=replace(cut_off.ref, location=location))])
    unchanged = lambda _, locations, _path_map: [FileFacts(cut_off.file.size, cut_off.file.modified)]  # noqa: E731
    assert reset_changed_rejections(tables, NO_MAPPING, DAY, MODEL.model_id, unchanged) == 0
