"""A small attention classifier of questions, and the order in which its layers are learned.

A corpus may be read from files, made from templates, or gathered from the docstrings of installed libraries.
"""

from .corpus import Corpus, made_corpus, write_corpus
from .docstrings import docstring_corpus
from .embeddings import Embedded, Vocabulary, embed_folder, embed_texts
from .questions import Question, label_numbers, read_questions
from .settings import Settings
from .similarity import half_time, similarity
from .training import Training, train
from .word_vectors import word_vectors

__all__ = [
    "Corpus",
    "Embedded",
    "Question",
    "Settings",
    "Training",
    "Vocabulary",
    "docstring_corpus",
    "embed_folder",
    "embed_texts",
    "half_time",
    "label_numbers",
    "made_corpus",
    "read_questions",
    "similarity",
    "train",
    "word_vectors",
    "write_corpus",
]
