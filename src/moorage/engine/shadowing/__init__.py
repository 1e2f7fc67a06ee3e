"""What these profiles would have decided for the pods of another scheduler, decision by decision.

`verdicts` holds the values, `comparing` compares one decision on one state, `ordering` judges a difference again with
the neighbouring binds undone, `following` takes over the other scheduler's placements, `owning` goes on with its own.
"""
