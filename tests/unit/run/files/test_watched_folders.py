"""What a walk over watched folders takes, and the dates that new images get."""

from collections import Counter
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import pytest
from sqlalchemy import select

from infer_app.base.domain import FileFacts, ImageFile
from infer_app.base.errors import ModelError, NoAnswer, StorageUnavailable
from infer_app.base.locations import NO_MAPPING
from infer_app.base.settings.sections import ImagesSettings, RunSettings, SourceSettings
from infer_app.predict.images.decode.capture_time import CaptureTime
from infer_app.predict.images.read.folder_scan import ScannedFiles
from infer_app.run.files.changed_files import FILES_AT_ONCE
from infer_app.run.files.dating import Dating, ask_times
from infer_app.run.files.registration import Registration
from infer_app.run.files.watched_folders import WatchedFolders
from infer_app.tables.listing.image_registry import register as register_files
from infer_app.tables.listing.watched_images import SeenImages
from infer_app.tables.results.schema import pictures
from tests.support.listings import at

NOW = datetime.now(UTC).replace(microsecond=0)
HOUR, DAY = timedelta(hours=1), timedelta(days=1)
LONG_AGO = datetime(1980, 1, 1, tzinfo=UTC)


class Folders(WatchedFolders):
    """Watched folders on a storage that gives these answers, one after the other, or raises them."""

    def __init__(self, *answers, database=None, may_wait=False):
        super().__init__(settings("file"), database, may_wait=may_wait)
        self.answers = list(answers)
        self.waits = []

    def _wait(self, seconds):
        self.waits.append(seconds)

    def check(self):
        pass

    def ask(self, *_):
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


def settings(day):
    sections = {"images": ImagesSettings(day=day), "run": RunSettings(lookback=3)}
    folders = {"watched": ["photos"], "all_watched": [], "roots": [], "base": None, "path_map": NO_MAPPING}
    return SimpleNamespace(**folders, **sections, source=SourceSettings(), wants_facts=False, lists_own_images=True)


def date(database, file_time, taken=None, day="taken"):
    """The image that a new file is registered as, and what the run says of it."""
    found = Registration()
    in_file = taken and CaptureTime(taken.replace(tzinfo=None))
    dating = Dating(settings(day), database, lambda *_: [in_file], found)
    (dated,) = dating.date_all([ImageFile("/photos/a.jpg", 7, None if file_time is None else file_time.timestamp())])
    return dated, [notice.text for notice in (*found.happened(), *found.holding())]


@pytest.mark.parametrize(
    ("file_time", "taken", "day", "expected", "is_told"),
    [
        (NOW - HOUR, NOW - 30 * DAY, "taken", NOW - 30 * DAY, False),
        (NOW - HOUR, NOW - 30 * DAY, "file", NOW - HOUR, False),
        (NOW - HOUR, None, "taken", NOW - HOUR, False),
        (NOW - HOUR, LONG_AGO, "taken", NOW - HOUR, True),  # the camera's clock was never set: the file's date
        (NOW - HOUR, NOW + 40 * DAY, "taken", NOW - HOUR, True),
        (LONG_AGO, None, "taken", LONG_AGO, True),  # nothing better is known
        (datetime(1960, 1, 1, tzinfo=UTC), None, "taken", datetime(1970, 1, 1, tzinfo=UTC), True),
    ],
)
def test_a_photo_is_of_the_day_that_the_setting_takes_and_a_time_that_can_not_be_right_is_told(
    database, file_time, taken, day, expected, is_told
):
    dated, told = date(database, file_time, taken, day)
    assert dated.added_at == expected.replace(tzinfo=None)
    assert [
        "before 1995, years before the others or in the future, for example /photos/a.jpg" in line for line in told
    ] == [True] * is_told


@pytest.mark.parametrize("file_time", [NOW + 300 * DAY, NOW + 2 * HOUR, None])
def test_a_time_in_the_future_counts_as_now_where_other_images_are_known(database, register, file_time):
    register("/photos/known.jpg", at=NOW.replace(tzinfo=None) - DAY)
    dated, _ = date(database, file_time)
    assert NOW <= dated.added_at.replace(tzinfo=UTC) <= NOW + HOUR


def test_a_file_that_changed_just_before_it_was_looked_at_waits_however_long_the_scan_takes():
    began_at = NOW.timestamp() - 3600
    files = [ImageFile(f"/photos/{age}.jpg", 7, began_at - age) for age in (-1.0, 1.0, 60.0)]
    folders = Folders([ScannedFiles(files, [], began_at, Counter())])
    assert [file.location for file in folders.images()] == ["/photos/60.0.jpg"]
    assert (folders.found.unsettled, folders.waits) == (2, [])


def test_a_run_that_waits_takes_what_has_not_changed_meanwhile_and_leaves_the_rest():
    now = NOW.timestamp()
    files = [ImageFile(f"/photos/{name}.jpg", 7, now) for name in ("copied", "growing", "gone")]
    then = [FileFacts(7, now), FileFacts(8, now), FileFacts()]
    folders = Folders([ScannedFiles(files, [], now, Counter())], then, may_wait=True)
    assert list(folders.images()) == files[:1]
    assert (folders.found.num_files, folders.found.unsettled, len(folders.waits)) == (1, 2, 1)


def test_what_is_found_to_be_missing_stays_marked_if_the_storage_stops_answering_later(database):
    files = [ImageFile(f"/photos/{number}.jpg") for number in range(FILES_AT_ONCE + 1)]
    list(register_files(database, files, at(datetime(2026, 11, 20))))
    answer = [True] + [False] * (FILES_AT_ONCE - 1)
    folders = Folders(answer, StorageUnavailable("/photos does not answer"), database=database)
    with pytest.raises(StorageUnavailable):
        folders.mark_missing(SeenImages(database, ["/photos/"]), folders.check)
    with database.read() as connection:
        missing = connection.scalars(select(pictures.c.location).where(pictures.c.missing_since.is_not(None))).all()
    assert (folders.found.num_missing, missing) == (1, ["/photos/0.jpg"])


def test_a_file_that_can_not_be_read_when_it_is_registered_states_no_time_yet(database):
    """A run reads it later: nothing is stored that would keep it from that."""
    dated, _ = date(database, NOW - HOUR, taken=None)
    assert dated.taken is None


def test_files_of_a_storage_that_does_not_answer_are_not_taken_for_files_without_a_time():
    def ask(left):
        if left == ["hangs"]:
            raise NoAnswer("no answer within 30 s", "")
        if left[0] == "crashes":
            raise ModelError("its process crashed", "")
        yield CaptureTime(datetime(2026, 11, 20))
        raise ModelError("its process crashed", "")

    times = ask_times(ask, ["good", "crashes", "good"])
    assert [time and time.at.year for time in times] == [2026, None, 2026]
    with pytest.raises(NoAnswer):
        ask_times(ask, ["hangs"])
