"""JSON schemas of the chart's values; they refuse unknown keys at every depth."""

import logging
from collections.abc import Iterable, Mapping

import msgspec
import yaml

from device_plugin.core.enforcement import Enforcement
from device_plugin.wiring.setting_sources import Setting, settings_of
from vgpu_runtime.sim.cards import KEYS, MAX_CARDS, PRESETS, SimCard

Schema = Mapping[str, object]


def closed(properties: Mapping[str, object], required: Iterable[str] = ()) -> Schema:
    """The schema of a mapping with these keys and no others."""
    made = {"type": "object", "additionalProperties": False, "properties": properties}
    return {**made, "required": list(required)} if required else made


def mapping(keys: str, values: Schema) -> Schema:
    """The schema of a mapping whose keys match a pattern."""
    # Not with propertyNames: for a wrong name helm 3.22 reports another place.
    return {"type": "object", "additionalProperties": False, "patternProperties": {keys: values}}


def listed(items: Schema) -> Schema:
    """The schema of a list of such items."""
    return {"type": "array", "items": items}


# A text without quotes, backslashes and braces: it can be inserted into a string of CEL or YAML.
TEXT: Schema = {"type": "string", "pattern": r"^[A-Za-z0-9 .,:;/=_-]*$"}
FILLED: Schema = {**TEXT, "minLength": 1}
WORDS = listed(FILLED)
REGISTRY: Schema = {
    "type": "string",
    "pattern": "^([A-Za-z0-9][A-Za-z0-9.-]*(:[0-9]+)?(/[a-z0-9][a-z0-9._-]*)*)?$",
    "examples": ["mirror.example.com:5000/library"],
}
FOLDER: Schema = {
    "type": "string",
    "pattern": "^(/[A-Za-z0-9_+-][A-Za-z0-9._+-]*)+$",
    "maxLength": 255,
    "examples": ["/var/lib/k0s/kubelet"],
}
NUMBER: Schema = {"type": "integer", "minimum": 1}
SWITCH: Schema = {"type": "boolean"}
_PREFIX = "[a-z0-9]([a-z0-9.-]*[a-z0-9])?/[a-z0-9]([a-z0-9.-]*[a-z0-9])?"
PREFIX: Schema = {"type": "string", "pattern": f"^{_PREFIX}$", "examples": ["hygon.com/hcu"]}
OPTIONAL_PREFIX: Schema = {**PREFIX, "pattern": f"^({_PREFIX})?$"}
PREFIXES: Schema = {**listed(PREFIX), "minItems": 1, "examples": [["hygon.com/hcu"]]}
VENDORS: Schema = {**mapping("^[0-9a-f]{4}$", PREFIX), "examples": [{"beef": "hygon.com/hcu"}]}
# A template would write a number of a million or more with an exponent.
MOST = 999_999
# A number, and other numbers for some families: "4,amd.com/gpu=16".
BOUND: Schema = {
    "type": ["string", "integer"],
    "minimum": 1,
    "maximum": MOST,
    "pattern": f"^[1-9][0-9]*(,{_PREFIX}=[1-9][0-9]*)*$",
    "examples": ["8,amd.com/gpu=16"],
}
_ANY: Schema = {"type": ["string", "number", "boolean"]}


def _spellings(words: Iterable[str]) -> list[str]:
    """Each word in upper case, in lower case, and capitalized."""
    return [spelled for word in sorted(words) for spelled in (word.upper(), word.lower(), word.capitalize())]


# The environment variables that services read in addition to their settings.
_BESIDE_SETTINGS: Mapping[str, Schema] = {
    "VGPU_CONFIG": {"type": "string"},
    "VGPU_LOG_LEVEL": {"enum": _spellings(logging.getLevelNamesMapping())},
}


def environment(settings: type[msgspec.Struct]) -> Schema:
    """The schema of a service's environment variables: one per setting; wrong names and types are refused.

    The service would ignore a wrong name, and would refuse a value of a wrong type only at its start.
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
    "pattern": "^(https?://[A-Za-z0-9.:/?#&=_~%-]*NAME[A-Za-z0-9.:/?#&=_~%-]*)?$",
    "examples": ["https://docs.example.com/alerts/NAME.html"],
}

# Schemas of Kubernetes' own types.
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
PRIORITY_CLASS: Schema = {
    "type": "string",
    "pattern": "^([a-z0-9]([a-z0-9.-]*[a-z0-9])?)?$",
    "examples": ["infrastructure"],
}


def _expression(*more: str) -> Schema:
    """The schema of an expression about labels, with `more` operators than those of a label selector."""
    operators = {"enum": ["In", "NotIn", "Exists", "DoesNotExist", *more]}
    return closed({"key": _PLAIN, "operator": operators, "values": listed(_PLAIN)}, ("key", "operator"))


_SELECTOR = closed({"matchLabels": LABELS, "matchExpressions": listed(_expression())})
_BLOCK = closed({"cidr": _PLAIN, "except": listed(_PLAIN)}, ("cidr",))
PEERS: Schema = {
    **listed(closed({"podSelector": _SELECTOR, "namespaceSelector": _SELECTOR, "ipBlock": _BLOCK})),
    "examples": [[{"ipBlock": {"cidr": "10.0.0.0/28"}}]],
}

# A term without an expression would select no node.
_NODE_TERM: Schema = {
    **closed({name: listed(_expression("Gt", "Lt")) for name in ("matchExpressions", "matchFields")}),
    "minProperties": 1,
}
_POD_TERM: Schema = {"$ref": "#/definitions/podTerm"}
_REQUIRED, _PREFERRED = (
    f"{verb}DuringSchedulingIgnoredDuringExecution" for verb in ("required", "preferred")
)


def _preferences(name: str, term: Schema) -> Schema:
    """The schema of weighted terms; `name` is the key of a term."""
    weight = {"type": "integer", "minimum": 1, "maximum": 100}
    return listed(closed({"weight": weight, name: term}, ("weight", name)))


_NODE_TERMS = {**listed(_NODE_TERM), "minItems": 1}
_NODE_AFFINITY = closed(
    {
        _REQUIRED: closed({"nodeSelectorTerms": _NODE_TERMS}, ("nodeSelectorTerms",)),
        _PREFERRED: _preferences("preference", _NODE_TERM),
    }
)
_POD_AFFINITY = closed({_REQUIRED: listed(_POD_TERM), _PREFERRED: _preferences("podAffinityTerm", _POD_TERM)})
# Schemas that others refer to.
DEFINITIONS: Mapping[str, Schema] = {
    "affinity": closed(
        {"nodeAffinity": _NODE_AFFINITY, "podAffinity": _POD_AFFINITY, "podAntiAffinity": _POD_AFFINITY}
    ),
    "podTerm": closed(
        {
            "labelSelector": _SELECTOR,
            "namespaceSelector": _SELECTOR,
            "namespaces": listed(_PLAIN),
            "topologyKey": _PLAIN,
            "matchLabelKeys": listed(_PLAIN),
            "mismatchLabelKeys": listed(_PLAIN),
        },
        ("topologyKey",),
    ),
}
_POOL = {"matchExpressions": [{"key": "pool", "operator": "Exists"}]}
AFFINITY: Schema = {
    "type": "object",
    "allOf": [{"$ref": "#/definitions/affinity"}],
    "examples": [{"nodeAffinity": {_REQUIRED: {"nodeSelectorTerms": [_POOL]}}}],
}

# Schemas of files that our programs read.
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
