"""What the thin half needs from outside, as protocols."""
