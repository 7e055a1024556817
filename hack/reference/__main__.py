"""`python -m hack.reference`: write every reference page."""

from pathlib import Path

from hack.reference import metrics

DOCS = Path(__file__).parents[2] / "docs"
PAGES = {"metrics.md": metrics.page}


def main() -> None:
    DOCS.mkdir(exist_ok=True)
    for name, page in PAGES.items():
        (DOCS / name).write_text(page(), encoding="utf-8")
        print(f"docs/{name}")


if __name__ == "__main__":
    main()
