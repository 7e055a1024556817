"""`python -m hack.monitoring`: write the rules, the alerts and the boards of manifests/components/monitoring."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from hack.monitoring.alerts import ALERTS
from hack.monitoring.boards import BOARDS
from hack.monitoring.rules import recording_rules

FOLDER = Path(__file__).parents[2] / "manifests/components/monitoring"
WRITTEN = "# Written by `make docs` from hack/monitoring: change that, not this file.\n"


def groups() -> list[Mapping[str, Any]]:
    """The groups of rules, as Prometheus and its operator read them."""
    records = [{"record": rule.record, "expr": rule.expr} for rule in recording_rules()]
    alerts = [
        {
            "alert": alert.name, "expr": alert.expr, "for": f"{alert.lasts}m",
            "labels": {"severity": alert.severity.value},
            "annotations": {
                "summary": alert.summary, "description": alert.description, "runbook_url": alert.page,
            },
        }
        for alert in ALERTS
    ]  # fmt: skip
    return [{"name": "vgpu-records", "rules": records}, {"name": "vgpu-alerts", "rules": alerts}]


def files() -> Mapping[str, str]:
    """The content of every file, by its path in the component."""
    operators = {
        "apiVersion": "monitoring.coreos.com/v1",
        "kind": "PrometheusRule",
        "metadata": {"name": "vgpu", "namespace": "vgpu-system"},
        "spec": {"groups": groups()},
    }
    boards = {f"boards/{board.name}.json": json.dumps(board.json(), indent=1) + "\n" for board in BOARDS}
    return {
        "rules.yaml": _yaml(operators),
        "prometheus/vgpu.rules.yaml": _yaml({"groups": groups()}),
        **boards,
    }


def main() -> None:
    for name, text in files().items():
        path = FOLDER / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
        print(path.relative_to(FOLDER.parents[2]))


def _yaml(content: object) -> str:
    return WRITTEN + yaml.safe_dump(content, sort_keys=False, width=120, allow_unicode=True)


if __name__ == "__main__":
    main()
