"""Figures on learning a multi-head layer, each made by one module from numbers it computes or finds beside itself."""
