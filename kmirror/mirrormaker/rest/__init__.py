"""Connect's REST interface, over HTTP and HTTPS, in one process with the workers that it speaks for.

    rest_config            `listeners` and the other properties of a worker that concern it
    rest_server            listens; the one place, with `rest_client`, that knows aiohttp
    rest_client            asks another worker
    rest_messages          requests and answers, as resources see them; `entities` are their bodies
    rest_router            which resource a request is for, and the refusals that need none
    cross_origin, response_headers      headers that a file adds to answers
    request_forwarding     asks the worker that can, when this one cannot
    internal_resource      what workers ask of each other
    connect_rest           a Connect worker: `root_resource`, `connectors_resource`, `plugins_resource`, `logging_resource`

Resources know a `Herder` (`herder.herder`) and nothing of HTTP but these requests and answers.
"""
