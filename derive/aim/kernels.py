"""Kernels of the output channels: scores g_out entry by entry, so that they serve any number of tokens.

Sums over entries, the solves with a covariance that is no multiple of C, and the integral Phi2 itself are no straight
lines and stay with the caller.
"""

import sympy as sp

from ..kernels.kernel import Kernel, KernelPackage
from ..nodes import Erfc, own
from ..proof import prove_equal
from . import channels, entrywise, hardmax, noise
from .symbols import beta, variance

__all__ = ["PACKAGE"]

_PAPER = "boncoraglio2025"
#: Of the proofs that are done number by number; `channels` states the arguments for any.
_TOKENS = (2, 3, 4)
_h, _omega, _e, _mean = sp.symbols("h omega e mean", real=True)
_v, _u, _v_sum = sp.symbols("v u v_sum", real=True)
_u_sum = sp.Symbol("u_sum", positive=True)
_logs = sp.symbols("log_ab log_aT log_Ta log_TT", real=True)
_means = sp.symbols("omega_11 omega_12 omega_22", real=True)
_signs = sp.symbols("s_1 s_2", real=True)
_k = sp.symbols("k_1 k_2", real=True)
_p = sp.symbols("p_1 p_2", real=True)
_r, _t = sp.symbols("r t", real=True)
_c = sp.Symbol("c", positive=True)
_spreads = sp.symbols("c_1 c_2", positive=True)
_sigma = sp.Symbol("sigma", real=True)
_y, _value = sp.symbols("y value", real=True)

_MEANINGS = (
    ("h", "real", "entry of the indices, which the output is"),
    ("omega", "real", "mean of that entry"),
    ("e", "real", "entry of phi - omega"),
    ("mean", "real", "mean of phi - omega over all T^2 entries"),
    ("c", "> 0", "variance of the entry in units of V, 1 + delta_ab"),
    ("V", "> 0", "variance Q - q of the indices"),
    ("sigma", "real", "covariance of two entries of the indices in units of V"),
    ("Delta_n", "> 0", "variance of the noise on an index over 1 + delta_ab"),
    ("beta", "> 0", "inverse temperature"),
    *((name.name, "<= 0", f"logarithm of entry ({name.name[4]}, {name.name[5]}) of the output") for name in _logs),
    ("v", "real", "entry of Sigma^(-1) (phi - omega)"),
    ("u", "real", "entry of Sigma^(-1) 1"),
    ("v_sum", "real", "sum of v over the entries a <= b"),
    ("u_sum", "> 0", "sum of u over the entries a <= b"),
    *((name.name, "real", f"mean of h_{name.name[6:]}") for name in _means),
    *((name.name, "+1 or -1", f"sign of h_{i}{i} - h_12") for i, name in enumerate(_signs, 1)),
    *(
        (name.name, "> 0", f"variance of h_{i}{i} - h_12 in units of V, 3 in the limit")
        for i, name in enumerate(_spreads, 1)
    ),
    *((name.name, "real", f"upper limit {i} of Phi2") for i, name in enumerate(_k, 1)),
    *((name.name, "real", f"ratio of dPhi2/dk_{i} to Phi2") for i, name in enumerate(_p, 1)),
    ("r", "-1 < r < 1", "correlation, s_1 s_2/3 in the limit"),
    ("t", "real", "how far below k_1 the first variable is, >= 0; or an index in units of its spread"),
    ("y", "real", "entry of the output"),
    ("value", "real", "f(beta h) at an index, the entry without its noise"),
)
_POSITIVE = "any real arguments; V and the variances > 0"


def _kernel(
    name: str,
    arguments: tuple[sp.Symbol, ...],
    outputs: dict[str, sp.Expr],
    equations: tuple[int, ...],
    summary: str,
    *notes: str,
    domain: str = _POSITIVE,
    total: bool = False,
) -> Kernel:
    return Kernel(
        name=name,
        arguments=arguments,
        outputs=tuple((key, own(value)) for key, value in outputs.items()),
        summary=summary,
        notes=notes,
        equations=equations,
        domain=domain,
        meanings=_MEANINGS,
        total=total,
        paper=_PAPER,
    )


def _normal_cdf(x: sp.Expr) -> sp.Expr:
    """Phi(x), without cancellation in its lower tail."""
    return Erfc(-x / sp.sqrt(2)) / 2


def _slope(first: sp.Expr, second: sp.Expr) -> sp.Expr:
    return hardmax.normal_density(first) * _normal_cdf((second - _r * first) / sp.sqrt(1 - _r**2))


def _arguments() -> dict[str, sp.Expr]:
    middle = _means[1]
    return {
        k.name: s * (mean - middle) / sp.sqrt(c * variance)
        for k, s, mean, c in zip(_k, _signs, (_means[0], _means[2]), _spreads, strict=True)
    }


def _score() -> dict[str, sp.Expr]:
    first, second = (s * p / sp.sqrt(c * variance) for s, p, c in zip(_signs, _p, _spreads, strict=True))
    return {"g_11": first, "g_12": -first - second, "g_22": second}


_KERNELS = (
    _kernel(
        "linear_score",
        (_h, _omega, _c, variance),
        {"g": (_h - _omega) / (_c * variance)},
        (26,),
        "Score of an output y = h, entry by entry.",
        "g_ab = (h_ab - omega_ab)/(V C_ab). With label noise, V + Delta_n in the place of V (27).",
    ),
    _kernel(
        "softmax_index",
        (*_logs, beta),
        {"phi": (_logs[0] - _logs[1] + _logs[2] - _logs[3]) / beta},
        (28,),
        "Index h_ab less h_TT from the logarithms of an output of softmax.",
        "phi_ab = (log y_ab - log y_aT + log y_Ta - log y_TT)/beta, for any T.",
        domain="finite logarithms; beta > 0",
    ),
    _kernel(
        "softmax_score",
        (_e, _mean, _c, variance),
        {"g": (_e - _mean) / (_c * variance)},
        (30,),
        "Score of an output of softmax, entry by entry, for any T.",
        "g_ab = (e_ab - <e>)/(V C_ab) with e = phi - omega and <e> its mean over all T^2 entries.",
    ),
    _kernel(
        "projected_score",
        (_v, _u, _v_sum, _u_sum, variance),
        {"g": (_v - _u * _v_sum / _u_sum) / variance},
        (25, 30),
        "Score of an output of softmax where the indices have any covariance V Sigma.",
        "g = [v - u (1.v)/(1.u)]/V with v = Sigma^(-1) (phi - omega) and u = Sigma^(-1) 1: what is left when the best",
        "shift is taken out. At Sigma = diag(1 + delta_ab) it is `softmax_score`.",
    ),
    _kernel(
        "hardmax_arguments",
        (*_means, *_signs, *_spreads, variance),
        _arguments(),
        (33,),
        "Limits of Phi2 for a label of hardmax with two tokens.",
        "k_i = s_i (omega_ii - omega_12)/(c_i V)^(1/2); Z_out = Phi2(k_1, k_2; r).",
    ),
    _kernel(
        "hardmax_slopes",
        (*_k, _r),
        {"P_1": _slope(*_k), "P_2": _slope(_k[1], _k[0])},
        (34,),
        "Derivatives of Phi2 with respect to both limits.",
        "P_1 = phi(k_1) Phi((k_2 - r k_1)/(1 - r^2)^(1/2)), and P_2 with 1 and 2 exchanged.",
        "Not the bivariate density: that is the erratum hardmax-derivative.",
        domain="real k_1, k_2; -1 < r < 1",
    ),
    _kernel(
        "hardmax_weight",
        (_t, *_k, _r),
        {"weight": sp.exp(_k[0] * _t - _t**2 / 2) * _normal_cdf((_k[1] - _r * _k[0] + _r * _t) / sp.sqrt(1 - _r**2))},
        (33,),
        "What is integrated over t > 0 for Phi2.",
        "Phi2(k_1, k_2; r) = phi(k_1) int_0^oo weight(t) dt: the law of the first variable at k_1 - t.",
        domain="t >= 0; real k_1, k_2; -1 < r < 1",
    ),
    _kernel(
        "hardmax_score",
        (*_p, *_signs, *_spreads, variance),
        _score(),
        (34,),
        "Score of a label of hardmax with two tokens.",
        "g_11 = s_1 p_1/(c_1 V)^(1/2), g_22 likewise, g_12 = -(g_11 + g_22), with p_i = P_i/Z_out.",
    ),
    _kernel(
        "noisy_indices",
        (variance, noise.label_noise),
        dict(zip(("total", "share"), noise.noisy_indices(), strict=True)),
        (57,),
        "Variance of the indices with their noise, and the share of the indices in it.",
        "V + Delta_n, at which Z_out and g_out without noise are those with it, and V/(V + Delta_n).",
        domain="V, Delta_n > 0",
    ),
    _kernel(
        "noisy_covariance",
        (_sigma, _c, variance, noise.label_noise),
        {"sigma": noise.noisy_covariance(_sigma, _c)},
        (57,),
        "Covariance of the indices with their noise, in units of V + Delta_n.",
        "(V sigma + Delta_n c)/(V + Delta_n), c = 0 of two different entries.",
        domain="V, Delta_n > 0; real sigma; c >= 0",
    ),
    _kernel(
        "entry_exponent",
        (_t, _y, _value, _c, noise.label_noise),
        {"exponent": entrywise.entry_exponent(_t, _y, _value, _c)},
        (58,),
        "Logarithm of the weight of an index given its entry of the output, f(beta h) with noise.",
        "-t^2/2 - (y - f(beta h))^2/(2 Delta_n c) at h = omega + (V c)^(1/2) t.",
        domain="Delta_n, c > 0; all others real",
    ),
)


def _prove_entries(values: dict[str, dict[str, sp.Expr]]) -> None:
    """Prove the channels that fix functionals, for several T."""
    for tokens in _TOKENS:
        error = channels.residual(tokens)
        spread = channels.variances(tokens)
        size = len(error)
        mean = channels.mean_residual(error, tokens)

        plain = [values["linear_score"]["g"].subs({_h: _omega + error[i], _c: spread[i, i]}) for i in range(size)]
        prove_equal(sp.Matrix(plain), channels.functional_gradient(sp.eye(size), error), f"linear_score, T = {tokens}")

        made = [values["softmax_score"]["g"].subs({_e: error[i], _mean: mean, _c: spread[i, i]}) for i in range(size)]
        _, wanted = channels.softmax_gradient_by_integration(tokens)
        prove_equal(sp.Matrix(made), wanted, f"softmax_score, T = {tokens}")

        logs = sp.Matrix(tokens, tokens, lambda a, b: sp.Symbol(f"L_{a}{b}", real=True))
        wanted = channels.softmax_indices(logs.applyfunc(sp.exp))
        last = tokens - 1
        for a, b in channels.entries(tokens):
            known = dict(zip(_logs, (logs[a, b], logs[a, last], logs[last, a], logs[last, last]), strict=True))
            prove_equal(values["softmax_index"]["phi"].subs(known), wanted[a, b], f"softmax_index, T = {tokens}")


def _prove_projection(values: dict[str, dict[str, sp.Expr]]) -> None:
    """Prove the score of any covariance at T = 2: six entries of its inverse."""
    error = channels.residual(2)
    precision = sp.Matrix(3, 3, lambda i, j: sp.Symbol(f"p_{min(i, j)}{max(i, j)}", real=True))
    _, wanted = channels.softmax_gradient_by_integration(2, precision)
    v, u = precision * error, precision * sp.ones(3, 1)
    known = {_v_sum: sum(v, sp.S.Zero), _u_sum: sum(u, sp.S.Zero)}
    made = [values["projected_score"]["g"].subs({_v: v[i], _u: u[i]} | known) for i in range(3)]
    prove_equal(sp.Matrix(made), wanted, "projected_score")


def _prove_hardmax(values: dict[str, dict[str, sp.Expr]]) -> None:
    arguments = values["hardmax_arguments"]
    covariance = hardmax.difference_covariance()
    limit = {c: covariance[i, i] / variance for i, c in enumerate(_spreads)}
    differences = hardmax.differences() * sp.Matrix(_means)
    for i, k in enumerate(_k):
        wanted = _signs[i] * differences[i] / sp.sqrt(covariance[i, i])
        prove_equal(arguments[k.name].subs(limit), wanted, f"hardmax_arguments, {k}")

    # The chain rule: what multiplies dPhi2/dk_i is dk_i/domega.
    chain = sp.Matrix(
        [sum((p * sp.diff(arguments[k.name], m) for p, k in zip(_p, _k, strict=True)), sp.S.Zero) for m in _means]
    )
    prove_equal(sp.Matrix(list(values["hardmax_score"].values())), chain, "hardmax_score")

    for name, first, second in (("P_1", *_k), ("P_2", *reversed(_k))):
        prove_equal(values["hardmax_slopes"][name], hardmax.partial(first, second, _r), f"hardmax_slopes, {name}")
    made = hardmax.normal_density(_k[0]) * values["hardmax_weight"]["weight"]
    prove_equal(made, hardmax.partial(_k[0] - _t, _k[1], _r), "hardmax_weight")


def _prove_noise(values: dict[str, dict[str, sp.Expr]]) -> None:
    """The share of the indices is the information of a linear output; an entry of variance c keeps its covariance."""
    for name, difference in noise.noise_identities().items():
        prove_equal(difference, sp.S.Zero, f"noise, {name}")
    share = values["noisy_indices"]["share"]
    slope = values["linear_score"]["g"].subs(variance, values["noisy_indices"]["total"])
    found = variance * _c * slope**2 * (variance + noise.label_noise) * _c / (_h - _omega) ** 2
    prove_equal(found, share, "noisy_indices")
    own = values["noisy_covariance"]["sigma"]
    prove_equal(own.subs(_sigma, _c), _c, "noisy_covariance, in the limit")
    prove_equal(sp.diff(own, _sigma), share, "noisy_covariance")
    for name, difference in entrywise.entry_identities().items():
        prove_equal(difference, sp.S.Zero, f"entries, {name}")
    # Of a linear output it has its largest value at the posterior mean, whose score is that with noise.
    exponent = values["entry_exponent"]["exponent"]
    index = _omega + sp.sqrt(variance * _c) * _t
    slope = sp.diff(exponent.subs(_value, index), _t)
    best = sp.solve(slope, _t)[0]
    total = values["noisy_indices"]["total"]
    wanted = values["linear_score"]["g"].subs({_h: _y, variance: total})
    prove_equal(best / sp.sqrt(variance * _c), wanted, "entry_exponent")
    prove_equal(exponent.subs(_y, _value), -(_t**2) / 2, "entry_exponent")


def _prove(kernels: tuple[Kernel, ...]) -> None:
    values = {kernel.name: dict(kernel.outputs) for kernel in kernels}
    _prove_entries(values)
    _prove_projection(values)
    _prove_hardmax(values)
    _prove_noise(values)


PACKAGE = KernelPackage(
    name="aim_channels",
    precise=False,
    title="Channels of attention-indexed models: linear and softmax with any number of tokens, hardmax with two; noise",
    activation="linear, softmax, hardmax",
    tokens=2,
    source="attnlimits.derive.aim.kernels",
    kernels=_KERNELS,
    prove=lambda: _prove(_KERNELS),
    domain="V > 0, beta > 0, all arguments real; each function states its own",
)
