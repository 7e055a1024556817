"""Times of the kubelet stand-in, shorter than those of the real kubelet. All in seconds."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class KubeletTiming:
    """Delays of one kubelet; in brackets the real one's.

    `retry`: after a container could not be created [10 to 15]. `backoff`, doubling up to `backoff_limit`: before the
    second restart of a container that ended [10 to 300]. `pre_start`: PreStartContainer's deadline [30].
    `endpoint_grace`: how long a stopped plugin's resource keeps its capacity [300]. `node_status`: at least so long
    between two writes of the node's status [10]. `cdi_lag`: the most by which the runtime's CDI cache is late.
    `create`: the most that the runtime works on a container before it looks its CDI devices up.
    `api_retry`: between attempts to reach the API server. `dial`: how long a plugin that
    registered may take to serve [10].
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
