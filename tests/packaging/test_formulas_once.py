"""The softmax of two tokens, its inverse and their slopes stand in derive/ and generated/ only.

What is looked for is the shape of the formulas, whatever their numbers are called and whichever arithmetic they are in:
logistic functions of products, 2 (cosh u + cosh w) in its forms, the logarithm of the odds, p (1 - p) r (1 - r).
"""

import ast
from collections.abc import Iterator

import pytest

_EXPONENTIALS = {"exp", "exp_fast"}


def _called(node: ast.AST) -> str:
    """Name of the function or method of a call."""
    if not isinstance(node, ast.Call):
        return ""
    return node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")


def _flat(node: ast.AST, kind: type | tuple[type, ...]) -> list[ast.AST]:
    """Operands of a chain of one operator, without signs; a difference is a sum."""
    if isinstance(node, ast.UnaryOp):
        return _flat(node.operand, kind)
    if isinstance(node, ast.BinOp) and isinstance(node.op, kind):
        return [*_flat(node.left, kind), *_flat(node.right, kind)]
    return [node]


def _one(node: ast.AST) -> bool:
    if isinstance(node, ast.Constant):
        return node.value == 1
    return getattr(node, "id", getattr(node, "attr", "")) in ("one", "_one")


def _less_one(node: ast.AST) -> str | None:
    """X of 1 - x."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Sub) and _one(node.left):
        return ast.dump(node.right)
    return None


def _of_products(node: ast.AST) -> bool:
    """Whether an expression holds a product of two numbers that are no constants."""
    return any(
        isinstance(part, ast.BinOp)
        and isinstance(part.op, ast.Mult)
        and sum(not isinstance(factor, ast.Constant) for factor in _flat(part, ast.Mult)) > 1
        for part in ast.walk(node)
    )


class _Function:
    """One function, with the names that stand for exponentials and for hyperbolic cosines."""

    def __init__(self, parts: list[ast.AST], returning: set[str]) -> None:
        self.parts, self.exponentials = parts, _EXPONENTIALS | returning
        self.names: dict[str, ast.AST | None] = {}
        self.cosines: set[str] = set()
        self.scores = {part.id for part in parts if isinstance(part, ast.Name)}
        for part in parts:
            if isinstance(part, ast.Assign):
                for target in part.targets:
                    self._assign(target, part.value)

    def _assign(self, target: ast.AST, value: ast.AST) -> None:
        if isinstance(target, ast.Tuple):
            many = value.elts if isinstance(value, ast.Tuple) else [value] * len(target.elts)
            for each, its in zip(target.elts, many, strict=False):
                self._assign(each, its)
        elif isinstance(target, ast.Name) and self.exponential(value):
            self.names[target.id] = value
        elif isinstance(target, ast.Name) and _called(value) == "cosh":
            self.cosines.add(target.id)

    def exponential(self, node: ast.AST) -> bool:
        """Whether a node is an exponential, a product of them, or one over one."""
        if isinstance(node, ast.Name):
            return node.id in self.names
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
            return self.exponential(node.left) and self.exponential(node.right)
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div):
            return _one(node.left) and self.exponential(node.right)
        return _called(node) in self.exponentials

    def of_scores(self, node: ast.AST) -> bool:
        """Whether an exponential is one of a product, as a score is: not one of an unknown, such as a logit."""
        if isinstance(node, ast.Name):
            value = self.names.get(node.id)
            return value is not None and not isinstance(value, ast.Name) and self.of_scores(value)
        return isinstance(node, ast.BinOp) or _of_products(node)

    def one_and_exponential(self, node: ast.AST) -> ast.AST | None:
        """Exponential of 1 + e."""
        if not isinstance(node, ast.BinOp):
            return None
        terms = _flat(node, ast.Add)
        if len(terms) != 2 or sum(map(_one, terms)) != 1:
            return None
        (rest,) = (term for term in terms if not _one(term))
        return rest if any(self.exponential(factor) for factor in _flat(rest, ast.Mult)) else None

    def terms(self, node: ast.AST) -> int:
        """How many exponentials a sum holds, those in brackets counted."""
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
            return self.terms(node.left) + self.terms(node.right)
        if self.exponential(node):
            return 1
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
            return max(self.terms(node.left), self.terms(node.right))
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div):
            return self.terms(node.left)
        return 0

    def cosine(self, node: ast.AST) -> bool:
        return _called(node) == "cosh" or getattr(node, "id", None) in self.cosines

    def forms(self) -> Iterator[tuple[int, str]]:
        """Yield the line and the kind of every form of the softmax of two tokens."""
        for node in self.parts:
            if not isinstance(node, ast.BinOp | ast.Call):
                continue
            what = self._division(node) or self._product(node) or self._sum(node) or self._call(node)
            if what:
                yield node.lineno, what

    def _division(self, node: ast.AST) -> str | None:
        if not (isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div)):
            return None
        small = self.one_and_exponential(node.right)
        if small is not None and self.of_scores(small):
            return "logistic function of a product"
        below = _flat(node.right, ast.Add)
        cosines = [term for term in below if self.cosine(term)]
        others = sum(self.terms(term) for term in below if not self.cosine(term))
        return "sum of hyperbolic cosines below" if cosines and len(cosines) + others > 1 else None

    def _product(self, node: ast.AST) -> str | None:
        if not (isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult)):
            return None
        factors = _flat(node, ast.Mult)
        if sum(self.one_and_exponential(factor) is not None for factor in factors) > 1:
            return "(1 + e)(1 + f)"
        rests = {rest for factor in factors if (rest := _less_one(factor)) is not None}
        if len(rests) > 1 and len(rests & {ast.dump(factor) for factor in factors}) > 1:
            return "p (1 - p) r (1 - r)"
        decays = [f for f in factors if _called(f) == "expm1" and _doubled(f)]
        return "p r (1 - e^-2u)" if decays and len(factors) > 2 else None

    def _sum(self, node: ast.AST) -> str | None:
        if not isinstance(node, ast.BinOp):
            return None
        if isinstance(node.op, ast.Add) and self.terms(node) > 3:
            return "sum of four exponentials"
        terms = _flat(node, (ast.Add, ast.Sub))
        squares = [term for term in terms if _square(term)]
        if isinstance(node.op, ast.Sub) and len(terms) == 3 and _one(terms[0]) and len(squares) == 2:
            return "1 - s^2 - tau^2"
        return None

    def _call(self, node: ast.AST) -> str | None:
        if not self.scores & {"beta", "kappa"}:
            return None
        if _called(node) == "tanh" and _names(node) & {"beta", "kappa"}:
            return "hyperbolic tangent of a score"
        inside = node.args[0] if _called(node) == "log" and node.args else None
        if isinstance(inside, ast.BinOp) and isinstance(inside.op, ast.Div):
            return "logarithm of the odds" if _less_one(inside.right) == ast.dump(inside.left) else None
        return None


def _names(node: ast.AST) -> set[str]:
    return {part.id for part in ast.walk(node) if isinstance(part, ast.Name)}


def _square(node: ast.AST) -> bool:
    if not isinstance(node, ast.BinOp):
        return False
    same = isinstance(node.op, ast.Mult) and ast.dump(node.left) == ast.dump(node.right)
    return same or (isinstance(node.op, ast.Pow) and getattr(node.right, "value", None) == 2)


def _doubled(node: ast.Call) -> bool:
    """Whether an argument is minus two times something."""
    (argument,) = node.args
    return any(getattr(factor, "value", None) == 2 for factor in _flat(argument, ast.Mult))


def forms_of(source: str) -> list[tuple[int, str]]:
    """Return the line and the kind of every form of the softmax of two tokens in a source."""
    functions = [list(ast.walk(node)) for node in ast.walk(ast.parse(source)) if isinstance(node, ast.FunctionDef)]
    returning: set[str] = set()
    for every in functions:
        function = _Function(every, set())
        values = [part.value for part in every if isinstance(part, ast.Return) and part.value is not None]
        parts = [part for value in values for part in (value.elts if isinstance(value, ast.Tuple) else [value])]
        if any(function.exponential(factor) for part in parts for factor in _flat(part, ast.Mult)):
            returning.add(every[0].name)
    return sorted({form for every in functions for form in _Function(every, returning).forms()})


def test_numerics_holds_no_softmax_of_two_tokens(repository, source_files):
    found = [
        f"{path.relative_to(repository).as_posix()}:{line}: {what}"
        for path in source_files
        if path.suffix == ".py" and path.relative_to(repository).parts[0] == "numerics"
        for line, what in forms_of(path.read_text(encoding="utf-8"))
    ]
    assert found == [], "take it from attnlimits.generated (pair_softmax_m2, attention_tied_softmax_m2)"


# Each in an arithmetic of its own: compiled, arrays, balls, pairs, fixed point, complex numbers, jax.
WRITTEN_OUT = {
    "compiled": """
def first(x, z, skip, beta):
    p, r = 1 / (1 + exp_fast(-beta * (z + x) * z)), 1 / (1 + exp_fast(-beta * (z - x) * z))
    return p - r, p + r + (skip - 1)
""",
    "ball": """
def node(scale, cosine, sine):
    return 1 / (1 + (-scale * (1 - cosine + sine)).exp())
""",
    "pairs": """
def sigma(x):
    small = (x * np.where(x.hi > 0, -1.0, 1.0)).exp()
    return np.where(x.hi > 0, 1.0, small) / (small + 1.0)
""",
    "vectors": """
def logistic(beta, w):
    return np.exp(beta * w * w) / (1.0 + np.exp(beta * w * w))
""",
    "largest one": """
def entries(rho, w, top, skip):
    up, down = math.exp(rho - top), math.exp(-rho - top)
    rise, fall = math.exp(w - top), math.exp(-w - top)
    total = up + down + rise + fall
    return (rise - fall) / total
""",
    "complex": """
def split(x):
    phase, least = complex(math.cos(x.imag), math.sin(x.imag)), math.exp(-2.0 * abs(x.real))
    return phase, phase.conjugate() * least

def continued(u, w, scale_u, scale_w):
    (rise_u, fall_u), (rise_w, fall_w) = split(u), split(w)
    return (rise_u + fall_u) * scale_u + (rise_w + fall_w) * scale_w
""",
    "boxes": """
def scalars(u, w):
    ratio = jnp.exp(-jnp.abs(u - w))
    return (1.0 + ratio) * (1.0 + jnp.exp(-(u + w)))
""",
    "fixed point": """
def node(self, w, u, e):
    f = (-w).exp()
    r = (w - u).exp()
    return (f * e + self._one) * (r + self._one)
""",
    "cosines": """
def line(rho, w):
    cosh_rho, e = rho.cosh(), w.exp()
    return 1 / (cosh_rho + (e + 1 / e) / 2)
""",
    "two cosines": """
def entry(u, w):
    return np.sinh(w) / (np.cosh(u) + np.cosh(w))
""",
    "no cosine of w": """
def entry(beta, square):
    return math.tanh(0.5 * beta * square)
""",
    "odds": """
def inverse(p, r, beta):
    a, b = math.log(p / (1 - p)) / beta, math.log(r / (1 - r)) / beta
    return math.sqrt(0.5 * (a + b))
""",
    "Jacobian": """
def jacobian(p, r, w, u):
    return 8 * p * (1 - p) * r * (1 - r) * w * w * u * u
""",
    "slopes": """
def slopes(s, t):
    return 0.5 * (1 - s * s - t * t), -s * t
""",
    "flat": """
def gain(first, second, rise):
    return -first * second * np.expm1(-2 * rise)
""",
}

OF_SOMETHING_ELSE = {
    "overlap of its logit": "def f(t, root):\n    return 1 / (1 + np.exp(-t)), 1 / (1 + math.exp(-(t + root)))",
    "logit of an overlap": "def f(x):\n    return np.log(x / (1 - x))",
    "softmax of any number": """
def f(scores):
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return weights / weights.sum(axis=-1, keepdims=True)
""",
    "softplus": "def f(beta, h):\n    return np.log1p(np.exp(-beta * h))",
    "double exponential": """
def f(z, scale):
    nodes = scale * np.exp(z - np.exp(-z))
    return nodes, nodes * (1 + np.exp(-z))
""",
    "Gaussian": "def f(x, v, step):\n    return np.exp(-x * x / (2 * v)) / (1 + step)",
    "two Gaussians": "def f(x, v):\n    a, b = np.exp(-x * x / v), np.exp(-x * x)\n    return (1 + v) * (a + b)",
    "tanh-sinh": "def f(t):\n    return np.tanh(t), np.cosh(t) / np.cosh(np.sinh(t)) ** 2",
    "pole of a layer": "def f(rho, skip):\n    return math.acosh(math.cosh(rho) + math.sinh(rho) / skip)",
    "from what is generated": """
def f(u, w, c):
    rise_u, rise_w = np.exp(u), np.exp(w)
    upper, lower, total = numerators(rise_u, 1 / rise_u, rise_w, 1 / rise_w, c)
    return upper / lower, total / lower
""",
}


@pytest.mark.parametrize("name", WRITTEN_OUT)
def test_what_is_written_out_is_found(name):
    assert forms_of(WRITTEN_OUT[name])


@pytest.mark.parametrize("name", OF_SOMETHING_ELSE)
def test_what_is_something_else_is_not(name):
    assert forms_of(OF_SOMETHING_ELSE[name]) == []
