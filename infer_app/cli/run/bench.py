"""`infer bench`: what limits a run over some images, and how fast each loading technique is."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from typing import Any

from infer_app.bench.benchmark_request import BenchmarkRequest
from infer_app.bench.comparison import Row, find_bottleneck, find_broken_files, measure_strategies
from infer_app.bench.strategies import STRATEGIES
from infer_app.cli.terminal.options import BenchOptions
from infer_app.cli.terminal.output import show_table
from infer_app.database.project_database import open_project_database
from infer_app.day import Day, parse_date
from infer_app.errors import UsageError
from infer_app.images.read.bad_image import BadImage
from infer_app.images.read.folder_scan import find_images, folders_of
from infer_app.images.read.read_image import local_path
from infer_app.locations import PathMapping
from infer_app.machine import usable_cores
from infer_app.pipeline.job import choose_artifact
from infer_app.plurals import counted
from infer_app.settings.load import LoadedSettings, load_settings
from infer_app.telemetry.printable import printable

MIB = 1 << 20
FEW_IMAGES = 300  # with fewer, only the first seconds are measured
BROKEN_SHOWN = 5
NO_MODEL = ""  # the id of no model, for which all images of a day are new


def bench(options: BenchOptions) -> None:
    """Measure loading alone, then with the model; the last line names which of the two limits a run."""
    flags = {"run": {"model": options.model, "workers": options.workers}}
    loaded = load_settings(options.config, flags)
    only, folder = options.only or (), options.images
    _check_names(only)
    artifact = choose_artifact(loaded)
    paths = _paths_in(folder, options.limit) if folder else _paths_of_day(loaded, options.date, options.limit)
    request = BenchmarkRequest(
        paths=paths,
        config=loaded.path,
        flags=flags,
        artifact=artifact.folder,
        roots=folders_of(folder, map(Path, paths)) if folder else loaded.roots,
        num_workers=loaded.run.workers or usable_cores(),
    )
    broken = find_broken_files(request)
    if len(broken) == len(request.paths):
        raise UsageError("none of the images can be read", f"{request.paths[0]}: {broken[request.paths[0]]}")
    if options.as_json:
        _print_json(request, broken, list(measure_strategies(request, broken, only)))
        return
    _print_head(request, broken)
    rows = []
    for row in measure_strategies(request, broken, only):
        rate = row.note if row.images_per_second is None else f"{row.images_per_second:.0f} images/s"
        print(f"  {row.name}: {printable(rate)}", flush=True)
        rows.append(row)
    _print_tables(rows)


def _paths_in(folder: Path, limit: int) -> list[str]:
    paths = [str(path.absolute()) for path in islice(find_images(folder), limit)] if folder.exists() else []
    if not paths:
        raise UsageError(f"no images in {folder}")
    return paths


def _paths_of_day(loaded: LoadedSettings, date: str, limit: int) -> list[str]:
    """Return the paths of the day's images, whether or not they are predicted."""
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
    names = [strategy.name for strategy in STRATEGIES]
    for name in only:
        if name not in names:
            raise UsageError(f"no strategy {name!r}", f"there are {', '.join(names)}")


def _print_head(request: BenchmarkRequest, broken: dict[str, str]) -> None:
    print(
        f"{counted(len(request.paths), 'image')}, {counted(request.num_workers, 'worker')}; "
        "each strategy is a process of its own",
        flush=True,
    )
    if len(request.paths) < FEW_IMAGES:
        print(f"few images: with fewer than {FEW_IMAGES} only the first seconds are measured")
    for path, reason in islice(broken.items(), BROKEN_SHOWN):
        print(f"broken: {printable(path)}: {reason}")
    if len(broken) > BROKEN_SHOWN:
        print(f"… and {len(broken) - BROKEN_SHOWN:,} more")
    if broken:
        print("only strategies that drop broken files are given them; the others would end with an error")


def _print_tables(rows: Sequence[Row]) -> None:
    headings = ("strategy", "images/s", "CPU s per 1,000", "peak MiB", "first batch, s", "what it is")
    for title, uses_model in (("Loading only: pixels arrive and are dropped", False), ("With the model", True)):
        cells = [_cells(row) for row in rows if row.uses_model == uses_model]
        if cells:
            show_table(headings, cells, title)
    if bottleneck := find_bottleneck(rows):
        print(bottleneck)


def _cells(row: Row) -> tuple[str, ...]:
    description = f"{row.says} ({row.note})" if row.note else row.says
    figures = (row.images_per_second, row.cpu_s_per_1000, row.peak_pss and row.peak_pss / MIB, row.first_batch_s)
    forms = ("{:.0f}", "{:.2f}", "{:.0f}", "{:.2f}")
    shown = ("-" if figure is None else form.format(figure) for figure, form in zip(figures, forms, strict=True))
    return (row.name, *shown, description)


def _print_json(request: BenchmarkRequest, broken: dict[str, str], rows: Sequence[Row]) -> None:
    bottleneck = find_bottleneck(rows)
    answer: dict[str, Any] = {
        "num_images": len(request.paths),
        "num_workers": request.num_workers,
        "broken": broken,
        "rows": [asdict(row) for row in rows],
        "bottleneck": asdict(bottleneck) if bottleneck else None,
    }
    print(json.dumps(answer))
