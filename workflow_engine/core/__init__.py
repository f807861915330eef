"""Decides what a workflow does next; performs nothing.

Rule 1: whatever decides what a workflow does next is decided in this package, from the
body and the journal alone.

Rule 2: nothing here reads a clock, draws a number, opens a connection, starts a thread
or logs. Code that needs one of those becomes a request, and a driver answers it.
"""
