"""The notes of a release: its changes by the subjects of commits, and which versions understand each other."""

import subprocess
from collections.abc import Iterable, Sequence
from pathlib import Path

from device_plugin.core.contract import annotations

# A line for each version of the annotations' JSON: what wrote it first, and what reads it.
COMPATIBILITY = ((1, "0.1.0", "0.1.0 and newer"),)


def subjects(checkout: Path) -> Sequence[str]:
    """The subjects of the commits since the last tag, or of all, the newest first. Raises CalledProcessError."""
    asked = ["git", "describe", "--tags", "--abbrev=0"]
    tag = subprocess.run(asked, cwd=checkout, capture_output=True, text=True, check=False).stdout.strip()
    listed = ["git", "log", "--no-merges", "--format=%s", *([f"{tag}..HEAD"] if tag else [])]
    return subprocess.run(
        listed, cwd=checkout, capture_output=True, text=True, check=True
    ).stdout.splitlines()


def changes(version: str, found: Iterable[str]) -> str:
    """The subjects by scope (`scope: what changes`), as Markdown; those without a scope come last."""
    scopes: dict[str, list[str]] = {}
    for subject in found:
        scope, colon, text = subject.partition(": ")
        if not colon or " " in scope.replace(", ", ","):
            scope, text = "", subject
        scopes.setdefault(scope, []).append(text)
    parts = [f"# vgpu {version}"]
    for scope in sorted(scopes, key=lambda name: (not name, name)):
        parts.append(f"## {scope or 'other'}")
        parts.append("\n".join(f"- {text}" for text in scopes[scope]))
    return "\n\n".join(parts) + "\n"


def compatibility() -> str:
    """The table of the versions of annotations, as Markdown. Raises LookupError where the present one is not in it."""
    if annotations.VERSION not in {number for number, _, _ in COMPATIBILITY}:
        raise LookupError(
            f"hack/releases/notes.py: COMPATIBILITY has no line for version {annotations.VERSION}"
        )
    kept = ", ".join(f"`{key}`" for key in (annotations.CARDS, annotations.GRANT, annotations.RESIZE))
    rows = [f"| {number} | {first} | {reads} |" for number, first, reads in COMPATIBILITY]
    lines = [
        f"The JSON of these annotations has a version, `v`: {kept}.",
        "A program refuses a version that it does not know; keys that it does not know it ignores, so these may come",
        "without a new version.",
        "",
        "| `v` | written since | read by |",
        "|---|---|---|",
        *rows,
    ]
    return "\n".join(lines) + "\n"
