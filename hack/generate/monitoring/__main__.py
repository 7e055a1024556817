"""`python -m hack.generate.monitoring`: write rules, alerts and boards of manifests/components/monitoring."""

import argparse
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from hack.generate.monitoring.alerts import ALERTS, RUNBOOK
from hack.generate.monitoring.boards import BOARDS
from hack.generate.monitoring.rules import recording_rules

FOLDER = Path(__file__).parents[3] / "manifests/components/monitoring"
WRITTEN = "# Written by `make docs` from hack/generate/monitoring: change that, not this file.\n"


def groups(runbooks: str = RUNBOOK) -> list[Mapping[str, Any]]:
    """The groups of rules in Prometheus' format.

    `runbooks` is the address of an alert's page, with NAME in place of its name; empty if it is published nowhere.
    """
    records = [{"record": rule.record, "expr": rule.expr} for rule in recording_rules()]
    alerts = [
        {
            "alert": alert.name, "expr": alert.expr, "for": f"{alert.lasts}m",
            "labels": {"severity": alert.severity.value},
            "annotations": {
                "summary": alert.summary, "description": alert.description, "runbook": alert.page,
                **({"runbook_url": runbooks.replace("NAME", alert.page_name)} if runbooks else {}),
            },
        }
        for alert in ALERTS
    ]  # fmt: skip
    return [{"name": "vgpu-records", "rules": records}, {"name": "vgpu-alerts", "rules": alerts}]


def files(runbooks: str = RUNBOOK) -> Mapping[str, str]:
    """The content of every file, by its path in the component."""
    operators = {
        "apiVersion": "monitoring.coreos.com/v1",
        "kind": "PrometheusRule",
        "metadata": {"name": "vgpu", "namespace": "vgpu-system"},
        "spec": {"groups": groups(runbooks)},
    }
    boards = {f"boards/{board.name}.json": json.dumps(board.json(), indent=1) + "\n" for board in BOARDS}
    return {
        "rules.yaml": _yaml(operators),
        "prometheus/vgpu.rules.yaml": _yaml({"groups": groups(runbooks)}),
        **boards,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--runbooks", default=RUNBOOK, metavar="URL",
        help="the address of an alert's page, with NAME in place of the page's name, such as"
        " https://docs.example.com/alerts/NAME.html",
    )  # fmt: skip
    runbooks = parser.parse_args().runbooks
    if runbooks and not (re.match("https?://", runbooks) and "NAME" in runbooks):
        parser.error(f"--runbooks {runbooks}: write a whole address with NAME in it")
    for name, text in files(runbooks).items():
        path = FOLDER / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
        print(path.relative_to(FOLDER.parents[2]))


def _yaml(content: object) -> str:
    return WRITTEN + yaml.safe_dump(content, sort_keys=False, width=120, allow_unicode=True)


if __name__ == "__main__":
    main()
