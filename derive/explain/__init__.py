"""What the theory says about one architecture: one module for each section, put together by `page`."""
