"""`infer verify`: checks the rows of a day, and predicts some of the stored ones again."""

import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from itertools import chain
from pathlib import Path

from infer_app.artifact.model_names import Version, short_name
from infer_app.ask.compare.replay_audit import Amount, Answers, ReplayAudit, audit_by_replay, replay_image
from infer_app.ask.compare.row_comparison import Changed
from infer_app.ask.image_report import check_id
from infer_app.base.day import Day
from infer_app.base.errors import EXIT_BUG, EXIT_OK, ModelError, UsageError
from infer_app.base.printing import counted, printable
from infer_app.base.run_report import DayCounts, DayObjects
from infer_app.base.settings.load import load_settings
from infer_app.base.telemetry.summary_line import balance
from infer_app.tables.project_database import ProjectDatabase, open_project_database
from infer_app.tables.queries.day_objects import count_day_objects
from infer_app.tables.row_audit import audit_rows

SHOWN_DIFFERENCES = 20


@dataclass(frozen=True, slots=True)
class VerifiedCounts:
    """The counts of one model on one day; without a model when none has run yet."""

    model: str | None
    model_id: str | None
    counts: DayCounts
    problems: list[str]
    in_use: bool = True  # the version in use of its name
    objects: DayObjects | None = None

    def to_json(self) -> dict[str, object]:
        found = asdict(self) | asdict(self.counts)
        del found["counts"]
        return found | {"balanced": self.counts.balanced and not self.problems}

    def __str__(self) -> str:
        model = f"{self.model} {self.model_id}" if self.model else "(no model has run)"
        model += "" if self.in_use else " (not in use)"
        objects = f"; {self.objects}" if self.objects else ""
        return "\n  wrong: ".join([f"{model}: {balance(self.counts)}{objects}", *self.problems])


def verify(
    date: str | None, model: str | None, replay: str | None, image: str | None, as_json: bool, config: Path | None
) -> int:
    """Print the counts of a day and what a replay finds; return 0 if the counts add up and no row differs, else 1."""
    loaded = load_settings(config)
    day = loaded.day(date or "yesterday")
    amount = None if replay is None else _amount(replay)
    audit = None
    with open_project_database(loaded, read_only=True) as project:
        if image is not None:
            if date or replay:
                raise UsageError("--image predicts one image again", "leave out --date and --replay")
            check_id(image)
            return _verify_image(replay_image(loaded, project, project.versions.models_of(model), image), as_json)
        checked = _check_counts(project, day, model)
        wrong_rows = list(audit_rows(project.database))
        if amount is not None:
            versions = project.versions.models_of(model)
            audit = audit_by_replay(loaded, project, versions, amount, day if date else None)
    balanced = not any(one.problems for one in checked)
    if as_json:
        found = {"date": str(day), "balanced": balanced, "models": [one.to_json() for one in checked]}
        found |= {"wrong_rows": wrong_rows}
        print(json.dumps(found | ({} if audit is None else {"replay": audit.to_json()})))
    else:
        for one in checked:
            print(f"{day} {one}")
        print("the counts add up" if balanced else "the counts do not add up, or rows can have no result: see above")
        for problem in wrong_rows:
            print(f"  wrong, of all days: {problem}")
        print(f"rows that no run can have written: {'see above' if wrong_rows else 'none'}")
        for line in [] if audit is None else _replay_lines(audit):
            print(printable(line))
    return EXIT_OK if balanced and not wrong_rows and not (audit and audit.differences) else EXIT_BUG


def _verify_image(audit: ReplayAudit, as_json: bool) -> int:
    """Print both answers of each model; return 1 if one differs, 12 if no model can answer."""
    if as_json:
        print(json.dumps({"replay": audit.to_json()}))
    else:
        for line in chain(_answer_lines(audit.answers or ()), _replay_lines(audit)):
            print(printable(line))
    is_answered = audit.num_compared or any(one.instead_of for one in audit.answers or ())
    return EXIT_BUG if audit.differences else EXIT_OK if is_answered else ModelError.exit_code


def _answer_lines(answers: Iterable[Answers]) -> Iterator[str]:
    for one in answers:
        instead = f" (instead of {one.instead_of}: {one.why})" if one.instead_of else ""
        yield f"{short_name(one.model, one.model_id)} in {one.variant}{instead}:"
        yield from (f"  {stored} stored, {now} now" for stored, now in one.pairs)


def _amount(text: str) -> Amount:
    try:
        return Amount.parse(text)
    except ValueError as error:
        raise UsageError(f"--replay: {error}", "such as --replay 1% or --replay 200") from None


def _check_counts(project: ProjectDatabase, day: Day, model: str | None) -> list[VerifiedCounts]:
    in_use, checked = project.versions.ids_in_use(), list[VerifiedCounts]()
    for name, model_id in _versions_to_verify(project, day, model):
        counts = project.count_day(day, model_id)
        problems = project.rows.find_problems(day, model_id, counts)
        objects = count_day_objects(project, day, model_id)
        checked.append(VerifiedCounts(name, model_id, counts, problems, model_id in in_use, objects))
    return checked or [VerifiedCounts(None, None, project.count_day(day, ""), [])]


def _replay_lines(audit: ReplayAudit) -> Iterator[str]:
    same = audit.num_compared - len(audit.differences)
    of_all = f"{audit.num_compared:,} of {counted(audit.num_rows, 'stored row')}"
    yield f"predicted again: {of_all}; {same:,} as stored, {len(audit.differences):,} not"
    for one in audit.differences[:SHOWN_DIFFERENCES]:
        image = f"image {one.image_id} ({one.location})"
        yield f"  wrong: {image} by {short_name(one.model, one.model_id)}: {one.cause}: {one.detail}"
    if more := audit.differences[SHOWN_DIFFERENCES:]:
        yield f"  and {len(more):,} more, which --json lists"
    for why, count in audit.not_compared.items():
        yield f"  not compared: {counted(count, 'row')}: {why}"
    if audit.undetected_share and audit.answers is None:
        share = f"{100 * audit.undetected_share:.2g} %"
        yield f"if {share} of all rows were wrong, one of them would have been found with 99 % probability"
    if any(one.cause is Changed.PICTURE for one in audit.differences):
        yield "`infer retry --image ID` predicts a picture that was replaced"
    if audit.answers is None and any(one.cause is Changed.ANSWER for one in audit.differences):
        yield "`infer verify --image ID` shows both answers"


def _versions_to_verify(project: ProjectDatabase, day: Day, wanted: str | None) -> list[Version]:
    """Return the version that each name did the day with and, unless one is wanted, the others that ran on the day."""
    did_day = project.versions.models_of_day(day, wanted)
    if wanted is not None:
        return did_day
    ran = project.versions.versions_run(day)
    return list(dict.fromkeys([*did_day, *ran]))
