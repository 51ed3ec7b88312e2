"""What every observation has."""

from __future__ import annotations

from typing import Annotated, TypeAlias

from pydantic import BaseModel, ConfigDict, Field

Time: TypeAlias = Annotated[float, Field(allow_inf_nan=False)]
Share: TypeAlias = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Replica: TypeAlias = Annotated[int | None, Field(ge=0, exclude_if=lambda replica: replica is None)]


class Observed(BaseModel):
    """Base: frozen, no unknown keys."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    t: Time
    run: int
