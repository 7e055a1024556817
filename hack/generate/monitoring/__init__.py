"""Rules, alerts and boards for an operator's Prometheus and Grafana, each made from one place; `make docs` writes them.

`rules` holds the recording rules, `alerts` the alerts, `boards` the boards, `grafana` the JSON of a board.
"""
