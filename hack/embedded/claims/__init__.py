"""A stand-in for the ResourceClaim controller: it makes claims from templates, and frees claims that no pod uses.

Model: k8s.io/kubernetes 1.36 pkg/controller/resourceclaim. A pod's own claim that was deleted is not made again, as
there.
"""

from hack.embedded.claims.controller import ClaimController

__all__ = ["ClaimController"]
