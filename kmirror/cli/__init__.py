"""The command line tools: `kafka-mirrors` (KIP-1279), Kafka's own tools, and `kmirror`.

In: arguments, properties files, and clusters or folders of logs. Out: text in the form that Kafka's
tools print (many have `--json` as well), and an exit code. A user sees one line for an error, never
a traceback.

A tool `kafka-x` is the file `x`. Its options are declared in `build_parser`, checked, and handed to
`x_actions` or to files that begin with the tool's name; these are imported only when an action
runs, so that `--help` is quick. Most tools for a running cluster go through `AdminClient`
(`tool_client`); those that compare or check logs go through `verify`, or `spark` for large inputs.

Start reading at `tool_options` (Kafka's option parser and `run_tool`), then at a small tool such as
`get_offsets`. `kafka-mirrors` begins at `mirrors`; its parser, `mirrors_parser`, also says which
options go together. `kmirror` lists its commands itself.

No room imports this one. It may import all others but the pytest plugin.
"""
