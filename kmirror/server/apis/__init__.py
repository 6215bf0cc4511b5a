"""Request handlers of a broker, one module per family of APIs.

In: a `Request` (decoded message, version, who asks) and the broker's parts (`KafkaApis`). Out: a
response message, NO_RESPONSE or CLOSE_CONNECTION; or an `ApiException`, which becomes the API's
error response.

A handler authorizes, checks what needs no state, asks the package that owns the state, and builds
the response. Each module's docstring begins with its API keys and the versions that it serves.

Start reading: `produce.py` and `fetch.py`; `mirror.py` for KIP-1279.

Only `server` imports these modules (`sim` takes single ones to play older brokers and to switch
rules off).
"""
