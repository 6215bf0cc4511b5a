"""The command line tools: `kafka-mirrors` (KIP-1279), Kafka's own tools, and `kmirror`.

In: arguments, properties files, and clusters or folders of logs. Out: text in the form that Kafka's
tools print (many have `--json` as well), and an exit code. A user sees one line for an error, never
a traceback.

A tool is a module with `main`; a large one has neighbours with its name as their prefix, such as
`mirrors_actions.py` (what `kafka-mirrors` does) and `mirrors_tables.py` (what it prints). Most
tools for a running cluster go through `AdminClient` (`tool_client.py`); those that compare or check
logs go through `verify`, or `spark` for large inputs.

Start reading: `kmirror.py` (the commands), `mirrors.py`, `dump_log.py`.

No room imports this one. It may import all others but the pytest plugin; modules import what is
heavy only when a command needs it, so that `--help` is quick.
"""
