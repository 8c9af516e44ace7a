"""`infer compare`: where two models disagree over a day."""

import json
from collections.abc import Mapping
from pathlib import Path

from infer_app.ask.compare.compare_versions import Comparison, compare_versions
from infer_app.base.printing import counted
from infer_app.base.settings.load import load_settings
from infer_app.cli.terminal.output import show_table
from infer_app.tables.project_database import open_project_database


def compare(date: str, names: tuple[str, str], limit: int, as_json: bool, config: Path | None) -> None:
    """Print where two models disagree; raises what `compare_versions` raises."""
    loaded = load_settings(config)
    with open_project_database(loaded, read_only=True) as project:
        found = compare_versions(project, loaded.day(date), names, limit)
    if as_json:
        print(json.dumps(found.to_json()))
        return
    print(f"{found.day}: A is {found.a.model} {found.a.model_id}, B is {found.b.model} {found.b.model_id}")
    if found.a.of:
        _print_overlap(found, "")
    if found.a.kind == "classification":
        _print_labels(found)
    elif found.a.kind == "detection":
        _print_objects(found, limit)
    else:
        _print_measures(found)


def _print_overlap(found: Comparison, aside: str) -> None:
    overlap = found.overlap
    only = f"only A {overlap.only_a:,}, only B {overlap.only_b:,}, neither {overlap.neither:,}"
    print(f"both predicted {overlap.both:,}{aside}; {only}")


def _print_compared(found: Comparison, aside: str) -> None:
    """Print how many images, or objects of second networks, are compared."""
    if not found.a.of:
        _print_overlap(found, aside)
        return
    objects = found.details["objects"]
    only = f"only A {objects['only_a']:,}, only B {objects['only_b']:,}"
    print(f"objects of {found.a.of} that both took {objects['both']:,}{aside}; {only}")


def _print_images(found: Comparison, measured: Mapping[str, str]) -> None:
    number = {"object": "object"} if found.a.of else {}
    headings = {"image_id": "id", "location": "image", **number, **measured}
    cells = [tuple(_cell(one[key]) for key in headings) for one in found.details["images"]]
    if cells:
        show_table([*headings.values()], cells, f"by {found.details['measure']}")


def _print_labels(found: Comparison) -> None:
    details = found.details
    num_both = details["agree"] + details["disagree"]
    share = f" ({details['agree'] / num_both:.1%})" if num_both else ""
    _print_compared(found, f": agree {details['agree']:,}{share}, disagree {details['disagree']:,}")
    what = "objects" if found.a.of else "images"
    if cells := [(one["a"], one["b"], f"{one[what]:,}") for one in details["confusions"]]:
        show_table(("A predicts", "B predicts", what), cells, "most frequent pairs")
        sides = {"label_a": "A predicts", "score_a": "score", "label_b": "B predicts", "score_b": "score"}
        _print_images(found, sides)


def _print_measures(found: Comparison) -> None:
    details = found.details
    incomparable = details["incomparable"]
    _print_compared(found, f", {incomparable:,} of them can't be compared" if incomparable else "")
    named = {name: value for name, value in details.items() if name.startswith(("mean_", "max_", "min_"))}
    if figures := [f"{name.replace('_', ' ')} {value:.4g}" for name, value in named.items() if value is not None]:
        print(", ".join(figures))
    _print_images(found, {"value": "value"})


def _print_objects(found: Comparison, limit: int) -> None:
    """Print the objects, with at most `limit` labels."""
    details = found.details
    _print_overlap(found, "")
    print(
        f"objects by label and box (IoU of at least {details['min_iou']}), shown by the thresholds of each model; "
        "the score's difference is B - A"
    )
    labels = [_label_cells(one["label"], one) for one in details["labels"][:limit]]
    heads = ("label", "in both", "only A", "only B", "mean IoU", "mean score difference")
    show_table(heads, [*labels, _label_cells("(all)", details["objects"])])
    if (more := len(details["labels"]) - limit) > 0:
        print(f"and {counted(more, 'label')} more: --limit or --json gives them")
    _print_images(found, {"matched": "in both", "only_a": "only A", "only_b": "only B"})


def _label_cells(label: str, counts: Mapping[str, object]) -> tuple[str, ...]:
    numbers = [f"{counts[key]:,}" for key in ("matched", "only_a", "only_b")]
    means = [counts["mean_iou"], counts["mean_score_difference"]]
    return label, *numbers, *("" if mean is None else f"{mean:.3f}" for mean in means)


def _cell(value: object) -> str:
    if value is None:
        return ""
    return f"{value:.4g}" if isinstance(value, float) else str(value)
