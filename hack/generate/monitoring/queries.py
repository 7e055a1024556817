"""Parts of queries in PromQL.

The metrics of the leading replica are exported by two replicas for a moment when the leadership changes, and those of
an agent by two when it is replaced. So queries never match raw samples of two exporters: `each` takes the largest.
"""

from hack.generate.reference.metrics import declared

LABELS = {metric.name: ", ".join(metric.labels) for metric in declared()}
SLICE = "node, card, namespace, pod, container"


def each(metric: str, *chosen: str, where: str = "", by: str = "") -> str:
    """One series for each set of values of the metric's labels, or of the labels `by`.

    Only those `where` labels match, and those of the objects that are chosen in the variables of a board.
    """
    found = f"max by ({by or LABELS[metric]}) ({_matching(metric, chosen, where)})"
    return found.replace("max by () ", "max ")


def total(metric: str, *chosen: str, by: str = "") -> str:
    """The sum over all series of a metric, or one for each set of values of the labels `by`."""
    return f"sum{f' by ({by})' if by else ''} ({each(metric, *chosen)})"


def recorded(rule: str, *chosen: str) -> str:
    """The series of a recording rule of the objects that are chosen."""
    return _matching(rule, chosen, "")


def rate(metric: str, *chosen: str, by: str) -> str:
    """The growth of a counter in a second, summed by these labels."""
    return f"sum by ({by}) (rate({_matching(metric, chosen, '')}[$__rate_interval]))"


def quantile(share: float, histogram: str) -> str:
    """The value that this share of what a histogram observed does not exceed."""
    return f"histogram_quantile({share}, {rate(f'{histogram}_bucket', by='le')})"


def with_model(query: str) -> str:
    """A query by node and card, with the labels family and model of the card."""
    info = each("vgpu_card_info", by="node, card, family, model")
    return f"{query} * on (node, card) group_left (family, model) {info}"


def ratio(part: str, whole: str, by: str = "node, card") -> str:
    """One query divided by another, matched by these labels, without those of which the whole is 0."""
    return f"{part} / on ({by}) ({whole} > 0)"


def either(*queries: str) -> str:
    """The series of all queries; of equal labels those of the first that has them."""
    return " or ".join(queries)


def _matching(metric: str, chosen: tuple[str, ...], where: str) -> str:
    matchers = [*([where] if where else []), *(label + '=~"$' + label + '"' for label in chosen)]
    return f"{metric}{{{', '.join(matchers)}}}" if matchers else metric
