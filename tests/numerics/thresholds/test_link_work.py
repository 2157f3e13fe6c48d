"""A quadrature over a link takes a bounded work; what takes more is sampled."""

import pytest

from attnlimits.numerics.core.errors import NotServedError
from attnlimits.numerics.model.link_kernels import kernel_of
from attnlimits.numerics.posterior.link.work import Work
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


@pytest.mark.slow
def test_a_link_that_the_quadrature_would_not_finish_is_sampled() -> None:
    found = threshold(kernel_of("1/(h[1]**30+h[2]**30+1)+1/(h[3]**20+1)"))
    assert found.converged and found.how == "monte-carlo"
    assert abs(float(found.value) - 1.22) < 3 * found.error < 0.3
