"""The command `attnlimits`: a verb parses its flags, calls the numerics and prints.

Each verb has a file, and `command` lists them; `main` starts the process, `verbs` is how they enter the parser, `flags`
what they share and the models that flags describe, `data` the same of data sets, `link` the verbs with `--link`,
`guard` the outermost level. The text of a message may be changed here; the names of flags and the keys of the JSON
objects are a contract.
"""
