"""Daily in Airflow 3: a task for each day, with the exit codes of `infer run` as Airflow's states.

Change PROJECT, INFER and ZONE and copy this file into the DAG folder. The URLs of the database and the ping may be set
as INFER_DATABASE__URL and INFER_PING__URL in the workers' environment. infer must be installed where the task runs.
"""

from datetime import datetime, timedelta

from airflow.providers.standard.operators.bash import BashOperator
from airflow.sdk import DAG
from airflow.sdk.exceptions import AirflowException, AirflowFailException, AirflowSkipException
from airflow.timetables.interval import CronDataIntervalTimetable

PROJECT = "/srv/photos-project"
INFER = "/opt/infer_app/.venv/bin/infer"
ZONE = "Europe/Berlin"  # also [run] time_zone in infer.toml

DONE = {0}
SKIPPED = {75}  # the time budget: the next run continues
RETRIED = {10, 13, 14, 74, 137}  # database unavailable, day held, storage unavailable, disk or memory full, killed
# Every other code fails at once, above all 3, too many rejected: a retry would find nothing new and succeed.

# The interval of a run begins at 02:30 of the day that it predicts; in UTC that may be the day before.
DAY = f"{{{{ data_interval_start.in_timezone('{ZONE}').to_date_string() }}}}"


def judge(last_line: str) -> int:
    """Return the exit code, which the command prints as its last line, or raise for a skipped or failed task."""
    exit_code = int(last_line)
    if exit_code in DONE:
        return exit_code
    if exit_code in SKIPPED:
        raise AirflowSkipException("stopped by the time budget, the next run continues")
    if exit_code in RETRIED:
        raise AirflowException(f"infer run ended with exit code {exit_code}: retried")
    raise AirflowFailException(f"infer run ended with exit code {exit_code}: see the log")


with DAG(
    dag_id="infer",
    schedule=CronDataIntervalTimetable("30 2 * * *", timezone=ZONE),
    start_date=datetime(2026, 1, 1),
    catchup=False,  # infer looks back three days; for more use `airflow backfill create`
    max_active_runs=1,
    tags=["infer"],
):
    BashOperator(
        task_id="infer_run",
        cwd=PROJECT,
        bash_command=f"{INFER} run --date {DAY}; echo $?",
        output_processor=judge,
        append_env=True,
        retries=4,
        retry_delay=timedelta(minutes=15),
        execution_timeout=timedelta(hours=6),  # sends SIGTERM; chunks in progress are committed
    )
