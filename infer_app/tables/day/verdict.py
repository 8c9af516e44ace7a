"""The verdict on a day: decided here for a run's end, `infer status`, the report, its index and all notifications."""

from infer_app.base.errors import EXIT_TOO_MANY_REJECTED, most_severe
from infer_app.base.run_report import LEVELS, Verdict
from infer_app.tables.day.facts import DayFacts
from infer_app.tables.day.notices import notices_of_day


def judge(facts: DayFacts) -> Verdict:
    """Return the verdict on a day."""
    found, last = notices_of_day(facts), facts.last_run
    ended = [EXIT_TOO_MANY_REJECTED] if any(one.kind == "too many rejected" for one in found) else []
    if last is not None and (code := last["exit_code"]) is not None:
        # A run that ended well may have left something of other days, and the rows say whether too many are rejected.
        counts = last["state"] != "done" or (facts.counts.pending and code != EXIT_TOO_MANY_REJECTED)
        ended.append(code if counts else 0)
    noted = [one for one in found if one.note]
    level = max((one.level for one in noted), key=[*LEVELS].index, default="good")
    return Verdict(facts.state, level, most_severe(ended) if ended else None, tuple(one.note for one in noted))
