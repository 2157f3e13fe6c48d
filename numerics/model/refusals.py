"""What there is instead of what no route of a verb serves."""

__all__ = ["REFUSALS"]

# What is served on charts, and what all averages serve.
_CHARTS = (
    "softmax attention of any depth and linear of two layers, of any rank and number of tokens, tied or untied, with "
    "the attention of the last layer as output"
)
_AVERAGES = f"{_CHARTS}; for linear attention of any depth tied and of rank 1"

#: By verb; `{model}` and `{layer}` are the model and its kind of layer.
REFUSALS: dict[str, str] = {
    "last layer": (
        f"no last-layer threshold for {{model}}; there is one for {_CHARTS}; for deeper linear attention of two tokens "
        "tied and of rank 1"
    ),
    "first layer": "the first-layer threshold needs two layers, two tokens and rank 1, tied, got {model}",
    "hidden layer": f"no threshold of a layer before the last for {{model}}; there is one for {_AVERAGES}",
    "enclosure": (
        "a rigorous enclosure exists for two softmax layers, two tokens and rank 1, tied, got {model}; "
        "thresholds.last_layer gives an estimate"
    ),
    "evolve": f"no state evolution for {{model}}; there is one for {_AVERAGES}",
    "curve": f"no curve for {{model}}; there is one for {_AVERAGES}",
    "free energy": f"no free energy for {{model}}; there is one for {_AVERAGES}; and for links",
    "denoise": (
        "no denoiser for {model}; there is one for depth 1 with any number of tokens and for depth 2 with two "
        "tokens, tied and rank 1"
    ),
    "denoise-sampled": f"no denoiser for {{model}}; there is one for {_AVERAGES}",
    "denoise-mp": (
        "no precise denoiser for {model}: it solves for the readout row, which takes rank 1; there is one for "
        "tied weights of rank 1, any depth and any number of tokens"
    ),
    "readout": (
        "no inversion of the output for {model}: y fixes the readout row up to its sign for tied weights of rank 1"
    ),
    "fibre": (
        "no rule for the fibre of {layer}: there are rules for tied layers of rank 1, 2, 3 and untied layers of "
        "rank 1 (troiani2025 (163)-(170))"
    ),
    "gamp": (
        f"no denoiser for {{model}}: there is one for {_AVERAGES}; and for the kernel of a link (`attnlimits derive "
        "--link`); heads side by side are models of their own, each on its block of X"
    ),
    "descend": (
        "no gradient for {model}: there is one for softmax and linear attention of any architecture, and for the "
        "kernel of a link (`attnlimits derive --link`)"
    ),
}
