"""Command lines that every verb serves: its own flags in combinations that go together, plausible and extreme values.

A line may still end with status 1, where an extreme value has no answer; bad arguments it has none.
"""

from collections.abc import Callable

from command_draw import Draw, Words

__all__ = ["VALID"]

LINKS = (
    "h[1]**2|sign(h[1]*h[2])|h[1]*h[2]|abs(h[1])|sign(h[1])|h[1]|2*h[1]|sqrt(abs(h[1]))|max(h[1], h[2])|"
    "abs(h[1]) + h[2]|sign(h[1]) + sign(h[2])|Piecewise((h[1], h[1] > 0), (0, True))|argmax(h[1], h[2])"
).split("|")
#: Those without a value in discrete steps, which serve learning from data and free energies alike.
SMOOTH = ("h[1]**2", "h[1]*h[2]", "abs(h[1])", "h[1]", "tanh(h[1])", "h[1]**3")
EXTREMES = (1e-12, 1e-6, 1e-3, 30, 1e3, 1e6)


def _strength(draw: Draw) -> object:
    return draw.random.choice((None, None, 1, 0.5, draw.number(), draw.random.choice(EXTREMES)))


def _alpha(draw: Draw) -> str:
    return draw.of(0.05, 0.1, 0.4, 0.9, 1.3, 2, 30, draw.number(), draw.number(), 1e-9, 1e-3, 1e4, 1e9, 1e12)


def _model(draw: Draw, layers: tuple[int, ...] = (1, 1, 2)) -> Words:
    return draw.flags(
        layers=layers, tokens=(2, 2, 3), skip=(_strength(draw),), beta=(_strength(draw),), activation=(None, "linear")
    )


def _link(draw: Draw, links: tuple[str, ...] | list[str] = LINKS) -> Words:
    return ["--link", draw.of(*links), *draw.flags(noise=(None, None, 0, 0.1, "1/3", "1e-9", 1, 1e6))]


def _prior(draw: Draw) -> Words:
    return draw.of("", "", "--prior binary", "--prior sparse --density 0.1", "--prior sparse --density 1e-3").split()


def _sampling(draw: Draw) -> Words:
    return draw.flags(samples=(16, 32, 64, 257), replicas=(2, 3, 4), seed=(None, 0, 7, 2**63), workers=(None, 1, 2))


def _threshold(draw: Draw) -> Words:
    kind = draw.random.random()
    if kind < 0.4:
        steps = ["--staircase", *_prior(draw)] if draw.sometimes(0.3) else []
        return ["threshold", *_link(draw), *draw.flags(digits=(None, 1, 3)), *steps]
    if kind < 0.5:
        return ["threshold", "--rigorous", *draw.flags(digits=(2, 3), skip=(None, 1, 0.5, 2))]
    if kind < 0.75:
        return ["threshold", "-L", "1", *draw.flags(tokens=(2, 3, 5, 40), rank=(1, 2, 7), digits=(None, 1, 12, 40))]
    return ["threshold", "-L", "2", *draw.flags(skip=(_strength(draw),), beta=(_strength(draw),), digits=(None, 3, 6))]


def _evolve(draw: Draw) -> Words:
    words = ["evolve", "--alpha", _alpha(draw), *draw.flags(start=(None, "uninformed", "informed")), *_prior(draw)]
    kind = draw.random.random()
    if kind < 0.4:
        return [*words, *_link(draw), *_sampling(draw), *draw.flags(max_iter=(2, 20), tol=(None, 1e-3))]
    model = _model(draw, (1, 1, 1, 2))
    return [*words, *model, *_sampling(draw), *draw.flags(max_iter=(2, 20), tol=(1e-3, 1e-2))]


def _curve(draw: Draw) -> Words:
    ends = draw.of("0.05 0.4", "0.1 0.3", "0.5 1.5", "1e-6 1e3").split()
    words = ["curve", "--from", ends[0], "--to", ends[1], *draw.flags(points=(1, 2, 3), tol=(1e-3,), accuracy=(1e-2,))]
    start = [*draw.flags(start=(None, "informed", "both")), *_prior(draw)]
    return [*words, *start, "-L", "1", *draw.flags(tokens=(2, 3)), *_sampling(draw)]


def _free_energy(draw: Draw) -> Words:
    model = _link(draw, SMOOTH[:3]) if draw.sometimes(0.5) else ["-L", "1", *draw.flags(tokens=(2, 3))]
    flags = [*_prior(draw), *model, *draw.flags(accuracy=(None, 1e-2, 1e-3), starts=(0, 1)), *_sampling(draw)]
    if draw.sometimes(0.2):
        out = draw.of("l.png", "l.svg")
        return ["landscape", "--out", out, "--alpha", _alpha(draw), *draw.flags(points=(2, 3), top=(None, 0.9)), *flags]
    return ["free-energy", "--alpha", _alpha(draw), *flags]


def _committee(draw: Draw) -> Words:
    return [
        "committee",
        *draw.flags(layers=(2, 3, 5, 17), beta=(None, 1, 0.5, 0.1, 20), alpha=(None, 0.6, 3, 1e3, 1e9)),
    ]


def _denoise_link(draw: Draw) -> Words:
    """A link of one or two indices at one output, with any of its noises."""
    text = draw.of(*LINKS)
    two = "h[2]" in text
    y = draw.of("[1]", "[0]", "[-1]", "[0.3]", "[2]", "[1e-9]", "[1e6]")
    omega = draw.of("[[0.1], [0.2]]", "[[0], [0]]", "[[3], [-20]]") if two else draw.of("[[0.1]]", "[[0]]", "[[-20]]")
    V = draw.of("[[1, 0.1], [0.1, 0.5]]", "[[1e-6, 0], [0, 1]]") if two else draw.of("[[1]]", "[[1e-6]]", "[[1e4]]")
    asked = draw.flags(accuracy=(None, None, 1e-3, 1e-10), max_nodes=(None, 1000, 100_000))
    noise = draw.flags(noise=(None, None, 0.1, "1e-9", 1e6)) if draw.sometimes(0.7) else ["--label-noise", "0.1"]
    return ["denoise", "--link", text, *noise, "--y", y, "--omega", omega, "--V", V, *asked]


def _denoise(draw: Draw) -> Words:
    if draw.sometimes(0.4):
        return _denoise_link(draw)
    words = ["denoise", *draw.flags(digits=(None, 5, 10, 20))]
    if draw.sometimes(0.2):
        return [*words, "--layers", "1", "--input", draw.of("samples.json", "samples.npz", "one.json")]
    layers = draw.random.choice((1, 1, 2))
    y = draw.of("[[0.7, 0.3], [0.2, 0.8]]", "[[0.5, 0.5], [0.5, 0.5]]", "[[0.999999, 0.000001], [0.1, 0.9]]")
    omega = draw.of("[[0.1, 0.2]]", "[[0, 0]]", "[[30, -30]]") if layers == 1 else "[[0.1, 0.2], [0, 0.3]]"
    V = draw.of("[[1]]", "[[0.3]]", "[[1e-6]]", "[[1e4]]") if layers == 1 else draw.of("[[1, 0.1], [0.1, 0.5]]")
    return [*words, "--layers", str(layers), "--y", y, "--omega", omega, "--V", V]


def _learn(draw: Draw) -> Words:
    verb = draw.of("gamp", "gamp", "descend")
    model = _link(draw, SMOOTH[:4]) if draw.sometimes(0.3) else draw.of("-L 1", "-L 1 -M 3", "-L 2").split()
    sizes = draw.flags(alpha=(0.5, 1, 3, 20), dimension=(8, 20, 30), seeds=(1, 2), seed=(None, 1), workers=(1, 2))
    if verb == "gamp":
        limits = draw.flags(damping=(None, 0, 0.5, "adaptive"), max_iter=(1, 3, 10), tol=(None, 1e-2)) + _prior(draw)
    else:
        limits = draw.flags(method=(None, "gd", "adam"), rate=(None, 1e-9, 0.1, 1e6), epochs=(1, 3, 10))
    return [verb, *model, *sizes, *limits]


def _make_data(draw: Draw) -> Words:
    model = draw.of("-L 1", "-L 2", "-L 1 -M 3").split()
    sizes = draw.flags(alpha=(0.5, 1, 3), dimension=(8, 20), seed=(None, 1))
    return ["make-data", *model, *sizes, *_prior(draw), "--out", f"made{draw.random.randrange(10**9)}"]


def _aim(draw: Draw) -> Words:
    channel = draw.flags(activation=("softmax", "linear", "hardmax"), tokens=(2, 2, 3), beta=(None, 0.5, 1e-3, 1e3))
    rho = draw.of(0.5, 1, 0.1, 2, 1e-3, 1e3)
    verb = draw.of("evolve", "threshold", "denoise", "amp", "descend", "free-energy", "spectrum")
    words = ["aim", verb]
    if verb == "spectrum":
        return [*words, "--rho", rho, "--delta", draw.of(0.1, 1e-6, 10, 1e6)]
    if verb == "denoise":
        return [*words, "--rho", rho, "--delta", draw.of(0.1, 1, "1/7", 10, 1e-6), *draw.flags(digits=(None, 5, 12))]
    if verb == "threshold":
        return [*words, *channel, *draw.flags(rho=(None, rho), digits=(None, 3))]
    if verb in ("evolve", "free-energy"):
        return [*words, *channel, "--rho", rho, "--alpha", draw.of(0.05, 0.1, 0.3, 3, 1e-3, 1e4)]
    sizes = draw.flags(alpha=(0.1, 0.3), dimension=(6, 10), seeds=(1, 2), seed=(None, 1))
    if verb == "amp":
        limits = draw.flags(max_iter=(2, 5), damping=(None, 0.5, "adaptive"), covariance=(None, "scalar"))
    else:
        limits = draw.flags(students=(1, 2), steps=(1, 20), rate=(None, 0.01))
    few = draw.flags(activation=("softmax", "linear"), tokens=(2,))
    return [*words, *few, "--rho", draw.of(0.5, 1), *sizes, *limits]


def _multihead(draw: Draw) -> Words:
    if draw.sometimes(0.2):
        sizes = draw.flags(dim=(4, 6), samples=(100, 300), starts=(1,), seed=(None, 1))
        return ["multihead", "hardness", "--bits", draw.of(1, 2), "--methods", draw.of("lm", "adam"), *sizes]
    family = draw.flags(family=(None, "gauss", "corr", "sameW", "saturated", "lowrank"), noise=(None, 0, 0.1, 10))
    sizes = draw.flags(heads=(1, 1, 2), seq=(None, 2, 3), dim=(4, 6), samples=(150, 300), seed=(None, 1))
    return ["multihead", "demo", *family, *sizes, *draw.flags(method=(None, "auto", "restarts"), starts=(1, 2))]


def _sweep(draw: Draw) -> Words:
    out = f"swept{draw.random.randrange(10**9)}"
    grid = draw.of("grid.toml", "grid_link.toml")
    return ["sweep", grid, "--out", out, *draw.flags(workers=(1, 1, 2), limit=(None, 1, 2), retry_failed=(False, True))]


def _symbolic(draw: Draw) -> Words:
    kind = draw.random.random()
    if kind < 0.4:
        shape = draw.flags(layers=(1, 2, 3), tokens=(2, 3), skip=(None, 1, "1/3", "1e300"), untied=(False, True))
        return ["explain", *shape, *draw.flags(latex=(False, True))]
    if kind < 0.7:
        out = f"kernels{draw.random.randrange(10**9)}"
        return ["derive", *draw.flags(layers=(1, 2, 3), tokens=(2, 3), untied=(False, True)), "--out", out]
    if kind < 0.9:
        return ["verify", "--paper", "troiani2025", "--id", draw.of(1, 2, 3, 10, 12)]
    return ["models"]


def _trec(draw: Draw) -> Words:
    sizes = draw.flags(epochs=(1, 2), rank=(2, 4), batch=(8, 32), seeds=(1,), questions=(20, 40), seed=(None, 1))
    return ["trec", "--made", *sizes, *draw.flags(skip=(None, 1e-3, 1e3), rate=(None, 1e-9, 10))]


VALID: dict[Callable[[Draw], Words], int] = {
    _threshold: 14,
    _evolve: 16,
    _curve: 5,
    _free_energy: 8,
    _committee: 5,
    _denoise: 10,
    _learn: 10,
    _make_data: 2,
    _aim: 14,
    _multihead: 6,
    _sweep: 4,
    _symbolic: 8,
    _trec: 2,
}
