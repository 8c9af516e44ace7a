"""When images that were registered late are late no more."""

from datetime import UTC, datetime, timedelta

from infer_app.base.day import Day
from infer_app.base.domain import ImageFile
from infer_app.tables.listing.image_registry import register
from infer_app.tables.listing.source import Source
from infer_app.tables.queries.late_days import MIN_DAYS, end_late_queue, find_late_days
from tests.support.listings import at


def test_an_image_is_late_until_the_first_day_of_a_run_is_after_that_of_its_registration(database):
    """Another run, without a look-back too, may end before an image that was just registered is tried."""
    today = Day.of(datetime.now(UTC).date(), "UTC")
    before, latest = today.before(30), today.before(MIN_DAYS - 1)
    source = Source(database)
    for day in (before, latest):
        registered = day.start.replace(tzinfo=None) + timedelta(hours=23)
        noon = datetime(2026, 1, day.date.day, 12)
        list(register(database, [ImageFile(f"/{day}.jpg")], at(noon, registered)))
    for first, num_late in ((before, 2), (before.before(-1), 1), (today, 1)):
        end_late_queue(database, source, first)
        assert len(find_late_days(database, source, today, ["a"])) == num_late
