"""The fields of a SkyPilot task that ours uses, with their types: those of `sky.utils.schemas` of SkyPilot 0.14.1.

The package itself would bring 300 MB into the environment of the tests. It was asked once: its own
`Task.from_yaml_config` reads our task, and refuses it without a value for REPORTS.
"""

from __future__ import annotations

from typing import Any, Final

_STORAGE: Final = {
    "type": "object",
    "additionalProperties": False,
    "required": ["source", "mode"],
    "properties": {"source": {"type": "string"}, "mode": {"enum": ["MOUNT", "COPY", "MOUNT_CACHED"]}},
}

TASK: Final[dict[str, Any]] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "additionalProperties": False,
    "required": ["name", "workdir", "resources", "envs", "file_mounts", "setup", "run"],
    "properties": {
        "name": {"type": "string"},
        "workdir": {"type": "string"},
        "setup": {"type": "string"},
        "run": {"type": "string"},
        "resources": {
            "type": "object",
            "additionalProperties": False,
            "properties": {
                "accelerators": {"type": "string"},
                "image_id": {"type": "string", "pattern": "^docker:"},
                "disk_size": {"type": "integer"},
            },
        },
        "envs": {
            "type": "object",
            "additionalProperties": False,
            "patternProperties": {"^[a-zA-Z_][a-zA-Z0-9_]*$": {"type": ["string", "null"]}},
        },
        # A destination is absolute or begins with "~"; it is a bucket, or a path here.
        "file_mounts": {
            "type": "object",
            "additionalProperties": False,
            "patternProperties": {"^[/~].*[^/]$": {"oneOf": [{"type": "string"}, _STORAGE]}},
        },
    },
}
