"""`al.classifier`: a small attention classifier of questions, and when each of its layers is learned."""

from attnlimits.numerics.learning.classifier import (
    Corpus,
    Embedded,
    Settings,
    Training,
    docstring_corpus,
    embed_folder,
    half_time,
    label_numbers,
    made_corpus,
    read_questions,
    train,
    word_vectors,
    write_corpus,
)
from attnlimits.numerics.learning.classifier.repeated import repeated

__all__ = [
    "Corpus",
    "Embedded",
    "Settings",
    "Training",
    "docstring_corpus",
    "embed_folder",
    "half_time",
    "label_numbers",
    "made_corpus",
    "read_questions",
    "repeated",
    "train",
    "word_vectors",
    "write_corpus",
]
