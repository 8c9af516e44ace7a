from contextlib import nullcontext

import pytest

from infer_app.base.errors import UsageError
from infer_app.base.settings.load import load_settings
from infer_app.run.group_run import check_nodes


@pytest.mark.parametrize(
    ("settings", "is_refused"),
    [
        ({"database": {"url": "sqlite:////srv/infer.db"}}, True),
        ({"database": {"url": "postgresql://host/infer"}}, False),
        ({"database": {"url": "postgresql://host/infer"}, "source": {"database_url": "sqlite:////a.db"}}, False),
        (
            {
                "database": {"url": "postgresql://host/infer"},
                "source": {"database_url": "sqlite:////a.db", "table": "a", "bytes": "picture", "time_zone": "UTC"},
            },
            True,  # each node would read the pictures from it
        ),
    ],
)
def test_several_nodes_share_no_file_of_sqlite(tmp_path, settings, is_refused):
    (tmp_path / "infer.toml").touch()
    loaded = load_settings(tmp_path / "infer.toml", settings)
    check_nodes(loaded, 1)
    with pytest.raises(UsageError, match="cluster of 2 nodes") if is_refused else nullcontext():
        check_nodes(loaded, 2)
