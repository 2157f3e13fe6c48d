"""A straight-line program as it is written: values assigned once, in order, with their exact derivatives."""

import sympy as sp

__all__ = ["Assignment", "Slope", "Tape"]

Assignment = tuple[sp.Symbol, sp.Expr]
Slope = dict[sp.Symbol, sp.Expr]


class Tape:
    """Records assignments, each value once, and the non-zero derivatives of all of them."""

    def __init__(self, variables: tuple[sp.Symbol, ...], differentiate: bool) -> None:
        self.numbers = {variable: number for number, variable in enumerate(variables, start=1)}
        self.differentiate = differentiate
        self.body: list[Assignment] = []
        #: Derivatives of activated values by what they are values of, in a form that does not cancel.
        self.rates: dict[sp.Expr, dict[sp.Expr, sp.Expr]] = {}
        self._known: dict[sp.Expr, sp.Symbol] = {}
        self._slopes: dict[sp.Symbol, Slope] = {v: {v: sp.S.One} for v in variables} if differentiate else {}

    def put(self, name: str, value: sp.Expr) -> sp.Expr:
        """Assign a value to a new symbol, unless it has one already, and differentiate it."""
        made = self.assign(name, value)
        if self.differentiate and made not in self._slopes:
            self.give_slope(made, self.slope(value))
        return made

    def assign(self, name: str, value: sp.Expr) -> sp.Expr:
        """Assign a value whose derivative `give_slope` is told."""
        if value.is_Atom:
            return value
        if value not in self._known:
            self._known[value] = sp.Symbol(name, real=True)
            self.body.append((self._known[value], value))
        return self._known[value]

    def give_slope(self, symbol: sp.Expr, slope: Slope) -> None:
        """Record the derivatives of an assigned symbol, which become assignments themselves."""
        if self.differentiate and isinstance(symbol, sp.Symbol) and symbol not in self._slopes:
            self._slopes[symbol] = {
                variable: self.assign(f"{symbol.name}_d{self.numbers[variable]}", value)
                for variable, value in slope.items()
            }

    def slope(self, value: sp.Expr) -> Slope:
        """Return the derivatives of an expression of recorded symbols, without those that are zero."""
        total: Slope = {}
        for symbol in sorted(value.free_symbols & self._slopes.keys(), key=lambda s: s.name):
            factor = sp.S.One if value == symbol else sp.diff(value, symbol)
            for variable, inner in self._slopes[symbol].items():
                total[variable] = total.get(variable, sp.S.Zero) + factor * inner
        return self.compact(total)

    def compact(self, slope: Slope) -> Slope:
        """Return the derivatives that are not zero, in the order of the variables."""
        return {v: slope[v] for v in self.numbers if slope.get(v, sp.S.Zero) != 0}
