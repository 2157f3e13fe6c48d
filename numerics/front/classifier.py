"""`al.classifier`: a small attention classifier of questions, and when each of its layers is learned."""

from attnlimits.numerics.learning.classifier import (
    Corpus,
    Embedded,
    Settings,
    Training,
    embed_folder,
    label_numbers,
    made_corpus,
    read_questions,
    train,
    write_corpus,
)
from attnlimits.numerics.learning.classifier.network import require_torch
from attnlimits.numerics.learning.classifier.repeated import repeated

__all__ = [
    "Corpus",
    "Embedded",
    "Settings",
    "Training",
    "embed_folder",
    "label_numbers",
    "made_corpus",
    "read_questions",
    "repeated",
    "require_torch",
    "train",
    "write_corpus",
]
