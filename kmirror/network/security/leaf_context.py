"""A server that sends the certificates of its key store, and no trusted root.

OpenSSL completes a chain of one certificate from the trusted ones of the same context, where Kafka
sends what the key store has. So a server that checks clients starts with a context that trusts
nobody, and takes the one that knows the trusted certificates when its own are sent and the client's
have not come. Until then nobody is trusted, so a mistake here refuses a client and admits none.

A client cannot do the same. It checks the server's certificate and sends its own in one step of
OpenSSL's, and whatever could interrupt that step changes contexts in the middle of it: of the
messages that were tried, none served both TLS 1.2 and TLS 1.3 each time with OpenSSL 3.0.
"""

from __future__ import annotations

import ssl
from typing import Final

HELLO_RETRY: Final = bytes.fromhex("cf21ad74e59a6111be1d8c021e65b891c2a211167abb8c5e079e09e2c8a8339c")
"""The random of a TLS 1.3 server that asks for another ClientHello (RFC 8446, 4.1.3)."""


class LeafObject(ssl.SSLObject):
    """The TLS of one connection of a LeafContext."""

    outgoing: ssl.MemoryBIO

    def do_handshake(self) -> None:
        """As SSLObject's. With our own certificate in a flight, the client's is what comes next."""
        try:
            super().do_handshake()
        except ssl.SSLWantReadError:
            flight = self.outgoing.read()
            self.outgoing.write(flight)
            context = self.context
            if flight and HELLO_RETRY not in flight and isinstance(context, LeafContext):
                self.context = context.verifying
            raise


class LeafContext(ssl.SSLContext):
    """A server's context until its certificates are sent; `verifying` checks the client's.

    Connections are made with `wrap_bio`, as asyncio and SslTransportLayer do.
    """

    verifying: ssl.SSLContext
    sslobject_class = LeafObject

    def wrap_bio(
        self,
        incoming: ssl.MemoryBIO,
        outgoing: ssl.MemoryBIO,
        server_side: bool = False,
        server_hostname: str | bytes | None = None,
        session: ssl.SSLSession | None = None,
    ) -> ssl.SSLObject:
        connection = super().wrap_bio(incoming, outgoing, server_side, server_hostname, session)
        assert isinstance(connection, LeafObject), f"a LeafContext made a {type(connection).__name__}"
        connection.outgoing = outgoing
        return connection
