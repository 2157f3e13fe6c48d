"""Networks in the words of the command line."""

from .network import Network

__all__ = ["USUAL", "flag", "flags_of"]

#: Parameters of the network that no flag describes.
USUAL = Network().parameters
# Parameters that no flag has, or one with a file.
_NO_FLAG = {"readouts", "overlaps", "token-covariance"}


def flags_of(model: Network, always: tuple[str, ...] = ("layers",)) -> list[str] | None:
    """Flags of a network, those of `always` also at their defaults; None for one that no flags describe."""
    parameters = model.parameters
    if not _NO_FLAG.isdisjoint(parameters):
        return None
    named = {name: value for name, value in parameters.items() if name in always or value != USUAL.get(name, False)}
    return [word for name, value in named.items() for word in flag(name, value)]


def flag(name: str, value: object) -> list[str]:
    """Words of one flag, none where it is off; numbers keep all digits."""
    if value is True:
        return [f"--{name}"]
    if value is False:
        return []
    return [f"--{name}", ",".join(map(str, value)) if isinstance(value, tuple | list) else _number(value)]


def _number(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) and float(f"{value:g}") == value else str(value)
