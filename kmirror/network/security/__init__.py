"""TLS and SASL, for listeners and for clients.

In: Kafka's `ssl.*` and `sasl.*` settings, and the bytes of a connection that has not logged in yet.
Out: a TLS context, and a connection with a `KafkaPrincipal`, or an authentication error with
Kafka's text.

Each mechanism (PLAIN, SCRAM, OAUTHBEARER, GSSAPI) has a server side and a client side, shaped like
Java's `SaslServer` and `SaslClient`: tokens in, tokens out.

Start reading: `ServerChannelBuilder` (a listener's security), `SaslServerAuthenticator` (the
broker's side of a login) and `authenticate` in `sasl_client_authenticator` (the client's side).

Outside `network`, `server` puts these classes together. Other rooms use single ones:
`ScramMechanism`, for example.
"""
