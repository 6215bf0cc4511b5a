"""The consumer: `KafkaConsumer`, and the parts it is made of.

Pure parts, which decide: `subscription_state` and `fetch_state` (where each partition is read from),
`fetch_session_handler`, `completed_fetch` (what an application may see of a response),
`fetch_collector` (what is handed out next, and what errors mean), the assignors, `member_states`
(the tables of the two group protocols), `group_leader`. Thin parts, which ask: `fetcher`,
`offset_fetcher`, `consumer_commits` with `offset_commits`, `classic_membership` with
`classic_requests`, and `consumer_membership`. `kafka_consumer` joins them.
"""
