"""The quadpy adapter: silent absence, clear errors, and numbers that match the built-in ones.

quadpy itself is replaced by small stand-ins on PYTHONPATH, because its releases need a licence; the last test
runs against the real one wherever that can be imported.
"""

import subprocess
import sys
import textwrap

import numpy as np
import pytest

from attnlimits.numerics.quadrature.quadpy_adapter import (
    QuadratureBackendUnavailable,
    quadpy_available,
    quadpy_scheme,
)

# A quadpy in miniature: tensor Gauss rules in quadpy's layout (points (2, n), weights of sum 1).
STAND_IN = """
import numpy as np
__version__ = "stand-in"

class Scheme:
    def __init__(self, rule, degree):
        x, w = rule(degree // 2 + 1)
        w = w / w.sum()
        a, b = np.meshgrid(x, x)
        self.name, self.degree = "tensor", degree
        self.points, self.weights = np.array([a.ravel(), b.ravel()]), np.outer(w, w).ravel()

class Domain:
    def __init__(self, rule):
        self.rule = rule

    def get_good_scheme(self, degree):
        return Scheme(self.rule, degree) if degree <= 15 else None

c2 = Domain(np.polynomial.legendre.leggauss)
e2r2 = Domain(np.polynomial.hermite.hermgauss)
"""


@pytest.fixture
def stand_in(tmp_path, monkeypatch):
    """Return a function that puts a module named quadpy with the given source on PYTHONPATH."""

    def install(source):
        folder = tmp_path / "site"
        folder.mkdir(exist_ok=True)
        (folder / "quadpy.py").write_text(textwrap.dedent(source), encoding="utf-8")
        monkeypatch.setenv("PYTHONPATH", str(folder))

    return install


def test_importing_the_adapter_does_not_import_quadpy(stand_in):
    stand_in("import os; os._exit(3)")
    code = "import sys, attnlimits.numerics.quadrature.quadpy_adapter; print('quadpy' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "False", done.stderr


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("raise ModuleNotFoundError(\"No module named 'quadpy'\")", "No module named 'quadpy'"),
        (
            "import sys; print('Please buy a licence.'); sys.exit(0)",
            "exit status 0; it said: Please buy a licence.",
        ),
        ("import sys; sys.exit('no licence found')", "exit status 1; it said: no licence found"),
        ("import os; os._exit(7)", "exit status 7; it said: nothing"),
        ("key = input('licence key: ')", "EOFError"),
    ],
    ids=["absent", "exit-0", "exit-message", "hard-exit", "prompt"],
)
def test_a_quadpy_that_cannot_be_imported(stand_in, source, said):
    stand_in(source)
    assert quadpy_available() is False
    with pytest.raises(QuadratureBackendUnavailable) as caught:
        quadpy_scheme("plane", 5)
    message = str(caught.value)
    assert said in message
    assert "attnlimits[quadpy]" in message
    assert "built-in rule" in message


def test_a_quadpy_that_hangs_is_given_up(stand_in):
    stand_in("import time; time.sleep(600)")
    with pytest.raises(QuadratureBackendUnavailable, match="did not answer within 1 s"):
        quadpy_scheme("plane", 5, timeout=1.0)
    assert quadpy_available(timeout=1.0) is False


def test_a_file_of_that_name_in_the_current_folder_is_not_quadpy(tmp_path, monkeypatch):
    (tmp_path / "quadpy.py").write_text("open('imported', 'w').close()", encoding="utf-8")
    monkeypatch.delenv("PYTHONPATH", raising=False)
    monkeypatch.chdir(tmp_path)
    quadpy_available()
    assert not (tmp_path / "imported").exists()


@pytest.mark.slow_for("unit-weights")
@pytest.mark.parametrize(
    ("scale", "notice"),
    [(1, ""), (7, "print('evaluation licence, 3 days left')\n")],
    ids=["unit-weights", "scaled-weights-and-a-notice"],
)
def test_nodes_and_weights_come_back_normalised(stand_in, notice, scale):
    stand_in(notice + STAND_IN.replace("np.outer(w, w)", f"{scale} * np.outer(w, w)"))
    assert quadpy_available() is True

    plane = quadpy_scheme("plane", 9)
    assert plane.nodes.shape == (25, 2)
    assert plane.weights.sum() == pytest.approx(1.0, rel=1e-14)
    # E[x^4 y^2] = 3 and E[x^8] = 105 under N(0, I); rounding of 25 terms.
    x, y = plane.nodes.T
    assert plane.weights @ (x**4 * y**2) == pytest.approx(3.0, rel=1e-12)
    assert plane.weights @ x**8 == pytest.approx(105.0, rel=1e-12)

    square = quadpy_scheme("square", 7)
    x, y = square.nodes.T
    assert square.weights.sum() == pytest.approx(4.0, rel=1e-14)
    assert square.weights @ (x**4 * y**2) == pytest.approx(4.0 / 15.0, rel=1e-12)
    for scheme in (plane, square):
        assert scheme.moment_error < 1e-13
        assert (scheme.name, scheme.backend_version) == ("tensor", "stand-in")


@pytest.mark.parametrize(
    ("good", "bad", "reason"),
    [
        ("degree // 2 + 1", "degree // 2", "off by"),
        ("np.outer(w, w).ravel()", "np.outer(w, w).ravel() * np.nan", "positive sum"),
        ("np.array([a.ravel(), b.ravel()])", "np.array([a.ravel(), b.ravel()]).T", "expected"),
        ("np.array([a.ravel(), b.ravel()])", "np.array([a.ravel() * np.inf, b.ravel()])", "off by nan"),
        ('"tensor", degree', '"tensor", degree - 1', "claims degree 4"),
    ],
    ids=["one-node-short", "nan-weights", "old-layout", "infinite-nodes", "lower-degree"],
)
def test_a_wrong_scheme_is_refused(stand_in, good, bad, reason):
    assert good in STAND_IN
    stand_in("import warnings; warnings.simplefilter('ignore')\n" + STAND_IN.replace(good, bad))
    with np.errstate(all="ignore"), pytest.raises(QuadratureBackendUnavailable, match=reason):
        quadpy_scheme("plane", 5)


def test_bad_requests(stand_in):
    stand_in(STAND_IN)
    with pytest.raises(ValueError, match="domain must be one of"):
        quadpy_scheme("sphere", 3)
    with pytest.raises(ValueError, match="at least 0, got -1"):
        quadpy_scheme("plane", -1)
    with pytest.raises(TypeError):
        quadpy_scheme("plane", 2.5)
    with pytest.raises(ValueError, match="no scheme of degree 40"):
        quadpy_scheme("plane", 40)
    with pytest.raises(ValueError, match="timeout must be positive"):
        quadpy_available(timeout=0.0)


def test_the_real_quadpy_agrees_with_gauss_hermite():
    if not quadpy_available():
        pytest.skip("no usable quadpy here: its releases need a licence")
    for degree in (3, 7, 11, 15):
        agrees_with_gauss_hermite(degree)


def agrees_with_gauss_hermite(degree):
    scheme = quadpy_scheme("plane", degree)
    x, w = np.polynomial.hermite_e.hermegauss(40)
    w = w / w.sum()
    a, b = np.meshgrid(x, x)
    rng = np.random.default_rng(degree)
    # A random polynomial of that degree: both rules are exact, so only rounding separates them.
    powers = [(i, j) for i in range(degree + 1) for j in range(degree + 1 - i)]
    ours = theirs = size = 0.0
    for (i, j), c in zip(powers, rng.standard_normal(len(powers)), strict=True):
        ours += c * np.sum(np.outer(w, w) * a**i * b**j)
        terms = c * scheme.weights * scheme.nodes[:, 0] ** i * scheme.nodes[:, 1] ** j
        theirs += terms.sum()
        size += np.abs(terms).sum()
    assert abs(theirs - ours) <= 1e-12 * size
