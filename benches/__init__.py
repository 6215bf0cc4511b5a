"""What kmirror costs, each figure beside its roofline or its peer of the same run.

`python -m benches --list`.
"""
