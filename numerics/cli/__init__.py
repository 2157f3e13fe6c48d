"""The command `attnlimits`: a verb parses its flags, calls the numerics and prints.

`main` holds the parser and the verbs without a file of their own, `flags` what verbs share, `guard` the outermost
level. The text of a message may be changed here; the names of flags and the keys of the JSON objects are a contract.
"""
