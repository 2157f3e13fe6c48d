"""Every verb of the command, with settings that are cheap and files that are usually right."""

from collections.abc import Callable

from command_draw import HOSTILE, Draw, Words

__all__ = ["VERBS", "VERB_NAMES"]

# Models and links ---------------------------------------------------------------------------------------------------


def _model(draw: Draw, layers: tuple[int, ...] = (1, 1, 2)) -> Words:
    return draw.flags(
        layers=layers,
        tokens=(None, None, None, 2, 2, 3),
        rank=(None,) * 16 + (1, 2, "1,2"),
        heads=(None,) * 19 + (2,),
        skip=(None, None, 1, 0.5, draw.number()),
        beta=(None, None, 1, 2, draw.number()),
        activation=(None, None, None, "softmax", "linear", "linear"),
        untied=(False,) * 15 + (True,),
        output=(None,) * 19 + ("last", "sequence"),
    )


def _sampling(draw: Draw) -> Words:
    return draw.flags(samples=(16, 32, 64), replicas=(2, 3, 4), seed=(None, 0, 1, 7, 2**63), workers=(None, 1, 1, 2))


def _term(draw: Draw, depth: int) -> str:
    """An expression of the grammar of links, or nearly so."""
    if depth == 0 or draw.sometimes(0.25):
        return draw.of("h[1]", "h[1]", "h[1]", "h[2]", "h_1", "h[1,1]", "1", "2", "1/3", "0.5", "pi")
    inner = _term(draw, depth - 1)
    other = _term(draw, depth - 1)
    return draw.of(
        f"{draw.of('sign', 'abs', 'exp', 'log', 'sqrt', 'tanh', 'sinh', 'cosh', 'sin', 'cos', 'erf')}({inner})",
        f"{inner} {draw.of('+', '-', '*', '/')} {other}",
        f"({inner})**{draw.of(2, 2, 3, 4, '(1/2)', -1, 0)}",
        f"max({inner}, {other})",
        f"Piecewise(({inner}, {other} > 0), ({draw.of(0, 1, inner)}, True))",
        f"argmax(h[1], {inner})",
    )


def _split(text: str) -> Words:
    return [part.strip() for part in text.split("|")]


LINKS = _split("""
    h[1]**2 | sign(h[1]*h[2]) | h[1]*h[2] | abs(h[1]) | tanh(h[1]) | h[1] | sign(h[1]) | h[1]**3 | 2*h[1] |
    exp(h[1]) | sqrt(abs(h[1])) | h[1]; h[2]**2 | abs(h[1]); sign(h[1]*h[2]) | abs(h[1]) + h[2] |
    max(h[1], h[2]) | 1/(1 + exp(-h[1])) | Piecewise((h[1], h[1] > 0), (0, True)) | sin(h[1]) |
    argmax(h[1], h[2])
""")
BAD_LINKS = _split("""
    x | ; | h[0] | h[-1] | h[1 | h[1]] | h[1] + | h[1]**h[2] | h[1]**1000000 | h[1]**0.5 | 1 | 0*h[1] |
    log(-h[1]**2) | sqrt(-1) | h[1]/0 | 1/(h[1]-h[1]) | __import__('os') | h[1].real | lambda: 1 |
    h[1] if 1 else 2 | h[99999999999] | h[1,99999] | h[1]*1e999999999 | ½*h[1] | Piecewise((h[1], h[1] > 0)) |
    Piecewise() | max() | max(h[1]) | sign() | sign(h[1], 2) | h[1] > 0 | h[1];;h[2] | h[1] == 1 | nan*h[1] |
    inf*h[1] | 1e308*h[1] | 1e-308*h[1] | 10**400*h[1] | h[1]**-400 | exp(exp(exp(h[1]))) |
    h[1]**2**2**2**2**2**2**2**2**2 | h[½] | h[1.5] | h[True] | h['a'] | h[h[1]] | oo*h[1] | I*h[1]
""")
BAD_LINKS += ["", "\udcff", "h[1]\n", "(" * 4000 + "h[1]" + ")" * 4000, "~" * 4000 + "h[1]", "-" * 3000 + "h[1]"]
BAD_LINKS += ["exp(" * 20 + "h[1]" + ")" * 20, "h[1]+" * 3000 + "h[1]", "9" * 10_000 + "*h[1]"]
BAD_LINKS += ["Piecewise(" + "(" * 4000, "h[1]" + "**2" * 9]


def _link(draw: Draw) -> Words:
    kind = draw.random.random()
    if kind < 0.6:
        text = draw.of(*LINKS)
    elif kind < 0.8:
        text = draw.of(*BAD_LINKS)
    else:
        text = _term(draw, 2)
    return ["--link", text, *draw.flags(noise=(None, None, None, 0, 0.1, "1/3", "1e-9", 1, 1e-30))]


def _model_or_link(draw: Draw, layers: tuple[int, ...] = (1, 1, 2), share: float = 0.3) -> Words:
    return _link(draw) if draw.sometimes(share) else _model(draw, layers)


# Verbs --------------------------------------------------------------------------------------------------------------


def _threshold(draw: Draw) -> Words:
    words = ["threshold", *draw.flags(digits=(None, None, 1, 3, 6, 8))]
    if draw.sometimes(0.5):
        return [*words, *_link(draw), *draw.flags(staircase=(False, False, True))]
    if draw.sometimes(0.1):
        return [*words, "--rigorous", *draw.flags(digits=(2, 3), layers=(2, 2, 1), skip=(1, 0.5, 2))]
    model = _model(draw, (1, 1, 1, 2, 2))
    if "--layers" in model and model[model.index("--layers") + 1] == "2" and "3" in model:
        # Two layers over three tokens take minutes.
        model = [w if w != "3" else "2" for w in model]
    layer = draw.flags(layer=(None,) * 12 + (1, 2, 3), given=(None,) * 40 + ("self-consistent", "perfect"))
    if "--layer" in layer and "--digits" not in words:
        # Six digits of a layer before the last take a minute.
        layer += ["--digits", "3"]
    return [*words, *model, *layer, *(_sampling(draw) if draw.sometimes(0.3) else [])]


def _evolve(draw: Draw) -> Words:
    alpha = draw.of(0, 0.05, 0.1, 0.4, 0.9, 2, 30, 1e-9, 1e9, draw.number())
    limits = draw.flags(start=(None, "uninformed", "informed"), tol=(None, 1e-3, 1e-2), max_iter=(None, 2, 20))
    more = draw.flags(nodes=(None, None, None, 2048, 64, 100), accuracy=(None,) * 9 + (1e-2,))
    return ["evolve", "--alpha", alpha, *_model_or_link(draw, (1, 1, 1, 2)), *limits, *more, *_sampling(draw)]


def _curve(draw: Draw) -> Words:
    ends = draw.of("0 0.4", "0.5 1.5", "0.1 0.3", "0.2 3", "0 0", "1 0.5").split()
    points = draw.flags(
        points=(1, 2, 2, 3, 3), along=(None,) * 5 + ("alpha", "skip", "beta"), alpha=(None,) * 6 + (0.5,)
    )
    more = draw.flags(
        start=(None, "uninformed", "informed", "both"), tol=(1e-3,), accuracy=(1e-2, 1e-3), closest=(None, None, 0.01)
    )
    out = ["--out", draw.out("curve.json")] if draw.sometimes(0.2) else []
    words = ["curve", "--from", ends[0], "--to", ends[1], *points, *more, *out]
    return [*words, *_model_or_link(draw, (1, 1, 1, 1), 0.2), *_sampling(draw)]


def _free_energy(draw: Draw) -> Words:
    flags = draw.flags(
        alpha=(None, 0.1, 0.9, 1.2, 5),
        prior=(None, None, "gaussian", "binary", "sparse"),
        density=(None,) * 9 + (0.1, 1, 0),
        accuracy=(None, 1e-2, 1e-3),
        starts=(0, 1),
    )
    if draw.sometimes(0.3):
        name = draw.out(draw.of("l.png", "l.svg", "l.pdf", "l.txt", "l"))
        shape = draw.flags(points=(2, 3), top=(None, None, 0.9, 1, 0))
        return ["landscape", "--out", name, *shape, *flags, *_model_or_link(draw, (1,), 0.5), *_sampling(draw)]
    return [
        "free-energy",
        *flags,
        *draw.flags(transitions=(False,) * 5 + (True,)),
        *_model_or_link(draw, (1,), 0.5),
        *_sampling(draw),
    ]


def _committee(draw: Draw) -> Words:
    return [
        "committee",
        *draw.flags(
            layers=(None, 2, 3, 5, 101), beta=(None, 1, 0.5), skip=(None, None, 400, 1), alpha=(None, 0.5, 3, 40)
        ),
    ]


def _matrix(draw: Draw, rows: int, columns: int) -> str:
    entry = ("0", "1", "0.5", "0.1", "-0.2", "1e-12", '"0.3"', "2e-1")
    odd = (
        "1e308",
        "1e-300",
        "1e999999999",
        "NaN",
        "null",
        "true",
        "[]",
        '"x"',
        "9" * 10_000,
        '"1/3"',
        "Infinity",
        "-1",
    )
    made = []
    for _ in range(rows if draw.sometimes(0.95) else 3):
        made.append([draw.of(*entry) if draw.sometimes(0.96) else draw.of(*odd) for _ in range(columns)])
    return "[" + ", ".join("[" + ", ".join(row) + "]" for row in made) + "]"


def _denoise(draw: Draw) -> Words:
    words = ["denoise", *draw.flags(digits=(None, 5, 10, 15, 20), max_nodes=(None, None, None, 100_000, 1))]
    kind = draw.random.random()
    if kind < 0.5:
        layers = draw.random.choice((1, 1, 2))
        y = draw.of(
            "[[0.7, 0.3], [0.2, 0.8]]", "[[0.5, 0.5], [0.5, 0.5]]", "[[0.6, 0.4], [0.1, 0.9]]", _matrix(draw, 2, 2)
        )
        omega = draw.of("[[0.1, 0.2]]" if layers == 1 else "[[0.1, 0.2], [0, 0.3]]", _matrix(draw, layers, 2))
        good = ("[[1]]", "[[0.3]]", "[[1e-6]]") if layers == 1 else ("[[1, 0.1], [0.1, 0.5]]", "[[1, 0], [0, 1]]")
        V = draw.of(*good, *good, _matrix(draw, layers, layers), "[[1e-300]]")
        words += ["--layers", str(layers), "--y", y, "--omega", omega, "--V", V]
    elif kind < 0.6:
        deep = draw.of(
            "[" * 100_000,
            "{",
            "[1",
            "{}",
            "[]",
            "1",
            '"a"',
            "null",
            "[[NaN]]",
            '{"a":' * 5000,
            "[[1e400]]",
            "[[1,2],[3]]",
        )
        words += ["--layers", "1", "--y", deep, "--omega", draw.of("[[0,0]]", deep), "--V", draw.of("[[1]]", deep)]
    else:
        words += ["--layers", "1", "--input", draw.path("samples.json", "samples.npz", "one.json")]
    return words + (["--out", draw.out("results.jsonl")] if draw.sometimes(0.2) else [])


def _data(draw: Draw) -> Words:
    model = draw.of(
        "--layers 1", "--layers 1", "--layers 2", "--layers 1 --untied", "--layers 1 --activation linear"
    ).split()
    link = _link(draw) if draw.sometimes(0.3) else model
    if draw.sometimes(0.5):
        return [
            *link,
            *draw.flags(alpha=(0.5, 1, 2, 1, 3), dimension=(4, 8, 20, 30, 12), seeds=(1, 2, 1), tokens=(None, None, 2)),
        ]
    y = "y_link.npy" if link is not model else "y.npy"
    out = ["--out", draw.out("w.npy")] if draw.sometimes(0.2) else []
    return [*link, "--x", draw.path("x.npy", "x.npy", "x32.npy"), "--y", draw.path(y), *out]


def _gamp(draw: Draw) -> Words:
    limits = draw.flags(
        damping=(None, 0, 0.5, "adaptive"), max_iter=(1, 3, 10), start=(None, None, "random", "spectral")
    )
    return ["gamp", *_data(draw), *limits, *draw.flags(tol=(None, 1e-2), seed=(None, 1, 5), workers=(1, 1, 2))]


def _descend(draw: Draw) -> Words:
    limits = draw.flags(
        method=(None, "sgd", "gd", "adam"),
        rate=(None, None, 0.1, 1e9),
        weight_decay=(None, None, 0.01),
        batch=(None, None, 1, 3),
        reuse=(None, None, 2),
        epochs=(1, 3, 10),
        start=(None, None, "random", "spectral", "teacher"),
    )
    return ["descend", *_data(draw), *limits, *draw.flags(tol=(None, 1e-2), seed=(None, 1, 5), workers=(1, 1, 2))]


def _aim(draw: Draw) -> Words:
    channel = draw.flags(
        activation=(None, "softmax", "linear", "linear", "hardmax"),
        tokens=(None, None, 2, 3),
        beta=(None, None, 1, 0.5, 100),
        noise=(None, None, None, 0.1),
    )
    rho = draw.of(0.5, 1, "1/3", 0.1, 2, 0)
    verb = draw.of("evolve", "threshold", "denoise", "denoise", "amp", "amp", "descend", "free-energy", "spectrum")
    if verb == "free-energy":
        return [
            "aim",
            verb,
            *channel,
            "--rho",
            rho,
            "--alpha",
            draw.of("0.1", "3", "0"),
            *draw.flags(error=(None, 0.3, 2)),
        ]
    if verb == "spectrum":
        noise = draw.flags(delta=(None, 0.1, 1e-6), alpha=(None, None, 0.1), at=(None, 1))
        return ["aim", verb, *channel, "--rho", rho, *noise]
    if verb == "evolve":
        return ["aim", verb, *channel, "--rho", rho, "--alpha", *draw.of("0.1", "0.05 0.2", "3", "1e-9", "0").split()]
    if verb == "threshold":
        return ["aim", verb, *channel, *draw.flags(rho=(None, rho, rho), digits=(None, None, 3, 10, 20))]
    if verb == "denoise":
        words = [
            "aim",
            verb,
            "--rho",
            rho,
            "--delta",
            draw.of(0.1, 1, "1/7", 10, 1e-6),
            *draw.flags(digits=(None, None, 5, 12)),
        ]
        own = ["--y", draw.path("symmetric.npy")] if draw.sometimes(0.5) else []
        return [*words, *own, *(["--out", draw.out("e.npy")] if draw.sometimes(0.3) else [])]
    steps = {"students": (1, 2), "steps": (1, 20), "rate": (None, 0.01)}
    limits = (
        draw.flags(**steps)
        if verb == "descend"
        else draw.flags(
            max_iter=(2, 5, 20), damping=(None, 0.5, "adaptive"), covariance=(None, "gram", "scalar"), tol=(None, 1e-2)
        )
    )
    if draw.sometimes(0.5):
        data = draw.flags(alpha=(0.1, 0.3, None), dimension=(6, 10, 12), seeds=(1, 2), seed=(None, 1, 3))
    else:
        data = ["--x", draw.path("tokens.npy"), "--y", draw.path("outputs.npy")]
        data += ["--out", draw.out("s.npy")] if draw.sometimes(0.2) else []
    return ["aim", verb, *channel, "--rho", draw.of(0.5, 1, 0.1), *data, *limits]


def _multihead(draw: Draw) -> Words:
    verb = draw.random.choices(("demo", "fit", "hardness", "figure"), (4, 6, 2, 1))[0]
    method = draw.flags(method=(None, "auto", "sculpt", "restarts", "restarts"), starts=(1, 2))
    teacher = draw.flags(
        heads=(1, 1, 2),
        seq=(None, 2, 1),
        dim=(3, 4),
        samples=(60, 150, 300),
        noise=(None, 0, 0.1),
        family=(None, None, "gauss", "corr", "sameW", "saturated", "lowrank", "parity"),
        scale=(None, None, 1),
        seed=(None, 1),
    )
    if verb == "demo":
        return ["multihead", verb, *teacher, *method, *draw.flags(blind=(False, False, True))]
    if verb == "fit":
        file = draw.random.choice(
            (["--x", draw.path("mx.npy"), "--y", draw.path("my.npy")], ["--x", draw.path("m.npz")])
        )
        flags = draw.flags(
            heads=(None, 1, 2, "auto"), noise_std=(None, 0, 0.1), out=(None, None, None, draw.out("layer.npz"))
        )
        return ["multihead", verb, *file, *method, *flags]
    if verb == "hardness":
        flags = draw.flags(dim=(4, 6), samples=(100, 300), starts=(1,), seed=(None, 1))
        return [
            "multihead",
            verb,
            "--bits",
            *draw.of("1", "1 2", "3", "9").split(),
            "--methods",
            draw.of("lm", "adam"),
            *flags,
        ]
    return ["multihead", verb, draw.of("hardness", "scaling", "nothing"), "--out", draw.out("figures")]


def _sweep(draw: Draw) -> Words:
    grid = draw.path("grid.toml", "grid.toml", "grid_link.toml")
    out = draw.out(draw.of("swept", "swept2", "hostile_records"))
    return ["sweep", grid, "--out", out, "--workers", "1", *draw.flags(retry_failed=(False, True), limit=(None, 1, 2))]


def _symbolic(draw: Draw) -> Words:
    kind = draw.random.random()
    if kind < 0.35:
        return ["explain", *_model(draw, (1, 1, 2)), *draw.flags(latex=(False, True), no_number=(False, True))]
    if kind < 0.6:
        # Without any of these it would derive all kernels.
        what = _link(draw) if draw.sometimes(0.6) else ["--layers", "1", *_model(draw, (1,))]
        return ["derive", *what, *(["--out", draw.out("kernels")] if draw.sometimes(0.3) else [])]
    if kind < 0.8:
        ids = draw.of("1", "2 3", "10", "0", "-1", "999", "1 1").split()
        return ["verify", "--paper", draw.of("troiani2025", "troiani2025", "nobody", "../x", "all", ""), "--id", *ids]
    return ["models"]


def _trec(draw: Draw) -> Words:
    flags = draw.flags(epochs=(1, 2), rank=(2, 4), batch=(8, 32), seeds=(1,), questions=(None, 20, 40), seed=(None, 1))
    kind = draw.random.random()
    if kind < 0.3:
        return ["trec", "--made", *flags]
    if kind < 0.6:
        return ["trec", "--write-corpus", draw.out("corpus"), *draw.flags(questions=(None, 10, 30), seed=(None, 1))]
    files = [
        "--train",
        draw.path("train.txt"),
        "--test",
        draw.path("test.txt"),
        "--embeddings",
        draw.path("embeddings", "."),
    ]
    return ["trec", *files, *flags]


def _odd(draw: Draw) -> Words:
    return draw.random.choice(
        (
            [],
            ["--help"],
            ["-h"],
            ["--json"],
            ["aim"],
            ["multihead"],
            ["solve"],
            ["aim", "solve"],
            ["thresh"],
            ["--version"],
            [draw.of(*HOSTILE)],
            [draw.of(*VERB_NAMES), "--help"],
            [draw.of(*VERB_NAMES), draw.of(*HOSTILE)],
            ["figure", draw.of("troiani2025-99", "", "boncoraglio2025-1"), "--points", draw.of(0, 3, -1)],
            ["figure", "troiani2025-1", "--out", "/dev/null/x", "--points", "1"],
            ["aim", "figure", draw.of(0, 6, -1, "x")],
        )
    )


VERB_NAMES = (
    "models derive explain verify threshold evolve curve free-energy committee landscape denoise gamp descend aim "
    "multihead sweep trec figure"
).split()
VERBS: dict[Callable[[Draw], Words], int] = {
    _threshold: 16,
    _evolve: 12,
    _curve: 4,
    _free_energy: 6,
    _committee: 4,
    _denoise: 12,
    _gamp: 8,
    _descend: 6,
    _aim: 14,
    _multihead: 7,
    _sweep: 7,
    _symbolic: 8,
    _trec: 3,
    _odd: 5,
}
