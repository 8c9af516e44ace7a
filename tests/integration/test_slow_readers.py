"""A list whose reader takes its time keeps no run from committing, also in a file with a rollback journal."""

from datetime import datetime

import pytest

from tests.support.projects import DATE

NUM_IMAGES = 20_000  # more than a pipe holds


@pytest.mark.parametrize("options", [(), ("--date", DATE)])
def test_a_list_of_changed_images_that_nobody_reads_on_lets_others_write(project, options):
    project.upgrade()
    project.write("PRAGMA journal_mode=DELETE")
    files = (f"/photos/{number}.jpg" for number in range(NUM_IMAGES))
    project.register_images(*files, missing_since=datetime.fromisoformat(DATE))
    listing = project.start("list", "--state", "missing", "--csv", *options)
    assert listing.stdout.readline().startswith("image_id")
    assert listing.stdout.readline().startswith("1,")
    project.write("DELETE FROM infer_pictures WHERE id = ?", NUM_IMAGES)
    rest = listing.stdout.read()  # not `communicate`, which passes over what `readline` has read ahead
    _, errors = listing.communicate(timeout=60)
    assert (listing.returncode, errors, len(rest.splitlines())) == (0, "", NUM_IMAGES - 2)
