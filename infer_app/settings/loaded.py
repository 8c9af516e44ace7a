"""Settings once they are read: their paths and URLs resolved, and where each value came from."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pydantic import SecretStr
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError

from infer_app.errors import UsageError
from infer_app.locations import AllowedPrefix, PathMapping, RemoteAccess
from infer_app.settings.masks import mask_address, mask_url
from infer_app.settings.sections import Settings

GIVES_UP_AFTER = 0.9  # of the time limit, by itself: a worker that reaches the limit is killed
_NEARNESS = {"environment": 1, "flag": 2}  # the file is farthest


class LoadedSettings:
    """Settings, the folder their paths are relative to, and where each value came from."""

    def __init__(self, settings: Settings, path: Path, origins: dict[str, str]) -> None:
        self.settings = settings
        self.path = path
        self.folder = path.parent
        self.origins = origins  # dotted key -> "default", the file, a variable or "flag"

    @property
    def database_url(self) -> str:
        """The URL with its password, for SQLAlchemy only: print `shown_url` instead."""
        url = self._with_schema(self._read_url("[database] url", self.settings.database.url))
        return url.render_as_string(hide_password=False)

    @property
    def source_url(self) -> str:
        """Of the database that lists the images, which may be the same; with its password too."""
        url = self.settings.source.database_url
        if url is None:
            return self.database_url
        return self._read_url("[source] database_url", url).render_as_string(hide_password=False)

    def _read_url(self, key: str, secret: SecretStr) -> URL:
        try:
            url = make_url(secret.get_secret_value())
        except (ArgumentError, ValueError):
            raise UsageError(
                f"{key} can't be read as a database URL",
                "for example sqlite:///infer.db or postgresql://user:password@host/name",
            ) from None
        if "@" in (url.host or ""):  # the rest of a password, which would be shown as the host
            raise UsageError(
                f"{key} has more than one @", "write the one in the password as %40, as every special character"
            )
        if url.get_backend_name() == "sqlite" and url.database and url.database != ":memory:":
            url = url.set(database=str(self.resolve(Path(url.database))))
        return url

    def _with_schema(self, url: URL) -> URL:
        """Our tables are where the search path begins; those of the user's own are still found in `public`."""
        schema = self.settings.database.results_schema
        if schema is None:
            return url
        if url.get_backend_name() not in ("postgresql", "postgres"):
            raise UsageError("[database] results_schema: only PostgreSQL has schemas", "leave it out")
        if "options" in url.query:
            both = "[database] results_schema and options in its url are both set"
            raise UsageError(both, "set search_path in the options")
        return url.update_query_dict({"options": f"-csearch_path={schema},public"})

    @property
    def shown_url(self) -> str:
        return mask_url(make_url(self.database_url))

    def _shown(self, dotted: str, value: object) -> object:
        if dotted == "database.url":
            return self.shown_url
        if dotted == "source.database_url" and value is not None:
            return mask_url(make_url(self.source_url))
        if dotted == "ray.runtime_env":  # variables for the nodes may be passwords
            return dict.fromkeys(value, "***") if isinstance(value, dict) else value
        return mask_address(value.get_secret_value()) if isinstance(value, SecretStr) else value

    @property
    def lists_own_images(self) -> bool:
        """Whether the images are those of our own table, which stands beside the results."""
        source = self.settings.source
        return source.query is None and source.table == "infer_images" and self.source_url == self.database_url

    @property
    def model_names(self) -> tuple[str, ...]:
        """The models to run, by whichever of `model` and `models` was said nearer to the command; none: the only one.

        Raises UsageError where both were said in the same place, or one model twice.
        """
        run = self.settings.run
        one, several = (self.origins.get(f"run.{key}", "default") for key in ("model", "models"))
        if run.model is not None and run.models:
            if one == several:
                raise UsageError(f"{one}: run.model and run.models are both set", "name all models in run.models")
            nearer = max(one, several, key=lambda origin: _NEARNESS.get(origin, 0))
            names = run.models if nearer == several else (run.model,)
        else:
            names = run.models or ((run.model,) if run.model is not None else ())
        if len(set(names)) < len(names):
            raise UsageError(f"a model is named twice: {', '.join(names)}")
        return names

    @property
    def models_folder(self) -> Path:
        return self.resolve(self.settings.models.folder)

    @property
    def cache_folder(self) -> Path:
        return self.resolve(self.settings.cache.folder)

    @property
    def roots(self) -> tuple[Path, ...]:
        return tuple(self.resolve(root) for root in self.settings.images.roots)

    @property
    def path_map(self) -> PathMapping:
        return PathMapping.of(self.settings.images.map)

    @property
    def remote(self) -> RemoteAccess:
        remote = self.settings.remote
        return RemoteAccess(
            tuple(map(AllowedPrefix.parse, remote.allow)),
            frozenset(host.strip("[]").lower() for host in remote.allow_private_hosts),
            GIVES_UP_AFTER * self.settings.images.timeout_s,
            remote.retries,
            remote.concurrency,
        )

    def resolve(self, path: Path) -> Path:
        return (self.folder / path.expanduser()).absolute()

    def flattened(self) -> Iterator[tuple[str, Any, str]]:
        """(key, value, origin) of every setting, secrets masked."""
        for section, model in self.settings:
            for key, value in model:
                dotted = f"{section}.{key}"
                yield dotted, self._shown(dotted, value), self.origins.get(dotted, "default")
