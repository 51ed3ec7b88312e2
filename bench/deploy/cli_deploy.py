"""`just deploy`: its options and its help."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def deploy(
    target: Annotated[
        str, typer.Argument(help="A target (see `recipes`), or the path of a recipe of your own (.toml).")
    ],
    overrides: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="KEY=VALUE",
            help="Override one value of the recipe. May be given several times; the run in the cluster gets it too.",
        ),
    ] = None,
    *,
    form: Annotated[str, typer.Option("--as", metavar="kubernetes|slurm|skypilot", help="What shall run it.")],
    out: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Write the files into this folder. By default to standard output."),
    ] = None,
    image: Annotated[
        str | None,
        typer.Option(
            metavar="REF@sha256:...",
            help="The engine's image, e.g. the one of `just build TARGET` in a registry of yours. By default the "
            "published image that it is built on.",
        ),
    ] = None,
    client_image: Annotated[
        str | None,
        typer.Option(
            metavar="REF@sha256:...",
            help="Kubernetes: the client's image (`just build bench`) in a registry that the cluster reaches.",
        ),
    ] = None,
    gpu_label: Annotated[
        str | None,
        typer.Option(
            metavar="VALUE",
            help="Kubernetes: value of the nodes' label nvidia.com/gpu.product, e.g. NVIDIA-H200-NVL. By default "
            "NVIDIA-<the recipe's card>.",
        ),
    ] = None,
    engine_only: Annotated[bool, typer.Option("--engine-only", help="Kubernetes: leave the client's Job out.")] = False,
) -> None:
    """Render a target for a cluster: Kubernetes manifests, a Slurm script or a SkyPilot task. Nothing is sent anywhere.

    **kubernetes**: `engine.yaml` (Deployment, Service, NetworkPolicy, claims), `client.yaml` (a Job that waits for the
    engine, measures it and keeps the report in a claim) and, with --out, `reports.yaml` (a pod to copy reports from).

    **slurm**: a script for `sbatch`: the whole run on one exclusive host, from an installed bundle (`just bundle`).

    **skypilot**: a task for `sky launch`: this checkout on a machine with the recipe's cards.

    Every file says at its top what to prepare, what to run, and what nobody has verified.
    """
    from bench.cli import parse_overrides  # noqa: PLC0415  it imports this module
    from bench.deploy.command import deploy as render  # noqa: PLC0415  the heavy part
    from bench.deploy.kubernetes import Cluster  # noqa: PLC0415  as above

    cluster = Cluster(image=image, client=client_image, gpu_label=gpu_label, engine_only=engine_only)
    raise typer.Exit(render(target, parse_overrides(overrides), form=form, cluster=cluster, out=out))
