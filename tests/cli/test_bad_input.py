"""Every bad argument: exit status 2, nothing on stdout, one line on stderr that names the argument."""

import pytest

BAD = [
    ("threshold --skip 0", "skip must be finite and > 0"),
    ("threshold --skip -1", "skip must be finite and > 0"),
    ("threshold --skip nan", "skip must be finite and > 0"),
    ("threshold --skip inf", "skip must be finite and > 0"),
    ("threshold --skip much", "argument --skip"),
    ("threshold --beta 0", "beta must be finite and > 0"),
    ("threshold --layers 0", "layers must be an integer >= 1"),
    ("threshold --layers 1.5", "argument --layers"),
    ("threshold --tokens 1", "tokens must be an integer >= 2"),
    ("threshold --digits 0", "digits must be an integer from 1 to"),
    ("threshold --digits 99", "digits must be an integer from 1 to"),
    ("threshold --activation relu", "activation must be one of softmax, linear"),
    ("threshold --rank 0", "rank must be an integer >= 1"),
    ("threshold --layers 3 --rank 1,2", "3 of them, one per layer (2), got 2"),
    ("threshold --rank 1,x", "one per layer"),
    ("threshold --rank 2 --rigorous", "a rigorous enclosure exists for"),
    ("threshold --heads 2 --readouts 1,2", "o of layer 1 must be a finite array of shape (H, H) = (2, 2)"),
    ("threshold --heads 2 --readouts 1,x", 'expected an H x H matrix as in "1,0.3;-0.2,0.8"'),
    ("threshold --readouts 1", "readouts must hold 0 matrices"),
    ("threshold --layers 1 --heads 2 --untied --rank 2", "one untied layer of rank 2"),
    ("threshold --layers 1 --heads 2 --digits 0", "digits must be an integer from 1 to"),
    ("threshold --layers 1 --rank 3000", "rank must be at most 1000"),
    ("threshold --layers 1 --tokens 100000000000000000000", "tokens must be at most 1000000"),
    ("threshold --layers 1 --untied --activation linear --tokens 300", "tokens must be at most 32"),
    ("threshold --layers 1 --heads 100000", "heads must be at most 1000"),
    ("threshold --heads 0", "--heads must be >= 1"),
    ("threshold --layers 3 --tokens 3 --output sequence", "--output sequence is not served by `threshold` at L = 3"),
    ("threshold --layers 3 --untied --activation linear", "no last-layer threshold for untied linear"),
    ("threshold --layers 1 --untied --layer 2", "--layer must be 1"),
    ("threshold --layers 1 --untied --tokens 1", "tokens must be an integer >= 2"),
    ("threshold --layers 1 --untied --activation relu", "activation must be one of softmax, linear"),
    ("threshold --layers 3 --tokens 3 --output sequence", "--output sequence is not served"),
    ("threshold --output matrix", "argument --output"),
    ("threshold --link x", "x"),
    ("threshold --layer 5", "--layer must be from 1 to --layers 2"),
    ("threshold --layer 0", "--layer must be from 1"),
    ("threshold --layer 1 --layers 3 --given perfect", "known exactly"),
    ("threshold --layer 1 --layers 2 --tokens 3 --digits 4", "leave out digits"),
    ("threshold --given self-consistent", "--given is for a layer before the last one"),
    ("threshold --layer 1 --given all", "argument --given"),
    ("threshold --layer 1 --samples 0", "--samples must be >= 1"),
    ("threshold --layer 1 --replicas 1", "--replicas must be >= 2"),
    ("threshold --layer 1 --workers 0", "--workers must be >= 1"),
    ("threshold --seed -1", "--seed must be >= 0"),
    ("evolve", "required: --alpha"),
    ("evolve --alpha -1", "alpha must be finite and >= 0"),
    ("evolve --alpha nan", "alpha must be finite and >= 0"),
    ("evolve --alpha 0.5 --samples 0", "--samples must be >= 1"),
    ("evolve --alpha 0.5 --replicas 1", "--replicas must be >= 2"),
    ("evolve --alpha 0.5 --max-iter 0", "--max-iter must be >= 1"),
    ("evolve --alpha 0.5 --tol -1", "--tol must be finite"),
    ("evolve --alpha 0.5 --tol nan", "--tol must be finite"),
    ("evolve --alpha 0.5 --start warm", "argument --start"),
    ("evolve --alpha 0.5 --skip 0", "skip must be finite and > 0"),
    ("evolve --alpha 0.5 --heads 2 --output sequence", "--heads is not served by `evolve`"),
    ("curve --from 0 --to 1 --layers 3 --activation linear --rank 2", "no curve for"),
    ("curve --from 0 --to 1 --layers 3 --tokens 3 --output sequence", "--output sequence is not served by `curve`"),
    ("evolve --alpha 0.5 --layers 3 --nodes 100", "nodes must be a power of two"),
    ("figure", "required: name"),
    ("multihead figure", "required: name"),
    ("make-data", "required: --alpha, --dimension, --out"),
    ("make-data --alpha 0", "--alpha must be finite and > 0"),
    ("make-data --alpha inf", "--alpha must be finite and > 0"),
    ("make-data --dimension 0", "--dimension must be >= 1"),
    ("make-data --rows 0", "--rows must be >= 1"),
    ("make-data --seed -1", "--seed must be >= 0"),
    ("make-data --dtype float16", "argument --dtype"),
    ("make-data --alpha 1 --dimension 10 --out . --heads 2 --output sequence", "--heads is not served by `make-data`"),
    ("sweep", "required: grid, --out"),
    ("sweep --workers 0", "--workers must be >= 1"),
    ("sweep troiani2025-skip", "required: --out"),
    ("completion", "required: shell"),
    ("report", "required: --out"),
    ("report --link h[1] --layers 3", "--layers describes a model"),
    ("figure troiani2025-99", "invalid choice: 'troiani2025-99'"),
    ("figure troiani2025-1 --points 1", "--points must be >= 4"),
    ("verify --paper nobody", "no such paper"),
    ("verify --id 999", "no equation numbered 999"),
    ("verify --id x", "argument --id"),
    ("models --loud", "unrecognized arguments: --loud"),
    ("derive --link x", "x"),
    ("derive --link h[1]**2 --layers 2", "--layers describes a model"),
    ("derive --link h[1]**2 --check", "it takes no link"),
    ("threshold --link h[1]**2 --untied", "--untied describes a model"),
    ("threshold --link h[1]**2 --layer 1", "--layer describes a model"),
    ("threshold --noise x", "--noise must be a number >= 0"),
    ("threshold --rigorous --layer 1", "--rigorous is for the last layer"),
    ("threshold --rigorous --layers 3", "two softmax layers"),
    ("threshold --rigorous --link abs(h[1])", "--rigorous describes a model"),
    ("threshold --layers 1 --staircase", "--staircase belongs to --link"),
    ("derive --untied --check", "it takes no model"),
    ("derive --layers 2 --check", "it takes no model"),
    ("derive --layers 0", "layers must be >= 1"),
    ("derive --layers 2 --skip zero", "--skip must be a positive number"),
    ("derive --layers 2 --beta 0", "beta must be positive"),
    ("explain --tokens 1", "tokens must be >= 2"),
    ("explain --output matrix", "argument --output"),
    ("solve", "invalid choice: 'solve'"),
    ("--json", "the following arguments are required: VERB"),
]


@pytest.mark.parametrize(("command", "words"), BAD)
def test_bad_input_is_refused_in_one_line(attnlimits, command, words):
    said = attnlimits(command)
    assert said.status == 2
    assert said.out == ""
    assert len(said.lines_of_error) == 1
    assert said.err.startswith("attnlimits")
    assert words in said.err


@pytest.mark.parametrize("command", ["threshold --skip 0", "evolve --alpha -1", "verify --id 999"])
def test_json_changes_nothing_for_bad_input(attnlimits, command):
    said = attnlimits(f"{command} --json")
    assert (said.status, said.out, len(said.lines_of_error)) == (2, "", 1)


def test_a_folder_that_cannot_be_made_is_named(attnlimits, tmp_path):
    (tmp_path / "file").write_text("", encoding="utf-8")
    said = attnlimits(f"derive --out {tmp_path / 'file' / 'inside'}")
    assert said.status == 1
    assert "file" in said.lines_of_error[-1]
    assert "Traceback" not in said.err
