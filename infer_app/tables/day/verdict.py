"""The verdict on a day: decided here for a run's end, `infer status`, the report, its index and all notifications."""

from infer_app.base.errors import EXIT_TOO_MANY_REJECTED, most_severe
from infer_app.base.run_report import LEVELS, Verdict
from infer_app.tables.day.facts import DayFacts
from infer_app.tables.day.notices import EARLY, FAILED, TOO_MANY, notices_of_day


def judge(facts: DayFacts) -> Verdict:
    """Return the verdict on a day."""
    found, last = notices_of_day(facts), facts.last_run
    kinds = {notice.kind for notice in found}
    ended = [EXIT_TOO_MANY_REJECTED] if TOO_MANY in kinds else []
    if last is not None and last["exit_code"] is not None:  # else the rows say that what it ended with is of other days
        ended.append(last["exit_code"] if kinds & {FAILED, EARLY} else 0)
    noted = [one for one in found if one.note]
    level = max((one.level for one in noted), key=[*LEVELS].index, default="good")
    return Verdict(facts.state, level, most_severe(ended) if ended else None, tuple(one.note for one in noted))
