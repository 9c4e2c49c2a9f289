"""What `onbeat up notifications.service:beat` runs: the program of this environment."""

import os

from notifications.app import build
from notifications.config import read_config

program = build(read_config(os.environ))
beat = program.beat
