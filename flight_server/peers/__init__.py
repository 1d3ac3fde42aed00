"""The other hosts of a deployment: who is alive, what they report, and fragments that run there.

Never decides which of them answers: `engine.cluster` does.
"""
