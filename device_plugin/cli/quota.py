"""`vgpu quota`: the ResourceQuotas on cards: what is used of each, and the share.

    vgpu quota -n team-a
    vgpu quota -A --sort-by=-used    # the fullest first
    vgpu quota -o json

Amounts are in the resource's own units: memory units, core groups, percent of a card, whole cards. For ResourceClaims
they are numbers of slices.
"""

import argparse
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from device_plugin.cli.access import caller
from device_plugin.cli.printing import output
from device_plugin.cli.printing.follow import follow_list
from device_plugin.cli.printing.output import Column, Listing, ListPrinter
from device_plugin.cli.reading import prefixes
from device_plugin.core import pages
from device_plugin.core.contract.claims import quota_resource
from device_plugin.core.contract.quantities import parse_quantity
from device_plugin.core.requests import all_resource_names
from device_plugin.kube.api import Kind, Object, Where

# A quota counts requests; for extended resources Kubernetes makes requests equal to limits.
REQUESTS = "requests."


class QuotaLine(NamedTuple):
    """One resource of a ResourceQuota: its used amount and its limit (`hard`), as Kubernetes writes them."""

    namespace: str
    quota: str
    resource: str
    used: str
    hard: str

    @property
    def share(self) -> float | None:
        """Returns the used share of the limit; None if one of the amounts cannot be read.

        The share is over 1 if the limit was lowered later.
        """
        used, hard = parse_quantity(self.used), parse_quantity(self.hard)
        if used is None or hard is None:
            return None
        return float(used / hard) if hard else float(used > 0)


class ReadQuota(NamedTuple):
    """A ResourceQuota, with a line for each of its resources."""

    namespace: str
    name: str
    lines: tuple[QuotaLine, ...]


def read_quota(quota: Object) -> ReadQuota:
    """Returns a ResourceQuota with its hard and used amounts."""
    metadata, status = quota["metadata"], quota.get("status") or {}
    hard = status.get("hard") or (quota.get("spec") or {}).get("hard") or {}
    used = status.get("used") or {}
    return ReadQuota(metadata["namespace"], metadata["name"], tuple(
        QuotaLine(metadata["namespace"], metadata["name"], name, str(used.get(name, "0")), str(amount))
        for name, amount in hard.items()
    ))  # fmt: skip


QUOTAS = Kind("", "v1", "resourcequotas", "ResourceQuota", ReadQuota, read_quota)


def _share(line: QuotaLine) -> float | None:
    return None if line.share is None else min(line.share, 1.0)


_NAMESPACE: Column[QuotaLine] = Column("NAMESPACE", lambda line: line.namespace)
LISTING: Listing[QuotaLine] = Listing(
    "quotas",
    (
        _NAMESPACE,
        Column("QUOTA", lambda line: line.quota),
        Column("RESOURCE", lambda line: line.resource.removeprefix(REQUESTS)),
        Column(
            "USED", lambda line: f"{line.used}/{line.hard}", key=lambda line: line.share or 0.0, share=_share,
            warning=lambda line: (line.share or 0.0) >= 1,
        ),
    ),
    name=lambda line: f"resourcequota/{line.namespace}/{line.quota}/{line.resource}",
    object=lambda line: {**line._asdict(), "share": line.share},
)  # fmt: skip


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `vgpu quota`."""
    caller.add_namespaces(parser)
    prefixes.add_arguments(parser)
    output.add_arguments(parser, LISTING)
    output.add_selector(parser, "ResourceQuotas")
    caller.add_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Print the quotas of cards, with --watch at each change.

    Raises PrefixError, ListForbiddenError, ApiError, EndpointError, SortError.
    """
    namespace = "" if args.all_namespaces else caller.namespace(args)
    listing = LISTING if args.all_namespaces else LISTING.without(_NAMESPACE)
    where = f"of namespace {namespace} " if namespace else ""
    with caller.connected(args) as client:
        families = prefixes.of(client, args)
        names = all_resource_names(families) | frozenset(map(quota_resource, families))

        def lines(quotas: Sequence[ReadQuota]) -> tuple[Sequence[QuotaLine], Sequence[str]]:
            return [*_ours(quotas, names)], ()

        return follow_list(
            args, ListPrinter(args, listing), client, QUOTAS, Where(namespace, args.selector), lines,
            f"no ResourceQuota {where}limits cards: see {pages.QUOTA}",
        )  # fmt: skip


def _ours(quotas: Sequence[ReadQuota], names: frozenset[str]) -> Iterator[QuotaLine]:
    """Yields the lines whose resource is in `names` (resources of cards), sorted by namespace, quota and resource."""
    for line in sorted(line for quota in quotas for line in quota.lines):
        if line.resource.removeprefix(REQUESTS) in names:
            yield line
