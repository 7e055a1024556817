"""The contract: each text that is written on an API object, and the words of metrics, events and refusals.

Other programs, people and other versions of ours read all of these. Each text has one type, one writer and one reader.
"""
