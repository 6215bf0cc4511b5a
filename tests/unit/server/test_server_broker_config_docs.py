"""Every broker setting is described to who asks DescribeConfigs for it."""

from __future__ import annotations

from kmirror.server.broker_config_docs import BROKER_CONFIG_DOCS, NO_EFFECT, NO_EFFECT_BECAUSE
from kmirror.server.broker_configs import broker_configs, configs_without_effect, dynamic_only_configs

KEYS = broker_configs().keys | dynamic_only_configs().keys


def test_every_setting_is_described() -> None:
    """73 of 344 were."""
    assert len(KEYS) > 300
    assert [name for name, key in KEYS.items() if not key.documentation.strip()] == []
    assert [text for text in BROKER_CONFIG_DOCS.values() if not text.endswith(".")] == []


def test_a_setting_that_nothing_reads_is_described_as_such() -> None:
    """Kafka's description would promise what does not happen."""
    assert {name for name, key in KEYS.items() if key.documentation.startswith(NO_EFFECT)} == configs_without_effect()
    assert KEYS["remote.log.reader.threads"].documentation == f"{NO_EFFECT}: there is no tiered storage."


def test_the_descriptions_are_of_settings_that_something_reads() -> None:
    assert set(BROKER_CONFIG_DOCS) == set(KEYS) - configs_without_effect()
    assert [prefix for prefix in NO_EFFECT_BECAUSE if not any(name.startswith(prefix) for name in configs_without_effect())] == []
