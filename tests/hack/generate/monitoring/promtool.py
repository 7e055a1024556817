"""Prometheus' own checks, by the promtool of Debian's package."""

import json
import shutil
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from hack.generate.monitoring.__main__ import FOLDER
from tests.requirement import require

RULES = FOLDER / "prometheus/vgpu.rules.yaml"
NEEDED = "needs promtool: apt-get install --no-install-recommends prometheus"


def promtool(*arguments: str | Path) -> None:
    """Run promtool; the assertion has what it says."""
    program = shutil.which("promtool")
    require(program, NEEDED)
    done = subprocess.run([str(program), *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def check_queries(folder: Path, queries: Iterable[str]) -> None:
    """Assert that Prometheus can parse each query."""
    rules = [{"record": f"query:{i}", "expr": query} for i, query in enumerate(queries)]
    file = folder / "queries.yaml"
    file.write_text(json.dumps({"groups": [{"name": "queries", "rules": rules}]}))
    promtool("check", "rules", file)


def check_alerts(folder: Path, tests: Iterable[Mapping[str, Any]], minutes: int = 1) -> None:
    """Assert that the alerts fire as these tests of promtool say, with a sample of each series in a minute.

    All rules are evaluated every `minutes` of a test's time, which is most of the cost of a long one.
    """
    file = folder / "alerts.yaml"
    content = {"rule_files": [str(RULES)], "evaluation_interval": f"{minutes}m", "tests": [*tests]}
    file.write_text(json.dumps(content))
    promtool("test", "rules", file)
