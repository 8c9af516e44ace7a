"""What comes of comparing the user's own function with the program, as `infer model check --json` prints it."""

from dataclasses import asdict, dataclass


@dataclass(frozen=True)
class DifferentAnswer:
    """An image that the user's function labels differently."""

    path: str
    theirs: str
    ours: str
    our_score: float


@dataclass(frozen=True)
class ClassAgreement:
    """How many answers are of a class on each side, and on both."""

    label: str
    num_theirs: int
    num_ours: int
    num_same: int


@dataclass(frozen=True)
class ScoreComparison:
    """How far scores of the same label are apart: absolute differences, 0-1."""

    num_images: int  # with the same label, of which the user's function gave scores too
    mean_difference: float
    median_difference: float
    worst_difference: float
    num_moved: int = 0  # by more than MOVED


@dataclass(frozen=True)
class DifferentObject:
    """An object that one side found and the other did not."""

    path: str
    found_by: str  # theirs or ours
    label: str
    score: float
    box: tuple[float, float, float, float]  # x1 y1 x2 y2 in pixels of the upright picture
    overlap: float  # with the nearest object of this label that the other side found, 0-1


@dataclass(frozen=True)
class ObjectComparison:
    """How far the objects of a detector are those of the user's function."""

    min_score: float  # objects from this score on have to be found by the other side, with whatever score
    num_theirs: int
    num_found: int  # of theirs, by ours
    num_ours: int
    num_extra: int  # of ours, not found by theirs
    mean_overlap: float | None  # of their objects with those of ours that lie there; None if there are none
    mean_score_difference: float | None  # absolute, of the same
    worst_score_difference: float | None
    differences: tuple[DifferentObject, ...]  # by descending score
    notes: tuple[str, ...]  # what looks wrong about their answers
    min_overlap: float = 0.9  # of the same object
    geometry: str = ""  # what became of their boxes, if all lie elsewhere in the same way


@dataclass(frozen=True)
class Failure:
    """An image without an answer, and why."""

    path: str
    reason: str


@dataclass(frozen=True)
class TimedBlock:
    """A block of images that both sides predicted, one right after the other, once both had started."""

    num_images: int
    their_seconds: float
    our_seconds: float
    lost_seconds: float  # of both, in which other programs had the cores


@dataclass(frozen=True)
class CheckReport:
    """The result of `infer model check`. Keys are added, never renamed."""

    num_images: int
    num_compared: int  # images with both answers
    agreement: float | None  # share with the same label, or of their objects found, 0-1; None if there are none
    disagreements: tuple[DifferentAnswer, ...]  # by descending score of ours; of a detector see `objects`
    their_failures: tuple[Failure, ...]  # their function raised an exception or returned no valid answer
    our_rejections: tuple[Failure, ...]
    their_images_per_second: float | None  # start-up left out; None if nothing was timed
    our_images_per_second: float | None
    ratio: float | None  # ours divided by theirs; None after too few images to judge it
    num_timed: int = 0  # images by which the rates were measured, the same for both
    ratio_range: tuple[float, float] | None = None  # the lowest and the highest ratio of a block
    num_labels: int | None = None  # different labels of ours among the images compared
    taken_by_others: float | None = None  # share of the time in which other programs had the cores, 0-1
    objects: ObjectComparison | None = None  # of a detector
    scores: ScoreComparison | None = None  # of a classifier, if the user's function gives scores
    classes: tuple[ClassAgreement, ...] = ()  # of a classifier, those that differ most first
    explained: str = ""  # by which changes of the recipe more of the images that differ agree
    unit: str = "image"  # what is counted and compared; object: of a second network, named PATH, object NUMBER

    @property
    def beyond_chance(self) -> float:
        """Return Cohen's kappa: the agreement on a scale where 0 is what the shares of the classes give by chance.

        Without classes, as of a detector, nothing agrees by chance.
        """
        products = sum(one.num_theirs * one.num_ours for one in self.classes)
        chance = products / max(1, self.num_compared) ** 2
        return 1.0 if self.agreement in (1, None) or not self.classes else (self.agreement - chance) / (1 - chance)

    def to_json(self) -> dict[str, object]:
        optional = ("objects", "scores")
        return {key: value for key, value in asdict(self).items() if key not in optional or value is not None}
