"""The cluster service: watches nodes and pods, keeps the ledger, answers /filter and /bind."""
