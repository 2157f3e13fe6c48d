"""Channel averages of two layers over two tokens, sampled: any overlap, softmax and linear attention."""

import numpy as np

from ...core.cluster_pool import ClusterPool, Workers, parts_of, threads_of
from ...core.typing import Array
from ...model.network import Network
from ...posterior.denoiser import denoise_readout
from ..averages import NEARLY, Averages, ChannelBase, controlled, matrix_root
from ..deep.linearised import MANY, TIMES, Linearised

__all__ = ["TwoLayers", "scores"]


class TwoLayers(ChannelBase):
    """Depth 2, two tokens: randomised quasi-Monte Carlo over (omega, h) with the exact denoiser."""

    model: Network
    layers = (0, 1)
    sampled = True
    # Of the denoiser; far below the sampling error.
    tolerance = 1e-5

    def __init__(self, model: Network, points: list[Array], workers: Workers) -> None:
        """Keep standard normal points, one array of shape (n, 8) per randomisation."""
        self.model = model
        self._replicas = len(points)
        normals = np.concatenate(points).reshape(-1, 2, 2, 2)
        self._xi, self._zeta = normals[:, 0], normals[:, 1]
        self._workers = workers
        many = max(MANY, TIMES * len(points[0]))
        self._linearised = Linearised(model, len(points), threads_of(workers), points=many)

    def __call__(self, q: Array) -> Averages:
        """Averages with control variates: Nishimori's identities and, as V -> 0, the linearised posterior."""
        v = np.eye(2) - q
        omega = matrix_root(q) @ self._xi
        h = omega + np.linalg.cholesky(v) @ self._zeta
        readout = (h[:, 1:2] @ np.swapaxes(self.model.mixing(h), 1, 2))[:, 0]
        g, dg = self._scores(readout, omega, v)
        precision = np.linalg.inv(v)
        u = precision @ (h - omega)
        pairs = [(a, b) for a in range(2) for b in range(a, 2)]
        out = np.zeros((self._replicas, 2, 2))
        curvature = np.einsum("nambm->nab", dg)
        nearly = q.diagonal().min() > 1 - NEARLY
        linear = self._linearised(matrix_root(q), h, omega, v) if nearly else {}
        for a, b in pairs:
            gg = (g[:, a] * g[:, b]).sum(axis=1)
            controls = [
                gg + curvature[:, a, b],
                gg - 0.5 * (g[:, a] * u[:, b] + g[:, b] * u[:, a]).sum(axis=1),
                (u[:, a] * u[:, b]).sum(axis=1) - 2 * precision[a, b],
                *linear.get((a, b), []),
            ]
            out[:, a, b] = out[:, b, a] = controlled(gg, controls, self._replicas)
        growth = np.full((self._replicas, 2), np.nan)
        for layer in (0, 1):
            if not q[layer].any():
                growth[:, layer] = self._mean((dg[:, layer, :, layer, :] ** 2).sum(axis=(1, 2)))
        return Averages.unbiased(out, growth, "monte-carlo")

    def _scores(self, readout: Array, omega: Array, v: Array) -> tuple[Array, Array]:
        """Scores of all outputs and their derivatives."""
        if not isinstance(self._workers, ClusterPool):
            return scores(readout, omega, model=self.model, v=v, tol=self.tolerance, workers=self._workers)
        # Outputs of a task of a cluster: some 0.02 ms each.
        outputs = 2048
        rows = [{"readout": readout[part], "omega": omega[part]} for part in parts_of(len(omega), outputs)]
        parts = self._workers.map(scores, rows, model=self.model, v=v, tol=self.tolerance, workers=1)
        g, dg = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
        return g, dg

    def _mean(self, values: Array) -> Array:
        return values.reshape(self._replicas, -1).mean(axis=1)


def scores(
    readout: Array, omega: Array, *, model: Network, v: Array, tol: float, workers: int | None
) -> tuple[Array, Array]:
    """Scores of some outputs, g of shape (n, 2, 2), and their derivatives by omega."""
    found = denoise_readout(model, readout, omega, v, tol=tol, workers=workers)
    return found.g_out, found.dg_out
