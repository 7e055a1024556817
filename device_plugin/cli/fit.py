"""`vgpu fit`: would a pod be placed now, on which node and cards, and how many more of these. It changes nothing.

    vgpu fit --mem 4 --cores 15             # a slice of 4 units of memory and 15 core groups
    vgpu fit --percent 25 --count 8         # eight quarters of a card
    vgpu fit --cards 2                      # two whole cards
    vgpu fit train.yaml                     # the pods of a Pod, Deployment, Job ...; `-` reads standard input

It reads the lists of nodes and pods, and decides on them as the cluster service does. No pod is preempted for it. If
you may create pods, the API server is asked whether it would accept one pod of each manifest (a dry run): admission
policies refuse hostPID, for instance, and quotas count. The exit code is 0 if all pods that ask for slices fit, and 1
if one does not or none asks.
"""

import argparse
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import msgspec

from device_plugin.adapters.kube.client import KubeClient
from device_plugin.adapters.kube.templates import TemplatePod
from device_plugin.allocator.why_pod import PodAnswer, asked_text, grant_text
from device_plugin.cli.access import caller, dry_create
from device_plugin.cli.printing import answers
from device_plugin.cli.reading import local_allocator
from device_plugin.cli.reading.garbage import uncollected
from device_plugin.cli.reading.limit_mistakes import limit_mistake, other_product, unknown_family
from device_plugin.cli.reading.local_allocator import LocalAllocator
from device_plugin.cli.reading.manifests import ManifestError, Workload, read_manifests
from device_plugin.cli.reading.prefixes import PrefixError
from device_plugin.core.answers import Answer
from device_plugin.core.claims import UnknownClaimError
from device_plugin.core.contract import annotations
from device_plugin.core.contract.grants import Grant
from device_plugin.core.errors import RequestError
from device_plugin.core.node_constraints import ANYWHERE
from device_plugin.core.placement import Refusal
from device_plugin.core.pods import Container, ContainerKind, Pod
from device_plugin.core.requests import CORES, DEFAULT_PREFIXES, MEM, PERCENT, WHOLE, PodRequest

# Most pods that are placed, and most further pods that are counted.
MOST, MOST_MORE = 1000, 2000
# Most places that are printed.
SHOWN = 16
TRIED = "Admission policies and quotas were tried with one pod of each"
UNTRIED = "Admission policies and quotas are not tried"
BY_CLAIM = (
    "asks by a ResourceClaim, which is not read here: write what it asks for, such as --mem 4 --cores 15"
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `vgpu fit`."""
    parser.add_argument("file", nargs="?", metavar="FILE", help="manifests of pods; - reads standard input")
    parser.add_argument("--mem", metavar="UNITS", help="memory units of a slice")
    parser.add_argument("--cores", metavar="GROUPS", help="core groups of a slice")
    parser.add_argument("--percent", metavar="PERCENT", help="percent of one card")
    parser.add_argument("--cards", metavar="N", help="whole cards")
    parser.add_argument(
        "--slices", default="", metavar="N", help="the amounts are the sum over slices of N cards of one node"
    )
    parser.add_argument("--count", type=int, metavar="N", help=f"number of pods, at most {MOST}")
    parser.add_argument(
        "--prefix", default=DEFAULT_PREFIXES[0], metavar="PREFIX",
        help=f"resource prefix of the cards (default: {DEFAULT_PREFIXES[0]})",
    )  # fmt: skip
    parser.add_argument(
        "--model", default="", metavar="LIST", help=f"as the annotation {annotations.CARD_MODEL}"
    )
    parser.add_argument("-o", "--output", choices=("json",), help="the answer as JSON")
    caller.add_namespace(parser)
    local_allocator.add_arguments(parser)
    caller.add_arguments(parser)


@uncollected
def run(args: argparse.Namespace) -> int:
    """Print whether each workload fits.

    Returns 0 if all pods that ask for slices fit. Returns 1 if one of them does not fit, or if no pod asks for slices.
    Raises YamlFileError, ManifestError, PrefixError, MissingListError, ApiError, EndpointError.
    """
    workloads = _workloads(args)
    with caller.connected(args) as client:
        local = local_allocator.read(client, args)
        refusals, untried = _tried(client, workloads)
    if not args.file and args.prefix not in local.prefixes:
        raise PrefixError(
            f"--prefix: there are no cards {args.prefix} here: write one of {', '.join(local.prefixes)}"
        )
    units = local.units()
    found = [_fitted(local, units, workload, number, refusals) for number, workload in enumerate(workloads)]
    if args.output:
        said = {
            "workloads": [each.as_object() for each in found],
            "source": local.source,
            "untried": untried,
        }
        print(json.dumps(said, indent=2))
    else:
        *others, last = [each.answer() for each in found]
        answers.show([*others, replace(last, source=f"{local.source}. {untried or TRIED}")])
    # A file may also have pods without a slice.
    asked = [each for each in found if each.asked]
    return int(not asked or any(len(each.placed) < each.asked for each in asked))


def _tried(client: KubeClient, workloads: Sequence[Workload]) -> tuple[Mapping[int, str], str]:
    """Returns the API server's refusals of workloads, and the reason why a workload was not tried.

    In a dry run the API server is asked to create one pod of each workload. The key of a refusal is the workload's
    index in `workloads`. The reason is empty if all workloads were tried.
    """
    refusals, untried = dict[int, str](), ""
    for number, workload in enumerate(workloads):
        if not workload.body:
            return {}, f"{UNTRIED}: write the pod into a FILE for that"
        answer = dry_create.tried(client, workload.body, workload.template.pod.namespace, workload.owner)
        if answer.refused:
            refusals[number] = answer.refused
        if answer.untried:
            untried = f"{UNTRIED}: {answer.untried}"
    return refusals, untried


def _workloads(args: argparse.Namespace) -> Sequence[Workload]:
    """Returns the workloads of FILE; without FILE, one workload made of options such as --mem and --count.

    Raises YamlFileError and ManifestError.
    """
    amounts = {MEM: args.mem, CORES: args.cores, PERCENT: args.percent, WHOLE: args.cards}
    limits = {f"{args.prefix}{suffix}": text for suffix, text in amounts.items() if text is not None}
    if bool(args.file) == bool(limits):
        raise ManifestError("write either FILE, or what a pod asks for, such as --mem 4 --cores 15")
    if args.count is not None and not 1 <= args.count <= MOST:
        raise ManifestError(f"write --count from 1 to {MOST}")
    if args.file:
        found = read_manifests(args.file, caller.namespace(args))
        counted = found if args.count is None else [replace(each, count=args.count) for each in found]
        return [replace(each, count=min(each.count, MOST)) for each in counted]
    written = {annotations.CARD_MODEL: args.model, annotations.SLICES: args.slices}
    kept = {key: text for key, text in written.items() if text} or None
    container = Container("main", ContainerKind.MAIN, limits)
    pod = Pod(caller.namespace(args), "fit", "", annotations=kept, containers=(container,))
    return (Workload("fit", TemplatePod(pod, ANYWHERE), args.count or 1),)


@dataclass(frozen=True, slots=True)
class FitAnswer:
    """The answer whether the pods of one workload fit now; `placed` has the grants that these pods would get.

    `asked` is the number of pods that ask for slices, and `asks` is what one of them asks for. `refused` says why the
    first pod without a grant gets none. `more` is the number of pods that would fit in addition. `problem` says why no
    pod was tried; it is empty if pods were tried.
    """

    name: str
    asks: str
    asked: int
    placed: Sequence[Grant] = ()
    more: int = 0
    refused: PodAnswer | None = None
    problem: str = ""

    def answer(self) -> Answer:
        """Returns the answer about one workload, as an `Answer` for people."""
        if self.problem:
            return Answer(f"{self.name}: {self.problem}")
        line = f"{self.name}: {len(self.placed)} of {self.asked} fit now ({self.asks})"
        if self.refused is not None:
            why = replace(self.refused, asks="").answer()
            return Answer(line, (*self._places(), why.line, *why.reasons), why.helps)
        least = "at least " if self.more >= MOST_MORE else ""
        return Answer(line, (*self._places(), f"Room for {least}{self.more} more of these"))

    def _places(self) -> Iterator[str]:
        """Yields the places of the pods as lines of text.

        The line of a single pod has its slices. For several pods, each line has a node, its cards, and the number of
        pods on them.
        """
        if self.asked == 1 and self.placed:
            yield grant_text(self.placed[0])
            return
        places = Counter(
            (grant.node, ", ".join(sorted({s.card for s in grant.slices()}))) for grant in self.placed
        )
        yield from (f"{count} on {node} {cards}" for (node, cards), count in [*places.items()][:SHOWN])
        if len(places) > SHOWN:
            yield f"and {len(places) - SHOWN} more places"

    def as_object(self) -> Mapping[str, Any]:
        """Returns the answer as an object for -o json."""
        return {
            "name": self.name, "asks": self.asks, "asked": self.asked, "fit": len(self.placed), "more": self.more,
            "places": [
                {"node": grant.node, "cards": sorted({s.card for s in grant.slices()})} for grant in self.placed
            ],
            "refused": self.refused.as_object() if self.refused is not None else None, "problem": self.problem,
            **self.answer().as_object(),
        }  # fmt: skip


def _fitted(
    local: LocalAllocator,
    units: Mapping[str, int],
    workload: Workload,
    number: int,
    refusals: Mapping[int, str],
) -> FitAnswer:
    """Returns the answer whether the pods of a workload fit.

    The pods stay placed in `local`, so that later workloads find less room. `units` is `local.units()`, the memory unit
    in MiB of each family of cards. `refusals` has the API server's refusals; the key for this workload is `number`.
    """
    template = workload.template
    pods = [
        msgspec.structs.replace(template.pod, uid=f"fit-{number}-{index}", name=f"{workload.name}-{index}")
        for index in range(workload.count)
    ]
    name = f"{template.pod.namespace}/{workload.name}"
    if problem := limit_mistake(template.pod, local.prefixes, local.served, units):
        return FitAnswer(name, "", workload.count, problem=problem)
    try:
        request = local.view.pods.request_of(template.pod)
    except RequestError as error:
        problem = BY_CLAIM if isinstance(error, UnknownClaimError) else str(error)
        return FitAnswer(name, "", workload.count, problem=problem)
    unknown = unknown_family(template.pod, local.prefixes, local.served)
    if request is None and any(container.claims for container in template.pod.containers):
        return FitAnswer(name, "", workload.count, problem=BY_CLAIM)
    if request is None:
        other = other_product(template.pod, local.prefixes, local.served)
        problem = ". ".join(filter(None, (_no_slice(local.prefixes), other or unknown)))
        return FitAnswer(name, "", 0, problem=problem)
    if number in refusals:
        return FitAnswer(
            name,
            asked_text(request),
            workload.count,
            problem=f"the API server refuses it: {refusals[number]}",
        )
    answer = FitAnswer(name, asked_text(request), workload.count, problem=unknown)
    return answer if unknown else _placed(local, answer, template, request, pods)


def _no_slice(prefixes: Sequence[str]) -> str:
    return f"asks for no slice of {', '.join(prefixes)}, so vgpu does not place it"


def _placed(
    local: LocalAllocator, answer: FitAnswer, template: TemplatePod, request: PodRequest, pods: Sequence[Pod]
) -> FitAnswer:
    nodes, limits = local.allowed(template.nodes), local.limits(template.nodes)
    if request.gang is not None:
        # A gang is placed once all of its pods are known.
        for pod in pods:
            local.view.pod_news.see(pod, watched=False)
    placed: list[Grant] = []
    for pod in pods:
        found = local.dry.place(pod, replace(request, pod=pod.uid), nodes)
        if isinstance(found, Refusal):
            return replace(answer, placed=placed, refused=local.answers.about(pod, nodes, limits))
        placed.append(found)
    more = local.dry.more(pods[-1], request, nodes, MOST_MORE) if pods and request.gang is None else 0
    return replace(answer, placed=placed, more=more)
