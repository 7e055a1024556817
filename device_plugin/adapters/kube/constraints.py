"""Decodes what keeps pods from nodes: node selectors, required node affinity, tolerations and taints."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

from device_plugin.adapters.kube import structs
from device_plugin.adapters.kube.structs import MAX_NAME, DecodeError, decoder
from device_plugin.core.node_constraints import (
    ANYWHERE,
    BARRING,
    CORDON,
    UNKNOWN,
    NodeConstraints,
    Operator,
    Requirement,
    Taint,
    Toleration,
)

# A tenant may write 256 KiB of constraints into each of thousands of Jobs. If a pod has more words (keys and values),
# tolerations or characters than these, the engine's forecast takes all nodes as allowed; kube-scheduler decides later.
MOST_WORDS, MOST_TOLERATIONS, MOST_CHARACTERS = 256, 32, 4096
_NAME = "metadata.name"
_NOTHING = (b"", b"null")
_selector, _affinity = decoder(dict[str, str]), decoder(structs.Affinity)
_tolerations = decoder(list[structs.RawToleration])


def node_constraints(spec: structs.PodSpec, resources: Iterable[str]) -> NodeConstraints:
    """Returns the constraints on nodes for pods of this spec, which request the extended `resources`.

    UNKNOWN if the constraints cannot be decoded, or exceed MOST_WORDS, MOST_TOLERATIONS or MOST_CHARACTERS.

    A taint with the name of one of `resources` counts as tolerated: the admission plugin ExtendedResourceToleration
    adds the toleration to pods, but not to templates.
    """
    try:
        selector = {} if bytes(spec.node_selector) in _NOTHING else _selector(spec.node_selector)
        affinity = None if bytes(spec.affinity) in _NOTHING else _affinity(spec.affinity).node_affinity
        tolerations = [] if bytes(spec.tolerations) in _NOTHING else _tolerations(spec.tolerations)
    except DecodeError:
        return UNKNOWN
    required = affinity.required if affinity else None
    terms = None if required is None else required.node_selector_terms or ()
    if _too_long(list(islice(_words(selector, terms or ()), MOST_WORDS + 1)), tolerations):
        return UNKNOWN
    found = NodeConstraints(
        tuple(_of_pod(spec.node_name or "", selector)),
        None if terms is None else tuple(map(_term, filter(_says, terms))),
        (*map(_toleration, tolerations), *(Toleration(name, any_value=True) for name in resources)),
    )
    return ANYWHERE if found == ANYWHERE else found


def node_taints(spec: structs.NodeSpec) -> tuple[Taint, ...]:
    """Returns the taints that keep pods from a node; a cordon counts as one."""
    written = (Taint(taint.key, taint.value, taint.effect) for taint in spec.taints or ())
    found = dict.fromkeys(taint for taint in written if taint.effect in BARRING)
    if spec.unschedulable:
        found[Taint(CORDON)] = None
    return tuple(found)


def _too_long(words: Sequence[str], tolerations: Sequence[structs.RawToleration]) -> bool:
    """True if the constraints exceed MOST_WORDS, MOST_TOLERATIONS or MOST_CHARACTERS."""
    if len(words) > MOST_WORDS or len(tolerations) > MOST_TOLERATIONS:
        return True
    tolerated = sum(len(each.key) + len(each.value) + len(each.effect) for each in tolerations)
    return sum(map(len, words)) + tolerated > MOST_CHARACTERS


def _words(selector: dict[str, str], terms: Iterable[structs.NodeTerm]) -> Iterator[str]:
    yield from selector
    yield from selector.values()
    for term in terms:
        # A term without any requirement is bounded too.
        yield ""
        for requirement in (*(term.match_expressions or ()), *(term.match_fields or ())):
            yield requirement.key
            yield from requirement.values or ()


def _of_pod(node: str, selector: dict[str, str]) -> Iterator[Requirement]:
    """Yields the requirements of a pod's node selector and of its node name."""
    for key in sorted(selector):
        yield Requirement(key, Operator.IN, (selector[key],))
    if node:
        yield Requirement(_NAME, Operator.IN, (node[:MAX_NAME],), by_name=True)


def _says(term: structs.NodeTerm) -> bool:
    """True if the term has any requirement. A term without requirements is met by no node."""
    return bool(term.match_expressions or term.match_fields)


def _term(term: structs.NodeTerm) -> tuple[Requirement, ...]:
    return (
        *_requirements(term.match_expressions or (), by_name=False),
        *_requirements((each for each in term.match_fields or () if each.key == _NAME), by_name=True),
    )


def _requirements(written: Iterable[structs.NodeRequirement], *, by_name: bool) -> Iterator[Requirement]:
    """Yields the requirements with known operators; the others are left out, and so count as met.

    `by_name` is true for requirements on the node's name, and false for requirements on its labels.
    """
    for each in written:
        try:
            operator = Operator(each.operator)
        except ValueError:
            continue
        yield Requirement(each.key, operator, tuple(each.values or ()), by_name)


def _toleration(written: structs.RawToleration) -> Toleration:
    # An unknown operator counts as tolerating every value; kube-scheduler decides later.
    any_value = written.operator not in ("", "Equal")
    return Toleration(written.key, written.value, written.effect, any_value)
