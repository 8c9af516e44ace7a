from datetime import UTC, date, datetime

from infer_app.base.day import Day
from infer_app.base.domain import ImageFile, ImageRef
from infer_app.run.files.registration import Registration
from infer_app.tables.listing.image_registry import DatedImage, RegisteredBatch

DAYS = [Day.of(date(2026, 11, number), "Europe/Berlin") for number in (19, 20)]
TIMES = [(18, 22), (18, 23), (20, 22), (20, 23)]  # midnight of Berlin is 23:00 UTC


def test_new_images_are_counted_by_the_days_of_the_run_and_a_sample_is_of_those_that_it_would_take():
    found = Registration()
    for day, hour in TIMES:
        new = [DatedImage(ImageFile(f"/{day}-{hour}.jpg"), datetime(2026, 11, day, hour))]
        found.count(RegisteredBatch(1, new, [], 1, ["/a\nb: refused"]), DAYS, is_sampled=True)
    assert (found.added, found.earlier, found.later, found.to_run) == (4, 1, 1, 3)
    assert found.earlier_days == (date(2026, 11, 18), date(2026, 11, 18))
    assert found.sample[0] == ImageRef("-1", "/18-22.jpg")
    assert [ref.location for ref in found.sample] == [f"/{day}-{hour}.jpg" for day, hour in TIMES[:3]]
    assert (found.num_changed, found.num_unstorable, found.unstorable) == (4, 4, [r"/a\nb: refused"])


def test_images_of_days_that_were_forgotten_are_not_to_run():
    found = Registration(forgotten_before=datetime(2026, 11, 20, 22, tzinfo=UTC), num_forgotten=1)
    new = [DatedImage(ImageFile(f"/{hour}.jpg"), datetime(2026, 11, 20, hour)) for hour in (20, 22)]
    found.count(RegisteredBatch(2, new, [], 0), [DAYS[1]], is_sampled=True)
    assert (found.to_run, [ref.location for ref in found.sample]) == (1, ["/22.jpg"])
    (told,) = found.happened()
    assert told.text.startswith("1 new image is of days before 2026-11-20, which were forgotten")
