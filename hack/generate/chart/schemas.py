"""The allowed values of the chart, as JSON schemas: a key that nothing reads is refused at every depth."""

import logging
import re
from collections.abc import Iterable, Mapping, Sequence

import msgspec
import yaml

from device_plugin.core.enforcement import Enforcement
from device_plugin.node.vendors.host_stack import LONGEST_MOUNT, MOST_MOUNTS, TAKEN
from device_plugin.wiring.settings import NodeSettings, Setting, settings_of
from vgpu_runtime.sim.cards import KEYS, MAX_CARDS, PRESETS, SimCard

Schema = Mapping[str, object]


def closed(properties: Mapping[str, object], required: Iterable[str] = ()) -> Schema:
    """A mapping with these keys and no others."""
    made = {"type": "object", "additionalProperties": False, "properties": properties}
    return {**made, "required": list(required)} if required else made


def mapping(keys: str, values: Schema) -> Schema:
    """A mapping of any keys of this pattern."""
    # Not by propertyNames: of such a name helm 3.22 says another place.
    return {"type": "object", "additionalProperties": False, "patternProperties": {keys: values}}


def listed(items: Schema) -> Schema:
    """A list of such items."""
    return {"type": "array", "items": items}


def overlapping(paths: Sequence[str]) -> str:
    """A pattern of the paths that are at, above or below one of these, all written without . and .. and //."""
    return f"^({'|'.join(map(_overlapping, paths))})$"


def _overlapping(path: str) -> str:
    first, *parts = (f"/{re.escape(part)}" for part in path.split("/")[1:])
    pattern = "(/.*)?"
    for part in reversed(parts):
        pattern = f"({part}{pattern})?"
    return first + pattern


# No quote, no backslash, no brace: such a text may stand in a string of CEL, and of YAML.
TEXT: Schema = {"type": "string", "pattern": r"^[A-Za-z0-9 .,:;/=_-]*$"}
FILLED: Schema = {**TEXT, "minLength": 1}
WORDS = listed(FILLED)
_FOLDER: Schema = {
    "type": "string", "pattern": "^(/[A-Za-z0-9_+-][A-Za-z0-9._+-]*)+$", "maxLength": LONGEST_MOUNT,
}  # fmt: skip
FOLDER: Schema = {**_FOLDER, "examples": ["/var/lib/k0s/kubelet"]}
_TAKEN = (*TAKEN, NodeSettings().state_dir)
# The agent refuses the others when it starts. For `not` helm gives no reason; for `const` it prints the text, which is
# no folder.
_FREE_FOLDER: Schema = {
    **_FOLDER,
    "if": {"pattern": overlapping(_TAKEN)},
    "then": {"const": f"a folder that is not at, above or below {', '.join(_TAKEN)}"},
}
# The agent's setting has one entry more, for the card's own node.
FOLDERS: Schema = {
    **listed(_FREE_FOLDER),
    "minItems": 1,
    "maxItems": MOST_MOUNTS - 1,
    "uniqueItems": True,
    "examples": [["/opt/hyhal", "/opt/dtk"]],
}
NUMBER: Schema = {"type": "integer", "minimum": 1}
SWITCH: Schema = {"type": "boolean"}
_PREFIX = "[a-z0-9]([a-z0-9.-]*[a-z0-9])?/[a-z0-9]([a-z0-9.-]*[a-z0-9])?"
PREFIX: Schema = {"type": "string", "pattern": f"^{_PREFIX}$", "examples": ["hygon.com/hcu"]}
OPTIONAL_PREFIX: Schema = {**PREFIX, "pattern": f"^({_PREFIX})?$"}
PREFIXES: Schema = {**listed(PREFIX), "minItems": 1, "examples": [["hygon.com/hcu"]]}
VENDORS: Schema = {**mapping("^[0-9a-f]{4}$", PREFIX), "examples": [{"beef": "hygon.com/hcu"}]}
# From a million on a template writes a number with an exponent.
MOST = 999_999
# A number, and those of families with other ones: "4,amd.com/gpu=16".
BOUND: Schema = {
    "type": ["string", "integer"],
    "minimum": 1,
    "maximum": MOST,
    "pattern": f"^[1-9][0-9]*(,{_PREFIX}=[1-9][0-9]*)*$",
    "examples": ["8,amd.com/gpu=16"],
}
_ANY: Schema = {"type": ["string", "number", "boolean"]}


def _spellings(words: Iterable[str]) -> list[str]:
    """The words in upper case, in lower case, and with a capital letter."""
    return [spelled for word in sorted(words) for spelled in (word.upper(), word.lower(), word.capitalize())]


# The environment variables that services read in addition to their settings.
_BESIDE_SETTINGS: Mapping[str, Schema] = {
    "VGPU_CONFIG": {"type": "string"},
    "VGPU_LOG_LEVEL": {"enum": _spellings(logging.getLevelNamesMapping())},
}


def environment(settings: type[msgspec.Struct]) -> Schema:
    """The settings of a service as environment variables. A name that is none, and a value of another type, is refused.

    The service would not read the one, and refuse the other when it starts.
    """
    variables = {setting.variable: _variable(setting) for setting in settings_of(settings)}
    return {**closed({**variables, **_BESIDE_SETTINGS}), "examples": [{"VGPU_LOG_LEVEL": "DEBUG"}]}


def _variable(setting: Setting) -> Schema:
    if setting.choices:
        return {"enum": [*setting.choices]}
    if setting.type is bool:
        return {"enum": [True, False, *_spellings(yaml.SafeLoader.bool_values)]}
    if setting.type not in (int, float):
        return _ANY
    meta = setting.meta
    bounds = {"minimum": meta.ge, "exclusiveMinimum": meta.gt, "maximum": meta.le or MOST}
    number, pattern = (
        ("integer", "^[0-9]+$") if setting.type is int else ("number", "^([0-9]+[.]?[0-9]*|[.][0-9]+)$")
    )
    given = {key: bound for key, bound in bounds.items() if bound is not None}
    return {"type": [number, "string"], "pattern": pattern, **given}


RUNBOOK: Schema = {
    "type": "string",
    "pattern": "^[A-Za-z0-9.:/?#&=_~%-]*NAME[A-Za-z0-9.:/?#&=_~%-]*$",
    "examples": ["https://docs.example.com/alerts/NAME.html"],
}

# The forms of Kubernetes' own types.
_LABEL = "^[A-Za-z0-9]([A-Za-z0-9./_-]*[A-Za-z0-9])?$"
_PLAIN: Schema = {"type": "string"}
LABELS: Schema = {**mapping(_LABEL, _PLAIN), "examples": [{"pool": "cards"}]}
_QUANTITY: Schema = {
    "type": ["string", "number"],
    "pattern": r"^[0-9]+([.][0-9]*)?(m|k|M|G|T|P|E|Ki|Mi|Gi|Ti|Pi|Ei|[eE][0-9]+)?$",
    "minimum": 0,
}
_AMOUNTS = mapping(_LABEL, _QUANTITY)
RESOURCES: Schema = {
    **closed({"requests": _AMOUNTS, "limits": _AMOUNTS}),
    "examples": [{"limits": {"memory": "2Gi"}}],
}
TOLERATIONS: Schema = {
    **listed(
        closed(
            {
                "key": _PLAIN,
                "operator": {"enum": ["Exists", "Equal"]},
                "value": _PLAIN,
                "effect": {"enum": ["NoSchedule", "PreferNoSchedule", "NoExecute"]},
                "tolerationSeconds": {"type": "integer"},
            }
        )
    ),
    "examples": [[{"key": "cards", "operator": "Exists"}]],
}
_EXPRESSION = closed(
    {
        "key": _PLAIN,
        "operator": {"enum": ["In", "NotIn", "Exists", "DoesNotExist"]},
        "values": listed(_PLAIN),
    },
    ("key", "operator"),
)
_SELECTOR = closed({"matchLabels": LABELS, "matchExpressions": listed(_EXPRESSION)})
_BLOCK = closed({"cidr": _PLAIN, "except": listed(_PLAIN)}, ("cidr",))
PEERS: Schema = {
    **listed(closed({"podSelector": _SELECTOR, "namespaceSelector": _SELECTOR, "ipBlock": _BLOCK})),
    "examples": [[{"ipBlock": {"cidr": "10.0.0.0/28"}}]],
}

# The forms of the files that our programs read.
_MODES: Schema = {"enum": [mode.value for mode in Enforcement]}
NODES = listed(
    closed(
        {
            "labels": {**LABELS, "minProperties": 1},
            "excludeCards": WORDS,
            "enforcement": mapping("^[0-9a-f]{4}$", _MODES),
        },
        ("labels",),
    )
)
_KINDS = {bool: "boolean", int: "integer", str: "string"}
_CARD = {key: {"type": _KINDS[SimCard.__annotations__[field]]} for key, field in KEYS.items()}
CARDS: Schema = {
    **listed(
        closed(
            {
                "preset": {"enum": list(PRESETS)},
                "count": {"type": "integer", "minimum": 1, "maximum": MAX_CARDS},
                **_CARD,
            },
            ("preset",),
        )
    ),
    "minItems": 1,
    "examples": [[{"preset": "amd-60cu-16gib", "memoryMiB": 65520}]],
}
