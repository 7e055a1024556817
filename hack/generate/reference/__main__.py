"""`python -m hack.generate.reference`: write the pages of docs/reference; only the site has the page of messages."""

from pathlib import Path

from hack.generate.reference import alerts, cards, chart, images, metrics, tables

FOLDER = Path(__file__).parents[3] / "docs/reference"
PAGES = {
    "alerts.md": alerts.page,
    "annotations.md": tables.annotations,
    "cards.md": cards.page,
    "chart.md": chart.page,
    "events.md": tables.events,
    "images.md": images.page,
    "metrics.md": metrics.page,
    "reasons.md": tables.reasons,
    "settings.md": tables.settings,
}


def main() -> None:
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name, page in PAGES.items():
        (FOLDER / name).write_text(page(), encoding="utf-8")
        print(f"docs/reference/{name}")


if __name__ == "__main__":
    main()
