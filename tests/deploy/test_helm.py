"""The Helm chart: its values, and what its templates make of them."""

import copy
import json
import re
import tomllib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft7Validator, ValidationError

from deploy.go_template import Chart, RefusedTemplate
from deploy.start import DEPLOY, ROOT, probe_paths, settings_of
from onbeat.model.role import Role

FOLDER = DEPLOY / "helm" / "onbeat"
CHART = yaml.safe_load((FOLDER / "Chart.yaml").read_text("utf-8"))
VALUES = yaml.safe_load((FOLDER / "values.yaml").read_text("utf-8"))
SCHEMA = json.loads((FOLDER / "values.schema.json").read_text("utf-8"))
TEMPLATES = Chart(FOLDER / "templates")

SECRETS = {"store": "onbeat-store", "api": "onbeat-api"}
OF_SECRETS = {
    "onbeat-store": {
        "ONBEAT_STORE": "postgresql://onbeat:x@db/onbeat",
        "ONBEAT_TRANSPORT": "amqp://onbeat:x@mq/",
    },
    "onbeat-api": {"ONBEAT_API__KEYS": "0123456789abcdef" * 3},
}
ALL_ON = {
    "image": {
        "repository": "registry.example/onbeat",
        "digest": "sha256:" + "0" * 64,
        "pullSecrets": ["registry"],
    },
    "metrics": {"serviceMonitor": {"enabled": True, "labels": {"release": "prometheus"}}},
    "networkPolicy": {
        "enabled": True,
        "apiFrom": [{"podSelector": {}}],
        "metricsFrom": [{"namespaceSelector": {"matchLabels": {"name": "monitoring"}}}],
    },
    "nodeSelector": {"disk": "ssd"},
    "tolerations": [{"key": "batch", "operator": "Exists"}],
    "podAnnotations": {"example/team": "billing"},
    "processes": {"worker": {"program": "shop.tasks:beat"}},
}
CASES = {"as it is": {}, "all on": ALL_ON}


def values_with(changes: dict[str, Any]) -> dict[str, Any]:
    """As Helm merges them: maps by key, and a null removes one."""
    return merged(copy.deepcopy(VALUES), {"secrets": SECRETS, **changes})


def merged(values: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    for name, change in changes.items():
        if isinstance(change, dict) and isinstance(values.get(name), dict):
            merged(values[name], change)
        elif change is None:
            values.pop(name, None)
        else:
            values[name] = change
    return values


def rendered(changes: dict[str, Any]) -> list[dict[str, Any]]:
    values = values_with(changes)
    Draft7Validator(SCHEMA).validate(values)
    root = {
        "Values": values,
        "Chart": {"AppVersion": CHART["appVersion"], "Name": CHART["name"]},
        "Release": {"Name": "shop", "Service": "Helm", "Namespace": "default"},
    }
    texts = [TEMPLATES.render(name, root) for name in TEMPLATES.files if name.endswith(".yaml")]
    assert "port-forward service/shop 8080:80" in TEMPLATES.render("NOTES.txt", root)
    return [one for text in texts for one in yaml.safe_load_all(text) if one]


def of_kind(documents: list[dict[str, Any]], kind: str) -> dict[str, dict[str, Any]]:
    return {one["metadata"]["name"]: one for one in documents if one["kind"] == kind}


def pod_of(document: dict[str, Any]) -> dict[str, Any]:
    result: dict[str, Any] = document["spec"]["template"]["spec"]
    return result


def container_of(document: dict[str, Any]) -> dict[str, Any]:
    (result,) = pod_of(document)["containers"]
    return dict(result)


def environment_of(container: dict[str, Any]) -> dict[str, str]:
    names = [one["name"] for one in container["env"]]
    assert len(set(names)) == len(names)
    variables = {one["name"]: one["value"] for one in container["env"]}
    for source in container["envFrom"]:
        variables |= OF_SECRETS[source["secretRef"]["name"]]
    return variables


@pytest.fixture(params=CASES)
def documents(request: pytest.FixtureRequest) -> list[dict[str, Any]]:
    return rendered(CASES[request.param])


def test_each_role_is_one_deployment_that_starts(
    documents: list[dict[str, Any]], tmp_path: Path
) -> None:
    roles: Counter[str] = Counter()
    for name, deployment in of_kind(documents, "Deployment").items():
        container = container_of(deployment)
        environment = environment_of(container)
        settings = settings_of(container["args"], environment, tmp_path)
        assert f"shop-{'-'.join(settings.roles)}" == name
        assert ("ONBEAT_API__KEYS" in environment) == (Role.API in settings.roles)
        ports = {port["name"]: port["containerPort"] for port in container["ports"]}
        assert ports.pop("metrics") == settings.metrics.port
        assert ports == ({"http": settings.api.port} if Role.API in settings.roles else {})
        grace = pod_of(deployment)["terminationGracePeriodSeconds"]
        assert grace > settings.worker.drain_timeout.total_seconds()
        roles.update(settings.roles)
    assert roles == Counter(list(Role))


def test_the_schema_is_migrated_before_they_start(
    documents: list[dict[str, Any]], tmp_path: Path
) -> None:
    (job,) = of_kind(documents, "Job").values()
    assert job["metadata"]["annotations"]["helm.sh/hook"] == "pre-install,pre-upgrade"
    container = container_of(job)
    assert container["args"] == ["migrate"]
    settings = settings_of(container["args"], environment_of(container), tmp_path)
    assert settings.store == OF_SECRETS["onbeat-store"]["ONBEAT_STORE"]


def test_a_pod_has_no_right_that_it_does_not_need(documents: list[dict[str, Any]]) -> None:
    pods = [one for one in documents if one["kind"] in {"Deployment", "Job"}]
    assert len(pods) == 6
    for document in pods:
        pod, container = pod_of(document), container_of(document)
        assert pod["automountServiceAccountToken"] is False
        # Else a Service named onbeat would set variables that are refused as unknown settings.
        assert pod["enableServiceLinks"] is False
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert pod["securityContext"]["runAsUser"] == 10001
        context = container["securityContext"]
        assert context["readOnlyRootFilesystem"] is True
        assert context["allowPrivilegeEscalation"] is False
        assert context["capabilities"] == {"drop": ["ALL"]}
        mounted = {mount["name"] for mount in container["volumeMounts"]}
        assert mounted == {volume["name"] for volume in pod["volumes"]}


def test_a_probe_asks_what_every_role_answers(documents: list[dict[str, Any]]) -> None:
    for deployment in of_kind(documents, "Deployment").values():
        container = container_of(deployment)
        asked = {
            name: container[name]["httpGet"]
            for name in ("startupProbe", "livenessProbe", "readinessProbe")
        }
        assert all(one["port"] == "metrics" for one in asked.values())
        assert {one["path"] for one in asked.values()} <= probe_paths()
        assert asked["readinessProbe"]["path"] == "/readyz"
        # A store that is away is no reason to restart a process.
        assert asked["livenessProbe"]["path"] == "/healthz"


def labels_of_pods(documents: list[dict[str, Any]]) -> list[dict[str, str]]:
    deployments = of_kind(documents, "Deployment").values()
    return [one["spec"]["template"]["metadata"]["labels"] for one in deployments]


def selected(documents: list[dict[str, Any]], labels: dict[str, str]) -> list[str]:
    return [
        pod["app.kubernetes.io/component"]
        for pod in labels_of_pods(documents)
        if labels.items() <= pod.items()
    ]


def test_selectors_find_the_pods_that_they_mean(documents: list[dict[str, Any]]) -> None:
    for name, deployment in of_kind(documents, "Deployment").items():
        labels = deployment["spec"]["selector"]["matchLabels"]
        assert selected(documents, labels) == [name.removeprefix("shop-")]
        budget = of_kind(documents, "PodDisruptionBudget")[name]
        assert budget["spec"]["selector"]["matchLabels"] == labels
    services = of_kind(documents, "Service")
    assert selected(documents, services["shop"]["spec"]["selector"]) == ["api"]
    assert len(selected(documents, services["shop-metrics"]["spec"]["selector"])) == 5
    # The job of the migration has no port, and no service sends it anything.
    (job,) = of_kind(documents, "Job").values()
    labels = job["spec"]["template"]["metadata"]["labels"]
    for service in services.values():
        assert not service["spec"]["selector"].items() <= labels.items()


def test_what_is_off_by_default_is_made_where_it_is_on() -> None:
    off, on = rendered({}), rendered(ALL_ON)
    made = {one["kind"] for one in on} - {one["kind"] for one in off}
    assert made == {"ServiceMonitor", "NetworkPolicy"}
    (monitor,) = of_kind(on, "ServiceMonitor").values()
    metrics = of_kind(on, "Service")["shop-metrics"]
    assert monitor["metadata"]["labels"]["release"] == "prometheus"
    wanted = monitor["spec"]["selector"]["matchLabels"]
    assert wanted.items() <= metrics["metadata"]["labels"].items()
    assert not wanted.items() <= of_kind(on, "Service")["shop"]["metadata"]["labels"].items()
    (policy,) = of_kind(on, "NetworkPolicy").values()
    assert len(policy["spec"]["ingress"]) == 2
    worker = of_kind(on, "Deployment")["shop-worker"]
    assert container_of(worker)["args"] == ["up", "shop.tasks:beat", "--roles", "worker"]
    assert container_of(worker)["image"] == f"registry.example/onbeat@sha256:{'0' * 64}"
    assert pod_of(worker)["nodeSelector"] == {"disk": "ssd"}
    assert pod_of(worker)["imagePullSecrets"] == [{"name": "registry"}]


def test_without_a_broker_one_process_dispatches_and_works(tmp_path: Path) -> None:
    changes = {"processes": {"dispatcher": None, "worker": {"roles": "dispatcher,worker"}}}
    deployments = of_kind(rendered(changes), "Deployment")
    assert deployments.keys() == {"shop-api", "shop-planner", "shop-worker", "shop-maintenance"}
    container = container_of(deployments["shop-worker"])
    environment = environment_of(container) | {"ONBEAT_TRANSPORT": "memory://"}
    assert settings_of(container["args"], environment, tmp_path).roles == ("dispatcher", "worker")


def test_the_image_is_that_of_this_release() -> None:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["version"]
    assert CHART["appVersion"] == version
    (job,) = of_kind(rendered({}), "Job").values()
    assert container_of(job)["image"] == f"onbeat:{version}"
    (job,) = of_kind(rendered({"image": {"tag": "mine"}}), "Job").values()
    assert container_of(job)["image"] == "onbeat:mine"


@pytest.mark.parametrize("name", SECRETS)
def test_a_secret_that_is_missing_is_named(name: str) -> None:
    with pytest.raises(RefusedTemplate, match=f"secrets.{name} is the name of a Secret"):
        rendered({"secrets": {**SECRETS, name: ""}})


@pytest.mark.parametrize(
    "changes",
    [
        {"replicas": 3},
        {"image": {"tagg": "x"}},
        {"image": {"digest": "sha256:short"}},
        {"settings": {"LOG_LEVEL": "info"}},
        {"processes": {"worker": {"roles": "worker,cook"}}},
        {"processes": {"worker": {"replicas": -1}}},
        {"processes": {"Worker": {"roles": "worker", "replicas": 1}}},
        {"metrics": {"port": "9464"}},
    ],
    ids=str,
)
def test_values_that_cannot_be_are_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        rendered(changes)


def paths_of(values: dict[str, Any], prefix: str = "") -> Iterator[str]:
    """Those of the values that a template can read: not the keys of free maps."""
    for name, value in values.items():
        path = f"{prefix}{name}"
        if isinstance(value, dict) and value and path not in {"settings", "processes"}:
            yield from paths_of(value, f"{path}.")
        else:
            yield path


def test_each_value_is_used_and_each_that_is_used_is_there() -> None:
    texts = [path.read_text("utf-8") for path in (FOLDER / "templates").iterdir()]
    used = {path for text in texts for path in re.findall(r"\.Values\.([\w.]+)", text)}
    assert used == set(paths_of(VALUES))
    of_process = {path for text in texts for path in re.findall(r"\$process\.(\w+)", text)}
    assert {name for one in VALUES["processes"].values() for name in one} == of_process
