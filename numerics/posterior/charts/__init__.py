"""The posterior of the indices of any network given its output, sampled on charts that derive prints.

`layout` holds a chart's compiled functions and what its coordinates are; `density` the log-density on it; `peaks`
finds where it is large; `sampler` draws nodes and sums moments. What y fixes, how the indices follow from it and the
weight are in the chart alone: nothing here knows an architecture.
"""
