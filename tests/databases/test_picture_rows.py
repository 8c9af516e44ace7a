"""The rows of pictures: which row a result gets, and what it says of the file."""

from dataclasses import replace

from sqlalchemy import select

from infer_app.base.domain import Broken, CropOutput, FileFacts, ImageRef, Output, Prediction, Reason
from infer_app.tables.project_database import ProjectDatabase
from infer_app.tables.results.schema import objects, pictures
from tests.conftest import DAY, MODEL
from tests.support.listings import source_of
from tests.support.results import commit
from tests.support.second_networks import DETECTOR, LION, D, StoredModel, classified, made
from tests.support.shots import SHOTS


def commit_to(database, results, **more):
    """Commit one chunk as a run over a table of the user's does."""
    good = [one for one in results if isinstance(one, Prediction)]
    return commit(database, good, [one for one in results if isinstance(one, Broken)], registered=False, **more)


def named(image_id, location):
    return Prediction(ImageRef(image_id, location), Output(location, 0.9), FileFacts(7, 1.0, "ab" * 32))


def test_only_bytes_that_were_read_say_what_a_file_is(database):
    ref = ImageRef("1", "/a.jpg")

    def facts():
        with database.read() as connection:
            return tuple(connection.execute(select(pictures.c.size, pictures.c.modified, pictures.c.sha256)).one())

    commit_to(database, [named("1", "/a.jpg")])
    assert facts() == (7, 1.0, None)
    commit_to(database, [Broken(ref, Reason.EMPTY, "", "read", FileFacts(0, 2.0))], model_id="f" * 16)
    assert facts() == (7, 1.0, None)
    commit_to(database, [replace(named("1", "/a.jpg"), file=FileFacts(9, 2.0, "cd" * 32))])
    assert facts() == (9, 2.0, "cd" * 32)


def test_what_was_made_of_an_object_is_written_to_no_other(database):
    """The objects were replaced after they were read: the image is tried again."""
    detector, second = StoredModel(database, DETECTOR), StoredModel(database, detector_id=D)
    detector.detect("1", 0.9)
    with database.read() as connection:
        number = connection.scalar(select(objects.c.id))
    detector.detect("1", 0.8)
    crop = CropOutput(0, classified(*LION), number)
    written = second.predict("1", Output("lion", 0.75, crops=(crop,)))
    assert [(one.reason, one.stage) for one in written.broken] == [(Reason.WRITE_ERROR, "write")]
    assert made(database)[2] == []


def test_only_rows_of_the_source_are_predicted_again(database, fill, register, run):
    fill("shots", ("1", "/a.jpg", DAY))
    register("/b.jpg")
    run(SHOTS)
    run(None)
    for settings, location in ((SHOTS, "/a.jpg"), (None, "/b.jpg")):
        asked = ProjectDatabase(database, source_of(database, settings))
        ((number, _),) = asked.stream_keys([MODEL.model_id], None)
        with database.read() as connection:
            assert connection.scalar(select(pictures.c.location).where(pictures.c.id == number)) == location
