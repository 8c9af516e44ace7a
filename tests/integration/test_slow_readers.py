"""A list whose reader takes its time keeps no run from committing, also in a file with a rollback journal."""

import sqlite3

import pytest

from tests.support.projects import DATE

NUM_IMAGES = 20_000  # more than a pipe holds


@pytest.mark.parametrize("options", [(), ("--date", DATE)])
def test_a_list_of_changed_images_that_nobody_reads_on_lets_others_write(project, options):
    project.upgrade()
    rows = [(number, f"/photos/{number}.jpg", f"{DATE} 08:00:00.000000") for number in range(NUM_IMAGES)]
    with sqlite3.connect(project.folder / "infer.db") as file:
        file.execute("PRAGMA journal_mode=DELETE")
        file.executemany(
            "INSERT INTO infer_images (id, location, added_at, missing_since) VALUES (?1, ?2, ?3, ?3)", rows
        )
    listing = project.start("images", "changed", "--csv", *options)
    assert listing.stdout.readline().startswith("image_id")
    assert listing.stdout.readline().startswith("0,")
    project.write("DELETE FROM infer_images WHERE id = ?", NUM_IMAGES - 1)
    rest = listing.stdout.read()  # not `communicate`, which passes over what `readline` has read ahead
    _, errors = listing.communicate(timeout=60)
    assert (listing.returncode, errors, len(rest.splitlines())) == (0, "", NUM_IMAGES - 2)
