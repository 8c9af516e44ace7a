from datetime import UTC

from infer_app.tables.listing.walk_news import describe_walk_news
from infer_app.tables.listing.watched_images import mark_missing
from tests.conftest import DAY
from tests.support.results import run_day


def news(database):
    return list(describe_walk_news(database, UTC))


def test_what_is_missing_is_told_until_a_run_has_ended_well(database, tables, register):
    register("/cam/1.jpg", "/cam/2.jpg", "/cam/3.jpg")
    assert news(database) == []
    mark_missing(database, [1, 3])
    (told,) = news(database)
    assert told.startswith(
        "2 of 3 images registered in /cam are missing since the last run: `infer list --state missing`"
    )
    assert told.endswith("or was a folder renamed, whose photos are new ones then?")
    run_day(database, tables.source, DAY)
    assert news(database) == []
