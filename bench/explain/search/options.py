"""Options that every searching command has, as `repro` has them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, TypeAlias

import typer

Target: TypeAlias = Annotated[str, typer.Argument(help="A target, or the path of a recipe of your own (.toml).")]
Overrides: TypeAlias = Annotated[
    list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Override one value of the recipe.")
]
BaseUrl: TypeAlias = Annotated[
    str | None, typer.Option(help="Measure a server that is already running, as `repro` does.")
]
Model: TypeAlias = Annotated[str | None, typer.Option(help="With --base-url: the model to ask for.")]
Engine: TypeAlias = Annotated[str | None, typer.Option(metavar="docker|process", help="As `repro` has it.")]
Image: TypeAlias = Annotated[str | None, typer.Option(metavar="REF", help="With docker, as `repro` has it.")]
Ray: TypeAlias = Annotated[
    str | None, typer.Option(metavar="ADDRESS", help="Send the load from the hosts of a Ray cluster.")
]
Reports: TypeAlias = Annotated[Path, typer.Option(help="Folder that the report's folder is made in.")]
Quiet: TypeAlias = Annotated[bool, typer.Option("--quiet", "-q", help="Say nothing but errors.")]
AsJson: TypeAlias = Annotated[bool, typer.Option("--json", help="Progress and outcome as JSON lines, for scripts.")]
Replicates: TypeAlias = Annotated[
    int, typer.Option(min=1, max=100, help="The most replicates of one candidate, before its neighbour is tried.")
]
Points: TypeAlias = Annotated[
    int, typer.Option("--points", min=1, max=1000, help="The search ends after so many points, settled or not.")
]
