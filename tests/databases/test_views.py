"""The views are those of this program after each upgrade, and stay whose they were."""

import pytest
from sqlalchemy import text

from infer_app.base.errors import SchemaOutdated
from infer_app.tables.engine.connect import Database
from infer_app.tables.results import views
from infer_app.tables.results.migrate import check_schema, upgrade
from infer_app.tables.results.views import VIEWS
from tests.support.results import definitions

VIEW = "infer_current_objects"  # infer_shown_objects selects from it
RIGHTS = "SELECT reloptions, relacl::text FROM pg_class WHERE oid = to_regclass(:view)"


def rights(database):
    with database.read() as connection:
        return {view: tuple(connection.execute(text(RIGHTS), {"view": view}).one()) for view in VIEWS}


@pytest.fixture
def share(kind, execute):
    """Let everyone read our views, which have options, where the database has such."""
    if kind == "postgres":
        execute(*(f"ALTER VIEW {view} SET (security_barrier = true)" for view in VIEWS))
        execute(*(f"GRANT SELECT ON {view} TO PUBLIC" for view in VIEWS))


def test_each_upgrade_makes_the_views_of_this_program(database, kind, execute, share):
    execute("CREATE VIEW their_own AS SELECT image_id FROM infer_current_objects")
    before, shared = definitions(database), kind == "postgres" and rights(database)
    if kind == "sqlite":
        execute(f"DROP VIEW {VIEW}")
    create = "CREATE VIEW" if kind == "sqlite" else "CREATE OR REPLACE VIEW"
    options = "WITH (security_barrier = true)" if kind == "postgres" else ""
    with database.read() as connection:
        select = views.definitions(connection)[VIEW]
    execute(f"{create} {VIEW} {options} AS {select} LIMIT 0")
    assert definitions(database) != before
    upgrade(database)
    check_schema(database)
    assert definitions(database) == before
    assert (kind == "postgres" and rights(database)) == shared
    execute("SELECT * FROM their_own")


def test_a_view_of_other_columns_is_made_anew_with_its_grants(database, kind, execute, share):
    """Not even then is a view of the user's dropped, which PostgreSQL would have to."""
    before, shared = definitions(database), kind == "postgres" and rights(database)
    execute("DROP VIEW infer_shown_events", "CREATE VIEW infer_shown_events AS SELECT 1 AS number")
    execute("CREATE VIEW their_own AS SELECT * FROM infer_shown_events")
    if kind == "postgres":
        execute("ALTER VIEW infer_shown_events SET (security_barrier = true)")
        execute("GRANT SELECT ON infer_shown_events TO PUBLIC")
        with pytest.raises(SchemaOutdated, match="view their_own depends on view infer_shown_events") as caught:
            upgrade(database)
        assert caught.value.hint == "drop those, repeat this command, and make them again"
        execute("DROP VIEW their_own")
    upgrade(database)
    assert definitions(database) == before
    assert (kind == "postgres" and rights(database)) == shared


def test_a_role_that_may_not_replace_the_views_is_told_so_and_changes_nothing(database, add_role):
    before = definitions(database)
    role = add_role("GRANT SELECT, INSERT, UPDATE, DELETE ON {all} TO {role}")
    with Database(role) as theirs, pytest.raises(SchemaOutdated, match="may not replace") as caught:
        upgrade(theirs)
    assert caught.value.hint == "run it as the one that made them"
    assert definitions(database) == before
