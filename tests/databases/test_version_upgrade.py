"""The upgrade that records versions in use: the view shows what it showed, and stays whose it was."""

from alembic import command
from sqlalchemy import text

from infer_app.database.results import migrate
from infer_app.database.results.model_versions import all_in_use, read_versions

MODEL = "INSERT INTO infer_models (id, name, manifest, created_at) VALUES (:id, :name, '{}', :at)"
PREDICTION = (
    "INSERT INTO infer_predictions (image_id, model_id, run_id, variant, output, created_at)"
    " VALUES (:image, :model, 'r', 'v', '{}', '2026-01-01 00:00:00')"
)
SHOWN = text("SELECT model, image_id, model_id FROM infer_current_predictions ORDER BY 1, 2")


def to_revision(database, verb, revision):
    config = migrate._config()
    with database.write() as connection:
        config.attributes |= {"connection": connection, "schema": migrate._schema(connection)}
        verb(config, revision)


def test_the_view_shows_what_it_showed_before(empty, kind):
    to_revision(empty, command.upgrade, "0003")
    times = {"old": "2026-01-01", "new": "2026-01-03", "mid": "2026-01-02", "never": "1970-01-02"}
    with empty.write() as connection:
        for model_id, at in times.items():
            connection.execute(text(MODEL), {"id": model_id, "name": "m", "at": f"{at} 00:00:00.000001"})
        connection.execute(text(MODEL), {"id": "other", "name": "o", "at": "2025-01-01 00:00:00"})
        for image, model in (("1", "old"), ("1", "new"), ("2", "old"), ("2", "mid"), ("1", "other")):
            connection.execute(text(PREDICTION), {"image": image, "model": model})
        connection.execute(text("CREATE VIEW their_own AS SELECT image_id FROM infer_current_predictions"))
        if kind == "postgres":
            connection.execute(text("ALTER VIEW infer_current_predictions SET (security_barrier = true)"))
            connection.execute(text("GRANT SELECT ON infer_current_predictions TO PUBLIC"))
    with empty.read() as connection:
        before = connection.execute(SHOWN).all()
    assert [tuple(row) for row in before] == [("m", "1", "new"), ("m", "2", "mid"), ("o", "1", "other")]
    for verb, revision in ((command.upgrade, "head"), (command.downgrade, "0003"), (command.upgrade, "head")):
        to_revision(empty, verb, revision)
        with empty.read() as connection:
            assert connection.execute(SHOWN).all() == before
            assert len(connection.execute(text("SELECT * FROM their_own")).all()) == 3
            if kind == "postgres":
                rights = "SELECT reloptions, relacl::text FROM pg_class WHERE relname = 'infer_current_predictions'"
                options, granted = connection.execute(text(rights)).one()
                assert options == ["security_barrier=true"]
                assert "=r/" in granted
    with empty.read() as connection:
        versions = read_versions(connection)
    assert all_in_use(versions) == {"m": "new", "o": "other"}
    assert [one.model_id for one in versions if one.was_in_use] == ["new", "mid", "old", "other"]
