import pytest
import sympy as sp

from attnlimits.derive import symbols
from attnlimits.derive.architecture import Architecture
from attnlimits.derive.mixing import layer_matrix_of_readout, mixing_matrices
from attnlimits.derive.primitives import elementary
from attnlimits.derive.proof import prove_equal
from attnlimits.derive.softmax_pair import pair_chain, pair_layer, to_modes

SKIP, BETA = sp.Rational(3, 4), sp.Rational(5, 4)


def test_softmax_layer_is_triangular_in_modes():
    layer = pair_layer(Architecture(2, 2), symbols.vp, symbols.vm)
    assert layer.matrix[1, 0] == 0
    # s = y_11 - y_22 and tau = y_11 + y_22 - 1.
    v = symbols.token_pair(symbols.vp, symbols.vm)
    y = layer_matrix_of_readout(Architecture(2, 2), v) - symbols.skip * sp.eye(2)
    prove_equal(y[0, 0] - y[1, 1], layer.s, "s")
    prove_equal(y[0, 0] + y[1, 1] - 1, layer.tau, "tau")


@pytest.mark.parametrize("layers", [0, 1, 2, 3, 4])
def test_chain_equals_the_product_of_the_layers(layers):
    s = sp.symbols(f"s1:{layers + 1}", real=True)
    tau = sp.symbols(f"tau1:{layers + 1}", positive=True)
    product = sp.eye(2)
    for s_l, tau_l in zip(s, tau, strict=True):
        product = sp.Matrix([[1 + symbols.skip, s_l], [0, symbols.skip + tau_l]]) * product
    k, upper, lower = pair_chain(symbols.skip, s, tau)
    prove_equal(product, sp.Matrix([[k, upper], [0, lower]]), "chain")
    prove_equal(product.det(), k * lower, "determinant")


def test_chain_of_derived_layers_equals_the_mixing_matrix():
    model = Architecture(3, 2, skip=SKIP, beta=BETA)
    h = model.index_matrices()
    values = {entry: sp.Rational(n + 1, 7) * (-1) ** n for n, entry in enumerate([*h[0], *h[1]])}
    mixing = mixing_matrices(model, [matrix.subs(values) for matrix in h])
    s, tau = [], []
    for number in (0, 1):
        row = (h[number] * mixing[number].T * symbols.mode_rotation()).subs(values)
        layer = pair_layer(model, symbols.vp, symbols.vm)
        at = {symbols.vp: elementary(row[0]).evalf(40), symbols.vm: elementary(row[1]).evalf(40)}
        s.append(layer.s.evalf(40, subs=at))
        tau.append(layer.tau.evalf(40, subs=at))
    k, upper, lower = pair_chain(SKIP, s, tau)
    direct = elementary(to_modes(mixing[2])).evalf(40)
    # 40 digits, a few of them lost in the products.
    assert (direct - sp.Matrix([[k, upper], [0, lower]])).norm() < sp.Float("1e-35")
