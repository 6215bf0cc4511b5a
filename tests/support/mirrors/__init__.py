"""Mirrors: one broker's machinery without sockets and time, a scripted source, whole clusters from
outside.
"""
