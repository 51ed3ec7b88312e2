"""Names of the files that go into training and of those that come out."""

from __future__ import annotations

from pathlib import Path
from typing import Final

CORPUS: Final = "corpus.jsonl"
"""The documents, one JSON object a line."""

MANIFEST: Final = "corpus.json"
"""Where the documents come from; becomes part of the checkpoint's provenance."""

TOKENIZER_TEXT: Final = "tokenizer_text.json.xz"
"""The documents that the tokenizer was trained on; part of the checkpoint, so that it can be trained again."""

TOKENIZER: Final = "tokenizer.json"
WEIGHTS: Final = "model.safetensors"
CHECKPOINT: Final = Path(__file__).with_name("checkpoint")
"""The committed checkpoint."""
