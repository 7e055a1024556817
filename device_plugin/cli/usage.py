"""`vgpu usage`: hours of slices and of cards by namespace and owner, granted and used, from a Prometheus.

    vgpu usage --since 7d --prometheus http://localhost:9090
    vgpu usage --since 30d --prometheus URL --by namespace    # one row for each namespace
    vgpu usage --since 1d --prometheus URL -o csv             # for a table of your own
    vgpu usage --since 7d --until 2026-11-23 --prometheus URL # a calendar week

A slice counts as the larger of its shares of its card's memory and core groups: a quarter of a card for 4 hours is 1
CARD HOUR. MEMORY HOURS and BUSY HOURS are the part of them in which the memory was used and core groups computed.
Owners are known where Prometheus has our recording rules and the series of kube-state-metrics.
"""

import argparse
import csv
import re
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from device_plugin.cli.access.names import checked_namespace
from device_plugin.cli.access.prometheus import Prometheus
from device_plugin.cli.printing import formats, output
from device_plugin.cli.printing.output import Column, Listing, ListPrinter
from device_plugin.cli.reading import slice_use
from device_plugin.cli.reading.durations import duration, past_moment
from device_plugin.cli.reading.usage import PATIENCE_SECONDS, UNKNOWN, Usage, UsageQueries, read_usage, summed
from device_plugin.core.printable import printable

CSV = "csv"
WEEK = "7d"
# Characters with which a spreadsheet begins a formula: an owner's kind may be any text.
_FORMULAS = ("=", "+", "-", "@")
# Other characters than those of names: some spreadsheets separate the cells of a line at `;` or at a tab.
_SEPARATORS = re.compile(r"[^A-Za-z0-9.=+@_/-]")


def _owner(row: Usage) -> str:
    if row.owner is None:
        return output.NONE
    return "?" if row.owner == UNKNOWN else f"{row.owner.kind}/{row.owner.name}"


def _hours(value: float | None) -> str:
    return "?" if value is None else f"{value:.1f}"


def _object(row: Usage) -> Mapping[str, Any]:
    return {
        "namespace": row.namespace, "owner": row.owner._asdict() if row.owner not in (None, UNKNOWN) else None,
        "sliceHours": row.slices, "cardHours": row.cards, "memoryCardHours": row.memory, "busyCardHours": row.busy,
    }  # fmt: skip


_OWNER: Column[Usage] = Column("OWNER", _owner)
LISTING: Listing[Usage] = Listing(
    "usage",
    (
        Column("NAMESPACE", lambda row: row.namespace),
        _OWNER,
        Column("SLICE HOURS", lambda row: _hours(row.slices), key=lambda row: row.slices),
        Column("CARD HOURS", lambda row: _hours(row.cards), key=lambda row: row.cards),
        Column("MEMORY HOURS", lambda row: _hours(row.memory), key=lambda row: row.memory or 0.0),
        Column("BUSY HOURS", lambda row: _hours(row.busy), key=lambda row: row.busy or 0.0),
    ),
    name=lambda row: f"usage/{row.namespace}" + (f"/{_owner(row)}" if row.owner else ""),
    object=_object,
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `vgpu usage`."""
    parser.add_argument(
        "--since", type=duration, default=duration(WEEK), metavar="TIME",
        help=f"of the last TIME, such as 12h or 30d (default: {WEEK})",
    )  # fmt: skip
    parser.add_argument(
        "--until",
        type=past_moment,
        metavar="DATE",
        help="its end, such as 2026-11-23 or 2026-11-23T08:00Z (default: now)",
    )
    parser.add_argument(
        "--prometheus", metavar="URL", required=True, help="a Prometheus that scrapes the node agents"
    )
    parser.add_argument(
        "--by", choices=("owner", "namespace"), default="owner", help="the rows (default: owner)"
    )
    parser.add_argument("-n", "--namespace", metavar="NAMESPACE", default="", help="default: all namespaces")
    slice_use.add_agents(parser)
    parser.add_argument(
        "-o", "--output", type=_format, metavar=f"{formats.METAVAR}|{CSV}", help="for programs and tables"
    )
    parser.add_argument("--no-headers", action="store_true", help="a table without its titles")
    parser.add_argument(
        "--sort-by", metavar="COLUMN",
        help=f"{', '.join(LISTING.words())}; with - before it the other way round (default: most card hours first)",
    )  # fmt: skip
    parser.add_argument("-v", "--verbose", action="store_true", help="print details of errors too")


def run(args: argparse.Namespace) -> int:
    """Print the usage of slices by namespace or owner. Raises PrometheusError, ObjectNameError, SortError."""
    namespace = checked_namespace(args.namespace) if args.namespace else ""
    by_owner = args.by == "owner"
    listing = LISTING if by_owner else LISTING.without(_OWNER)
    as_csv = args.output == CSV
    printer = ListPrinter(argparse.Namespace(**{**vars(args), "output": None}) if as_csv else args, listing)
    queries = UsageQueries(args.agents_namespace, namespace, args.since, args.until)
    rows = summed(read_usage(Prometheus(args.prometheus, PATIENCE_SECONDS), queries), owners=by_owner)
    if as_csv:
        _write_csv(printer.ordered(rows))
        return 0
    beside = {"sinceSeconds": args.since, "until": args.until, "stepSeconds": queries.step}
    printer.show(rows, beside, "no slice was held in this time, as far as this Prometheus knows")
    return 0


def _format(text: str) -> str:
    """Returns the value of -o; raises ArgumentTypeError if it is no format."""
    return text if text == CSV else formats.checked(text, LISTING.plural)


def _write_csv(rows: Sequence[Usage]) -> None:
    """Print a header and the rows as CSV. Hours have six significant digits; a value that is not known is empty."""
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(
        ("namespace", "owner_kind", "owner_name", "slice_hours", "card_hours", "memory_card_hours", "busy_card_hours")
    )  # fmt: skip
    for row in rows:
        owner = row.owner if row.owner not in (None, UNKNOWN) else None
        texts = (row.namespace, owner.kind if owner else "", owner.name if owner else "")
        hours = (row.slices, row.cards, row.memory, row.busy)
        writer.writerow([*map(_cell, texts), *("" if value is None else f"{value:.6g}" for value in hours)])


def _cell(text: str) -> str:
    """Returns the text as a CSV cell that no spreadsheet reads as a formula.

    Some spreadsheets separate cells at `;` or at a tab, so such characters become `_`.
    """
    shown = _SEPARATORS.sub("_", printable(text))
    return f"'{shown}" if shown.startswith(_FORMULAS) else shown
