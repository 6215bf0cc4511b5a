"""Config providers (KIP-297): a config may hold a reference to a value that is stored elsewhere.
The reference is replaced when the config is used.

    ${file:/etc/kafka/east.properties:password}   FileConfigProvider: a key of a properties file
    ${dir:/run/secrets/east:password}             DirectoryConfigProvider: the whole contents of a file in a folder
    ${env:EAST_PASSWORD}                          EnvVarConfigProvider: a variable of the process's environment

`file`, `dir` and `env` are names that properties give to the providers, as in Kafka:

    config.providers=file
    config.providers.file.class=org.apache.kafka.common.config.provider.FileConfigProvider
    config.providers.file.param.allowed.paths=/etc/kafka,/run/secrets      (of file and dir: these folders and files, and what is in them)
    config.providers.env.param.allowlist.pattern=EAST_.*                   (of env: the variables' whole names)

Without these properties a broker has no provider. Otherwise anyone who may alter a mirror's configs
could make the broker read any of its files and send it to a source of their choice.

A reference may be a part of a value, and a value may hold several. The replacement is not searched
for references again. Kafka leaves a reference that nothing resolves as it stands; here it is an
error that names the reference and never a value, because a failed login with the text `${file:...}`
for a password would not show what is wrong. Values are read anew each time, so a replaced file
takes effect at once.

Errors about a resolved value show the reference in its place (`ResolvedConfigs`): the value may be
a secret that was named where a path or a mechanism belongs, and everyone who may describe a mirror
can read the error.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final, Protocol

from kmirror.common.errors import ConfigError, CorruptFileError
from kmirror.common.ports import FileSystem
from kmirror.network.security.jaas_config import JaasConfigError
from kmirror.storage.java_properties import decode_properties

CONFIG_PROVIDERS_CONFIG: Final = "config.providers"
_PACKAGE: Final = "org.apache.kafka.common.config.provider."
_REFERENCE: Final = re.compile(r"\$\{([^}:]+):(?:([^}:]*):)?([^}]*)\}")
"""Provider, path (may be missing), key."""


_LONG_ENOUGH: Final = 4
"""Values of at least this many characters are replaced inside words too."""


class ResolvedConfigs(dict[str, str]):
    """Configs with their references replaced, and the values that replaced them."""

    def __init__(self, configs: Mapping[str, str], replaced: Mapping[str, str]) -> None:
        super().__init__(configs)
        self.replaced = replaced
        """The reference as it was written, by the value that replaced it."""

    def as_written(self, text: str) -> str:
        """`text` with each resolved value turned back into its reference, even where the value was
        stripped, split at commas or escaped.
        """
        forms = {form: reference for value, reference in self.replaced.items() for form in _forms(value)}
        for form in sorted(forms, key=lambda form: (-len(form), form)):
            pattern = re.escape(form) if len(form) >= _LONG_ENOUGH else rf"(?<!\w){re.escape(form)}(?!\w)"
            text = re.sub(pattern, lambda _: forms[form], text)  # noqa: B023
        return text

    @contextmanager
    def telling_as_written(self) -> Iterator[None]:
        """Work inside raises ConfigErrors that show references instead of values."""
        try:
            yield
        except JaasConfigError as error:  # its text may quote a piece of a value
            raise error.hidden() if self.replaced else error from None
        except ConfigError as error:
            told = self.as_written(str(error))
            if told == str(error):
                raise
            raise ConfigError(told) from None  # a log would print the cause's text beside this one


class ConfigProvider(Protocol):
    """One kind of place that values are read from."""

    def get(self, path: str, key: str) -> str:
        """The value; a ConfigError says why there is none."""
        ...


@dataclass(frozen=True, slots=True)
class _Paths:
    """The files that a provider may read: those of `allowed.paths`, or all files if that is not
    set.
    """

    files: FileSystem
    allowed: tuple[str, ...]

    @classmethod
    def from_params(cls, files: FileSystem, params: Mapping[str, str]) -> _Paths:
        allowed = tuple(posixpath.normpath(path.strip()) for path in params.get("allowed.paths", "").split(",") if path.strip())
        for path in allowed:
            if not path.startswith("/"):
                raise ConfigError(f"Path {path} is not absolute")
        return cls(files, allowed)

    def read(self, path: str) -> bytes:
        path = posixpath.normpath(path)
        if not path.startswith("/"):
            raise ConfigError(f"{path} is not an absolute path")
        if self.allowed and not any(path == allowed or path.startswith(f"{allowed.rstrip('/')}/") for allowed in self.allowed):
            raise ConfigError(f"{path} is not allowed by allowed.paths")
        try:
            return self.files.read_bytes(path)
        except OSError as error:
            raise ConfigError(f"cannot read {path}: {error.strerror or error}") from error


@dataclass(frozen=True, slots=True)
class FileConfigProvider:
    """Reads a key of a properties file at `path`."""

    paths: _Paths

    def get(self, path: str, key: str) -> str:
        data = self.paths.read(path)
        try:
            values = decode_properties(path, data)
        except CorruptFileError as error:
            raise ConfigError(
                f"{path} is not a valid properties file: it is malformed at byte {error.position}"
            ) from None  # the cause has the line
        if key not in values:
            raise ConfigError(f"{path} has no key {key}")
        return values[key]


@dataclass(frozen=True, slots=True)
class DirectoryConfigProvider:
    """Reads the file `key` in the folder `path`."""

    paths: _Paths

    def get(self, path: str, key: str) -> str:
        if key in ("", ".", "..") or "/" in key:
            raise ConfigError(f"'{key}' is not the name of a file in {path}")
        try:
            return self.paths.read(f"{path}/{key}").decode()
        except UnicodeDecodeError:
            raise ConfigError(f"{path}/{key} is not UTF-8") from None


@dataclass(frozen=True, slots=True)
class EnvVarConfigProvider:
    """Reads the environment variable `key`; there is no path."""

    environment: Mapping[str, str]
    allowlist: re.Pattern[str] | None

    @classmethod
    def from_params(cls, environment: Mapping[str, str], params: Mapping[str, str]) -> EnvVarConfigProvider:
        pattern = params.get("allowlist.pattern")
        try:
            return cls(environment, re.compile(pattern) if pattern else None)
        except re.error as error:
            raise ConfigError(f"Invalid allowlist.pattern {pattern}: {error}") from error

    def get(self, path: str, key: str) -> str:
        if path:
            raise ConfigError("Path is not supported for EnvVarConfigProvider")
        if self.allowlist is not None and self.allowlist.fullmatch(key) is None:
            raise ConfigError(f"{key} does not match allowlist.pattern")
        if key not in self.environment:
            raise ConfigError(f"there is no environment variable {key}")
        return self.environment[key]


@dataclass(frozen=True, slots=True)
class ConfigProviders:
    """The providers of a process, by the names that references use."""

    providers: Mapping[str, ConfigProvider] = field(default_factory=dict)

    @classmethod
    def from_props(cls, props: Mapping[str, str], files: FileSystem, environment: Mapping[str, str]) -> ConfigProviders:
        """The providers that `config.providers` names. ConfigError for a provider without a class,
        or with a class that kmirror does not have.
        """
        names = [name.strip() for name in props.get(CONFIG_PROVIDERS_CONFIG, "").split(",") if name.strip()]
        return cls({name: _provider(name, props, files, environment) for name in names})

    @classmethod
    def of_a_tool(cls, props: Mapping[str, str], files: FileSystem, environment: Mapping[str, str]) -> ConfigProviders:
        """As `from_props`, but without `config.providers` the tool gets `file`, `dir` and `env`: it
        may read whatever the user who runs it may read.
        """
        if props.get(CONFIG_PROVIDERS_CONFIG, "").strip():
            return cls.from_props(props, files, environment)
        everything = _Paths(files, ())
        return cls(
            {
                "file": FileConfigProvider(everything),
                "dir": DirectoryConfigProvider(everything),
                "env": EnvVarConfigProvider(environment, None),
            }
        )

    def resolve(self, props: Mapping[str, str]) -> ResolvedConfigs:
        """`props` with their references replaced.

        ConfigError, naming the config and the reference, if one cannot be resolved.
        """
        replaced: dict[str, str] = {}
        configs = {name: self._resolved(name, value, replaced) if "${" in value else value for name, value in props.items()}
        return ResolvedConfigs(configs, replaced)

    def _resolved(self, name: str, value: str, replaced: dict[str, str]) -> str:
        def replace(match: re.Match[str]) -> str:
            provider = self.providers.get(match[1])
            if provider is None:
                raise ConfigError(f"{name}: {match[0]} cannot be resolved: there is no config provider {match[1]} (config.providers)")
            try:
                found = provider.get(match[2] or "", match[3])
            except ConfigError as error:
                raise ConfigError(f"{name}: {match[0]} cannot be resolved: {error}") from error
            replaced[found] = match[0]
            return found

        return _REFERENCE.sub(replace, value)


def resolve_own(props: Mapping[str, str], files: FileSystem, environment: Mapping[str, str]) -> ResolvedConfigs:
    """A node's own properties, resolved by the providers that they define. Without providers they
    stay as they are, as in Kafka.
    """
    providers = ConfigProviders.from_props(props, files, environment)
    return providers.resolve(props) if providers.providers else ResolvedConfigs(props, {})


def _forms(value: str) -> Iterator[str]:
    """The ways in which an error may quote `value`: whole, an item of a list, a line, as Python's
    `repr` writes it, without `file:`.
    """
    for part in {value, *value.split(","), *value.splitlines()}:
        for form in (part.strip(), repr(part.strip())[1:-1], part.strip().removeprefix("file:").replace("//", "", 1)):
            if form:
                yield form


def has_references(props: Mapping[str, str]) -> bool:
    """Whether any value holds a reference."""
    return any("${" in value and _REFERENCE.search(value) is not None for value in props.values())


def provider_props(props: Mapping[str, str]) -> dict[str, str]:
    """The properties that define providers."""
    return {name: value for name, value in props.items() if is_provider_config(name)}


def is_provider_config(name: str) -> bool:
    return name == CONFIG_PROVIDERS_CONFIG or name.startswith(f"{CONFIG_PROVIDERS_CONFIG}.")


def _provider(name: str, props: Mapping[str, str], files: FileSystem, environment: Mapping[str, str]) -> ConfigProvider:
    prefix = f"{CONFIG_PROVIDERS_CONFIG}.{name}."
    kind = props.get(f"{prefix}class", "").strip()
    params = {key.removeprefix(f"{prefix}param."): value for key, value in props.items() if key.startswith(f"{prefix}param.")}
    match kind.removeprefix(_PACKAGE):
        case "FileConfigProvider":
            return FileConfigProvider(_Paths.from_params(files, params))
        case "DirectoryConfigProvider":
            return DirectoryConfigProvider(_Paths.from_params(files, params))
        case "EnvVarConfigProvider":
            return EnvVarConfigProvider.from_params(environment, params)
    if not kind:
        raise ConfigError(f"{prefix}class is not set")
    raise ConfigError(
        f"Invalid value {kind} for configuration {prefix}class: kmirror has FileConfigProvider, DirectoryConfigProvider and EnvVarConfigProvider"
    )
