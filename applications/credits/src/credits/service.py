"""What `onbeat up credits.service:beat` runs: the program of this environment."""

import os

from credits.app import build
from credits.config import read_config

program = build(read_config(os.environ))
beat = program.beat
