"""What the objects of a recipe are called in a cluster."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

_LONGEST: Final = 31
"""Characters of a target's name that are kept: with "streamproof-" and "-caches-0123456789ab" a label has 63."""

_DIGITS: Final = 12


@dataclass(frozen=True, slots=True)
class Names:
    """Of one target; all of them are DNS labels (RFC 1123), that of the Service one of RFC 1035.

    Attributes:
        target: as a DNS label, different for different targets.
    """

    target: str

    @classmethod
    def of(cls, target: str) -> Names:
        """Of a recipe's target: lower-case letters, digits, dots and dashes."""
        label = target.replace(".", "-")[:_LONGEST].strip("-")
        if label == target:
            return cls(label)
        digest = hashlib.sha256(target.encode()).hexdigest()[:8]
        return cls(f"{label[: _LONGEST - 9]}-{digest}")

    @property
    def engine(self) -> str:
        """Deployment, Service, NetworkPolicy, Secret, ConfigMap and the prefix of everything else."""
        return f"streamproof-{self.target}"

    def part(self, what: str) -> str:
        """Something beside the engine: "client", "hub", "reports"."""
        return f"{self.engine}-{what}"

    def caches(self, image: str, arguments: Sequence[str], environment: Mapping[str, str]) -> str:
        """The claim of compiled code: that of another image or other flags is another claim, so that it is not used."""
        decides = json.dumps([image, list(arguments), dict(environment)], sort_keys=True)
        return self.part(f"caches-{hashlib.sha256(decides.encode()).hexdigest()[:_DIGITS]}")
