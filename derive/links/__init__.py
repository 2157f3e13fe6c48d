"""The user's own link: its grammar, its branches, what is provable about it, and the process that derives it."""
