"""The generator: intermediate form, printers, headers, determinism, freshness, command line."""

import ast
import dataclasses
import hashlib
import os
import re
import subprocess
import sys
import tomllib

import pytest
import sympy as sp

from attnlimits.derive import __main__ as command_line
from attnlimits.derive import symbols
from attnlimits.derive.__main__ import main
from attnlimits.derive.aim import kernels as aim_kernels
from attnlimits.derive.closed_forms import TABLE, pair_rank
from attnlimits.derive.emit import exact
from attnlimits.derive.emit.ir import canonical, lower
from attnlimits.derive.emit.printers import MpmathPrinter, NumbaPrinter, NumpyPrinter
from attnlimits.derive.emit.writer import generate, stale, write
from attnlimits.derive.kernels.kernel import Kernel
from attnlimits.derive.kernels.packages import PACKAGES, derived
from attnlimits.derive.primitives import CopySign, Exp, Guard, Largest, Magnitude, Smallest
from attnlimits.derive.proof import ProofError

x, y = sp.symbols("x y", real=True)


def _kernel(*outputs, arguments=(x, y)):
    named = tuple((f"out{k}", value) for k, value in enumerate(outputs))
    return Kernel("f", arguments, named, "Test.", (), (1,), "any", False)


DERIVED = derived()
ALL = (*PACKAGES, *DERIVED)
FAMILIES = tuple(p for p in PACKAGES if "undo" in {kernel.name for kernel in p.kernels})


def _generated(*groups):
    """All files, and the lines of progress."""
    lines = []
    return generate(*groups, progress=lines.append), lines


@pytest.fixture(scope="module")
def generation():
    """Without the proofs, which change no file: `make derive-check` proves every package, and so does a slow test."""
    return _generated(
        *(tuple(dataclasses.replace(p, prove=lambda: None) for p in group) for group in (PACKAGES, DERIVED))
    )


@pytest.fixture(scope="module")
def fresh(generation):
    """Files to commit."""
    return generation[0].files


@pytest.fixture(scope="module")
def texts(generation):
    """All files, those that are not committed too."""
    return generation[0].files | generation[0].derived


# --- the intermediate form


def test_subtrees_are_shared_across_outputs():
    shared = Exp(x * y + 1)
    program = lower(_kernel(shared**2, shared + y))
    assert sum(value.has(Exp) for _, value in program.assignments) == 1
    assert program.ops_after < program.ops_before


def test_guards_resolve_per_backend_and_dead_code_goes():
    program = lower(_kernel(Exp(Guard(x, Smallest(x + y**3, 350))) * y))
    exact, bounded = program.specialise(bounded=False), program.specialise(bounded=True)
    assert not any(value.has(Guard) for p in (exact, bounded) for value in (*dict(p.assignments).values(), *p.outputs))
    assert not exact.outputs[0].has(Smallest)
    text = [NumpyPrinter().text(value) for value in (*dict(bounded.assignments).values(), *bounded.outputs)]
    assert any("np.minimum" in line for line in text)
    used = {symbol for value in (*dict(exact.assignments).values(), *exact.outputs) for symbol in value.free_symbols}
    assert {name for name, _ in exact.assignments} <= used


def test_the_digest_sees_every_change_and_only_changes():
    one = lower(_kernel(x * Exp(y) + 1)).digest()
    assert one == lower(_kernel(1 + Exp(y) * x)).digest()
    assert one != lower(_kernel(x * Exp(y) + 2)).digest()
    assert one != lower(_kernel(x * Exp(y) + 1, arguments=(y, x))).digest()
    assert canonical(x / 3 - y) == canonical(-y + x / 3)


def test_inexact_or_unbound_kernels_are_refused():
    with pytest.raises(ValueError, match="out0 holds a float"):
        lower(_kernel(sp.Float(0.5) * x))
    with pytest.raises(ValueError, match="uses c, which is no argument"):
        lower(_kernel(symbols.skip * x))


def test_a_body_keeps_its_order_and_drops_what_nothing_uses():
    u, v, w = sp.symbols("u v w", real=True)
    body = ((u, Exp(x) * y), (w, u**3), (v, Exp(u * y) + Exp(x)))
    program = lower(Kernel("f", (x, y), (("out", v + Exp(u * y)),), "Test.", (), (1,), "any", body=body))
    names = [name.name for name, _ in program.assignments]
    assert "w" not in names
    seen = {x, y}
    for name, value in program.assignments:
        assert value.free_symbols <= seen
        seen.add(name)
    values = {name: value for name, value in program.assignments}
    written = program.outputs[0]
    while written.free_symbols - {x, y}:
        written = written.xreplace(values)
    assert written == Exp(x) + 2 * Exp(Exp(x) * y * y)


def test_a_name_stands_for_one_thing():
    u = sp.Symbol("u", real=True)
    for body, message in (
        (((x, y + 1),), "x stands for two things"),
        (((u, y + 1), (u, y + 2)), "u stands for two things"),
        (((u, sp.Symbol("z") + y),), "u uses z, which is no argument"),
        (((u, 0.5 * y),), "u holds a float"),
    ):
        with pytest.raises(ValueError, match=message):
            lower(Kernel("f", (x, y), (("out", u + 1),), "Test.", (), (1,), "any", body=body))
    # Temporaries step aside for arguments of the same name.
    t0 = sp.Symbol("t0", positive=True)
    program = lower(Kernel("f", (x, t0), (("out", Exp(x * t0) ** 2 + Exp(x * t0)),), "Test.", (), (1,), "any"))
    assert "t0" not in {name.name for name, _ in program.assignments}


# --- the printers


@pytest.mark.parametrize(
    ("expr", "numpy", "numba", "mp"),
    [
        (x / 3 + y, "0.33333333333333331*x + y", "0.33333333333333331*x + y", "x/ctx.mpf(3) + y"),
        (sp.Rational(2, 3) * x, "0.66666666666666663*x", "0.66666666666666663*x", "ctx.mpf(2)*x/ctx.mpf(3)"),
        (-x * (y - 1), "-(y - 1.0)*x", "-(y - 1.0)*x", "-(y - ctx.mpf(1))*x"),
        (x**2 / (x * y), "x/y", "x/y", "x/y"),
        (1 / (1 + x), "1.0/(1.0 + x)", "1.0/(1.0 + x)", "ctx.mpf(1)/(ctx.mpf(1) + x)"),
        (
            sp.sqrt(2) * x / 2,
            "0.70710678118654757*x",
            "0.70710678118654757*x",
            "_sqrt(ctx, ctx.mpf(2))*x/ctx.mpf(2)",
        ),
        (Exp(-Magnitude(x)), "np.exp(-np.abs(x))", "math.exp(-abs(x))", "ctx.exp(-abs(x))"),
        (sp.log(x), "np.log(x)", "math.log(x)", "_log(ctx, x)"),
        (CopySign(x), "np.copysign(1.0, x)", "math.copysign(1.0, x)", "_copysign(ctx, x)"),
        (Smallest(x, 0), "np.minimum(0.0, x)", "at_most(x, 0.0)", "min(ctx.mpf(0), x)"),
        (Largest(x, y), "np.maximum(x, y)", "max(x, y)", "max(x, y)"),
        (sp.tanh(x), "np.tanh(x)", "math.tanh(x)", "ctx.tanh(x)"),
        (x**7, "x**7.0", "x**7.0", "x**7"),
        (1 / x**y, "x**(-y)", "x**(-y)", "_power(ctx, x, -y)"),
        (sp.erf(x), "special.erf(x)", "math.erf(x)", "ctx.erf(x)"),
        (sp.acosh(x), "np.arccosh(x)", "math.acosh(x)", "_acosh(ctx, x)"),
        (sp.sin(x), "np.sin(x)", "math.sin(x)", "ctx.sin(x)"),
        (sp.asinh(x), "np.arcsinh(x)", "math.asinh(x)", "ctx.asinh(x)"),
    ],
)
def test_printed_text(expr, numpy, numba, mp):
    assert NumpyPrinter().text(expr) == numpy
    assert NumbaPrinter(hot=False).text(expr) == numba
    assert MpmathPrinter().text(expr) == mp


def test_hot_functions_use_the_branch_free_exponential():
    assert NumbaPrinter(hot=True).text(Exp(x)) == "exp_fast(x)"


@pytest.mark.parametrize("expr", [sp.gamma(x), sp.floor(x), sp.besselj(0, x)])
def test_what_cannot_be_printed_is_an_error(expr):
    with pytest.raises(TypeError, match="cannot print"):
        NumpyPrinter().text(expr)


def test_literals_round_trip():
    third = NumpyPrinter().number(sp.Rational(1, 3))
    assert float(third) == 1 / 3
    assert float(NumpyPrinter().number(sp.Rational(10**400 + 1, 10**400))) == 1.0
    assert float(NumpyPrinter().text(sp.sqrt(2) + sp.pi)) == pytest.approx(2**0.5 + 3.141592653589793, abs=1e-15)


# --- the written tree


def test_headers_say_where_a_file_comes_from(texts):
    kernels = [name for name in texts if name.endswith(("__init__.py", "numpy64.py", "numba64.py", "mp.py"))]
    assert len(kernels) == 4 * len(ALL) - _uncompiled(ALL)
    assert {name for name in texts if name.endswith("posterior64.py")} == {f"{p.name}/posterior64.py" for p in FAMILIES}
    papers = {package.name: package.paper for package in ALL}
    assert set(papers.values()) == {"troiani2025", "boncoraglio2025"}
    for name in kernels:
        head = texts[name].split('"""')[0]
        assert head.startswith("# generated by `make derive`; do not edit\n")
        for mark in (
            "source: attnlimits.derive.",
            f"equations: {papers[name.split('/')[0]]} (",
            "operations: ",
            "domain: ",
            "sympy: ",
        ):
            assert f"# {mark}" in head, (name, mark)
        assert re.search(r"# derivation: sha256 [0-9a-f]{64}\n", head)


def test_files_hold_no_place_and_no_time(texts):
    for name, text in texts.items():
        assert not re.search(r"/(root|work|tmp|home|usr)/|\b20[2-9]\d-\d\d|localhost", text), name


def _uncompiled(packages):
    """How many have no compiled scalars, for want of a loop that calls them."""
    count = sum(not package.compiled for package in packages)
    assert count == 1
    return count


def test_every_backend_has_the_same_functions(texts):
    for package in ALL:
        signatures = []
        for name in ("numpy64", "numba64", "mp") if package.compiled else ("numpy64", "mp"):
            tree = ast.parse(texts[f"{package.name}/{name}.py"])
            found = {}
            for node in tree.body:
                if isinstance(node, ast.FunctionDef) and not node.name.startswith("_"):
                    arguments = [argument.arg for argument in node.args.args]
                    found[node.name] = arguments[1:] if name == "mp" else arguments
                    assert ast.get_docstring(node), node.name
                    assert name != "mp" or arguments[0] == "ctx"
            signatures.append(found)
        assert all(found == signatures[0] for found in signatures)
        names = {"layer", "link", "invert", "undo", "undo_row", "undo_node", "quadratic"}
        names |= {"undo_exponents", "undo_ratios"} if package.activation == "softmax" else set()
        kinds = {
            "attention": names,
            "link": {"link", "jacobian"},
            "fibre": {"data", "fibre"},
            "aim": {kernel.name for kernel in aim_kernels.PACKAGE.kernels},
            "scores": {"layer", "root", "beside", "solve", "narrow", "widen", "entries"},
            "pair": {"slopes", "entries", "recover", "numerators", "ratios", "turns", "attention"},
        }
        assert set(signatures[0]) == kinds[package.name.split("_")[0]]


def test_one_exponential_and_one_division_depend_on_the_inner_variable(fresh):
    """`undo` of the softmax: what of it cannot leave a loop over xp."""
    tree = ast.parse(fresh["attention_tied_softmax_m2/numba64.py"])
    undo = next(node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == "undo")
    varying, exponentials, divisions = {"xp"}, 0, 0
    for statement in undo.body:
        depends = {n.id for n in ast.walk(statement) if isinstance(n, ast.Name)} & varying
        if not depends:
            continue
        if isinstance(statement, ast.Assign):
            varying.add(statement.targets[0].id)
        for node in ast.walk(statement):
            inner = {n.id for n in ast.walk(node) if isinstance(n, ast.Name)} & varying
            if isinstance(node, ast.Call) and inner:
                exponentials += node.func.id in {"exp_fast", "expm1_fast"} if isinstance(node.func, ast.Name) else 0
            divisions += isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div) and bool(inner)
    assert (exponentials, divisions) == (1, 1)


def test_packages_of_one_model_say_what_it_is(texts):
    manifest = tomllib.loads(texts["MANIFEST.toml"])
    links = [package for package in ALL if package.model is not None]
    assert len(links) >= 7
    for package in links:
        model, entry = package.model, manifest[package.name]
        assert (entry["layers"], tuple(entry["ranks"]), entry["heads"]) == (
            model.layers,
            model.rank_vector,
            model.heads,
        )
        assert (entry["tied"], entry["output"]) == (model.tied, model.output)
        text = texts[f"{package.name}/__init__.py"]
        constants = {node.targets[0].id: ast.literal_eval(node.value) for node in ast.parse(text).body[1:]}
        assert constants["RANKS"] == model.rank_vector
        assert constants["ARGUMENTS"] == tuple(symbol.name for symbol in package.kernels[0].arguments)
        assert len(constants["OUTPUTS"]) == len(package.kernels[0].outputs)
    # Without skip connection in the link there is no such argument, and the header does not speak of it.
    single = texts["link_untied_softmax_m2_l1_r1/numpy64.py"]
    assert "# domain: beta > 0, all other arguments real" in single


@pytest.mark.parametrize("proved", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_every_stage_is_timed_and_short(generation, proved):
    """Derive, prove, share and print: a minute is the bound, for the deep and the wide model too."""
    _, lines = _generated(PACKAGES, DERIVED) if proved else generation
    for package in ALL:
        (line,) = [line for line in lines if line.startswith(f"{package.name}: derive")]
        stages = re.findall(r"(derive|prove|share|print) ([\d.]+) s", line)
        assert [name for name, _ in stages] == ["derive", "prove", "share", "print"]
        assert sum(float(seconds) for _, seconds in stages) < 60


def test_deep_jacobians_are_shared(fresh):
    """Hundreds of millions of operations as a tree, some thousand as a program."""
    entry = tomllib.loads(fresh["MANIFEST.toml"])["link_tied_softmax_m3_l3_r1"]["functions"]["jacobian"]
    assert entry["operations_before"] > 10**8
    assert entry["operations_after"] < 2000


def test_manifest_holds_the_hashes(fresh, texts):
    manifest = tomllib.loads(fresh["MANIFEST.toml"])
    assert set(manifest["files"]) == set(fresh) - {"MANIFEST.toml"}
    assert set(manifest["derived"]) == set(texts) - set(fresh)
    for name, digest in (manifest["files"] | manifest["derived"]).items():
        lines = [line for line in texts[name].splitlines(keepends=True) if not line.startswith("# sympy: ")]
        assert hashlib.sha256("".join(lines).encode()).hexdigest() == digest
    for package in ALL:
        entry = manifest[package.name]
        assert entry.get("committed", True) == (package in PACKAGES)
        assert f"sha256 {entry['derivation']}" in texts[f"{package.name}/mp.py"]
        assert f'DERIVATION_HASH = "{entry["derivation"]}"' in texts[f"{package.name}/__init__.py"]
        for function in entry["functions"].values():
            # A shared reciprocal turns two divisions into one division and two products.
            assert 0 < function["operations_after"] <= function["operations_before"] + 1


def test_committed_files_are_fresh(fresh, repository):
    """The hash seed of this process is another than that with which they were written, and changes nothing."""
    assert stale(fresh, repository / "generated") == []


# Written otherwise, the symbols of the closed forms are equal, and SymPy keeps the assumptions as they were first made.
OTHERWISE = """
import sympy as sp
M, r = (sp.Symbol(name, positive=True, integer=True) for name in "Mr")
made = [M + 1, M - 1, M**2, M**2 + 1, M * r, r**2, 1 / M, 1 / (M + 1), M * r + 2 * r + 2]
from attnlimits.derive.closed_forms import TABLE
from attnlimits.derive.emit import exact
for name in exact.PRINTED:
    print(exact._function(TABLE[name]), exact.canonical(TABLE[name].formula), sep="\\n---\\n", end="\\n===\\n")
"""


def test_symbols_of_other_modules_change_no_hash(fresh):
    """In a process of its own: nothing of this one is cached. The other entries of the table have no such symbols."""
    for name, entry in TABLE.items():
        own = not entry.expressions or not entry.formula.free_symbols & {symbols.tokens, pair_rank}
        assert name in exact.PRINTED or own
    done = subprocess.run([sys.executable, "-c", OTHERWISE], capture_output=True, text=True, check=True)
    printed = [part.split("\n---\n") for part in done.stdout.split("\n===\n")[:-1]]
    for name, (function, tree) in zip(exact.PRINTED, printed, strict=True):
        assert function in fresh["exact.py"] and tree == canonical(TABLE[name].formula)


def test_what_tests_load_is_what_the_manifest_holds(generation, derived):
    """Byte by byte, so that its hashes are those of the kernels that run."""
    for package in DERIVED:
        texts = {path.name: path.read_text(encoding="utf-8") for path in derived(package.name).glob("*.py")}
        known = {name: text for name, text in generation[0].derived.items() if name.startswith(f"{package.name}/")}
        assert {f"{package.name}/{name}": text for name, text in texts.items()} == known
    for package in PACKAGES:
        name = f"{package.name}/mp.py"
        assert (name in generation[0].derived) != package.precise
        if not package.precise:
            assert (derived(package.name) / "mp.py").read_text(encoding="utf-8") == generation[0].derived[name]


def test_a_changed_derivation_of_what_is_not_committed_is_noticed(tmp_path):
    package = DERIVED[0]
    fresh = generate((), (package,)).files
    write(fresh, tmp_path)
    assert stale(fresh, tmp_path) == []
    first, *others = package.kernels
    changed = dataclasses.replace(first, outputs=((first.outputs[0][0], 2 * first.outputs[0][1]), *first.outputs[1:]))
    wrong = dataclasses.replace(package, kernels=(changed, *others), prove=lambda: None)
    names = [f"MANIFEST.toml: {package.name}/{name}.py" for name in ("__init__", "mp", "numba64", "numpy64")]
    assert stale(generate((), (wrong,)).files, tmp_path) == ["MANIFEST.toml", *names]
    (tmp_path / "MANIFEST.toml").write_text("not TOML", encoding="utf-8")
    assert stale(fresh, tmp_path) == ["MANIFEST.toml"]


def test_staleness_is_noticed(fresh, tmp_path):
    assert sorted(write(fresh, tmp_path)) == sorted(fresh)
    assert write(fresh, tmp_path) == []
    assert stale(fresh, tmp_path) == []
    target = tmp_path / "attention_tied_softmax_m2" / "mp.py"
    text = target.read_text(encoding="utf-8")
    target.write_text(re.sub(r"# sympy: .*", "# sympy: 0.0", text), encoding="utf-8")
    assert stale(fresh, tmp_path) == []
    target.write_text(text.replace("ctx.mpf(2)", "ctx.mpf(3)"), encoding="utf-8")
    (tmp_path / "fastmath.py").unlink()
    (tmp_path / "attention_old").mkdir()
    (tmp_path / "attention_old" / "mp.py").write_text("", encoding="utf-8")
    assert stale(fresh, tmp_path) == ["attention_old/mp.py", "attention_tied_softmax_m2/mp.py", "fastmath.py"]


def test_a_wrong_stable_form_is_not_printed():
    def fail():
        raise ProofError("layer: entry 0 leaves c")

    package = PACKAGES[0]
    broken = type(package)(package.name, package.title, "softmax", 2, package.source, package.kernels, fail)
    with pytest.raises(ProofError, match="entry 0"):
        generate((broken,))


def test_the_softmax_proof_notices_a_wrong_kernel():
    from attnlimits.derive.kernels import softmax_m2 as source

    kernels = list(source.PACKAGE.kernels)
    position = next(k for k, kernel in enumerate(kernels) if kernel.name == "undo")
    undo = kernels[position]
    outputs = ((undo.outputs[0][0], undo.outputs[0][1] + undo.arguments[3]), *undo.outputs[1:])
    kernels[position] = Kernel("undo", undo.arguments, outputs, "", (), (), "", True)
    with pytest.raises(ProofError, match="undo"):
        source._prove(tuple(kernels))


# --- the command


@pytest.mark.slow  # `test_committed_files_are_fresh` compares with one other seed, and `make derive-check` likewise
def test_output_does_not_depend_on_the_hash_seed(tmp_path, fresh):
    """What `make derive` runs."""
    for seed in ("0", "1", "4242"):
        folder = tmp_path / seed
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        command = [sys.executable, "-m", "attnlimits.derive", "--out", str(folder)]
        done = subprocess.run(command, check=True, env=environment, capture_output=True, text=True, timeout=240)
        # Into an empty folder every file is new, and every package was proved on the way.
        assert done.stdout == f"{len(fresh)} of {len(fresh)} files changed in {seed}/\n"
        proved = re.findall(r"^(\w+): derive .* prove ([\d.]+) s", done.stderr, re.MULTILINE)
        assert [name for name, _ in proved] == [package.name for package in ALL]
        files = (path for path in folder.rglob("*") if path.is_file())
        assert {path.relative_to(folder).as_posix(): path.read_text(encoding="utf-8") for path in files} == fresh


def test_no_package_misses_a_file_or_has_one_more(fresh):
    # Manifest, three files of shared functions, exact thresholds; four files per package, without that for arbitrary
    # precision where only tests load it, posterior sums for a family, and what is printed for numbers of any kind.
    imprecise = sum(not package.precise for package in PACKAGES)
    assert imprecise == 3
    plain = sum(any(kernel.plain for kernel in package.kernels) for package in PACKAGES)
    assert plain == 1
    assert len(fresh) == 5 + 4 * len(PACKAGES) - _uncompiled(PACKAGES) - imprecise + len(FAMILIES) + plain


def test_check_names_the_stale_files_and_leaves_them(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(command_line, "PACKAGES", tuple(p for p in FAMILIES if p.activation == "linear"))
    monkeypatch.setattr(command_line, "derived", lambda: ())
    assert main(["--out", str(tmp_path)]) == 0
    assert main(["--check", "--out", str(tmp_path)]) == 0
    target = tmp_path / "attention_tied_linear_m2" / "numpy64.py"
    target.write_text(target.read_text(encoding="utf-8") + "\n# by hand\n", encoding="utf-8")
    assert main(["--check", "--out", str(tmp_path)]) == 1
    assert "attention_tied_linear_m2/numpy64.py" in capsys.readouterr().err
    assert target.read_text(encoding="utf-8").endswith("# by hand\n")
