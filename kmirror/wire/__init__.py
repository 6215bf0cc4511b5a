"""Kafka's protocol as bytes: messages, frames, and the tables of API keys and versions.

In: bytes, with an API key (or a record type) and a version. Out: message objects; and the reverse.
Nothing here opens a connection or decides anything.

`wire/messages/` is generated from the schemas in `protocol/` by `make messages`, with one module
per API or stored record; do not edit it. The numbers that moved between revisions of KIP-1279 stand
in `mirror_dialect.py` alone.

Start reading: `api_keys.py` (which APIs there are), `framing.py` (headers and frames), then one
generated module such as `messages/fetch.py`; `records.py` for records of internal topics.

Every room but `common` may import this one. It imports only `common`, and not asyncio.
"""
