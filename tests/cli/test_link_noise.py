"""Links with noise whose noiseless form is simpler: every verb that takes --link answers, and all answer alike."""

import json
import math
from pathlib import Path

import numpy as np
import pytest

from attnlimits.numerics.channel.link.channel import LinkChannel
from attnlimits.numerics.fixed_point.link import evolve
from attnlimits.numerics.model.link_kernels import kernel_of, noiseless_of

# Without noise each is reduced to h, h**2, |h| or h_1 h_2, and the last one to a single output.
SLOW = ["2*h", "exp(h)", "h**3", "h**4", "sqrt(abs(h))", "1/(1+exp(-h))", "h; h"]
# Of two indices there are the averages over the channel below.
REDUCED = ["tanh(h[1])", *(pytest.param(link, marks=pytest.mark.slow) for link in ("tanh(h[1]*h[2])", *SLOW))]
SMALL = "--samples 16 --replicas 3"


@pytest.mark.parametrize("link", REDUCED)
def test_evolve(attnlimits, link):
    said = attnlimits(f"evolve --json --alpha 0.4 --link '{link}' --noise 0.1 {SMALL}")
    assert said.status == 0, said.err
    found = json.loads(said.out)
    assert found["noise"] == 0.1 and found["converged"]


@pytest.mark.slow
def test_a_scaled_link_is_the_linear_channel(attnlimits):
    """y = 2 h + noise: q (1 - q + Delta/4 + alpha) = alpha."""
    said = attnlimits("evolve --json --alpha 0.4 --link '2*h' --noise 0.1")
    found = json.loads(said.out)
    half = (1 + 0.025 + 0.4) / 2
    exact = half - math.sqrt(half**2 - 0.4)
    assert abs(found["overlap"][0][0] - exact) <= max(found["error"], 1e-5)


@pytest.mark.slow
def test_an_output_said_twice_counts_twice(attnlimits):
    """Two outputs h with noise each: one with half the variance."""
    said = attnlimits("evolve --json --alpha 0.4 --link 'h; h' --noise 0.1 --samples 256")
    found = json.loads(said.out)
    half = (1 + 0.05 + 0.4) / 2
    exact = half - math.sqrt(half**2 - 0.4)
    assert abs(found["overlap"][0][0] - exact) <= 3 * found["error"] + 1e-5


@pytest.mark.slow
def test_gamp_states_the_fixed_point_that_evolve_gives(attnlimits):
    link = "--link '1/(1+exp(-h))' --noise 0.1 --alpha 0.4 --json"
    gamp = json.loads(attnlimits(f"gamp {link} --dimension 40 --seeds 1").out)["state_evolution"]
    if gamp is None:  # shown where it takes seconds
        gamp = json.loads(attnlimits(f"gamp {link} --dimension 40 --seeds 1 --state-evolution").out)["state_evolution"]
    alone = json.loads(attnlimits(f"evolve {link} --samples 1024").out)
    assert gamp["overlap"] == alone["overlap"]


@pytest.mark.slow
@pytest.mark.parametrize("verb", ["curve --from 0.4 --to 0.4 --points 1", "free-energy --alpha 0.4 --starts 0"])
def test_other_verbs_answer_with_the_same_overlap(attnlimits, verb):
    link = "--link 'tanh(h)' --noise 0.1 --json"
    said = attnlimits(f"{verb} {link}")
    assert said.status == 0, said.err
    record = json.loads(said.out)
    found = [p["overlap"] for p in record["points"]["uninformed"]] if "curve" in verb else [record["overlap"]]
    q = json.loads(attnlimits(f"evolve --alpha 0.4 {link}").out)["overlap"][0][0]
    assert any(abs(float(np.ravel(overlap)[0]) - q) < 1e-4 for overlap in found)


def test_the_partner_keeps_what_the_reduced_kernel_leaves_out():
    noisy = kernel_of("tanh(h[1]*h[2])", noise="0.01")
    partner = noiseless_of(noisy, "tanh(h[1]*h[2])")
    assert partner is not None and partner.text == noisy.text and partner.noise == 0
    assert kernel_of("tanh(h[1]*h[2])").text == ("h_1_1*h_2_1",)
    assert noiseless_of(partner, "tanh(h[1]*h[2])") is None
    with pytest.raises(ValueError, match="noiseless_of"):
        evolve(noisy, 1.2, noiseless=kernel_of("tanh(h[1]*h[2])"))


def test_narrow_noise_is_resolved_by_the_branches_of_the_partner():
    """E g g^T of tanh(h_1 h_2) with noise 1e-6 is that without noise: the outputs say the same."""
    q = np.diag([0.6, 0.6])
    noisy = kernel_of("tanh(h[1]*h[2])", noise="1e-8")
    # With fewer outputs their scatter has a tail that four replicas do not show.
    effort = {"samples": 4096, "replicas": 4}
    with_branches = LinkChannel(
        noisy, rng=np.random.default_rng(3), noiseless=noiseless_of(noisy, noisy.text[0]), **effort
    )
    clean = LinkChannel(kernel_of("h[1]*h[2]"), rng=np.random.default_rng(4), **effort)
    a, b = (channel(q).g[:, 0, 0] for channel in (with_branches, clean))
    sigma = math.sqrt((a.var(ddof=1) + b.var(ddof=1)) / 4)
    # Noise of deviation 1e-4 changes G by about that share.
    assert abs(a.mean() - b.mean()) < 4 * sigma + 1e-3 * b.mean()


def test_descend_fits_the_link_that_made_the_data(attnlimits, tmp_path: Path):
    """The loss is that of tanh(h), not of what it is reduced to without noise: at the teacher it is half the noise."""
    flags = "--link 'tanh(h)' --noise 0.04 --alpha 4 --dimension 60 --seeds 2 --start teacher --epochs 1 --rate 1e-9"
    record = json.loads(attnlimits(f"descend --json {flags}").out)
    assert record["loss"] == pytest.approx(0.02, rel=0.2)
