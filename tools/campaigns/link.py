"""A flaky link between the clusters: the source's brokers can be reached only through a proxy of
ours.

The source (Apache Kafka 4.3) has a second listener, which it advertises at the proxy's address; its
own clients use the first. For some seconds a round delays the link, makes it trickle, silences it
(half-open: nobody is told), resets its connections in the middle of what they carry, or has nobody
listen. Then the link heals. At the end everything is mirrored, as always.
"""

from __future__ import annotations

import time

from support.peers.peers import free_port

from tools.campaigns.proxy import Proxy
from tools.campaigns.run import Run
from tools.campaigns.stage import mirrored_from_apache

PATIENCE = {"request.timeout.ms": "5000", "replica.fetch.wait.max.ms": "500"}
"""A silent connection is given up after 5 s, so that a round of some seconds shows it."""


def campaign(run: Run) -> None:
    direct, linked, controller = free_port(), free_port(), free_port()
    proxy = Proxy(linked, seed=run.seed)
    listeners = {
        "listeners": f"PLAINTEXT://127.0.0.1:{direct},LINK://127.0.0.1:{linked},CONTROLLER://127.0.0.1:{controller}",
        "advertised.listeners": f"PLAINTEXT://127.0.0.1:{direct},LINK://127.0.0.1:{proxy.port}",
        "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,LINK:PLAINTEXT",
        "controller.quorum.voters": f"1@127.0.0.1:{controller}",
    }
    try:
        with mirrored_from_apache(
            run, source_properties=listeners, bootstrap_servers=f"127.0.0.1:{proxy.port}", config=PATIENCE, source_port=direct
        ) as stage:
            for number in range(run.rounds):
                time.sleep(run.chance.uniform(0.5, 2))
                run.say(f"round {number + 1}: {_round(run, proxy)}")
            if not proxy.forwarded_bytes:
                run.broken("nothing went over the link, so nothing was shown")
            run.count("KiB over the link", proxy.forwarded_bytes // 1024)
            stage.finish()
    finally:
        proxy.close()


def _round(run: Run, proxy: Proxy) -> str:
    what = run.chance.choice(["late", "trickling", "silent", "reset", "refused", "reset often"])
    seconds = run.chance.uniform(1, 9)
    run.count(f"times {what}")
    match what:
        case "late":
            proxy.delay_s, proxy.jitter_s = run.chance.uniform(0.01, 0.4), run.chance.uniform(0, 0.4)
        case "trickling":
            proxy.trickle = True
        case "silent":
            proxy.silent = True
        case "refused":
            proxy.refuse()
            proxy.reset()
        case "reset":
            proxy.reset()
        case _:
            for _ in range(5):
                proxy.reset()
                time.sleep(seconds / 5)
            return f"{what}, for {seconds:.1f} s"
    time.sleep(seconds)
    proxy.heal()
    return f"{what}, for {seconds:.1f} s"
