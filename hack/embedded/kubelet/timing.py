"""Delays of the kubelet stand-in in seconds, shorter than the real kubelet's."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class KubeletTiming:
    """The delays of one kubelet; the real kubelet's are in brackets.

    `retry`: after a container could not be created [10 to 15]. `backoff`, doubled up to `backoff_limit`: before the
    second and later restarts of a container [10 to 300]. `pre_start`: deadline of PreStartContainer [30].
    `endpoint_grace`: time for which a stopped plugin's resource keeps its capacity [300]. `node_status`: least time
    between two writes of the node's status [10]. `cdi_lag`: longest delay until the runtime's CDI cache sees a change.
    `create`: longest time that the runtime works on a container before it reads its CDI devices. `api_retry`: between
    attempts to reach the API server. `dial`: time in which a registered plugin must serve [10]. `prepare_retry`: after
    a pod's claims could not be prepared [60 to 90]. `wipe`: until the ResourceSlices of a driver that is away are
    deleted [30].
    """

    retry: float = 0.1
    backoff: float = 0.1
    backoff_limit: float = 2.0
    pre_start: float = 30.0
    endpoint_grace: float = 300.0
    node_status: float = 0.05
    cdi_lag: float = 0.05
    create: float = 0.1
    api_retry: float = 0.2
    dial: float = 10.0
    prepare_retry: float = 5.0
    wipe: float = 5.0
