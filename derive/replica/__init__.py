"""The replica-symmetric free entropy: channel, entropy, and the functional of both."""
