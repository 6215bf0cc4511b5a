"""What tests of command lines share: child processes, pages, the README's examples, Spark without a
session.
"""
