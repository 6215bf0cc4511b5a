"""AdminClient: what an operator asks of a cluster.

Calls go in as coroutines of `admin_client.AdminClient`; Kafka requests go out over `network`. Start reading at `admin_client`: it
is the table of all calls. A call stands in the file of its family (`topics`, `configs`, `groups`, `mirrors`, ...), beside the
dataclasses that only it needs; those of several families are in `results`. `admin_requests` knows whom to ask, what to try again
and when to give up.

Import `AdminClient` from `admin_client` (or from `kmirror`), and options and results from `results` or the family's file.
"""
