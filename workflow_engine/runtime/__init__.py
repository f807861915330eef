"""Performs what the core decides: runs bodies, holds leases, takes turns as a worker."""
