"""Results as a run commits them, and the rows that hold them."""

from sqlalchemy import func, insert, inspect, select, update

from infer_app.base.domain import Broken, ChunkResult, FileFacts, ImageRef, Output, Prediction, Reason
from infer_app.base.locations import picture_key
from infer_app.base.size import Size
from infer_app.tables.listing.update_list import update_list
from infer_app.tables.results.runs import RunStore
from infer_app.tables.results.schema import pictures, project_table, runs
from infer_app.tables.results.sink import Sink
from infer_app.tables.results.views import VIEWS
from tests.conftest import MODEL

PICTURE = Size(640, 480)
# Ids and labels that a database may confuse, or may read otherwise from JSON than they were written.
ODD_TEXTS = ["cat", "Cat", "cat ", " cat", "CAT", "cät", "ca\u0308t", "ß", "ss", "😀", "😁", "it's", 'a"b', "\\",
             "a=b", "%", "%s", ":a", "a' OR '1'='1", "{}", "[]", "$.labels", "null", "true", "0", "00", "0.0", "\t",
             "\n", "\u2028", "\x7f", "\x01", "<b>&amp;"]  # fmt: skip


def predicted(*ids, label="cat", **output):
    output = {"label": label, "score": 0.1 + 0.2} | output
    facts = FileFacts(sha256="ab" * 32, picture=PICTURE)
    return tuple(Prediction(ImageRef(i, f"/{i}.jpg"), Output(**output), facts) for i in ids)


def of_objects(image_id, *objects):
    """Return the prediction of a detector, by its best object first."""
    label, score = (objects[0].label, objects[0].score) if objects else (None, None)
    (prediction,) = predicted(image_id, label=label, score=score, objects=objects)
    return prediction


def broken(*ids, reason=Reason.CORRUPT, detail="no JPEG", size=7):
    facts = FileFacts(size, 1763609999.123457, "cd" * 32)
    return tuple(Broken(ImageRef(i, f"/{i}.jpg"), reason, detail, "decode", facts, "jpg 9") for i in ids)


def commit(
    database,
    good=(),
    bad=(),
    run_id="run 1",
    model_id=MODEL.model_id,
    variant=MODEL.variant,
    detector_id=None,
    registered=True,
):
    """Write a chunk of predictions and rejections, and return what was written."""
    sink = Sink(database, model_id, variant, run_id, detector_id, registered)
    return sink.commit_chunk(ChunkResult(0, tuple(good), tuple(bad)))


def stored(database, table, *names):
    """Rows of the named columns by the image's id; all but created_at when none is named."""
    names = names or tuple(column.name for column in table.c if column.name not in ("picture", "created_at"))
    number = table.c.id if table is pictures else table.c.picture
    wanted = select(pictures.c.image_id, *(table.c[name] for name in names)).where(pictures.c.id == number)
    with database.read() as connection:
        return {row[0]: tuple(row)[1:] for row in connection.execute(wanted)}


def register_rows(connection, *rows):
    """Add images to our own list, by location, time and what else is known; ids follow those given before."""
    last, every = connection.scalar(select(func.max(pictures.c.id))) or 0, []
    for number, row in enumerate(rows, last + 1):
        own = {"id": number, "registered": 1, "first_seen": 0.0} | row
        every.append(own | {"image_id": str(own["id"]), "key": picture_key("", row["location"])})
    connection.execute(insert(pictures), every)
    connection.execute(update(project_table).values(last_picture=select(func.max(pictures.c.id)).scalar_subquery()))


def relations(database):
    with database.read() as connection:
        inspector = inspect(connection)
        return {*inspector.get_table_names(), *inspector.get_view_names()}


def definitions(database):
    with database.read() as connection:
        return {view: inspect(connection).get_view_definition(view) for view in VIEWS}


def a_cat(ref):
    return Prediction(ref, Output("cat", 0.9))


def run_day(database, source, day, answer=a_cat, model=MODEL):
    """Do what a run does with the new images of a day, which are returned; `answer` is called for each."""
    update_list(source, day, recent=1000)
    run_id = RunStore(database).open_run(day, model)
    refs = list(source.select_new(day, model.model_id))
    results = [answer(ref) for ref in refs]
    good = [one for one in results if isinstance(one, Prediction)]
    bad = [one for one in results if isinstance(one, Broken)]
    commit(database, good, bad, run_id, model.model_id, registered=source.registered)
    ended = {"state": "done", "exit_code": 0, "ended_at": runs.c.started_at}
    with database.write() as connection:
        connection.execute(update(runs).where(runs.c.id == run_id).values(ended))
    return refs
