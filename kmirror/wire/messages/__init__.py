"""Generated message classes: one module an API or stored record (see tools/generate_messages.py)."""
