"""The page that tells what the theory says about one architecture."""
