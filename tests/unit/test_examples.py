"""Examples of the docs, which readers copy, give what they promise."""

import re
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from infer_app.base.size import Size

DOCS = Path(__file__).parents[2] / "docs"


def run_example(page: str, begins: str) -> dict[str, object]:
    """Execute the block of code that has this line, and return its names."""
    blocks = re.findall(r"```text\n(.*?)```", (DOCS / page).read_text(), re.DOTALL)
    (code,) = (block for block in blocks if begins in block)
    names: dict[str, object] = {}
    exec(code, names)
    return names


def test_vectors_stay_with_their_rows_where_some_have_none(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    vectors = [None, [1, 2], None, None, [3, 4], None]
    columns = {"id": list(range(6)), "vector": pa.array(vectors, pa.list_(pa.float32(), 2))}
    pq.write_table(pa.table(columns), "vectors.parquet")
    names = run_example("how-to/export.md", "pq.read_table")
    assert names["table"]["id"].to_pylist() == [1, 4]
    assert names["vectors"].tolist() == [[1, 2], [3, 4]]


def test_a_head_of_two_outputs_gives_objects_in_pixels():
    head = run_example("how-to/detection.md", "def head(boxes")["head"]
    boxes = np.array([[[0, 0, 0.5, 1], [0.25, 0.5, 1, 1]]], np.float32)
    found = head(boxes, np.array([[[0.1, 0.9], [0.6, 0.2]]], np.float32), size=Size(200, 100))
    assert np.allclose(found, [[[0, 0, 100, 100, 0.9, 1], [50, 50, 200, 100, 0.6, 0]]])
