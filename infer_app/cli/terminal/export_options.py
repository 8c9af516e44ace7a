"""The options of `infer export` and `infer sample`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from infer_app.cli.terminal.options import MODEL_HELP, Config, Date, Json, Until

ExportedModel = Annotated[
    str | None,
    typer.Option(
        "--model", "-m", metavar="NAME[@ID]", help=f"{MODEL_HELP}  [default: the only one that predicted these images]"
    ),
]
RelativeTo = Annotated[
    Path | None,
    typer.Option(
        "--relative-to",
        metavar="FOLDER",
        help="Name files by their paths in this folder, which must hold them all.  [default: as recorded]",
    ),
]


@dataclass(frozen=True, kw_only=True)
class ExportOptions:
    """The options of `infer export`."""

    date: Date = "yesterday"
    until: Until = None
    model: ExportedModel = None
    format: Annotated[
        str,
        typer.Option(
            metavar="coco|coco-results|megadetector|label-studio|yolo|csv|jsonl|parquet", help="What to write."
        ),
    ]
    to: Annotated[Path, typer.Option("--to", metavar="PATH", help="The file, for yolo a new folder.")]
    min_score: Annotated[
        float | None,
        typer.Option(
            min=0, max=1, metavar="SCORE", help="Leave out what has a lower score.  [default: the model's thresholds]"
        ),
    ] = None
    relative_to: RelativeTo = None
    as_json: Json = False
    config: Config = None


@dataclass(frozen=True, kw_only=True)
class SampleOptions:
    """The options of `infer sample`."""

    date: Date = "yesterday"
    until: Until = None
    model: ExportedModel = None
    by: Annotated[
        str,
        typer.Option(
            metavar="uncertain|random|label",
            help="What is chosen; uncertain: where the model decides least; label: as many of each label as possible.",
        ),
    ] = "uncertain"
    count: Annotated[int, typer.Option(min=1, metavar="N", help="Number of images.")] = 100
    format: Annotated[str, typer.Option(metavar="coco|label-studio", help="What to write.")]
    to: Annotated[Path, typer.Option("--to", metavar="FILE", help="The file.")]
    copy_to: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="Copy the photos there and name the copies.  [default: name the photos]"),
    ] = None
    relative_to: RelativeTo = None
    seed: Annotated[int, typer.Option(metavar="N", help="Another number gives another choice by random and label.")] = 0
    as_json: Json = False
    config: Config = None
