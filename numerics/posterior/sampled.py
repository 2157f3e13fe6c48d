"""Posterior of the indices of a deep attention network given its output, by importance sampling on the fibre.

The output fixes v = B_{L-1} h_L up to its sign: a surface in the indices, on which the prior N(omega, V) lives. Nodes
on it come from a mixture of draws. Each draws all layers but one and solves for the layer left out:

- from the prior, solved for the last layer (two branches of h_L; any network);
- from the prior, solved for the layer before (where the attention can be inverted: two tokens, or linear);
- from Student peaks around the posterior's own, one for every sign of the hidden layers, solved for the wider of both.

With d mu = delta(v - B h_L) dh a draw j of n_j nodes with density pi_j of the layers drawn has intensity n_j pi_j J_j,
J_j = |dv/dh_solved|; a node then weighs prior / sum_j n_j pi_j J_j, whichever draw it came from. Peaks narrower than
the prior are met by the draw that solves for what is wide, or by the peaks.
"""

import math

import numpy as np
from numba import njit

__all__ = ["apply_matrix", "attend", "freedom", "posterior_moments", "solve"]

# Steps towards the peak, and its share that every sign of it gets at least.
_STEPS = 4
_LEAST_SHARE = 0.05
# Least width of a peak in the last layer, in units of the prior's.
_FLOOR = 0.05


@njit(cache=True, nogil=True)
def freedom(dimension):  # type: ignore[no-untyped-def]
    """Degrees of freedom of the peaks: few, for fat tails, and such that the density is a whole power."""
    return 4 + dimension % 2


@njit(cache=True, nogil=True, error_model="numpy")
def solve(matrix, rhs):  # type: ignore[no-untyped-def]
    """Gaussian elimination in place: rhs becomes the solution; returns |det|, 0 if singular."""
    size = len(rhs)
    det = 1.0
    for i in range(size):
        best = i
        for k in range(i + 1, size):
            if abs(matrix[k, i]) > abs(matrix[best, i]):
                best = k
        if not abs(matrix[best, i]) > 0.0:
            return 0.0
        if best != i:
            for k in range(size):
                matrix[i, k], matrix[best, k] = matrix[best, k], matrix[i, k]
            rhs[i], rhs[best] = rhs[best], rhs[i]
        det *= abs(matrix[i, i])
        for k in range(i + 1, size):
            factor = matrix[k, i] / matrix[i, i]
            for j in range(i + 1, size):
                matrix[k, j] -= factor * matrix[i, j]
            rhs[k] -= factor * rhs[i]
    for i in range(size - 1, -1, -1):
        for k in range(i + 1, size):
            rhs[i] -= matrix[i, k] * rhs[k]
        rhs[i] /= matrix[i, i]
    return det


@njit(cache=True, nogil=True, error_model="numpy")
def attend(w, beta, linear, out):  # type: ignore[no-untyped-def]
    """sigma(beta w w^T)."""
    size = len(w)
    for a in range(size):
        if linear:
            for b in range(size):
                out[a, b] = beta * w[a] * w[b]
            continue
        top = -np.inf
        for b in range(size):
            top = max(top, w[a] * w[b])
        total = 0.0
        for b in range(size):
            below = beta * (w[a] * w[b] - top)
            out[a, b] = math.exp(below) if below < 0.0 else 1.0
            total += out[a, b]
        for b in range(size):
            out[a, b] /= total


@njit(cache=True, nogil=True, error_model="numpy")
def apply_matrix(matrix, x, out):  # type: ignore[no-untyped-def]
    """Matrix times x."""
    size = len(x)
    for a in range(size):
        total = 0.0
        for b in range(size):
            total += matrix[a, b] * x[b]
        out[a] = total


@njit(cache=True, nogil=True, error_model="numpy")
def _unmix(u, v, skip, beta, linear, w):  # type: ignore[no-untyped-def]
    """Solve (c I + sigma(beta w w^T)) u = +-v for w, up to its sign; False where there is no solution."""
    if linear:
        for sign in (1.0, -1.0):
            dot = 0.0
            for a in range(len(u)):
                w[a] = sign * v[a] - skip * u[a]
                dot += w[a] * u[a]
            if dot > 0.0:
                scale = 1.0 / math.sqrt(beta * dot)
                for a in range(len(u)):
                    w[a] *= scale
                return True
        return False
    # Two tokens, in their sum and difference: v_+ = (1 + c) u_+ + s u_-, v_- = t u_-, s = p - r, t = p + r + c - 1.
    difference = u[0] - u[1]
    t = (v[0] - v[1]) / difference
    sign = 1.0 if t > 0.0 else -1.0
    s = (sign * (v[0] + v[1]) - (1.0 + skip) * (u[0] + u[1])) / difference
    both = sign * t + 1.0 - skip
    p, r = 0.5 * (both + s), 0.5 * (both - s)
    if not (0.0 < p < 1.0 and 0.0 < r < 1.0 and both > 1.0):
        return False
    first, second = math.log(p / (1.0 - p)) / beta, math.log(r / (1.0 - r)) / beta
    if not first + second > 0.0:
        return False
    scale = 1.0 / math.sqrt(first + second)
    w[0], w[1] = first * scale, -second * scale
    return True


@njit(cache=True, nogil=True, error_model="numpy")
def _complete(h, before, v, skip, beta, linear, base, mixing, work, sigma, w, u, spare):  # type: ignore[no-untyped-def]
    """Solve for h_L, or for the layer before; returns success, |dv/dh_L|, |dv/dh_{L-1}|."""
    depth, size = h.shape
    for a in range(size):
        for b in range(size):
            base[a, b] = 1.0 if a == b else 0.0
    for layer in range(depth - 2):
        apply_matrix(base, h[layer], w)
        attend(w, beta, linear, sigma)
        for a in range(size):
            for b in range(size):
                total = skip * base[a, b]
                for k in range(size):
                    total += sigma[a, k] * base[k, b]
                mixing[a, b] = total
        base[:] = mixing
    if before:
        apply_matrix(base, h[depth - 1], u)
        if not _unmix(u, v, skip, beta, linear, w):
            return False, 0.0, 0.0
    else:
        apply_matrix(base, h[depth - 2], w)
        u[:] = v
    attend(w, beta, linear, sigma)
    for a in range(size):
        for b in range(size):
            mixing[a, b] = sigma[a, b] + (skip if a == b else 0.0)
    if before:
        work[:] = base
        h[depth - 2] = w
        det_base = solve(work, h[depth - 2])
        # Only the determinant is wanted.
        work[:] = mixing
        spare[:] = v
        det_mixing = solve(work, spare)
    else:
        work[:] = mixing
        det_mixing = solve(work, u)
        work[:] = base
        h[depth - 1] = u
        det_base = solve(work, h[depth - 1])
    # d/dw of sigma(beta w w^T) u
    for a in range(size):
        mean, slope = 0.0, 0.0
        for b in range(size):
            mean += sigma[a, b] * u[b]
        for b in range(size):
            if linear:
                slope += beta * w[b] * u[b]
                work[a, b] = beta * w[a] * u[b]
            else:
                slope += beta * sigma[a, b] * w[b] * (u[b] - mean)
                work[a, b] = beta * w[a] * sigma[a, b] * (u[b] - mean)
        work[a, a] += slope
    det_attention = solve(work, w)
    det_last, det_before = det_mixing * det_base, det_attention * det_base
    return 0.0 < det_last < np.inf, det_last, det_before


@njit(cache=True, nogil=True, error_model="numpy")
def _cholesky(matrix):  # type: ignore[no-untyped-def]
    """Lower factor; directions that rounding has made flat get a tiny width."""
    size = len(matrix)
    out = np.zeros((size, size))
    for i in range(size):
        for j in range(i + 1):
            total = matrix[i, j]
            for k in range(j):
                total -= out[i, k] * out[j, k]
            if i == j:
                out[i, i] = math.sqrt(max(total, 1e-14 * matrix[i, i]))
            else:
                out[i, j] = total / out[j, j]
    return out


@njit(cache=True, nogil=True, error_model="numpy")
def _energy(h, omega, precision, moved):  # type: ignore[no-untyped-def]
    """(h - omega)^T V^{-1} (h - omega) / 2; sets moved = V^{-1} (h - omega)."""
    depth, size = h.shape
    total = 0.0
    for k in range(depth):
        for m in range(size):
            moved[k, m] = 0.0
            for i in range(depth):
                moved[k, m] += precision[k, i] * (h[i, m] - omega[i, m])
            total += 0.5 * moved[k, m] * (h[k, m] - omega[k, m])
    return total


@njit(cache=True, nogil=True, error_model="numpy")
def _peak(h, omega, precision, before, v, skip, beta, linear, scratch, centre, factor):  # type: ignore[no-untyped-def]
    """Peak of the posterior near h on the fibre, in the layers that are drawn; returns the energy at it.

    Gauss-Newton along the tangent of the fibre, h_L a function of the layers before; slopes by differences, for they
    only place the nodes.
    """
    depth, size = h.shape
    free = (depth - 1) * size
    base, mixing, work, sigma, w, u, spare = scratch
    moved = np.empty((depth, size))
    slope = np.empty((size, free))
    trial = np.empty((depth, size))
    tangent = np.zeros((depth * size, free))
    covariance = np.eye(free)
    energy = _energy(h, omega, precision, moved)
    for step in range(_STEPS + 1):
        for i in range(free):
            trial[:] = h
            width = 1e-6 * (1.0 + abs(h[i // size, i % size]))
            trial[i // size, i % size] += width
            _complete(trial, False, v, skip, beta, linear, base, mixing, work, sigma, w, u, spare)
            for m in range(size):
                slope[m, i] = (trial[depth - 1, m] - h[depth - 1, m]) / width
        tangent[:] = 0.0
        for i in range(free):
            tangent[i, i] = 1.0
            for m in range(size):
                tangent[free + m, i] = slope[m, i]
        weighted = np.zeros((depth * size, free))
        for k in range(depth):
            for i in range(depth):
                for m in range(size):
                    for j in range(free):
                        weighted[k * size + m, j] += precision[k, i] * tangent[i * size + m, j]
        hessian = tangent.T @ weighted
        covariance = np.ascontiguousarray(np.linalg.inv(hessian))
        if step == _STEPS:
            break
        gradient = tangent.T @ moved.reshape(depth * size)
        move = -(covariance @ gradient)
        accepted = False
        for _ in range(6):
            trial[:] = h
            for i in range(free):
                trial[i // size, i % size] += move[i]
            good, _, _ = _complete(trial, False, v, skip, beta, linear, base, mixing, work, sigma, w, u, spare)
            lower = _energy(trial, omega, precision, moved) if good else np.inf
            if lower < energy:
                energy = lower
                h[:] = trial
                accepted = True
                break
            move *= 0.5
        if not accepted:
            energy = _energy(h, omega, precision, moved)
    if before:  # drawn: all but the layer before the last
        rows = np.empty((free, free))
        rows[: free - size] = tangent[: free - size]
        rows[free - size :] = tangent[free:]
        covariance = rows @ covariance @ rows.T
        # Where the tangent is degenerate (h_l = 0) the curvature of the fibre spreads h_L.
        for m in range(free - size, free):
            covariance[m, m] += _FLOOR * _FLOOR / precision[depth - 1, depth - 1]
    factor[:] = _cholesky(covariance)
    flat = h.reshape(depth * size)
    for i in range(free):
        centre[i] = flat[i + size if before and i >= free - size else i]
    return energy


@njit(cache=True, nogil=True, error_model="numpy")
def posterior_moments(  # type: ignore[no-untyped-def]
    truth, omega, precision, roots, counts, before_peak, points, tails, pair, skip, beta, linear, out
):
    """Moments of the posterior of a batch of outputs, each by two independent sets of nodes.

    Parameters
    ----------
    truth : ndarray, shape (n, L, M)
        Indices that made the outputs: they carry v, and place the peaks.
    omega : ndarray, shape (n, L, M)
    precision : ndarray, shape (L, L)
        V^{-1}.
    roots : ndarray, shape (2, L - 1, L - 1)
        Cholesky factors of V without the last layer, and without the one before.
    counts : ndarray of int, shape (3,)
        Nodes of the three draws in each set.
    before_peak : bool
        Whether the peaks are solved for the layer before the last.
    points : ndarray, shape (pairs, 2, nodes, (L - 1) M)
        Standard normal.
    tails : ndarray, shape (pairs, 2, nodes)
        sqrt(nu/chi^2_nu) of the peaks.
    pair : ndarray of int, shape (n,)
        Which pair of sets an output takes.
    skip, beta, linear
        The network.
    out : ndarray, shape (n, 2, 1 + L M + L M M)
        Filled: mass, sum of h, sum of h_l h_l^T of every layer, of both sets.
    """
    n, depth, size = truth.shape
    free = (depth - 1) * size
    total = counts.sum()
    images = 1 << (depth - 1)
    base, mixing, work, sigma = (
        np.empty((size, size)),
        np.empty((size, size)),
        np.empty((size, size)),
        np.empty((size, size)),
    )
    w, u, spare = np.empty(size), np.empty(size), np.empty(size)
    scratch = (base, mixing, work, sigma, w, u, spare)
    h, moved = np.empty((depth, size)), np.empty((depth, size))
    v = np.empty(size)
    centre, factor = np.empty((images, free)), np.empty((images, free, free))
    norm, share, flips = np.empty(images), np.empty(images), np.ones((images, depth))
    z = np.empty(free)
    log_det = 0.5 * size * math.log(abs(np.linalg.det(precision)))
    flipped = np.empty((depth, depth))
    nu = freedom(free)
    power = (nu + free) // 2
    tail_norm = math.lgamma(power) - math.lgamma(0.5 * nu) - 0.5 * free * math.log(math.pi * nu)
    log_two_pi = math.log(2 * math.pi)
    start0, start1 = counts[0], counts[0] + counts[1]
    for i in range(n):
        # v = B_{L-1} h_L
        for a in range(size):
            for b in range(size):
                base[a, b] = 1.0 if a == b else 0.0
        for layer in range(depth - 1):
            apply_matrix(base, truth[i, layer], w)
            attend(w, beta, linear, sigma)
            for a in range(size):
                for b in range(size):
                    value = skip * base[a, b]
                    for k in range(size):
                        value += sigma[a, k] * base[k, b]
                    mixing[a, b] = value
            base[:] = mixing
        apply_matrix(base, truth[i, depth - 1], v)
        # The peaks, in the frame where they have the signs of the truth.
        least = np.inf
        for image in range(images):
            for k in range(depth - 1):
                flips[image, k] = -1.0 if (image >> k) & 1 else 1.0
            h[:] = truth[i]
            mean = omega[i].copy()
            for k in range(depth):
                mean[k] *= flips[image, k]
                for j in range(depth):
                    flipped[k, j] = precision[k, j] * flips[image, k] * flips[image, j]
            share[image] = _peak(
                h, mean, flipped, before_peak, v, skip, beta, linear, scratch, centre[image], factor[image]
            )
            least = min(least, share[image])
            norm[image] = math.exp(tail_norm)
            for j in range(free):
                norm[image] /= factor[image, j, j]
        mass = 0.0
        for image in range(images):
            share[image] = math.exp(least - share[image])
            mass += share[image]
        for image in range(images):
            share[image] = (share[image] / mass + _LEAST_SHARE) / (1.0 + images * _LEAST_SHARE)
            norm[image] *= share[image] * counts[2]
        for half in range(2):
            normals, tail = points[pair[i], half], tails[pair[i], half]
            sums = out[i, half]
            sums[:] = 0.0
            image, passed = 0, share[0]
            for node in range(total):
                normal = normals[node]
                before = False
                if node < start1:
                    before = node >= start0
                    which = 1 if before else 0
                    for k in range(depth - 1):
                        layer = depth - 1 if before and k == depth - 2 else k
                        for m in range(size):
                            value = omega[i, layer, m]
                            for j in range(k + 1):
                                value += roots[which, k, j] * normal[j * size + m]
                            h[layer, m] = value
                else:
                    before = before_peak
                    level = (node - start1 + 0.5) / counts[2]
                    while level > passed and image < images - 1:
                        image += 1
                        passed += share[image]
                    for j in range(free):
                        value = 0.0
                        for k in range(j + 1):
                            value += factor[image, j, k] * normal[k]
                        value = centre[image, j] + tail[node] * value
                        layer = j // size
                        if before and layer == depth - 2:
                            layer = depth - 1
                        h[layer, j % size] = flips[image, layer] * value
                good, det_last, det_before = _complete(
                    h, before, v, skip, beta, linear, base, mixing, work, sigma, w, u, spare
                )
                if not good:
                    continue
                solved = depth - 2 if before else depth - 1
                for _ in range(2):
                    for m in range(size):
                        h[solved, m] = -h[solved, m]
                    energy = _energy(h, omega[i], precision, moved)
                    # Intensity of all draws over the prior, which is the conditional one where it was drawn from.
                    inverse = 0.0
                    for which in range(2):
                        if counts[which] > 0:
                            k = depth - 1 - which
                            last = 0.0
                            for m in range(size):
                                last += 0.5 * moved[k, m] * moved[k, m] / precision[k, k]
                            last -= 0.5 * size * (math.log(precision[k, k]) - log_two_pi)
                            inverse += counts[which] * (det_before if which else det_last) * math.exp(last)
                    peaks = 0.0
                    for other in range(images):
                        square = 0.0
                        for j in range(free):
                            layer = j // size
                            if before_peak and layer == depth - 2:
                                layer = depth - 1
                            value = flips[other, layer] * h[layer, j % size] - centre[other, j]
                            for k in range(j):
                                value -= factor[other, j, k] * z[k]
                            z[j] = value / factor[other, j, j]
                            square += z[j] * z[j]
                        square = 1.0 / (1.0 + square / nu)
                        value = norm[other]
                        for _ in range(power):
                            value *= square
                        peaks += value
                    peaks *= det_before if before_peak else det_last
                    inverse += peaks * math.exp(energy - log_det + 0.5 * depth * size * log_two_pi)
                    weight = 1.0 / inverse
                    if not (weight > 0.0 and inverse > 0.0):
                        continue
                    sums[0] += weight
                    for k in range(depth):
                        for m in range(size):
                            first = weight * h[k, m]
                            sums[1 + k * size + m] += first
                            for j in range(size):
                                sums[1 + depth * size + (k * size + m) * size + j] += first * h[k, j]
