"""A small attention classifier of questions, and the order in which its layers are learned: an extra, with PyTorch.

Everything but the training runs without it: `pip install 'attnlimits[torch]'`.
"""

from .corpus import Corpus, made_corpus, write_corpus
from .embeddings import Embedded, Vocabulary, embed_folder, embed_texts
from .questions import Question, label_numbers, read_questions
from .settings import Settings
from .similarity import half_time, similarity
from .training import Training, train

__all__ = [
    "Corpus",
    "Embedded",
    "Question",
    "Settings",
    "Training",
    "Vocabulary",
    "embed_folder",
    "embed_texts",
    "half_time",
    "label_numbers",
    "made_corpus",
    "read_questions",
    "similarity",
    "train",
    "write_corpus",
]
