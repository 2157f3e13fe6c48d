"""A quadrature over a link takes a bounded work; what takes more is sampled; the threshold of a link is kept."""

from dataclasses import replace

import numpy as np
import pytest

from attnlimits.numerics.core.errors import NotServedError
from attnlimits.numerics.model.link_kernels import kernel_of
from attnlimits.numerics.posterior.link.work import Work
from attnlimits.numerics.thresholds.link.kept import kept_threshold
from attnlimits.numerics.thresholds.link.thresholds import threshold


def test_work_ends_and_costly_formulas_spend_more() -> None:
    plain, costly = Work(("h_1_1*h_2_1",)), Work(("exp(h_1_1) + h_2_1**30",))
    for _ in range(2):
        plain.spend(10**8)
        with pytest.raises(NotServedError, match="more than a minute"):
            costly.spend(10**8)
    with pytest.raises(NotServedError, match="more than a minute"):
        plain.spend(2 * 10**8)


def test_squares_cost_what_products_do() -> None:
    for text in ("h_1_1*h_2_1", "h_1_1*h_2_1 + h_3_1**2", "h_1_1**2 + h_2_1**2"):
        Work((text,)).spend(2 * 10**8)
    with pytest.raises(NotServedError):
        Work(("h_1_1**20",)).spend(2 * 10**8)


def test_the_threshold_of_a_link_is_kept_for_all_of_its_kernels() -> None:
    one, again = kernel_of("h[1]*h[2]"), kernel_of("h[1]*h[2]")
    first, second = kept_threshold(one), kept_threshold(again)
    assert one is not again and first is not None and first is second
    found = threshold(one)
    assert (first.value, first.error, first.status) == (found.value, found.error, found.status)
    np.testing.assert_array_equal(first.eigenvector, found.eigenvector)
    with pytest.raises(ValueError, match="read-only"):
        first.eigenvector[0, 0] = 0.0
    noisy, other = kept_threshold(kernel_of("h[1]**2", noise="1")), kept_threshold(kernel_of("h[1]**2", noise="2"))
    assert noisy is not None and other is not None and float(noisy.value) < float(other.value)
    # The noise counts for itself too, where a kernel was changed after it was loaded.
    moved = kept_threshold(replace(kernel_of("h[1]**2", noise="1"), noise=2.0))
    assert moved is not None and moved.value == other.value
    assert kept_threshold(kernel_of("h[1]", noise="1e-40")) is None


@pytest.mark.slow
def test_a_link_that_the_quadrature_would_not_finish_is_sampled() -> None:
    found = threshold(kernel_of("1/(h[1]**30+h[2]**30+1)+1/(h[3]**20+1)"))
    assert found.converged and found.how == "monte-carlo"
    assert abs(float(found.value) - 1.22) < 3 * found.error < 0.3
