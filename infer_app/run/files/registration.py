"""What a walk over the watched folders found, in figures and words."""

import logging
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, date, datetime
from functools import partial
from itertools import islice
from pathlib import Path

from infer_app.base.day import Day, find_zone, naive, parse_date
from infer_app.base.domain import ImageRef
from infer_app.base.printing import counted, one_line, printed_options
from infer_app.base.settings.load import LoadedSettings
from infer_app.tables.listing.image_registry import DatedImage, RegisteredBatch
from infer_app.tables.listing.stored_notices import OF_WALK, Notice, event

log = logging.getLogger(__name__)

FEW_KINDS = 50  # of what is left out, which are told apart
SHOWN_PROBLEMS = 5
SETTLED_S = 10.0  # after its last change a file is taken to be complete
SAMPLE = 4096  # images that a dry run may try without registering them


@dataclass(slots=True)
class Registration:
    """Counts of files that were registered, or in a dry run would be."""

    num_files: int = 0  # images that were found and are not being written
    added: int = 0
    later: int = 0  # of them, of days after those of the run
    earlier: int = 0  # of them, of days that the look-back has passed: the run takes them after its own days
    earlier_days: tuple[date, date] | None = None  # the first and the last of those
    unsettled: int = 0  # changed within the last SETTLED_S seconds: the next run registers them
    num_changed: int = 0  # known files with another size or time than before
    num_missing: int = 0  # known files that are gone since the last walk
    moved: list[str] = field(default_factory=list)  # what was known elsewhere, where it is now, and how many images
    other: Counter[str] = field(default_factory=Counter)  # what was left out, by suffix, by name or in words
    unreadable: list[str] = field(default_factory=list)  # folders and files, with the reason
    unstorable: list[str] = field(default_factory=list)  # one file that the database can't hold, with the reason
    num_unstorable: int = 0
    num_forgotten: int = 0  # new images of days before `forgotten_before`, which no run takes
    forgotten_before: datetime | None = None  # UTC
    zone: str = "UTC"
    folders: str = ""  # digits that tell the walked folders from those of other settings
    wrong_clock: list[str] = field(default_factory=list)  # one new image with a time that can't be right
    num_wrong_clocks: int = 0
    num_ahead: int = 0  # new images that are left for a run with the right time
    ahead: list[str] = field(default_factory=list)  # what this machine's clock says, and one of them
    sample: list[ImageRef] = field(default_factory=list)  # of a dry run: some that would be run
    began: datetime = field(default_factory=partial(datetime.now, UTC))

    @property
    def to_run(self) -> int:
        return self.added - self.later - self.num_forgotten

    def is_forgotten(self, image: DatedImage) -> bool:
        return self.forgotten_before is not None and image.added_at < naive(self.forgotten_before)

    def to_json(self) -> dict[str, object]:
        days = self.earlier_days and [str(one) for one in self.earlier_days]
        counts = asdict(self) | {"earlier_days": days, "other": dict(self.other)}
        del counts["sample"], counts["began"], counts["forgotten_before"], counts["zone"], counts["folders"]
        return counts

    def count(self, batch: RegisteredBatch, days: Sequence[Day], *, is_sampled: bool) -> None:
        """Add a batch of a walk before a run over these days."""
        zone, end = find_zone(days[0].zone), days[-1].end.replace(tzinfo=None)
        self.num_changed += batch.num_changed
        self.num_unstorable += len(batch.refused)
        self.unstorable = self.unstorable or list(map(one_line, batch.refused[:1]))
        self.added += len(batch.new)
        self.later += sum(image.added_at >= end for image in batch.new)
        kept = [image for image in batch.new if not self.is_forgotten(image)]
        if late := [at for image in kept if (at := image.added_at.replace(tzinfo=UTC)) < days[0].start]:
            self.earlier += len(late)
            dates = [one.astimezone(zone).date() for one in (min(late), max(late))]
            dates += self.earlier_days or ()
            self.earlier_days = min(dates), max(dates)
        if is_sampled:
            first = len(self.sample)
            to_run = (image.file.location for image in kept if image.added_at < end)
            more = enumerate(islice(to_run, SAMPLE - first), first)
            self.sample += [ImageRef(str(-1 - number), location) for number, location in more]

    def count_left_out(self, counts: Counter[str]) -> None:
        for why, count in counts.items():
            self.other[why if why in self.other or len(self.other) < FEW_KINDS else ""] += count

    def leave_for_right_clock(self, now: datetime, locations: Sequence[str]) -> None:
        """Add new images that are ahead of this machine's clock."""
        self.num_ahead += len(locations)
        self.ahead = self.ahead or [f"{now:%Y-%m-%d %H:%M} UTC", one_line(locations[0])]

    def log(self, loaded: LoadedSettings, *, dry_run: bool) -> None:
        """Log what was found."""
        folders = ", ".join(_short(folder, loaded) for folder in loaded.watched)
        if self.added:
            verb = "would be registered" if dry_run else "registered"
            log.info("%s of %s %s", counted(self.added, "new image"), folders, verb)
        if self.earlier_days:
            first, last = self.earlier_days
            days = str(first) if first == last else f"{first} to {last}"
            text = "of them %s older than the look-back, of %s: `infer run` takes them too"
            log.info(text, f"{self.earlier:,}", days)
        if self.num_missing:
            log.info("%s of %s gone since the last walk", counted(self.num_missing, "file"), folders)

    def describe_rest(self, days: Sequence[Day]) -> Iterator[str]:
        """Yield what a run over these days has not taken, and the command that takes what is left for the next run."""
        if self.other:
            yield f"left out by their names or kinds: {describe_left_out(self.other)}"
        left = []
        if self.later:
            is_today = days[-1].date == parse_date("yesterday", days[-1].zone)
            left.append(f"{counted(self.later, 'new image')} of {'today' if is_today else 'later days'}")
        if self.unsettled:
            files = counted(self.unsettled, "file")
            left.append(f"{files} changed within the last {SETTLED_S:.0f} s, perhaps still being written")
        if left:
            soon = f"in {SETTLED_S:.0f} s" if self.unsettled else "now"
            command = f"infer run --date today{printed_options()}"
            yield f"left for the next run: {'; '.join(left)}. To predict them {soon}: `{command}`"

    def happened(self) -> list[Notice]:
        """Return what has happened, but for folders that were moved."""
        found = []
        if self.num_wrong_clocks:
            images, have = counted(self.num_wrong_clocks, "new image"), "has" if self.num_wrong_clocks == 1 else "have"
            text = f"{images} {have} a time before 1995, years before the others or in the future, for example"
            found.append(("wrong clock", f"{text} {self.wrong_clock[0]}: is the camera's clock right?"))
        if self.num_forgotten and self.forgotten_before:
            are = "is" if self.num_forgotten == 1 else "are"
            before = self.forgotten_before.astimezone(find_zone(self.zone)).date()
            of_days = f"of days before {before}, which were forgotten"
            text = f"{counted(self.num_forgotten, 'new image')} {are} {of_days}"
            more = "(`infer forget --before DATE`): no run takes them; is the camera's clock right?"
            found.append(("forgotten days", f"{text} {more}"))
        return [event(kind, text, self.began.isoformat()) for kind, text in found]

    def holding(self) -> Iterator[Notice]:
        """Yield what holds until a walk of the same folders finds it no more, of the kinds OF_WALK."""
        future, unreadable, unusable = (partial(Notice, kind, subject=self.folders) for kind in OF_WALK)
        if self.num_ahead:
            images, are = counted(self.num_ahead, "new image"), "is" if self.num_ahead == 1 else "are"
            yield future(
                f"this machine's clock says {self.ahead[0]}, and {images} {are} of later days, for example"
                f" {self.ahead[1]}: set the clock, and the next run registers them; if the camera's is wrong,"
                " `infer images add FOLDER --date DATE`",
                key="",
            )
        if self.unreadable:
            more = len(self.unreadable) - SHOWN_PROBLEMS
            shown = [*map(one_line, self.unreadable[:SHOWN_PROBLEMS]), *([f"and {more:,} more"] if more > 0 else [])]
            yield unreadable(f"not registered, since it can't be read: {'; '.join(shown)}")
        if self.num_unstorable:
            yield unusable(
                f"{counted(self.num_unstorable, 'file')} can't be registered, since the database can't hold the name or"
                f" refuses the row, for example {self.unstorable[0]}"
            )


def describe_left_out(counts: Mapping[str, int]) -> str:
    """Return what was left out, the most frequent first; "" stands for files without a suffix and all rare kinds."""
    return ", ".join(f"{count:,} {one_line(why) or 'others'}" for why, count in Counter(counts).most_common())


def _short(folder: Path, loaded: LoadedSettings) -> str:
    return str(folder.relative_to(loaded.folder)) if folder.is_relative_to(loaded.folder) else str(folder)
