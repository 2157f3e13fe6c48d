"""The output channel Z_out and the integral that remains once the output is inverted."""

from ..architecture import Architecture
from ..fibres import fibre_dimension
from .dimensions import free_variables, sequence_counts
from .lines import Line, Section, counted, say


def channel_section(model: Architecture) -> Section:
    """Write Z_out, the integral that remains of it, and the denoiser."""
    title = "Output channel at (omega, V)"
    plain = Line(
        "Z_out(y; omega, V) = Int dh prod_m N(h_m; omega_m, V) delta(y - g(h))",
        r"Z_{\rm out}(y;\omega,V) = \int dh\,\prod_m\mathcal N(h_m;\omega_m,V)\,\delta(y-g(h))",
    )
    full, left = free_variables(model)
    which = "" if model.heads == 1 else " that enter"
    of_full = f"{left} of {counted(full, 'variable')}{which} {'is' if left == 1 else 'are'} left to integrate"
    one_to_one = "where sigma is one-to-one, " if callable(model.activation) else ""
    lines = [plain]
    if model.heads > 1:
        lines += _head_channel(model, one_to_one, of_full)
    elif model.output == "sequence" or callable(model.activation):
        lines.append(say(f"{one_to_one}{of_full}: y fixes the others", f"{one_to_one}{of_full}: $y$ fixes the others"))
        if model.output == "sequence" and not callable(model.activation) and sequence_counts(model).on_earlier:
            lines += _surface_integral(left)
    else:
        lines += _reduced_channel(model, of_full)
    lines.append(Line("g_out = V^-1 (E[h | y] - omega)", r"g_{\rm out} = V^{-1}\left(\mathbb E[h\mid y]-\omega\right)"))
    return Section(title, lines)


def _surface_integral(left: int) -> list[Line]:
    """Form of the channel on the surface of the equations, by the co-area formula."""
    over, tex_over = (
        ("sum over the points of", r"\sum_{F=0}") if left == 0 else ("Int d(surface) over", r"\int_{F=0}d\mathcal H")
    )
    return [
        Line(
            f"Z_out = {over} {{F(h_1 .. h_{{L-1}}, y) = 0}} prod_m N(h_m; omega_m, V) W / sqrt(det(E E^T)), E = dF/dh",
            rf"Z_{{\rm out}} = {tex_over}\ \frac{{W\,\prod_m\mathcal N(h_m;\omega_m,V)}}{{\sqrt{{\det(E E^\top)}}}},"
            r"\qquad E = \partial F/\partial(h_1,\dots,h_{L-1})",
        ),
        say(
            "F = 0 are these equations, 1/W is the Jacobian of y in the last indices, and the sum over signs and the "
            "integral over variables that S_L leaves free are understood; all are programs in h and y: "
            "derive.sequence_inversion.sequence_channel"
        ),
    ]


def _head_channel(model: Architecture, one_to_one: str, of_full: str) -> list[Line]:
    if model.layers == 1:
        return [
            Line(
                "Z_out = prod_a Z_a(S_1,a; omega_aa, V_aa)",
                r"Z_{\rm out} = \prod_a Z_a(S_{1,a};\omega_{aa},V_{aa})",
            ),
            say(
                f"Z_a is the channel of one head, in the rows of head a on block a; {one_to_one}{of_full}",
                f"$Z_a$ is the channel of one head, in the rows of head $a$ on block $a$; {one_to_one}{of_full}",
            ),
        ]
    if model.output == "sequence":
        full, _ = free_variables(model)
        return [say(f"an integral over the {full} variables that enter, with the delta function of the output")]
    return [say(f"{one_to_one}{of_full}: y fixes the others", f"{one_to_one}{of_full}: $y$ fixes the others")]


def _reduced_channel(model: Architecture, of_full: str) -> list[Line]:
    power = model.rank_vector[-1] * (1 if model.tied else 2)
    inner = "Int dh_1 .. dh_{L-1} " if model.layers > 1 else ""
    tex_inner = r"\int dh_1\cdots dh_{L-1}\ " if model.layers > 1 else ""
    exponent = "" if power == 1 else f"^{power}"
    tex_exponent = "" if power == 1 else f"^{{{power}}}"
    free = ", an integral over the free variables" if fibre_dimension(model) else ""
    with_free = " and the free variables" if fibre_dimension(model) else ""
    return [
        Line(
            f"Z_out = {inner}sum_v N((h_1, .., v B_{{L-1}}^-T); omega, V) / (J |det B_{{L-1}}|{exponent})",
            rf"Z_{{\rm out}} = {tex_inner}\sum_{{v}}\frac{{\mathcal N\left((h_1,\dots,v B_{{L-1}}^{{-\top}});"
            rf"\omega,V\right)}}{{J\,|\det B_{{L-1}}|{tex_exponent}}}",
        ),
        say(f"the sum runs over all v that give y{free}, J is the Jacobian of y{with_free} in v; {of_full}"),
    ]
