"""The page of every message that a person can meet: why a pod has no card, events, admission, commands, containers.

Each text is read where the product has it: values and enums are imported, errors are found where the source makes them,
admission's messages in the policies, and the library's in its C files.
"""

import ast
import importlib
import pkgutil
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

import yaml

import device_plugin
from device_plugin.core.errors import VgpuError
from device_plugin.core.events import Event
from device_plugin.core.pod_states import PodState
from device_plugin.core.reasons import Reason
from hack.reference.cel_text import UNKNOWN, text_of
from hack.reference.tables import page as whole_page
from hack.reference.tables import table
from vgpu_runtime.paths import SOURCES

ROOT = SOURCES.parent
POLICIES = ("manifests/admission", "manifests/components/jobs")
# Modules whose functions return or yield sentences of an answer.
ANSWERS = ("cluster/show/why_pod.py", "cli/fit.py", "cli/reading/cluster.py", "cli/reading/limit_mistakes.py")
# Modules whose functions return or yield what is wrong.
PROBLEMS = {
    "Of groups and roles": ("core/roles.py", "cluster/gangs/groups.py"),
    "Of settings": ("wiring/settings_checks.py",),
    "Of nodes": ("node/preflight.py", "node/other_plugins.py", "node/tickets.py"),
}
# Words of a text that is a message.
_WORDS, FEWEST_WORDS = re.compile(r"[A-Za-z]{2,}"), 3
_COMPLAINT = re.compile(r"slice_complain\(\s*((?:\"[^\"]*\"|[^;])*?)\);")
_COMMENT = re.compile(r"\A((?:#.*\n)+)")
# A function that builds a line of its own: slice_complain_refused.
_BUILDER = re.compile(r"^void slice_complain_\w+\(.*?^}", re.M | re.S)
_ADDED = re.compile(r"\badd(_number)?\(&line, ([^;]*)\);")
_DEFINED = re.compile(r"#define (\w+) (\".*\")")
_C_TOKEN = re.compile(r"\"(?:[^\"\\]|\\.)*\"|\w+|,")


class MessageText(NamedTuple):
    """A text of the source: where it is made, what makes it, and the text; None if it is made elsewhere."""

    file: str
    line: int
    made_by: str
    text: str | None


def page() -> str:
    """The text of the page."""
    return whole_page(
        "Messages",
        "the code, the admission policies and the library",
        "Every message that vgpu writes for people, with its cause and what to do. `…` and words in capitals stand for"
        " names and numbers. Where a table has no column for it, the message itself says what to do, after its last"
        " colon.",
        "## Why a pod has no card",
        "In the FailedScheduling event, after a number of nodes; in `vgpu why`, `vgpu fit` and /explain, after a number"
        " of cards or nodes. [Reasons](reasons.md) has their labels.",
        table(("message", "what to do"), ((f"{each.text}", each.advice) for each in Reason)),
        "Of a pod that is refused whatever the cards are, and of a group:",
        table(("message",), ((shown(each),) for each in refusals())),
        "## Where a pod is",
        "In `vgpu why`.",
        table(("message", "what to do"), ((each.text, each.advice) for each in PodState)),
        "`vgpu why` and `vgpu fit` go on with what would help, and with what they could not read:",
        table(("message",), ((shown(each),) for file in ANSWERS for each in sentences(file))),
        "## Events",
        table(
            ("event", "cause", "what to do"),
            ((f"`{event}`", event.about.cause, event.about.advice) for event in Event),
        ),
        "## Admission",
        "The API server refuses an object with one of these messages; the name of the policy stands before it.",
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
        table(("message",), ((shown(each),) for each in complaints())),
    )


def error_classes() -> dict[str, type[VgpuError]]:
    """Every error that the product raises on purpose, by name."""
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


def calls(names: Sequence[str], position: int = 0, files: str = "**/*.py") -> Iterator[MessageText]:
    """Every call of one of these names in the product, with the text of the argument at `position`."""
    for file in sorted((ROOT / "device_plugin").glob(files)):
        tree = ast.parse(file.read_text(encoding="utf-8"))
        known = {**_constants(file), **dict(_assigned(tree))}
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and _called(node) in names and len(node.args) > position:
                where = str(file.relative_to(ROOT))
                yield MessageText(where, node.lineno, _called(node), _text(node.args[position], known))


def _constants(file: Path) -> Mapping[str, str]:
    """The texts and numbers that a module knows by a name in capitals, its own and those of modules that it imports."""
    name = str(file.relative_to(ROOT).with_suffix("")).replace("/", ".")
    if name.endswith("__main__"):
        return {}
    found: dict[str, str] = {}
    for key, value in vars(importlib.import_module(name)).items():
        inner = (
            vars(value)
            if isinstance(value, ModuleType) and value.__name__.startswith("device_plugin.")
            else {}
        )
        for each, known in {key: value, **inner}.items():
            if each.isupper() and isinstance(known, str | int | float):
                found.setdefault(each, str(known))
    return found


def sentences(file: str) -> Iterator[str]:
    """Every text of FEWEST_WORDS words that a function of the module returns or yields."""
    path = ROOT / "device_plugin" / file
    tree = ast.parse(path.read_text(encoding="utf-8"))
    known = {**_constants(path), **dict(_assigned(tree))}
    for node in ast.walk(tree):
        match node:
            case ast.Return(value=ast.expr() as value) | ast.Yield(value=ast.expr() as value):
                text = _text(value, known) or ""
                if len(_WORDS.findall(text)) >= FEWEST_WORDS:
                    yield text


def _called(node: ast.Call) -> str:
    match node.func:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
    return ""


def _assigned(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """The names of a module to which texts are assigned, with the texts."""
    for node in ast.walk(tree):
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=value) if text := _text(value, {}):
                yield name, text


def _text(node: ast.expr, known: Mapping[str, str]) -> str | None:
    """The text of a literal, with placeholders; None for an expression that gives the text of something else."""
    match node:
        case ast.Constant(value=str(text)):
            return text
        case ast.Name(id=name):
            return known.get(name)
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
    """The value of a constant, or the name of another value in capitals."""
    match node:
        case ast.Constant(value=value):
            return str(value)
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return known.get(name, UNKNOWN) if name.isupper() else name.strip("_").upper()
    return UNKNOWN


def _errors() -> Iterator[str]:
    kinds = error_classes()
    found = list(calls(tuple(kinds)))
    for name, kind in kinds.items():
        texts = sorted({each.text for each in found if each.made_by == name and each.text})
        if texts:
            yield f"### {name}"
            yield " ".join((kind.__doc__ or "").split())
            yield table(("message",), ((shown(text),) for text in texts))


def refusals() -> list[str]:
    """Every text of a refusal that names no cards."""
    return sorted({each.text for each in calls(("saying",), 1) if each.text})


def _checks() -> Iterator[tuple[str, str]]:
    texts, cures = (calls(("problem",), number, "cli/check/*.py") for number in (1, 2))
    for text, cure in zip(texts, cures, strict=True):
        yield shown(text.text or UNKNOWN), shown(cure.text or UNKNOWN)


def _admission() -> Iterator[str]:
    for folder in POLICIES:
        for file in sorted((ROOT / folder).glob("*.yaml")):
            text = file.read_text(encoding="utf-8")
            comment = _COMMENT.match(text)
            about = " ".join(line.lstrip("# ") for line in comment[1].splitlines()) if comment else ""
            for each in yaml.safe_load_all(text):
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
    """A part of a line that is built of several: a number, or the last of the texts to choose from."""
    found = re.findall(r"\"([^\"]*)\"", argument)
    return UNKNOWN if kind else found[-1]


def _c_text(arguments: str, defined: Mapping[str, str]) -> str:
    """The text of two arguments of strings and macros; what is no constant is unknown."""
    parts = []
    for token in _C_TOKEN.findall(arguments):
        value = defined.get(token, token)
        if value == ",":
            parts.append(": ")
        else:
            parts.append(value[1:-1] if value.startswith('"') else UNKNOWN)
    return "".join(parts)


def shown(text: str) -> str:
    """The text as a cell of a table: one line, in which nothing is markup."""
    return "`" + " ".join(text.replace("`", "'").split()) + "`"
