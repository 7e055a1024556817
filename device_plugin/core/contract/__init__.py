"""The contract: each text that stands on an object of the API, and the words of metrics, events and refusals.

Other programs, people and other versions of ours read all of it. Each text has one type, one writer and one reader.
"""
