"""TLS and SASL, for listeners and for clients.

In: Kafka's `ssl.*` and `sasl.*` settings, and the bytes of a connection that is not logged in yet.
Out: a TLS context, and a connection with a `KafkaPrincipal`, or an authentication error in Kafka's
words.

Each mechanism (PLAIN, SCRAM, OAUTHBEARER, GSSAPI) has a server's and a client's side with the shape
of Java's `SaslServer` and `SaslClient`: tokens in, tokens out.

Start reading: `ServerChannelBuilder` (a listener's security), `SaslServerAuthenticator` (the login,
on the broker's side) and its counterpart, the client's `authenticate`.

Outside `network`, `server` wires these classes; others use single ones (`ScramMechanism`).
"""
