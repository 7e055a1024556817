"""Parts of queries in PromQL.

For a moment after a change of leader, two replicas export the leader's metrics; so do two agents when an agent is
replaced. So queries use no raw samples, which two exporters may have: `each` takes the largest of them.
"""

from hack.generate.reference.metrics import declared

LABELS = {metric.name: ", ".join(metric.labels) for metric in declared()}
SLICE = "node, card, namespace, pod, container"


def each(metric: str, *chosen: str, where: str = "", by: str = "") -> str:
    """A query with one series for each set of values of the metric's labels, or of the labels `by`.

    `where` is a further label matcher. `chosen` are the variables of the board whose chosen values must match.
    """
    found = f"max by ({by or LABELS[metric]}) ({_matching(metric, chosen, where)})"
    return found.replace("max by () ", "max ")


def total(metric: str, *chosen: str, by: str = "") -> str:
    """A query for the sum over all series of a metric, or for the sums by the labels `by`."""
    return f"sum{f' by ({by})' if by else ''} ({each(metric, *chosen)})"


def recorded(rule: str, *chosen: str) -> str:
    """A query for the series of a recording rule; `chosen` as in `each`."""
    return _matching(rule, chosen, "")


def rate(metric: str, *chosen: str, by: str) -> str:
    """A query for the growth of a counter per second, summed by these labels."""
    return f"sum by ({by}) (rate({_matching(metric, chosen, '')}[$__rate_interval]))"


def quantile(share: float, histogram: str) -> str:
    """A query for the value that a `share` (0 to 1) of a histogram's observations does not exceed."""
    return f"histogram_quantile({share}, {rate(f'{histogram}_bucket', by='le')})"


def hcu(metric: str, *chosen: str) -> str:
    """A query for a metric of Hygon's hcu-exporter, with our label card: it labels cards by their PCI address."""
    found = f"max by (node, pcieBus_number) ({_matching(metric, chosen, '')})"
    renamed = f'label_replace({found}, "pci", "$1", "pcieBus_number", "(.*)")'
    return f"{renamed} * on (node, pci) group_left (card) {each('vgpu_card_info', by='node, pci, card')}"


def with_model(query: str) -> str:
    """The query, which has the labels node and card, with the card's labels family and model added."""
    info = each("vgpu_card_info", by="node, card, family, model")
    return f"{query} * on (node, card) group_left (family, model) {info}"


def ratio(part: str, whole: str, by: str = "node, card") -> str:
    """A query for `part` divided by `whole`, matched by these labels; series with a whole of 0 are left out."""
    return f"{part} / on ({by}) ({whole} > 0)"


def either(*queries: str) -> str:
    """A query for the series of all queries; if series have equal labels, the first query's series counts."""
    return " or ".join(queries)


def _matching(metric: str, chosen: tuple[str, ...], where: str) -> str:
    matchers = [*([where] if where else []), *(label + '=~"$' + label + '"' for label in chosen)]
    return f"{metric}{{{', '.join(matchers)}}}" if matchers else metric
