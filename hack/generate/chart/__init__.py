"""The Helm chart, generated from manifests/: `make chart` writes manifests/chart, a test holds it to them.

kustomize makes the objects of each component with a marker at each place of a value (variants.py); where two
variants differ a condition of Helm stands, and where a marker is its value (templates.py). values.py names the values,
schemas.py says what each may be, and checks.py refuses those that contradict each other.
"""
