"""Template of ``generated/checked.py``: no kernel of numpy64 or mp returns inf or nan in silence."""

__all__ = ["BODY"]

BODY = '''
import numpy as np


def _message(kernel, point):
    """Say where a kernel has an output that is not finite; the largest argument comes first."""
    largest = max(point, key=lambda name: abs(point[name]))
    names = [largest, *(name for name in point if name != largest)]
    shown = ", ".join(f"{name} = {float(point[name]):g}" for name in names[:4])
    more = ", .." if len(names) > 4 else ""
    return f"{kernel.__name__}: an output is not finite at {shown}{more}", largest


def _wraps(kernel, checked):
    for name in ("__module__", "__name__", "__qualname__", "__doc__"):
        setattr(checked, name, getattr(kernel, name))
    checked.__wrapped__ = kernel
    return checked


def _names(kernel):
    code = kernel.__code__
    return code.co_varnames[: code.co_argcount]


def vectorised(equations, domain, total):
    """Make a function of float64 arrays one of anything that broadcasts, and refuse what is not finite.

    Every output gets the broadcast shape of the arguments (a scalar stays one), as an array of its own. Where all
    arguments are finite and an output is not, `OverflowError` is raised; `ValueError` for a function that is not
    total, for its arguments lie outside the domain or on its edge. A nan or inf among the arguments passes.
    """

    def decorate(kernel):
        names = _names(kernel)

        def refuse(output, inputs):
            wrong = ~np.isfinite(output)
            for value in inputs.values():
                wrong = wrong & np.isfinite(value)
            if not wrong.any():
                return
            index = tuple(np.argwhere(wrong)[0])
            point = {name: np.broadcast_to(value, output.shape)[index] for name, value in inputs.items()}
            said, largest = _message(kernel, point)
            precise = f"or `{kernel.__name__}` of the module mp, whose numbers have no largest one"
            if total:
                raise OverflowError(
                    f"{said}: float64 overflows; use a smaller |{largest}|, {precise} ({equations}; domain: {domain})"
                )
            raise ValueError(f"{said}; expected {domain}; take arguments further inside, {precise} ({equations})")

        def checked(*arguments, **named):
            arrays = [np.asarray(value, dtype=np.float64) for value in arguments]
            more = {name: np.asarray(value, dtype=np.float64) for name, value in named.items()}
            # What overflows is refused below; warnings would only repeat it.
            with np.errstate(all="ignore"):
                values = kernel(*arrays, **more)
            inputs = dict(zip(names, arrays)) | more
            shape = np.broadcast_shapes(*(value.shape for value in inputs.values()))
            outputs = tuple(np.array(np.broadcast_to(value, shape))[()] for value in values)
            for output in outputs:
                if not np.isfinite(output).all():
                    refuse(output, inputs)
            return outputs

        return _wraps(kernel, checked)

    return decorate


# Bits of the largest argument of an exponential or a trigonometric function, about 10^1233.
_MOST = 4096


def bounded(ctx, name, x):
    """Apply a function of a context; exp(exp(1e6)), which no computer holds, is refused, exp(-exp(1e6)) is zero."""
    if _MOST < ctx.mag(x) < ctx.inf:
        if x < 0 and name in ("exp", "expm1", "erfc"):
            return {"exp": ctx.zero, "expm1": -ctx.one, "erfc": 2 * ctx.one}[name]
        if name == "erfc":
            return ctx.zero
        raise OverflowError(
            f"{name}: its argument is beyond 2^{_MOST}, so that the result fits no number of mpmath; use smaller "
            "entries of h, fewer layers, or an activation that grows less"
        )
    return getattr(ctx, name)(x)


def precise(equations, domain):
    """Make a function of numbers of an mpmath context one of anything that converts, and refuse what is not finite.

    Arbitrary precision has no overflow but that of `bounded`, so an output that is not finite where all arguments are
    means that these lie outside the domain or on its edge: `ValueError`. A nan or inf among the arguments passes.
    """

    def decorate(kernel):
        names = _names(kernel)[1:]

        def checked(ctx, *arguments, **named):
            numbers = [ctx.convert(value) for value in arguments]
            more = {name: ctx.convert(value) for name, value in named.items()}
            try:
                values = kernel(ctx, *numbers, **more)
            except ZeroDivisionError:
                values = (ctx.nan,)
            if not all(ctx.isfinite(value) for value in values):
                inputs = dict(zip(names, numbers)) | more
                if all(ctx.isfinite(value) for value in inputs.values()):
                    said = _message(kernel, inputs)[0]
                    raise ValueError(f"{said}; expected {domain}; take arguments further inside ({equations})")
            return values

        return _wraps(kernel, checked)

    return decorate
'''
