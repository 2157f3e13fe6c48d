"""What is emitted for each family of models, with the proofs that its expressions must pass."""
