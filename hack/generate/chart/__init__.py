"""Generates the Helm chart from manifests/: `make chart` writes manifests/chart, and a test compares the two.

kustomize builds variants of the manifests, with a marker in place of each value (variants.py). templates.py writes a
condition of Helm where two variants differ, and replaces each marker by its value. values.py defines the values,
schemas.py their allowed forms, and checks.py refuses values that contradict each other.
"""
