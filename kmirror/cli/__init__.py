"""The command line: `kafka-mirrors`, Kafka's tools, and `kmirror` with its commands.

A tool `kafka-x` is the file `x`: options are declared in its `build_parser`, checked, and handed to `x_actions` or to files that
begin with the tool's name. Those are imported only when an action runs, so that `--help` is quick. Start reading at `tool_options`
(Kafka's option parser and `run_tool`), then at a small tool such as `get_offsets`; `kafka-mirrors` begins at `mirrors`, whose
parser, `mirrors_parser`, also says which options go together. `kmirror` lists its commands itself.

Tools talk to clusters through `admin` and to log folders through `verify`. Nothing imports from here but tests and entry points.
"""
