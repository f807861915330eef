"""Wake sources: how each is armed, what it owes, how it is resolved.

What a wake source owes: it delivers at most one entry to a generation, in the
transaction that changes its own row; that row is the authority on whether the wake is
pending; and arming it again changes nothing.
"""
