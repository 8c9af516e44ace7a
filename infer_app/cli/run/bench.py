"""`infer bench`: what limits a run on these images and this model, and what each loading technique buys."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from typing import Any

from infer_app.bench.benchmark_request import BenchmarkRequest
from infer_app.bench.ladder import Row, find_bottleneck, find_broken_files, measure_ladder
from infer_app.bench.strategies import LADDER
from infer_app.cli.terminal.output import show_table
from infer_app.database.listing.image_registry import find_images
from infer_app.database.project_database import open_project_database
from infer_app.day import Day, parse_date
from infer_app.errors import UsageError
from infer_app.images.read.bad_image import BadImage
from infer_app.images.read.read_image import local_path
from infer_app.locations import PathMapping
from infer_app.machine import usable_cores
from infer_app.pipeline.job import choose_artifact
from infer_app.settings.load import LoadedSettings, load_settings
from infer_app.telemetry.printable import printable

MIB = 1 << 20
FEW_IMAGES = 300  # of fewer, figures are of the first seconds
BROKEN_SHOWN = 5
NO_MODEL = ""  # its id is nobody's: all of a day's images are new to it


def bench(
    folder: Path | None,
    date: str,
    model: str | None,
    limit: int,
    only: Sequence[str],
    workers: int | None,
    as_json: bool,
    config: Path | None,
) -> None:
    """One table: loading alone, then with the model, and a last line that says which of the two limits."""
    flags = {"run": {"model": model, "workers": workers}}
    loaded = load_settings(config, flags)
    _check_names(only)
    artifact = choose_artifact(loaded)
    order = BenchmarkRequest(
        paths=_paths_in(folder, limit) if folder else _paths_of_day(loaded, date, limit),
        config=loaded.path,
        flags=flags,
        artifact=artifact.folder,
        roots=(folder.resolve(),) if folder else loaded.roots,
        num_workers=loaded.run.workers or usable_cores(),
    )
    broken = find_broken_files(order)
    if len(broken) == len(order.paths):
        raise UsageError("none of the images can be read", f"{order.paths[0]}: {broken[order.paths[0]]}")
    if not as_json:
        _print_head(order, broken)
    rows = [_told(row, as_json) for row in measure_ladder(order, broken, only)]
    _print_json(order, broken, rows) if as_json else _print_tables(rows)


def _paths_in(folder: Path, limit: int) -> list[str]:
    paths = [str(path.absolute()) for path in islice(find_images(folder), limit)] if folder.exists() else []
    if not paths:
        raise UsageError(f"no images in {folder}")
    return paths


def _paths_of_day(loaded: LoadedSettings, date: str, limit: int) -> list[str]:
    """All images of the day, predicted or not."""
    zone = loaded.run.time_zone
    day = Day.of(parse_date(date, zone), zone)
    with open_project_database(loaded, read_only=True) as project:
        locations = (ref.location for ref in project.source.select_new(day, NO_MODEL))
        paths = list(islice(_local_paths(locations, loaded.path_map), limit))
        nearest = None if paths else project.source.nearest_date(day)
    if not paths:
        hint = f"the nearest day with images is {nearest}; or name a folder with --images" if nearest else ""
        raise UsageError(f"no images on {day}", hint or "name a folder with --images")
    return paths


def _local_paths(locations: Iterator[str], path_map: PathMapping) -> Iterator[str]:
    for location in locations:
        try:
            yield local_path(location, path_map)
        except BadImage:  # a run would reject it before it is read
            continue


def _check_names(only: Sequence[str]) -> None:
    names = [strategy.name for strategy in LADDER]
    for name in only:
        if name not in names:
            raise UsageError(f"no strategy {name!r}", f"there are {', '.join(names)}")


def _told(row: Row, as_json: bool) -> Row:
    if not as_json:
        rate = row.note if row.images_per_second is None else f"{row.images_per_second:.0f} images/s"
        print(f"  {row.name}: {printable(rate)}", flush=True)
    return row


def _print_head(order: BenchmarkRequest, broken: dict[str, str]) -> None:
    print(
        f"{len(order.paths):,} images, {order.num_workers} workers; each strategy is a process of its own", flush=True
    )
    if len(order.paths) < FEW_IMAGES:
        print(f"few images: with fewer than {FEW_IMAGES} the figures are of the first seconds")
    for path, reason in islice(broken.items(), BROKEN_SHOWN):
        print(f"broken: {printable(path)}: {reason}")
    if len(broken) > BROKEN_SHOWN:
        print(f"… and {len(broken) - BROKEN_SHOWN:,} more")
    if broken:
        print("only what drops broken files is given those; the others would end with an error")


def _print_tables(rows: Sequence[Row]) -> None:
    headings = ("strategy", "images/s", "CPU s per 1,000", "peak MiB", "first batch, s", "what it is")
    for title, uses_model in (("Loading only: pixels arrive and are dropped", False), ("With the model", True)):
        cells = [_cells(row) for row in rows if row.uses_model == uses_model]
        if cells:
            show_table(headings, cells, title)
    if bottleneck := find_bottleneck(rows):
        print(bottleneck)


def _cells(row: Row) -> tuple[str, ...]:
    says = f"{row.says} ({row.note})" if row.note else row.says
    figures = (row.images_per_second, row.cpu_s_per_1000, row.peak_pss and row.peak_pss / MIB, row.first_batch_s)
    forms = ("{:.0f}", "{:.2f}", "{:.0f}", "{:.2f}")
    shown = ("-" if figure is None else form.format(figure) for figure, form in zip(figures, forms, strict=True))
    return (row.name, *shown, says)


def _print_json(order: BenchmarkRequest, broken: dict[str, str], rows: Sequence[Row]) -> None:
    bottleneck = find_bottleneck(rows)
    answer: dict[str, Any] = {
        "num_images": len(order.paths),
        "num_workers": order.num_workers,
        "broken": broken,
        "rows": [asdict(row) for row in rows],
        "bottleneck": asdict(bottleneck) if bottleneck else None,
    }
    print(json.dumps(answer))
