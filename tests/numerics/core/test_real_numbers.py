"""What NumPy would convert or drop in silence is refused by name: imaginary parts, masks, truth values, text, dates."""

import warnings
from fractions import Fraction

import mpmath
import numpy as np
import pytest

from attnlimits.numerics.aim.amp import amp
from attnlimits.numerics.aim.channels import Softmax
from attnlimits.numerics.aim.data import instance as aim_instance
from attnlimits.numerics.aim.data import teacher as aim_teacher
from attnlimits.numerics.aim.rie import denoise_matrix
from attnlimits.numerics.core.validation import numbers
from attnlimits.numerics.learning.descent import descend
from attnlimits.numerics.learning.gamp import gamp, make_data, teacher
from attnlimits.numerics.model.network import Network
from attnlimits.numerics.multihead.learn import learn_multihead

ONE = Network(1, 2)
W = teacher(ONE, 20, 0)
X, Y = make_data(ONE, W, 1.5, 0, dtype=np.float64)
S = aim_teacher(8, 0.5, 0)
TOKENS, LABELS = aim_instance(S, 0.5, Softmax(2, 1.0), 0)

#: Calls in which one argument is replaced by BAD, and its name.
CALLS = {
    "gamp X": (lambda bad: gamp(bad(X), Y, ONE), "X"),
    "gamp Y": (lambda bad: gamp(X, bad(Y), ONE), "Y"),
    "gamp teacher": (lambda bad: gamp(X, Y, ONE, teacher=bad(W)), "teacher"),
    "gamp start": (lambda bad: gamp(X, Y, ONE, start=bad(W)), "start"),
    "gamp side": (lambda bad: gamp(X, Y, ONE, side_information=bad(W), side_strength=1.0), "side_information"),
    "make_data": (lambda bad: make_data(ONE, bad(W), 1.0), "weights"),
    "descend X": (lambda bad: descend(bad(X), Y, ONE), "X"),
    "descend Y": (lambda bad: descend(X, bad(Y), ONE), "Y"),
    "descend teacher": (lambda bad: descend(X, Y, ONE, teacher=bad(W)), "teacher"),
    "descend start": (lambda bad: descend(X, Y, ONE, start=bad(W)), "start"),
    "amp x": (lambda bad: amp(bad(TOKENS), LABELS, Softmax(2, 1.0), 0.5), "x"),
    "amp y": (lambda bad: amp(TOKENS, bad(LABELS), Softmax(2, 1.0), 0.5), "y"),
    "amp teacher": (lambda bad: amp(TOKENS, LABELS, Softmax(2, 1.0), 0.5, teacher=bad(S)), "teacher"),
    "denoise_matrix": (lambda bad: denoise_matrix(bad(S), 0.5, 0.1), "Y"),
    "multihead X": (lambda bad: learn_multihead(bad(np.sign(X)), X, 1), "X"),
    "multihead Y": (lambda bad: learn_multihead(np.sign(X), bad(X), 1), "Y"),
}
BAD = {
    "complex": lambda a: a + 1e-3j,
    "complex without imaginary part": lambda a: a.astype(complex),
    "masked": lambda a: np.ma.masked_greater(a, 0.5),
    "truth values": lambda a: a > 0,
    "strings": lambda a: a.astype(str),
    "objects": lambda a: np.where(a == a.flat[1], None, a.astype(object)),
    "complex objects": lambda a: (a + 1j).astype(object),
    "dates": lambda a: a.astype("M8[s]"),
    "records": lambda a: np.zeros(a.shape, dtype=[("a", "f8"), ("b", "i4")]),
    "ragged": lambda a: [*a.tolist(), [1.0]],
    "NaN": lambda a: np.where(a == a.flat[1], np.nan, a),
}


@pytest.mark.parametrize("what", BAD)
@pytest.mark.parametrize("call", CALLS)
def test_no_real_numbers(call, what):
    function, name = CALLS[call]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(ValueError, match=rf"\b{name}\b"):
            function(BAD[what])


@pytest.mark.parametrize(
    "value",
    [
        [1, Fraction(1, 2), 0.25],
        [mpmath.mpf(1), mpmath.mpf("0.5"), mpmath.mpf("0.25")],
        np.array([1, 0.5, 0.25], dtype=">f4"),
        np.array([1, 0.5, 0.25], dtype=np.float16),
        np.array([1, 0.5, 0.25], dtype=np.longdouble),
        np.array([1, 0.5, 0.25], dtype=object),
        np.ma.array([1, 0.5, 0.25]),
    ],
)
def test_real_numbers_of_any_type(value):
    found = numbers("y", value)
    assert found.dtype == np.float64 and found.tolist() == [1, 0.5, 0.25]


def test_numbers_out_of_range():
    with pytest.raises(ValueError, match="y must be an array of numbers"):
        numbers("y", [10**400, 1])


def test_foreign_byte_order_is_converted():
    swapped = gamp(X.astype(">f8"), Y.astype(">f8"), ONE, max_iter=3)
    assert np.array_equal(swapped.weights, gamp(X, Y, ONE, max_iter=3).weights)
