"""`just plan`: verifies a report, plans, shows."""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING, Final

from rich.console import Console

from bench.errors import Exit, UsageError
from bench.explain.compare.side import read_side
from bench.explain.fleet.plan import plan_fleet
from bench.explain.fleet.show import shown
from bench.report.folder_files import canonical_json
from bench.report.keys import trusted_keys
from bench.report.verify_show import ALLOW_LIST

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

_PRICE: Final = re.compile(r"(\d{1,6}(?:\.\d{1,4})?)(?:/h)?")


def plan_and_show(  # noqa: PLR0913  the options of a command
    report: Path | None,
    *,
    streams: int,
    slo: str | None = None,
    price: str | None = None,
    keys: Sequence[Path] = (),
    as_json: bool = False,
) -> Exit:
    """Prints the fleet for so many streams.

    Args:
        report: folder of the report to plan from.
        streams: open at once.
        slo: the limit, as `parse_slo` reads it.
        price: of a GPU for an hour, "3.50/h".
        keys: files with public keys that the user trusts.
        as_json: print JSON instead.

    Raises:
        UsageError: an option is missing or wrong.
        StreamproofError: the report is not verified, partial or invalid, or shows no number of streams to hold.
    """
    if report is None:
        raise UsageError(
            "--from is missing: a plan needs a measured report.",
            remedy="just plan --streams 5000 --from reports/TARGET/..., best one of: just capacity",
        )
    cost = parse_price(price)
    side = read_side(report, trusted_keys(allow_list=ALLOW_LIST, extra=keys))
    plan = plan_fleet(side, streams, slo=slo, price=cost)
    if as_json:
        sys.stdout.write(canonical_json(plan.model_dump(mode="json")).decode())
    else:
        Console(highlight=False).print(shown(plan))
    return Exit.OK


def parse_price(text: str | None) -> float | None:
    """Reads "3.50/h"; the currency is the reader's.

    Raises:
        UsageError: it is no price.
    """
    if text is None:
        return None
    found = _PRICE.fullmatch(text.replace(" ", ""))
    if found is None:
        raise UsageError(f"--price {text}: this is no price for an hour.", remedy="E.g. --price 3.50/h")
    return float(found[1])
