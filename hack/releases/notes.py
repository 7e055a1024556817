"""The notes of a release: its changes, from the subjects of commits, and the compatible versions."""

import subprocess
from collections.abc import Iterable, Sequence
from pathlib import Path

from device_plugin.core.contract import annotations

# For each version of the annotations' JSON: the release that wrote it first, and the releases that read it.
COMPATIBILITY = ((1, "0.1.0", "0.1.0 and newer"),)


def last_tag(checkout: Path) -> str:
    """The tag of the newest release; empty if there is none."""
    asked = ["git", "describe", "--tags", "--abbrev=0"]
    return subprocess.run(asked, cwd=checkout, capture_output=True, text=True, check=False).stdout.strip()


def subjects(checkout: Path) -> Sequence[str]:
    """The subjects of commits since the last tag (of all without a tag), the newest first.

    Raises CalledProcessError.
    """
    tag = last_tag(checkout)
    listed = ["git", "log", "--no-merges", "--format=%s", *([f"{tag}..HEAD"] if tag else [])]
    return subprocess.run(
        listed, cwd=checkout, capture_output=True, text=True, check=True
    ).stdout.splitlines()


def changes(version: str, found: Iterable[str]) -> str:
    """The subjects as Markdown, by their scope (`scope: what changes`); subjects without a scope come last."""
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
    """The table of the annotations' versions, as Markdown. Raises LookupError if the present version is not in it."""
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
