"""Which rejections keep an image from being tried again."""

import pytest
from sqlalchemy.dialects import sqlite

from infer_app import packages
from infer_app.database.results.conditions import is_settled
from infer_app.domain import Reason


@pytest.mark.parametrize("is_missing", [True, False])
def test_an_image_without_a_decoder_is_new_once_it_is_installed(monkeypatch, is_missing):
    monkeypatch.setattr(packages, "missing_decoders", lambda: {Reason.HEIC_DECODER_MISSING} if is_missing else set())
    sql = str(is_settled().compile(dialect=sqlite.dialect(), compile_kwargs={"literal_binds": True}))
    retried, limited = sql.split(" OR ")
    assert ("heic_decoder_missing" in retried) is not is_missing
    assert "decoder_missing" not in limited
