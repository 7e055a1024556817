"""The five boards of Grafana, one per module; the board of the cluster shows where cards have room."""

from hack.generate.monitoring.boards import card, cluster, namespace, node, pod

BOARDS = (cluster.BOARD, node.BOARD, card.BOARD, namespace.BOARD, pod.BOARD)
