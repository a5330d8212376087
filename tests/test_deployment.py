"""What is shipped for running it: compose file, image, unit and dashboard say what the program knows."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
import typer
import yaml
from sqlalchemy import make_url

from ebbtide.audit.standing import Standing
from ebbtide.cli import main
from ebbtide.cli.settings import Settings
from ebbtide.model.words import RunStatus, Task
from ebbtide.organise.ledger import Run
from ebbtide.service.metrics import Metrics

ROOT = Path(__file__).parent.parent
COMPOSE = ROOT / "docker-compose.yml"
DASHBOARD = ROOT / "docs" / "grafana-dashboard.json"
OPERATIONS = ROOT / "docs" / "operations.md"
COMMAND: Any = typer.main.get_command(main.app)


def busy() -> Metrics:
    """Metrics of an organiser that has run each task and written something."""
    metrics = Metrics()
    metrics.wrote({"ASSERT": 1})
    for task in Task:
        metrics.ran(Run(UUID(int=1), task, "maya", 0, RunStatus.DONE, examined=1), 1.0)
    each = dict.fromkeys(Task, 1)
    metrics.stands(Standing("0001", 1, 1, "", 1, 0, held=each, lag=each, last=each))
    return metrics


VARIABLE = re.compile(r"\$\{(\w+):-(\w+)\}")


@pytest.fixture(scope="module")
def services() -> dict[str, Any]:
    """The services, with the defaults of the variables in them."""
    text = VARIABLE.sub(r"\2", COMPOSE.read_text(encoding="utf-8"))
    return yaml.safe_load(text)["services"]


def test_every_service_waits_for_one_that_is_there_and_can_tell_how_it_is(services) -> None:
    """Healthy needs a healthcheck, and completed something that ends."""
    for name, service in services.items():
        assert "image" in service, name
        for other, needs in service.get("depends_on", {}).items():
            assert needs["condition"] in ("service_healthy", "service_completed_successfully")
            assert ("healthcheck" in services[other]) == (needs["condition"] == "service_healthy"), (name, other)


def test_what_runs_ebb_has_a_command_and_settings_that_there_are(services) -> None:
    known = {f"EBB_{name.upper()}" for name in Settings.model_fields}
    mine = {name: service for name, service in services.items() if service["image"] == "ebbtide"}
    assert mine.keys() == {"migrate", "organiser", "server"}
    for service in mine.values():
        assert service["command"][0] in COMMAND.commands
        assert service["environment"].keys() <= known
        url = make_url(service["environment"]["EBB_URL"])
        assert (url.host, url.database) == ("postgres", services["postgres"]["environment"]["POSTGRES_DB"])
        settings = {name.removeprefix("EBB_").lower(): v for name, v in service["environment"].items()}
        Settings.model_validate(settings)
    organiser = mine["organiser"]
    assert organiser["deploy"]["replicas"] == 2
    assert make_url(organiser["environment"]["EBB_URL"]).username == "ebb", "not the owner"
    assert f":{organiser['environment']['EBB_METRICS_PORT']}/health/ready" in organiser["healthcheck"]["test"][-1]
    server = mine["server"]
    command = COMMAND.commands["serve"].make_context("serve", server["command"][1:])
    assert make_url(server["environment"]["EBB_URL"]).username == "ebb", "not the owner"
    assert f":{command.params['port']}/health/ready" in server["healthcheck"]["test"][-1]
    assert server["ports"] == [f"127.0.0.1:{command.params['port']}:{command.params['port']}"]


def test_the_image_copies_what_there_is_and_the_build_needs() -> None:
    text = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    copied = [name for line in re.findall(r"^COPY (.+) \S+$", text, re.MULTILINE) for name in line.split()]
    assert [name for name in copied if not (ROOT / name).exists()] == []
    assert {"pyproject.toml", "README.md", "LICENSE", "src", "migrations", "policies", "queries"} <= set(copied)
    ignored = (ROOT / ".dockerignore").read_text(encoding="utf-8").split()
    assert not set(copied) & set(ignored)
    assert json.loads(re.search(r"^CMD (.+)$", text, re.MULTILINE)[1])[0] in COMMAND.commands
    assert re.search(r"^USER (?!root)", text, re.MULTILINE)


def test_the_unit_starts_a_command_with_options_and_settings_that_there_are() -> None:
    unit = re.search(r"```ini\n(\[Unit\].+?)```", OPERATIONS.read_text(encoding="utf-8"), re.DOTALL)[1]
    command, *options = re.search(r"^ExecStart=\S+/ebb (.+)$", unit, re.MULTILINE)[1].split()
    known = {name for parameter in COMMAND.commands[command].params for name in parameter.opts}
    assert {option for option in options if option.startswith("--")} <= known
    named = set(re.findall(r"\bEBB_(\w+)=", unit))
    assert named
    assert {name.lower() for name in named} <= Settings.model_fields.keys()


def test_every_metric_on_the_dashboard_is_one_that_is_served() -> None:
    """And the other way round: every metric has a place on it."""
    document = json.loads(DASHBOARD.read_text(encoding="utf-8"))
    expressions = [target["expr"] for panel in document["panels"] for target in panel.get("targets", [])]
    assert len(expressions) >= 10
    used = {name for expression in expressions for name in re.findall(r"\b(?:ebbtide|process)_\w+", expression)}
    families = list(busy().registry.collect())
    assert used <= {sample.name for family in families for sample in family.samples}
    mine = {family.name for family in families if family.name.startswith("ebbtide_")}
    assert {name for name in mine if not any(one.startswith(name) for one in used)} == {"ebbtide_build_info"}
    described = OPERATIONS.read_text(encoding="utf-8")
    for family in families:
        if family.name in mine:
            total = f"{family.name}_total" if family.type == "counter" else family.name
            assert f"`{total}`" in described, "every metric is in the reference"


def test_no_metric_is_labelled_by_namespace_or_memory() -> None:
    """Labels that grow with the store would make a time series of each."""
    labels = {name for family in busy().registry.collect() for s in family.samples for name in s.labels}
    assert labels <= {"task", "status", "op_type", "why", "version", "le"}
