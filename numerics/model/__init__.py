"""What a model is: an attention network or a user's own link, with its numbers, its symmetries and its kernels.

Kernels are found in `generated` or, for links, in the user's cache, where they are checked before they are executed.
Nothing here averages or integrates over a posterior.
"""
