"""Brokers and controllers without sockets, and requests to one that runs."""
