"""The commands that show results, export them, and set thresholds."""

from pathlib import Path
from typing import Annotated

from infer_app.ask.export.formats.export_formats import FOLDERS, FORMATS
from infer_app.cli.terminal.command import (
    MODEL_HELP,
    REQUIRED,
    Camera,
    Csv,
    Date,
    Model,
    ModelOrVersion,
    Until,
    WithConfig,
    WithJson,
    any_date,
    argument,
    command,
    flag,
    option,
)
from infer_app.cli.terminal.groups import INSPECT, app, labels_app, static_app, threshold_app

THE_ONLY_MODEL = f"{MODEL_HELP}  [default: the only one that predicted these images]"
RELATIVE_TO = "Name files by their paths in this folder, which must hold them all.  [default: as recorded]"
SECOND_NETWORK = "Name of a second network; its groups hold for all its versions."
NAME_ONLY = "Name of a model; its thresholds hold for all its versions."


@command(app, "status", "look.status:show_status", rich_help_panel=INSPECT)
class StatusOptions(WithJson):
    """Show the last days, their counts and their state."""

    days: int = option("N", "Number of days, up to today.", default=14, min=1)
    camera: Camera = None


@command(app, "report", "look.report:report_days", as_record=True, rich_help_panel=INSPECT)
class ReportOptions(WithJson):
    """Write the report of a day, and the page of all days, as HTML.

    That of a day is of all its models, and is written as JSON too.
    """

    date: Date = "yesterday"
    until: Until = None
    out: Path | None = option("PATH", "The page.  [default: reports/DATE.html]", "--out", "-o")


@command(app, "list", "look.list_images:list_images", as_record=True, starts_workers=True, rich_help_panel=INSPECT)
class ListOptions(WithJson):
    """List images by state, each with its cause and what to do.

    pending: what a run is to predict, and what was rejected for now; of the days that no run covers any more, the last
    100,000 images are examined. rejected: by reason. predicted: one prediction for each image and model name, that of
    the version in use or, where it has none, of the one before. changed: files replaced since they were predicted;
    missing: files that are gone, in watched folders as the last run found them, of a table of your own as they are now.
    """

    state: str = option("predicted|rejected|pending|changed|missing", "What is listed.", default="pending")
    date: Annotated[str | None, any_date("all, for predicted and rejected those of the last run")] = None
    model: Model = None
    camera: Camera = None
    as_csv: Csv = False


@command(app, "events", "look.show_events:show_events", as_record=True, rich_help_panel=INSPECT)
class EventsOptions(WithJson):
    """Show events: how often something came, on however many pictures.

    Pictures of one camera with no longer gap between them than [events] gap are one event, which is of the day of the
    first. Of each label it says how many objects one picture shows at most: so many there were at least.
    """

    date: Date = "yesterday"
    until: Until = None
    camera: Camera = None
    as_csv: Csv = False


@command(app, "export", "look.export:export_days", as_record=True, rich_help_panel=INSPECT)
class ExportOptions(WithJson):
    """Write predictions in a format of another program.

    What is below the model's thresholds is left out. The file appears at once, when it is complete.
    """

    date: Date = "yesterday"
    until: Until = None
    model: str | None = option("NAME[@ID]", THE_ONLY_MODEL, "--model", "-m")
    camera: Camera = None
    format: str = option("|".join(FORMATS), "What to write.", default=REQUIRED)
    to: Path = option("PATH", f"The file, for {FOLDERS} a new folder.", default=REQUIRED)
    min_score: float | None = option(
        "SCORE",
        "Leave out what has a lower score, of a second network objects of its detector.  [default: the thresholds]",
        min=0,
        max=1,
    )
    relative_to: Path | None = option("FOLDER", RELATIVE_TO)


@command(app, "sample", "look.export:export_sample", as_record=True, rich_help_panel=INSPECT)
class SampleOptions(WithJson):
    """Choose images to label next, with their predictions."""

    date: Date = "yesterday"
    until: Until = None
    model: str | None = option("NAME[@ID]", THE_ONLY_MODEL, "--model", "-m")
    camera: Camera = None
    by: str = option(
        "uncertain|random|label",
        "What is chosen; uncertain: where the model decides least; label: as many of each label as possible.",
        default="uncertain",
    )
    count: int = option("N", "Number of images.", default=100, min=1)
    one_per_event: bool = flag("--one-per-event", "Choose at most one image of each event.")
    format: str = option("coco|label-studio", "What to write.", default=REQUIRED)
    to: Path = option("FILE", "The file.", default=REQUIRED)
    copy_to: Path | None = option("FOLDER", "Copy the photos there and name the copies.  [default: name the photos]")
    relative_to: Path | None = option("FOLDER", RELATIVE_TO)
    seed: int = option("N", "Another number gives another choice by random and label.", default=0)


@command(app, "explain", "look.explain:show_image", as_record=True, starts_workers=True, rich_help_panel=INSPECT)
class ExplainOptions(WithJson):
    """Show an image's file and results, or why it has none."""

    image: str = option("ID", "The image's id, as `infer list` prints it.", "--image", "-i", default=REQUIRED)
    date: Annotated[str | None, any_date("any; the image is found faster with it")] = None
    model: ModelOrVersion = None
    draw: Path | None = option("PATH", "Draw the objects over the picture: an SVG file for a browser.")


@command(app, "compare", "look.compare:compare", rich_help_panel=INSPECT)
class CompareOptions(WithJson):
    """Show how often and where two models disagree over a day.

    Detected objects are matched by label and box (IoU of at least 0.5): those that the thresholds of each model show.
    """

    names: tuple[str, str] = option(
        "A B", "Two models or two versions of one, each as NAME or NAME@ID.", "--models", default=REQUIRED
    )
    date: Date = "yesterday"
    limit: int = option("N", "Show at most this many labels or pairs of them, and images.", default=10, min=1)


@command(app, "verify", "look.verify:verify", rich_help_panel=INSPECT)
class VerifyOptions(WithJson):
    """Check the counts of a day and the rows of all days.

    Eligible images must be those predicted, rejected and pending, counted from the rows of the tables, and each row of
    the images' table must be among them with its result. Of all days, no prediction, object, rejection or run may say
    what no run writes. A row that --replay finds to be another than what its network gives for its picture is named,
    with what changed. Exit code 1 if anything is wrong.
    """

    date: Annotated[str | None, any_date("yesterday; with --replay any")] = None
    model: ModelOrVersion = None
    replay: str | None = option(
        "N|SHARE", "Also predict stored rows again, a random number or share of all such as 1%, and compare."
    )
    image: str | None = option("ID", "Predict only this image again, and show both answers.", "--image", "-i")


@command(threshold_app, "set", "look.threshold_commands:set_thresholds")
class ThresholdSetOptions(WithJson):
    """Show only objects and labels with at least these scores; nothing runs again and nothing is deleted.

    For detection, multi-label classification and classification of a detector's objects, here also by group. Exports,
    samples and the views infer_shown_objects, infer_shown_labels and infer_shown_crops follow the thresholds; of
    detectors also `infer report`, `infer compare` and `infer explain`. It prints how many objects or labels of the last
    days are shown before and after.
    """

    name: str = argument("NAME", NAME_ONLY)
    given: list[str] = argument("LABEL=SCORE", "Labels with their thresholds, 0 to 1, such as cat=0.6.", ())
    default: str | None = option("SCORE", "For all labels without a threshold of their own.")


@command(threshold_app, "show", "look.threshold_commands:show_thresholds")
class ThresholdShowOptions(WithJson):
    """Show the thresholds of a model."""

    name: str = argument("NAME", NAME_ONLY)


@command(threshold_app, "remove", "look.threshold_commands:remove_thresholds")
class ThresholdRemoveOptions(WithJson):
    """Remove the thresholds of labels; without labels all of the model."""

    name: str = argument("NAME", NAME_ONLY)
    labels: list[str] = argument("LABEL", "Labels to remove the thresholds of.", ())


@command(labels_app, "set", "look.label_commands:set_labels")
class LabelsSetOptions(WithConfig):
    """Set the groups of a second network's labels, or which are allowed; nothing runs again.

    In the view infer_shown_crops an object whose best allowed label is under its threshold gets the deepest group whose
    labels reach theirs together. This replaces all groups of the name and its list of allowed labels.
    """

    name: str = argument("NAME", SECOND_NETWORK)
    taxonomy: Path | None = option("FILE", "A CSV file with the columns label and parent.")
    only: Path | None = option("FILE", "A file with the labels that are allowed, one a line; default: all.")


@command(labels_app, "show", "look.label_commands:show_labels")
class LabelsShowOptions(WithJson):
    """Show the groups of a second network's labels, and which are not allowed."""

    name: str = argument("NAME", SECOND_NETWORK)


@command(labels_app, "clear", "look.label_commands:clear_labels")
class LabelsClearOptions(WithConfig):
    """Remove the groups of a second network's labels; all labels are allowed then."""

    name: str = argument("NAME", SECOND_NETWORK)


@command(static_app, "list", "project.static_commands:list_static")
class StaticListOptions(WithConfig):
    """List places where a detector gives a box again and again, such as of a rock; it hides nothing.

    It has 20 boxes of a camera and a label, on 5 days, each of at most a fifth of the picture, that overlap the middle
    one by an IoU of 0.9. Of animals, which differ more, most boxes around it overlap it by less than 0.75.
    """

    name: str = argument("NAME[@ID]", "A detector.")
    crops: Path | None = option("FOLDER", "Write there what is at the places with the most boxes, as NUMBER.jpg.")


@command(static_app, "hide", "project.static_commands:hide")
class StaticHideOptions(WithConfig):
    """Show the objects at these places no more, also later ones; nothing is deleted.

    They are those of the camera and the label that overlap the box by an IoU of 0.75, of any detector. A place is over
    when its camera has brought a picture 14 days after the last object there: what comes then is shown.
    """

    numbers: list[int] = argument("NUMBER", "As `infer static list NAME` prints it.", max=2**63 - 1)


@command(static_app, "keep", "project.static_commands:keep")
class StaticKeepOptions(StaticHideOptions):
    """Show the objects at these places, and list them no more."""
