"""The dashboard for Grafana and the alerts for Prometheus: what they ask for is there."""

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
import yaml

from deploy.start import DEPLOY, ROOT
from onbeat.app.health import RESTFUL_LOOPS
from onbeat.settings.table import TABLE

PROMETHEUS = DEPLOY / "prometheus"
DASHBOARD = json.loads((DEPLOY / "grafana" / "onbeat.json").read_text("utf-8"))
GROUPS = yaml.safe_load((PROMETHEUS / "rules.yaml").read_text("utf-8"))["groups"]
RULES: list[dict[str, Any]] = [rule for group in GROUPS for rule in group["rules"]]

ROW = re.compile(r"^\| `(onbeat_\w+)` \| (\w+) \| ([^|]*)\|", re.MULTILINE)
SELECTOR = re.compile(r"([a-z_]+)\{([^}]*)\}")
SELECTED = re.compile(r'(\w+)\s*(?:=~|!~|!=|=)\s*"')
GROUPED = re.compile(r"\b(?:by|on) \(([^)]*)\)")
NAME = re.compile(r"\b(?:onbeat|process|node)_[a-z_]+\b")

# Labels that the scraper adds, or the histogram.
OF_SCRAPES = {"instance", "job", "le"}
# Metrics of the Python client, and those of the node exporter.
OTHERS = {
    "process_cpu_seconds_total": set[str](),
    "process_resident_memory_bytes": set[str](),
    "node_filesystem_avail_bytes": {"mountpoint"},
    "node_filesystem_size_bytes": {"mountpoint"},
}


def metrics() -> dict[str, set[str]]:
    """The labels of each metric of the reference; a histogram by the names of its series."""
    result: dict[str, set[str]] = dict(OTHERS)
    text = (ROOT / "docs" / "reference" / "metrics.md").read_text("utf-8")
    for name, kind, labels in ROW.findall(text):
        ends = ("_bucket", "_sum", "_count") if kind == "histogram" else ("",)
        result |= {name + end: set(re.findall(r"`(\w+)`", labels)) for end in ends}
    assert len(result) > 40
    return result


METRICS = metrics()


def queries() -> Iterator[tuple[str, str]]:
    for rule in RULES:
        yield rule["alert"], rule["expr"]
    for panel in DASHBOARD["panels"]:
        for target in panel.get("targets", ()):
            yield panel["title"], target["expr"]


@pytest.mark.parametrize(("place", "query"), list(queries()))
def test_a_query_asks_for_metrics_and_labels_that_are_there(place: str, query: str) -> None:
    named = set(NAME.findall(query))
    assert named
    assert named <= METRICS.keys()
    for name, selector in SELECTOR.findall(query):
        assert set(SELECTED.findall(selector)) <= METRICS[name] | OF_SCRAPES
    known = {label for name in named for label in METRICS[name]} | OF_SCRAPES
    for labels in GROUPED.findall(query):
        assert {label.strip() for label in labels.split(",")} <= known


def test_the_dashboard_shows_each_metric() -> None:
    shown = {name for panel in DASHBOARD["panels"] for name in NAME.findall(json.dumps(panel))}
    wanted = {name for name in METRICS if name.startswith("onbeat_")}
    missing = {re.sub("_(bucket|sum|count)$", "", name) for name in wanted - shown}
    # Of a histogram only the buckets are shown.
    assert missing <= {"onbeat_job_lateness_seconds", "onbeat_job_duration_seconds"}


def test_panels_stand_beside_each_other() -> None:
    panels = DASHBOARD["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels) > 30
    places = [(panel["title"], panel["gridPos"]) for panel in panels]
    assert all(place["x"] + place["w"] <= 24 for _, place in places)
    for (_, one), (title, other) in combinations(places, 2):
        is_beside = one["x"] + one["w"] <= other["x"] or other["x"] + other["w"] <= one["x"]
        is_below = one["y"] + one["h"] <= other["y"] or other["y"] + other["h"] <= one["y"]
        assert is_beside or is_below, title


def test_the_dashboard_is_tied_to_no_data_source_of_ours() -> None:
    variables = {one["name"] for one in DASHBOARD["templating"]["list"]}
    used = set(re.findall(r"\$\{?([a-z]+)\}?", json.dumps(DASHBOARD["panels"])))
    assert used <= variables
    assert "id" not in DASHBOARD
    sources = {panel["datasource"]["uid"] for panel in DASHBOARD["panels"] if "datasource" in panel}
    assert sources == {"${datasource}"}


def test_loops_that_rest_are_those_of_the_readiness() -> None:
    (expression,) = (rule["expr"] for rule in RULES if rule["alert"] == "OnbeatLoopSilent")
    assert set(re.search(r'loop!~"([\w|]+)"', expression)[1].split("|")) == RESTFUL_LOOPS


def test_an_alert_says_what_to_do() -> None:
    assert len({rule["alert"] for rule in RULES}) == len(RULES)
    reference = (ROOT / "docs" / "reference" / "cli.md").read_text("utf-8")
    for rule in RULES:
        assert rule["labels"]["severity"] in {"critical", "warning", "info"}
        text = rule["annotations"]["summary"] + rule["annotations"]["description"]
        for command in re.findall(r"`onbeat ((?:[a-z-]+ ?)+)", text):
            assert f"## onbeat {command.strip()}\n" in reference
        for setting in re.findall(r"`([a-z]+\.[a-z_]+)`", text):
            assert setting in TABLE


def test_each_alert_is_tried_and_stands_where_it_should() -> None:
    tests = (PROMETHEUS / "rules_test.yaml").read_text("utf-8")
    assert [rule["alert"] for rule in RULES if rule["alert"] not in tests] == []
    folder = Path(sys.executable).parent
    promtool = shutil.which("promtool") or shutil.which("promtool", path=folder)
    assert promtool, "`make test` gets it, and `apt-get install prometheus`"
    for arguments in (["test", "rules", "rules_test.yaml"], ["check", "config", "prometheus.yml"]):
        done = subprocess.run(
            [promtool, *arguments], cwd=PROMETHEUS, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
