"""Generates rules, alerts and boards for Prometheus and Grafana; `make docs` writes them.

`rules` has the recording rules, `alerts` the alerts, `boards` the boards, `grafana` the JSON format of a board.
"""
