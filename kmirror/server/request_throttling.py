"""Applies the quotas to a request that was answered, before its response leaves (Kafka's
`RequestHandlerHelper`, KIP-13, KIP-219).

    produce               bytes of the request, and (unless acks=0) its time
    fetch of a consumer   decided by its handler, because a throttled fetch is answered without data: `throttle_fetch`
    of another broker     its time is exempt
    everything else       its time; what the controller says about controller mutations comes with its response

The greater throttle time wins, is written into the response, and mutes the connection for as long.
Only the handler of fetch knows about it. While no quota is set, this module is never entered.
"""

from __future__ import annotations

from typing import Any

from kmirror.common.errors import Errors
from kmirror.common.ports import Clock
from kmirror.server.quota.client_quota_manager import ClientQuotaManager
from kmirror.server.quota.quota_managers import QuotaManagers
from kmirror.server.request import NoMessage, Request
from kmirror.server.request_metrics import error_counts
from kmirror.wire.api_keys import API_TABLE, ApiKeys

_SHARE_GROUP_STATE = frozenset(key for key in API_TABLE if "SHARE_GROUP_STATE" in key.name)
"""Requests between brokers that Kafka 4.3 throttles like a client's, whatever their answer."""
_EXEMPT_INTER_BROKER = frozenset(key for key, spec in API_TABLE.items() if spec.cluster_action) - _SHARE_GROUP_STATE


class RequestThrottler:
    """Records each request with the quotas of the node; `KafkaApis` owns it."""

    def __init__(self, quotas: QuotaManagers, clock: Clock) -> None:
        self._quotas = quotas
        self._clock = clock

    def throttle(self, request: Request, response: Any) -> int:
        """Returns how long the connection is muted, and writes it into the response if it has a
        field for it.
        """
        if request.throttle_time_ms is not None:
            return request.throttle_time_ms
        if response is NoMessage.CLOSE_CONNECTION:
            return 0
        if self._is_exempt(request, response):
            self._quotas.request.record_exempt(self._time_ns(request), self._clock.monotonic_ms())
            return 0
        if request.api_key is ApiKeys.PRODUCE:
            time_ms = self._throttle_produce(request, answered=not isinstance(response, NoMessage))
        else:
            time_ms = self._throttle_time(request, getattr(response, "throttle_time_ms", 0))
        if time_ms and hasattr(response, "throttle_time_ms"):
            response.throttle_time_ms = time_ms
        return time_ms

    def throttle_fetch(self, request: Request, response_size: int) -> int:
        """Returns how long a consumer's fetch is throttled.

        If it is throttled, the bytes do not count, because they are not sent.
        """
        quotas, now_ms = self._quotas, self._clock.monotonic_ms()
        principal, client_id = request.principal, request.client_id or ""
        request_time_ms = quotas.request.record_time(principal, client_id, self._time_ns(request), now_ms)
        fetch_time_ms = quotas.fetch.maybe_record_and_get_throttle_time_ms(principal, client_id, response_size, now_ms)
        time_ms = max(request_time_ms, fetch_time_ms)
        if time_ms:
            quotas.fetch.record_no_throttle(principal, client_id, -response_size, now_ms)
            self._note(quotas.fetch if fetch_time_ms > request_time_ms else quotas.request, request, time_ms, now_ms)
        request.throttle_time_ms = time_ms
        return time_ms

    def fetch_limit(self, request: Request) -> float | None:
        """Returns the bytes that a consumer may fetch at once without certain throttling."""
        return self._quotas.fetch.max_value_in_quota_window(request.principal, request.client_id or "")

    def sent(self, request: Request, send_ns: int) -> None:
        """Counts the time after the judgement: encoding and sending."""
        timing = request.timing
        if timing is not None and timing.judged_ns and self._quotas.request.enabled:
            time_ns = timing.local_ns - timing.judged_ns + send_ns
            self._quotas.request.record_time_no_throttle(request.principal, request.client_id or "", time_ns, self._clock.monotonic_ms())

    def _throttle_produce(self, request: Request, *, answered: bool) -> int:
        quotas, now_ms = self._quotas, self._clock.monotonic_ms()
        principal, client_id = request.principal, request.client_id or ""
        bytes_time_ms = quotas.produce.maybe_record_and_get_throttle_time_ms(principal, client_id, request.size_in_bytes, now_ms)
        request_time_ms = 0
        if answered:
            request_time_ms = quotas.request.record_time(principal, client_id, self._time_ns(request), now_ms)
        else:
            quotas.request.record_exempt(self._time_ns(request), now_ms)
        time_ms = max(bytes_time_ms, request_time_ms)
        if time_ms:
            self._note(quotas.produce if bytes_time_ms > request_time_ms else quotas.request, request, time_ms, now_ms)
        return time_ms

    def _throttle_time(self, request: Request, mutation_time_ms: int) -> int:
        quotas, now_ms = self._quotas, self._clock.monotonic_ms()
        request_time_ms = quotas.request.record_time(request.principal, request.client_id or "", self._time_ns(request), now_ms)
        time_ms = max(mutation_time_ms, request_time_ms)
        if time_ms:
            self._note(quotas.controller_mutation if mutation_time_ms > request_time_ms else quotas.request, request, time_ms, now_ms)
        return time_ms

    def _note(self, manager: ClientQuotaManager, request: Request, time_ms: int, now_ms: int) -> None:
        manager.throttle(request.principal, request.client_id or "", time_ms, now_ms)

    def _is_exempt(self, request: Request, response: Any) -> bool:
        """Whether a request comes from a broker and was not refused; a refused one could be
        anybody's.

        A response without an error of its own (WriteTxnMarkers) has the refusal in every partition.
        """
        if request.api_key is ApiKeys.FETCH:
            return True  # a follower's fetch: a consumer's is judged by its handler
        return request.api_key in _EXEMPT_INTER_BROKER and Errors.CLUSTER_AUTHORIZATION_FAILED not in error_counts(response)

    def _time_ns(self, request: Request) -> int:
        timing = request.timing
        if timing is None:
            return 0
        timing.judged_ns = timing.thread_time_ns(self._clock.monotonic_ns())
        return timing.judged_ns
