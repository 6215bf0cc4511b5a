"""Logs and folders of logs: batches by hand, random histories, damage, the recorded vectors."""
