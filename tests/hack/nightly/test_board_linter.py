"""Grafana's dashboard-linter finds nothing in our boards, but for the rules that do not fit them."""

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from hack.generate.monitoring.__main__ import FOLDER
from tests.requirement import require

# Our boards choose nodes, cards and namespaces; recorded series have no job and no instance.
LINT: dict[str, dict[str, dict[str, str]]] = {
    "exclusions": {
        **{f"{what}-{label}-rule": {} for what in ("template", "target") for label in ("job", "instance")},
        # People who import a board change it as they like.
        "uneditable-dashboard": {},
    }
}


@pytest.mark.parametrize("board", sorted((FOLDER / "boards").glob("*.json")), ids=lambda board: board.stem)
def test_the_linter_finds_nothing(board: Path, tmp_path: Path) -> None:
    program = shutil.which("dashboard-linter")
    require(program, "needs dashboard-linter on the PATH: https://github.com/grafana/dashboard-linter")
    shutil.copy(board, tmp_path)
    (tmp_path / "lint.json").write_text(json.dumps(LINT))
    command = [str(program), "lint", "--strict", "--config", str(tmp_path / "lint.json"), board.name]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
