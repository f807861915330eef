"""Performs what the core decides: runs bodies, holds leases, works in passes."""
