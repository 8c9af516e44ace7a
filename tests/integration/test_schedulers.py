"""jobs/: systemd, Kubernetes, Airflow and Prometheus, each by the tool that reads it; what they run is run here."""

import ast
import json
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from infer_app.base.errors import EXIT_BUG, EXIT_TIME_BUDGET, EXIT_TOO_MANY_REJECTED, InferError, ProvesLittle
from infer_app.base.run_report import ModelOutcome, Verdict
from infer_app.base.telemetry.metrics import HELP, read_samples, render_metrics
from tests.support.projects import INFER

pytestmark = pytest.mark.slow

JOBS = Path(__file__).parents[2] / "jobs"
CRONJOB, RAYJOB, ALERTS = (
    yaml.safe_load((JOBS / name).read_text()) for name in ("cronjob.yaml", "rayjob.yaml", "infer.rules.yml")
)
POD = CRONJOB["spec"]["jobTemplate"]["spec"]["template"]["spec"]
RAY_CLUSTER = RAYJOB["spec"]["rayClusterSpec"]
RAY_GROUPS = [RAY_CLUSTER["headGroupSpec"], *RAY_CLUSTER["workerGroupSpecs"]]
RULES = [rule for group in ALERTS["groups"] for rule in group["rules"]]
PROJECT = "/srv/photos-project"
COMMAND = "/opt/infer_app/.venv/bin/infer"
EXIT_CODES = {EXIT_BUG, EXIT_TIME_BUDGET, EXIT_TOO_MANY_REJECTED, 143} | {
    error.exit_code
    for error in InferError.__subclasses__()
    if error is not ProvesLittle  # of no run
}
HOPELESS = {1, 2, 3, 11, 12}  # the same again would end the same, or worse: as a success


def read_unit(name):
    """{key: all its values} of a unit file."""
    pairs = re.findall(r"^([A-Za-z]+)=(.*)$", (JOBS / name).read_text(), re.MULTILINE)
    return {key: [value for one, value in pairs if one == key] for key, _ in pairs}


@pytest.fixture
def installed(tmp_path):
    """The units with paths that exist here."""
    for name in ("infer.service", "infer.timer"):
        text = (JOBS / name).read_text().replace(COMMAND, str(INFER)).replace(PROJECT, str(tmp_path))
        (tmp_path / name).write_text(text)
    return tmp_path


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("verify", "--man=no", "infer.service", "infer.timer"), ""),
        (("security", "--offline=yes", "--threshold=20", "infer.service"), ""),  # of 100; without any of it, 96
        (("calendar", "*-*-* 02:30:00"), "02:30:00"),
    ],
    ids=["units", "confinement", "time"],
)
def test_systemd_finds_nothing_wrong_with_the_units(installed, arguments, said):
    if shutil.which("systemd-analyze") is None:
        pytest.skip("needs systemd-analyze: apt-get install systemd")
    assert read_unit("infer.timer")["OnCalendar"] == ["*-*-* 02:30:00"]
    check = subprocess.run(["systemd-analyze", *arguments], cwd=installed, capture_output=True, text=True)
    assert (check.returncode, said in check.stdout) == (0, True), check.stdout + check.stderr
    assert arguments[0] != "verify" or check.stdout + check.stderr == ""


def test_the_line_that_systemd_runs_runs(project):
    project.add_photos(2, date="yesterday")
    command, *arguments = shlex.split(read_unit("infer.service")["ExecStart"][0])
    assert command == COMMAND
    assert "2 predicted" in project.infer(*arguments)


def test_systemd_tries_again_what_a_second_try_can_mend():
    unit = read_unit("infer.service")
    final = {int(code) for code in unit["RestartPreventExitStatus"][0].split()}
    wanted = {int(code) for code in unit["SuccessExitStatus"][0].split()}
    assert (final, wanted) == (HOPELESS | {13}, {75, 143})  # 13: a process of this machine that is alive
    assert int(unit["TimeoutStopSec"][0]) > 25


def test_kubernetes_takes_the_cronjob_and_the_pods_of_the_rayjob():
    validator = pytest.importorskip("kubernetes_validate")
    pods = [group["template"]["spec"] for group in RAY_GROUPS]
    for pod in pods:
        whole = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "infer"}, "spec": pod}
        validator.validate(whole, "1.31", strict=True)
    for version in ("1.31", validator.latest_version()):
        validator.validate(CRONJOB, version, strict=True)
    # no variables for a service whose name begins with infer-, as KubeRay's does: INFER_…_SERVICE_HOST and others
    assert [pod["enableServiceLinks"] for pod in (POD, *pods)] == [False, False, False]


def test_kubernetes_decides_on_every_exit_code_once():
    rules = CRONJOB["spec"]["jobTemplate"]["spec"]["podFailurePolicy"]["rules"]
    decided = [(code, rule["action"]) for rule in rules for code in rule.get("onExitCodes", {"values": []})["values"]]
    assert len(dict(decided)) == len(decided)
    assert dict(decided).keys() >= EXIT_CODES
    assert {code for code, action in decided if action == "FailJob"} == HOPELESS | {75}


def test_the_pod_has_no_more_rights_than_it_needs():
    (container,) = POD["containers"]
    assert POD["securityContext"]["runAsNonRoot"]
    assert container["securityContext"]["readOnlyRootFilesystem"]
    assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    assert POD["terminationGracePeriodSeconds"] > 25
    mounted = {mount["name"] for mount in container["volumeMounts"]}
    assert mounted == {volume["name"] for volume in POD["volumes"]}


def test_what_the_pod_runs_runs_with_what_it_sets(project):
    project.add_photos(2, date="yesterday")
    (container,) = POD["containers"]
    database = f"sqlite:///{project.folder}/infer.db"
    values = {"database-url": database, "ping-url": "http://127.0.0.1:9/x"}
    environ = {one["name"]: values[one["valueFrom"]["secretKeyRef"]["key"]] for one in container["env"]}
    assert '"predicted": 2' in project.infer(*container["args"], **environ)
    assert json.loads(project.errors.splitlines()[-1])["exit_code"] == 0
    budget = float(container["args"][container["args"].index("--max-duration") + 1])
    assert budget + 600 < CRONJOB["spec"]["jobTemplate"]["spec"]["activeDeadlineSeconds"]


def test_airflow_s_words_for_the_exit_codes():
    """Without Airflow, which is larger than all else together: that the file compiles, and what its sets are."""
    dag = ast.parse((JOBS / "airflow_dag.py").read_text(), "airflow_dag.py")
    compile(dag, "airflow_dag.py", "exec")
    named = {
        node.targets[0].id: ast.literal_eval(node.value)
        for node in dag.body
        if isinstance(node, ast.Assign) and not isinstance(node.value, ast.JoinedStr)
    }
    assert (named["INFER"], named["PROJECT"]) == (COMMAND, PROJECT)
    assert (named["DONE"], named["SKIPPED"]) == ({0}, {75})
    assert named["RETRIED"] & (HOPELESS | {75}) == set()
    assert {10, 13, 14, 74} <= named["RETRIED"]


def test_alerts_are_about_metrics_that_are_written():
    named = {name for rule in RULES for name in re.findall(r"infer_\w+", rule["expr"])}
    assert named <= set(HELP)
    outcome = ModelOutcome("a", 0, day_state=Verdict("done", "good", 0, ()))
    written = read_samples(render_metrics({}, Path("/p"), [outcome], 0, 1.0).decode())
    assert named <= {name for name, _ in written}


RULES_TEST = """
rule_files: [{rules}]
evaluation_interval: 1h
tests:
  - interval: 1h
    input_series:
      - series: infer_last_success_timestamp_seconds{{project="/p", model="late", instance="lab"}}
        values: "0x60"
      - series: infer_last_success_timestamp_seconds{{project="/p", model="good", instance="lab"}}
        values: "0x24 86400x24 172800x24"
      - series: infer_model_exit_code{{project="/p", model="never", instance="lab"}}
        values: "12x60"
      - series: infer_last_run_timestamp_seconds{{project="/p", instance="lab"}}
        values: "0x60"
    alert_rule_test:
      - {{eval_time: 29h, alertname: InferNoSuccess}}
      - eval_time: 34h
        alertname: InferNoSuccess
        exp_alerts:
          - exp_labels: {{severity: warning, project: /p, model: late, instance: lab}}
            exp_annotations:
              summary: "late in /p on lab: no successful run for 1d 10h 0m 0s"
              description: {description}
      - eval_time: 30h
        alertname: InferNeverSucceeded
        exp_alerts:
          - exp_labels: {{severity: warning, project: /p, model: never, instance: lab}}
            exp_annotations:
              summary: "never in /p on lab: no run has succeeded, the last exit code was 12"
      - {{eval_time: 50h, alertname: InferMetricsMissing}}
"""


def test_promtool_takes_the_alerts_and_they_fire_when_they_should(tmp_path):
    if shutil.which("promtool") is None:
        pytest.skip("needs promtool: apt-get install prometheus")
    description = yaml.safe_dump(RULES[0]["annotations"]["description"], width=1000).splitlines()[0]
    (tmp_path / "test.yml").write_text(RULES_TEST.format(rules=JOBS / "infer.rules.yml", description=description))
    check = subprocess.run(["promtool", "check", "rules", JOBS / "infer.rules.yml"], capture_output=True, text=True)
    assert check.returncode == 0, check.stderr
    test = subprocess.run(["promtool", "test", "rules", tmp_path / "test.yml"], capture_output=True, text=True)
    assert test.returncode == 0, test.stdout + test.stderr


def test_the_rayjob_asks_for_as_many_nodes_as_it_may_have():
    words = shlex.split(RAYJOB["spec"]["entrypoint"])
    head, workers = RAY_GROUPS
    variables = {one["name"]: one.get("value") for one in head["template"]["spec"]["containers"][0]["env"]}
    assert int(variables["INFER_RAY__ACTORS"]) == workers["maxReplicas"]
    (container,) = workers["template"]["spec"]["containers"]
    assert words[words.index("--workers") + 1] == container["resources"]["limits"]["cpu"]
    assert head["rayStartParams"] == {"num-cpus": "0"}
    assert int(variables["RAY_JOB_STOP_WAIT_TIME_S"]) > 25
    assert int(words[words.index("--max-duration") + 1]) < RAYJOB["spec"]["activeDeadlineSeconds"]


@pytest.mark.ray
def test_the_line_that_the_rayjob_runs_runs(project):
    """On a Ray of this machine instead of the cluster."""
    pytest.importorskip("ray")
    project.add_photos(2, date="yesterday")
    command, *arguments = shlex.split(RAYJOB["spec"]["entrypoint"])
    here = {"/data/infer.toml": str(project.folder / "infer.toml"), "auto": "local", "4": "1"}
    assert command == "infer"
    assert "2 predicted" in project.infer(*(here.get(word, word) for word in arguments), INFER_RAY__ACTORS="1")


@pytest.mark.ray
def test_ray_takes_the_cluster_file():
    pytest.importorskip("ray")
    from ray.autoscaler._private.util import prepare_config, validate_config

    validate_config(prepare_config(yaml.safe_load((JOBS / "ray-cluster.yaml").read_text())))
