"""The image and deploy/compose.yaml: what they copy, start and check is there and is accepted."""

import fnmatch
import re
import shutil
import stat
import subprocess
import sys
import tomllib
import zipfile
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import yaml

from deploy.start import DEPLOY, ROOT, image_environment, instructions, probe_paths, settings_of
from onbeat.model.role import Role

COMPOSE = DEPLOY / "compose.yaml"
VARIABLE = re.compile(r"\$\{(\w+)(?::(-|\?)([^}]*))?\}")

# The fields of a service that ours use, from the Compose specification.
FIELDS = {
    "build",
    "cap_drop",
    "command",
    "depends_on",
    "deploy",
    "environment",
    "healthcheck",
    "hostname",
    "image",
    "mem_limit",
    "networks",
    "pids_limit",
    "ports",
    "profiles",
    "read_only",
    "restart",
    "security_opt",
    "shm_size",
    "stop_grace_period",
    "tmpfs",
    "volumes",
}
# Those for work on Onbeat, and those of frameworks, whose programs bring an image of their own.
NO_EXTRAS_OF_THE_IMAGE = {"audit", "bench", "django", "docs", "fastapi", "flask", "lint", "test"}


@pytest.fixture(scope="module")
def secrets(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Those that the script makes."""
    folder = tmp_path_factory.mktemp("deploy")
    shutil.copy(DEPLOY / "try-compose.sh", folder)
    subprocess.run(["sh", "try-compose.sh", "--secrets"], cwd=folder, check=True)
    made = folder / ".env"
    assert stat.S_IMODE(made.stat().st_mode) == 0o600
    lines = made.read_text("utf-8").splitlines()
    subprocess.run(["sh", "try-compose.sh", "--secrets"], cwd=folder, check=True)
    assert made.read_text("utf-8").splitlines() == lines, "secrets that are there stay"
    return dict(line.split("=", 1) for line in lines)


@pytest.fixture(scope="module")
def compose(secrets: dict[str, str]) -> dict[str, Any]:
    """As Compose reads it, with these variables."""

    def value_of(match: re.Match[str]) -> str:
        name, mark, other = match.groups()
        return secrets[name] if mark == "?" else secrets.get(name, other or "")

    result: dict[str, Any] = yaml.safe_load(VARIABLE.sub(value_of, COMPOSE.read_text("utf-8")))
    return result


@pytest.fixture(scope="module")
def ours(compose: dict[str, Any]) -> dict[str, Any]:
    return {name: one for name, one in compose["services"].items() if one["image"] == "onbeat"}


def test_no_password_has_a_default() -> None:
    text = COMPOSE.read_text("utf-8")
    secret = {match[1]: match[2] for match in VARIABLE.finditer(text) if "IMAGE" not in match[1]}
    assert secret.keys() == {"POSTGRES_PASSWORD", "RABBITMQ_PASSWORD", "ONBEAT_API__KEYS"}
    assert set(secret.values()) == {"?"}


def test_secrets_are_long_and_differ(secrets: dict[str, str]) -> None:
    assert len(set(secrets.values())) == len(secrets) == 3
    assert all(re.fullmatch("[0-9a-f]{48}", secret) for secret in secrets.values())


def test_a_service_has_fields_that_compose_knows(compose: dict[str, Any]) -> None:
    assert {field for one in compose["services"].values() for field in one} <= FIELDS
    named = compose["networks"].keys() | compose["volumes"].keys() | compose["services"].keys()
    for service in compose["services"].values():
        assert set(service["networks"]) <= compose["networks"].keys()
        assert set(service.get("depends_on", {})) <= named
        volumes = [volume.partition(":")[0] for volume in service.get("volumes", ())]
        for volume in volumes:
            assert volume in compose["volumes"] or (DEPLOY / volume).is_dir()


def test_who_waits_for_health_waits_for_what_has_a_check(compose: dict[str, Any]) -> None:
    services = compose["services"]
    for service in services.values():
        for name, wait in service.get("depends_on", {}).items():
            if wait["condition"] == "service_healthy":
                assert "test" in services[name]["healthcheck"]
            else:
                assert wait["condition"] == "service_completed_successfully"
                assert services[name]["restart"] == "no"


def test_each_role_is_one_service_and_starts_as_it_stands_there(
    ours: dict[str, Any], tmp_path: Path
) -> None:
    roles: Counter[str] = Counter()
    for name, service in ours.items():
        environment = image_environment() | service["environment"]
        settings = settings_of(service["command"], environment, tmp_path)
        assert settings.store.startswith("postgresql://onbeat:")
        assert settings.transport.startswith("amqp://onbeat:")
        if name != "migrate":
            roles.update(settings.roles)
            assert list(settings.roles) == [name]
            assert settings.worker.drain_timeout.total_seconds() < 45
            assert service["stop_grace_period"] == "45s"
    assert roles == Counter(list(Role))


def test_the_schema_is_migrated_once_before_all_others(ours: dict[str, Any]) -> None:
    assert ours["migrate"]["command"] == ["migrate"]
    for name, service in ours.items():
        if name != "migrate":
            wait = service["depends_on"]["migrate"]["condition"]
            assert wait == "service_completed_successfully"


def test_only_the_api_has_its_keys(ours: dict[str, Any]) -> None:
    assert [name for name, one in ours.items() if "ONBEAT_API__KEYS" in one["environment"]] == [
        "api"
    ]


def test_only_this_machine_reaches_a_port(compose: dict[str, Any]) -> None:
    ports = [port for one in compose["services"].values() for port in one.get("ports", ())]
    assert len(ports) == 2
    assert all(port.startswith("127.0.0.1:") for port in ports)
    assert compose["networks"]["inside"] == {"internal": True}
    assert compose["services"]["postgres"]["networks"] == ["inside"]


def test_prometheus_finds_each_role(compose: dict[str, Any], ours: dict[str, Any]) -> None:
    config = yaml.safe_load((DEPLOY / "prometheus" / "prometheus.yml").read_text("utf-8"))
    (job,) = config["scrape_configs"]
    (found,) = job["dns_sd_configs"]
    assert set(found["names"]) == ours.keys() - {"migrate"}
    assert str(found["port"]) == image_environment()["ONBEAT_METRICS__PORT"]
    assert all((DEPLOY / "prometheus" / name).is_file() for name in config["rule_files"])


def test_images_have_a_tag(compose: dict[str, Any], ours: dict[str, Any]) -> None:
    for name, service in compose["services"].items():
        if name not in ours:
            assert re.fullmatch(r"[\w/]+:v?\d+(\.\d+)*", service["image"])
    base = ours["migrate"]["build"]["args"]["BASE"]
    assert ("ARG", f"BASE={base}") in instructions()


def test_the_check_of_the_image_asks_the_port_of_metrics() -> None:
    (check,) = (rest for name, rest in instructions() if name == "HEALTHCHECK")
    (port, path) = re.search(r"http://127\.0\.0\.1:(\d+)(/\w+)", check).groups()
    assert image_environment()["ONBEAT_METRICS__PORT"] == port
    assert path in probe_paths()


# The build, without an engine


def ignored(path: str) -> bool:
    """Whether .dockerignore leaves it out: the last line that matches it or a parent decides."""
    result = False
    parts = path.split("/")
    names = ["/".join(parts[: count + 1]) for count in range(len(parts))]
    for line in (ROOT / ".dockerignore").read_text("utf-8").splitlines():
        pattern = line.removeprefix("!")
        if line and not line.startswith("#") and any(is_match(name, pattern) for name in names):
            result = not line.startswith("!")
    return result


def is_match(name: str, pattern: str) -> bool:
    if pattern.startswith("**/"):
        return fnmatch.fnmatchcase(name.rpartition("/")[2], pattern.removeprefix("**/"))
    same_depth = name.count("/") == pattern.count("/")
    return same_depth and fnmatch.fnmatchcase(name, pattern)


def copied() -> list[str]:
    """What the Dockerfile copies from the folder of the build."""
    words = [rest.split() for name, rest in instructions() if name == "COPY"]
    return [source for one in words if not one[0].startswith("--") for source in one[:-1]]


@pytest.mark.parametrize(
    ("path", "out"),
    [
        ("deploy/requirements.txt", False),
        ("src/onbeat/cli/up.py", False),
        ("README.md", False),
        ("deploy/.env", True),
        (".env", True),
        ("src/.env", True),
        (".git/config", True),
        ("onbeat.db", True),
        ("src/onbeat.db-wal", True),
        ("src/onbeat/__pycache__/up.pyc", True),
        ("tests/conftest.py", True),
    ],
)
def test_a_build_sees_what_it_needs_and_no_secret(path: str, out: bool) -> None:
    assert ignored(path) == out


def test_the_image_is_built_from_what_it_copies(tmp_path: Path) -> None:
    assert len(copied()) == 6
    folder = tmp_path / "src"
    folder.mkdir()
    for source in copied():
        assert not ignored(source)
        if (ROOT / source).is_dir():
            caches = shutil.ignore_patterns("__pycache__")
            shutil.copytree(ROOT / source, folder / source, ignore=caches)
        else:
            shutil.copy(ROOT / source, folder)
    command = [sys.executable, "-m", "hatchling", "build", "--target", "wheel"]
    subprocess.run(command, cwd=folder, check=True, capture_output=True)
    (wheel,) = (folder / "dist").glob("*.whl")
    names = set(zipfile.ZipFile(wheel).namelist())
    assert {"onbeat/cli/up.py", "onbeat/py.typed"} <= names
    assert any(name.startswith("onbeat/dashboard/templates/") for name in names)


def test_the_image_has_every_extra() -> None:
    text = (ROOT / "Makefile").read_text("utf-8")
    named = set(re.search(r"^IMAGE_EXTRAS := (.*)$", text, re.MULTILINE)[1].split())
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    extras = project["optional-dependencies"]
    within = {"encryption"}  # of `server`
    assert extras["server"][0] == "onbeat[encryption]"
    empty = {name for name, packages in extras.items() if not packages}
    assert named == extras.keys() - NO_EXTRAS_OF_THE_IMAGE - within - empty


def test_the_script_of_the_trial_is_one_that_a_shell_reads() -> None:
    script = DEPLOY / "try-compose.sh"
    subprocess.run(["sh", "-n", str(script)], check=True)
    assert script.stat().st_mode & stat.S_IXUSR
    for command in re.findall(
        r"^ +onbeat (\w+(?: \w+)?)$", script.read_text("utf-8"), re.MULTILINE
    ):
        assert f"## onbeat {command}\n" in (ROOT / "docs/reference/cli.md").read_text("utf-8")
