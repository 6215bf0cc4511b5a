"""The consumer: `KafkaConsumer`, and the parts it is made of.

Pure parts, which decide: `subscription_state` (where each partition is read from),
`fetch_session_handler`, `completed_fetch` (what an application may see of a response), the
assignors, `classic_member_state` and `consumer_member_state` (the tables of the two group
protocols). Thin parts, which ask: `fetcher`, `offset_fetcher`, `offset_commits`,
`classic_membership` and `consumer_membership`. `kafka_consumer` joins them.
"""
