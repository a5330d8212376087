"""Settings: a TOML file named by EBB_CONFIG, and EBB_… variables, which go before it; options go before both."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

from pydantic import Field, ValidationError
from pydantic_settings import (
    BaseSettings,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    TomlConfigSettingsSource,
)

from ebbtide.memory.requests import DEFAULT_ACTOR, DEFAULT_NAMESPACE
from ebbtide.model.errors import BadInput
from ebbtide.model.words import ActorType
from ebbtide.store.store import DEFAULT_URL


class Settings(BaseSettings):
    """What every command needs to know."""

    model_config = SettingsConfigDict(env_prefix="EBB_", extra="forbid")

    url: str = DEFAULT_URL
    namespace: str = DEFAULT_NAMESPACE
    policies: Path | None = None
    queries: Path | None = None
    actor: str = DEFAULT_ACTOR
    actor_type: ActorType = ActorType.SYSTEM_PROCESS
    wait: Annotated[float, Field(ge=0, le=3600)] = 30.0
    every: Annotated[float, Field(gt=0, le=86_400)] = 60.0
    metrics_port: Annotated[int, Field(ge=0, le=65_535)] | None = None
    metrics_host: str = "127.0.0.1"
    config: Path | None = None

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        del dotenv_settings, file_secret_settings
        file = os.environ.get("EBB_CONFIG")
        if file is None:
            return init_settings, env_settings
        return init_settings, env_settings, TomlConfigSettingsSource(settings_cls, toml_file=file)


def read() -> Settings:
    """The settings as the environment and the file have them; a bad one is named."""
    file = os.environ.get("EBB_CONFIG")
    if file is not None and not Path(file).is_file():
        raise BadInput("is no file: EBB_CONFIG names a TOML file", file=file)
    try:
        return Settings()
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        name = ".".join(str(part) for part in first["loc"])
        place = f"EBB_{name.upper()}" if file is None else f"EBB_{name.upper()}, or {name} in {file}"
        raise BadInput(f"{first['msg']} ({place})", field=name) from error
    except ValueError as error:
        raise BadInput(f"is not valid TOML: {error}", file=file) from error
