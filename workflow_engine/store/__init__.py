"""The only place that speaks SQLAlchemy.

One file a table, one unit of work a transaction. ``database`` opens connections and
says what went wrong with them, ``schema`` creates, checks and upgrades the tables,
the repositories hold every statement.
"""
