"""Generates the page of all messages for people: why a pod has no card, events, admission, commands, containers.

Each text comes from its place in the product: values and enums are imported, errors are found in the source code,
messages of admission in the policies, messages of the library in its C files. Only the site has the page.
"""

import ast
import functools
import importlib
import pkgutil
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

import device_plugin
from device_plugin.core.contract.events import Event
from device_plugin.core.contract.reasons import Reason
from device_plugin.core.errors import VgpuError
from device_plugin.core.pod_states import PodState
from hack.documents import documents
from hack.generate.reference.cel_text import UNKNOWN, text_of
from hack.generate.reference.states import STATES
from hack.generate.reference.tables import page as whole_page
from hack.generate.reference.tables import table
from vgpu_runtime.paths import SOURCES

ROOT = SOURCES.parent
POLICIES = ("manifests/admission", "manifests/components/jobs")
# Modules whose functions return or yield sentences of an answer.
ANSWERS = ("allocator/why_pod.py", "cli/fit.py", "cli/reading/cluster.py", "cli/reading/limit_mistakes.py")
# Modules whose functions return or yield texts of problems.
PROBLEMS = {
    "Of requests": ("core/placement/place.py",),
    "Of groups and roles": ("core/roles.py", "allocator/gangs/groups.py"),
    "Of settings": ("wiring/settings_checks.py",),
    "Of nodes": ("node/checks/preflight.py", "node/checks/other_plugins.py", "node/slices/tickets.py"),
}
_UNCOUNTED = (
    "the file in which the use of the slice is counted cannot be used",
    "delete the pod; if the next one says it too, see the log of the node's agent",
)
# The cause and the cure of each message of the library, by its first words.
COMPLAINTS = {
    "MiB refused": (
        "the program asked for more memory than its slice has left",
        "ask for less in the program, or for a larger slice",
    ),
    "the card is refused": (
        "the configuration of the slice is missing, damaged or of another version",
        "delete the pod; if the next one says it too, see the log of the node's agent",
    ),
    "work for the card is refused": (
        "a program of graphics or of another kind sends work past the compute driver",
        "use ROCm or HIP, or ask for a whole card",
    ),
    "a second context of the driver is refused": (
        "the program asks the compute driver for a second context, as programs of virtual machines do",
        "use one context in each process",
    ),
    "card memory is refused": _UNCOUNTED,
    "queues are refused": _UNCOUNTED,
}
# The verbs with which a message says what to do: at its start, after a punctuation mark, or after "to", "or", "and".
_INSTRUCTION = re.compile(
    r"\bneeds |(?:^|[:;,.] ?|\b(?:or|and|to) )"
    r"(?:add|admit|ask|bind|change|check|choose|correct|create|delete|drain|give|have|install|keep|leave|limit|look|"
    r"lower|make|mount|move|name|need|patch|put|raise|remove|restart|run|see|set|split|start|take|try|upgrade|use|"
    r"wait|waiting|write)\b"
)
# A word, and the least number of words in a text that counts as a message.
_WORDS, FEWEST_WORDS = re.compile(r"[A-Za-z]{2,}"), 3
_COMPLAINT = re.compile(r"slice_complain\(\s*((?:\"[^\"]*\"|[^;])*?)\);")
_COMMENT = re.compile(r"\A((?:#.*\n)+)")
# A function that builds a line from several parts, such as slice_complain_refused.
_BUILDER = re.compile(r"^void slice_complain_\w+\(.*?^}", re.M | re.S)
_ADDED = re.compile(r"\badd(_\w+)?\(&line, ([^;]*)\);")
_DEFINED = re.compile(r"#define (\w+) (\".*\")")
_C_TOKEN = re.compile(r"\"(?:[^\"\\]|\\.)*\"|\w+|,")


class MessageText(NamedTuple):
    """A text in the source code: file, line, the function or class called with it, and the text.

    The text is None if it is not a literal at this place.
    """

    file: str
    line: int
    made_by: str
    text: str | None


# The nodes of a syntax tree in which messages are.
_READ = (ast.Call, ast.Return, ast.Yield, ast.Assign)


class _Source(NamedTuple):
    """The nodes of a module's syntax tree that are of a kind of _READ, and the texts of its constants by name."""

    nodes: Sequence[ast.AST]
    known: Mapping[str, str]


def page() -> str:
    """The text of the page."""
    return whole_page(
        "Messages",
        "the code, the admission policies and the library",
        "Every message that vgpu writes for people, with its cause and what to do. `…` and words in capitals stand for"
        " names and numbers. Where neither the table nor the text above it says what to do, the message does.",
        "## Why a pod has no card",
        "In the FailedScheduling event, after a number of nodes; in `vgpu why`, `vgpu fit` and /explain, after a number"
        " of cards or nodes. [Reasons](reasons.md) has their labels.",
        table(("message", "what to do"), ((f"{each.text}", each.advice) for each in Reason)),
        "Of a pod that is refused whatever the cards are, and of a group:",
        table(("message", "what to do"), ((shown(text), advice) for text, advice in refusals().items())),
        "## Where a pod is",
        "In `vgpu why`.",
        table(("message", "what to do"), ((each.text, each.advice) for each in PodState)),
        "`vgpu why` and `vgpu fit` go on with what would help, and with what they could not read:",
        table(("message",), ((shown(each),) for file in ANSWERS for each in sentences(file))),
        "## States in lists",
        "In the columns and below the lines of the lists that `vgpu` prints.",
        table(("command", "words", "cause", "what to do"), STATES),
        "## Events",
        table(
            ("event", "cause", "what to do"),
            ((f"`{event}`", event.about.cause, event.about.advice) for event in Event),
        ),
        "## Admission",
        "The API server refuses an object with one of these messages; the name of the policy stands before it. Where a"
        " message does not say what to write, the object is another's to change: leave it as it is.",
        *_admission(),
        "## Checks of the installation",
        "What `vgpu check` finds.",
        table(("message", "what to do"), _checks()),
        "## Errors",
        "Commands print them behind `vgpu: `, services log them. Some are part of an event or of a refusal.",
        *_errors(),
        "## Problems of pods, settings and nodes",
        "They are part of a refusal, of an error, of the event `Preflight` or of /readyz.",
        *(
            part
            for title, files in PROBLEMS.items()
            for part in (
                f"### {title}",
                table(("message",), ((shown(each),) for file in files for each in sentences(file))),
            )
        ),
        "## In a container",
        "The library writes a message to the standard error of the program that it limits, once for each cause.",
        table(
            ("message", "cause", "what to do"),
            ((shown(each), *about_complaint(each)) for each in complaints()),
        ),
        "## Remarks of vgpu convert",
        "On standard error, behind the file and the object. The first table is about objects that were converted, and"
        " fields that stay; the second is about objects that were left as they are. The command exits with 1 after a"
        " message of the second table, and after `is not in a pod template`: write these by hand, as"
        " [Coming from other products](../coming-from.md) shows.",
        *(
            table(("message",), ((shown(each),) for each in conversions(kind)))
            for kind in ("remarks", "problems")
        ),
        target="site",
    )


def conversions(kind: str) -> list[str]:
    """The texts that vgpu convert adds to its `remarks` or `problems`."""
    found = calls(("append",), files="cli/convert/*.py", of=kind)
    return sorted({each.text for each in found if each.text})


@functools.cache
def error_classes() -> Mapping[str, type[VgpuError]]:
    """All subclasses of VgpuError in the product, by name."""
    for module in pkgutil.walk_packages(device_plugin.__path__, "device_plugin."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    found, left = {}, [VgpuError]
    while left:
        kind = left.pop()
        if kind.__module__.startswith("device_plugin."):
            found[kind.__name__] = kind
        left += kind.__subclasses__()
    return dict(sorted(found.items()))


def calls(
    names: Sequence[str], position: int = 0, files: str = "**/*.py", of: str = ""
) -> Iterator[MessageText]:
    """Every call of a function with one of these names in the product, with the text of the argument at `position`.

    With `of`, only calls of methods of an attribute with that name, such as `append` of self.remarks.
    """
    for file in sorted((ROOT / "device_plugin").glob(files)):
        source = _source(file)
        for node in source.nodes:
            if (
                isinstance(node, ast.Call)
                and _called(node) in names
                and len(node.args) > position
                and (not of or _owner(node) == of)
            ):
                where = str(file.relative_to(ROOT))
                yield MessageText(where, node.lineno, _called(node), _text(node.args[position], source.known))


@functools.cache
def _source(file: Path) -> _Source:
    tree = ast.parse(file.read_text(encoding="utf-8"))
    nodes = tuple(node for node in ast.walk(tree) if isinstance(node, _READ))
    known = _constants(file)
    return _Source(nodes, {**known, **dict(_assigned(nodes, known))})


def _constants(file: Path) -> Mapping[str, str]:
    """The constants of a module, as text by their NAME, and the constants of imported modules by module.NAME."""
    name = str(file.relative_to(ROOT).with_suffix("")).replace("/", ".")
    if name.endswith("__main__"):
        return {}
    found: dict[str, str] = {}
    for key, value in vars(importlib.import_module(name)).items():
        if isinstance(value, ModuleType) and value.__name__.startswith("device_plugin."):
            found |= {
                f"{key}.{each}": str(known)
                for each, known in vars(value).items()
                if _is_constant(each, known)
            }
        elif _is_constant(key, value):
            found[key] = str(value)
    return found


def _is_constant(name: str, value: object) -> bool:
    return name.isupper() and isinstance(value, str | int | float)


def sentences(file: str) -> Iterator[str]:
    """Every text of at least FEWEST_WORDS words that a function of the module returns or yields."""
    nodes, known = _source(ROOT / "device_plugin" / file)
    for node in nodes:
        match node:
            case ast.Return(value=ast.Tuple(elts=values)):
                texts = [_text(value, known) for value in values]
            case ast.Return(value=ast.expr() as value) | ast.Yield(value=ast.expr() as value):
                texts = [_text(value, known)]
            case _:
                continue
        yield from (text for text in texts if len(_WORDS.findall(text or "")) >= FEWEST_WORDS and text)


def _called(node: ast.Call) -> str:
    match node.func:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
    return ""


def _owner(node: ast.Call) -> str:
    """The name of the attribute whose method is called, such as remarks for self.remarks.append(); else empty."""
    match node.func:
        case ast.Attribute(value=ast.Attribute(attr=name)):
            return name
    return ""


def _assigned(nodes: Sequence[ast.AST], known: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """The names of variables to which a text is assigned, each with the text."""
    for node in nodes:
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=value) if text := _text(value, known):
                yield name, text


def _text(node: ast.expr, known: Mapping[str, str]) -> str | None:
    """The text of an expression, with placeholders for unknown values; None if nothing of it is known."""
    match node:
        case ast.Constant(value=str(text)):
            return text
        case ast.Name(id=name):
            return known.get(name)
        case ast.Attribute(value=ast.Name(id="Reason"), attr=name):
            return name
        case ast.JoinedStr(values=values):
            return "".join(_text(each, known) or UNKNOWN for each in values)
        case ast.FormattedValue(value=value):
            return _placeholder(value, known)
        case ast.IfExp(body=body, orelse=other):
            parts = _text(body, known), _text(other, known)
            return None if parts == (None, None) else " / ".join(part or UNKNOWN for part in parts)
        case ast.BinOp(op=ast.Add(), left=left, right=right):
            parts = _text(left, known), _text(right, known)
            return None if parts == (None, None) else "".join(part or UNKNOWN for part in parts)
    return None


def _placeholder(node: ast.expr, known: Mapping[str, str]) -> str:
    """The value of a constant; for another value its name in capitals."""
    match node:
        case ast.Constant(value=value):
            return str(value)
        case ast.Attribute(value=ast.Name(id=owner), attr=name) if f"{owner}.{name}" in known:
            return known[f"{owner}.{name}"]
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return known.get(name, UNKNOWN) if name.isupper() else name.strip("_").upper()
    return UNKNOWN


def _errors() -> Iterator[str]:
    kinds = error_classes()
    found = list(calls(tuple(kinds)))
    for name, kind in kinds.items():
        texts = sorted({each.text for each in found if each.made_by == name and each.text})
        if texts:
            cause, cure = about_error(kind)
            yield f"### {name}"
            yield cause
            if cure:
                yield f"What to do, where the message does not say it: {cure}"
            yield table(("message",), ((shown(text),) for text in texts))


def about_error(kind: type[VgpuError]) -> tuple[str, str]:
    """The cause and the cure of a class of errors, from its docstring."""
    cause, _, cure = " ".join((kind.__doc__ or "").split()).partition(" Cure: ")
    return cause, cure


def instructs(text: str) -> bool:
    """True if the message itself says what to do."""
    return _INSTRUCTION.search(text) is not None


def refusals() -> dict[str, str]:
    """Every fixed text of a refusal, with advice; the advice is empty if the text itself says what to do."""
    found = {}
    for reason, each in zip(calls(("saying",)), calls(("saying",), 1), strict=True):
        if each.text:
            told = instructs(each.text) or reason.text not in Reason.__members__
            found[each.text] = "" if told else Reason[str(reason.text)].advice
    return dict(sorted(found.items()))


def _checks() -> Iterator[tuple[str, str]]:
    texts, cures = (calls(("problem",), number, "cli/check/*.py") for number in (1, 2))
    for text, cure in zip(texts, cures, strict=True):
        yield shown(text.text or UNKNOWN), shown(cure.text or UNKNOWN)


def _admission() -> Iterator[str]:
    for folder in POLICIES:
        for file in sorted((ROOT / folder).glob("*.yaml")):
            about = ""
            for text in file.read_text(encoding="utf-8").split("\n---\n"):
                if comment := _COMMENT.match(text):
                    about = " ".join(line.lstrip("# ") for line in comment[1].splitlines())
                (each,) = documents(text)
                if each["kind"] == "ValidatingAdmissionPolicy":
                    yield f"### {each['metadata']['name']}"
                    yield about
                    yield table(("message",), ((shown(said),) for said in policy_messages(each)))


def policy_messages(policy: dict[str, object]) -> Iterator[str]:
    """The messages of the policy's validations."""
    spec = policy["spec"]
    assert isinstance(spec, dict)  # noqa: S101 - a policy of ours
    for validation in spec["validations"]:
        expression = validation.get("messageExpression")
        yield text_of(expression) if expression else " ".join(str(validation["message"]).split())


def about_complaint(text: str) -> tuple[str, str]:
    """The cause and the cure of a message of the library."""
    said = text.removeprefix("vgpu: ").removeprefix(f"{UNKNOWN} ")
    return next(about for words, about in COMPLAINTS.items() if said.startswith(words))


def complaints() -> Iterator[str]:
    """Every message that the library writes for the program that it limits."""
    files = sorted(path for path in (ROOT / "vgpu_runtime").rglob("*.[ch]"))
    sources = [file.read_text(encoding="utf-8") for file in files]
    defined = {found[1]: found[2] for text in sources for found in _DEFINED.finditer(text)}
    for text in sources:
        for call in _COMPLAINT.finditer(text):
            if '"' in call[1]:
                yield f"vgpu: {_c_text(call[1], defined)}"
        for body in _BUILDER.findall(text):
            yield "".join(_added(kind, argument) for kind, argument in _ADDED.findall(body))


def _added(kind: str, argument: str) -> str:
    """The text of one part of a line: `…` for a computed part, else the last of the part's alternative texts."""
    found = re.findall(r"\"([^\"]*)\"", argument)
    return UNKNOWN if kind else found[-1]


def _c_text(arguments: str, defined: Mapping[str, str]) -> str:
    """The text of a call's arguments, made of strings and macros; other parts are `…`."""
    parts = []
    for token in _C_TOKEN.findall(arguments):
        value = defined.get(token, token)
        if value == ",":
            parts.append(": ")
        else:
            parts.append(value[1:-1] if value.startswith('"') else UNKNOWN)
    return "".join(parts)


def shown(text: str) -> str:
    """The text as a cell of a table: one line of code, without markup."""
    return "`" + " ".join(text.replace("`", "'").split()) + "`"
