"""`python -m hack.generate.chart`: write the chart."""

from hack.generate.chart import files
from hack.generate.chart.variants import MANIFESTS


def main() -> None:
    """Write all files of the chart, and remove files that are no longer generated."""
    folder = MANIFESTS / "chart"
    wanted = files.all_files()
    for name in files.generated(folder) - wanted.keys():
        (folder / name).unlink()
    for name, text in wanted.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
