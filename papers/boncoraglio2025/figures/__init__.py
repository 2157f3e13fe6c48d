"""The figures of the paper, each beside the data it wrote; `attnlimits aim figure` draws them."""
