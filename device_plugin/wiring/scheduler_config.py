"""`vgpu scheduler-config`: write the configuration of the kube-scheduler next to the cluster service.

    vgpu scheduler-config --template manifests/base/cluster/scheduler.yaml --out scheduler.yaml

A profile without a schedulerName gets the name from the settings of `vgpu cluster`. An extender without
managedResources gets all resources of the settings' prefixes, and leaderElection without a resourceNamespace gets the
settings' leaseNamespace. So each of them is written in one place only.

If the settings serve claims, an extender gets no managedResources: kube-scheduler asks it about every pod of the
profile. And a profile without plugins gets the plugin DynamicResources only to hold pods whose ResourceClaims do not
exist yet: the allocator, and not kube-scheduler, allocates claims.
"""

import argparse
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from device_plugin.adapters.yaml_text import NotYamlError, parse
from device_plugin.core.requests import resource_names
from device_plugin.wiring.setting_sources import add_flags, load
from device_plugin.wiring.settings import ClusterSettings, SettingsError

# The plugin only holds pods back (PreEnqueue) until their claims exist.
_CLAIMS = {
    "plugins": {
        "multiPoint": {"disabled": [{"name": "DynamicResources"}]},
        "preEnqueue": {"enabled": [{"name": "DynamicResources"}]},
    }
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add to the parser the template, the file to write, and one flag for each setting."""
    parser.usage = "vgpu scheduler-config --template FILE [--out FILE] [--config FILE] [--SETTING VALUE]..."
    parser.add_argument("--template", metavar="FILE", required=True, help="KubeSchedulerConfiguration")
    parser.add_argument("--out", metavar="FILE", help="where to write it (default: stdout)")
    add_flags(parser, ClusterSettings)


def run(args: argparse.Namespace) -> int:
    """Write kube-scheduler's configuration, made from the template. Raises SettingsError."""
    loaded = load(ClusterSettings, vars(args), os.environ)
    template = Path(args.template)
    try:
        text = yaml.safe_dump(filled(parse(template.read_text()), loaded), sort_keys=False)
    except KeyError as error:
        raise SettingsError(
            f"template {template} is not a KubeSchedulerConfiguration: it has no {error.args[0]}"
        ) from error
    except NotYamlError as error:
        raise SettingsError(f"template {template} is not YAML: {error}") from error
    except TypeError as error:
        raise SettingsError(f"template {template} is not a KubeSchedulerConfiguration: {error}") from error
    except OSError as error:
        raise SettingsError(f"template {template}: {error.strerror}") from error
    if args.out is None:
        # Not /dev/stdout, which a process of another user cannot open.
        sys.stdout.write(text)
        return 0
    try:
        Path(args.out).write_text(text)
    except OSError as error:
        raise SettingsError(f"cannot write {args.out}: {error.strerror}") from error
    return 0


def filled(template: Mapping[str, Any], loaded: ClusterSettings) -> dict[str, Any]:
    """Returns the template, completed with schedulerName, plugins, managedResources and the Lease's namespace.

    The plugins are added only if the settings serve claims, and managedResources only if they do not. Values that the
    template has stay.
    """
    names = [name for prefix in loaded.prefixes for name in resource_names(prefix)]
    managed = {"managedResources": [{"name": name, "ignoredByScheduler": False} for name in names]}
    profile = {"schedulerName": loaded.scheduler_name}
    return {
        **template,
        "leaderElection": {"resourceNamespace": loaded.lease_namespace, **template.get("leaderElection", {})},
        "profiles": [
            {**(profile | _CLAIMS if loaded.claims else profile), **each} for each in template["profiles"]
        ],
        "extenders": [
            {**extender, **({} if loaded.claims else managed)} | extender
            for extender in template["extenders"]
        ],
    }
